"""The devices: what they are, which processes use them, and which they copy to directly."""

from collections import defaultdict
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.copies import HOST, transfer_times
from gpuprof.profile import Profile
from gpuprof.schema import INT, TEXT, Column, Schema

DEVICE_MAP: Final = Schema(
    "device_map",
    "one device, as one process numbers it",
    {
        "device_id": Column(INT, "1", "CUDA device ordinal; null where unknown."),
        "process_id": Column(INT, "1", "Process that used it; null where unknown or none did."),
        "rank": Column(INT, "1", "Rank of the process in its job, where known."),
        "name": Column(TEXT, "", "Marketing name."),
        "total_memory_bytes": Column(INT, "B", "Memory."),
        "memory_bandwidth_bytes_per_s": Column(INT, "B/s", "Peak of its memory."),
        "compute_capability": Column(TEXT, "", "Such as 8.0."),
        "bus_id": Column(TEXT, "", "PCI bus id."),
        "kernel_calls": Column(INT, "1", "Kernels that the process ran on it."),
        "memcpy_calls": Column(INT, "1", "Copies that the process ran on it."),
        "direct_peers": Column(
            TEXT, "", "Devices that it exchanged direct copies with: peer access was on."
        ),
        "staged_peers": Column(
            TEXT, "", "Devices that its copies reached through the host: peer access was off."
        ),
    },
)
_USED: Final = ("kernels", "memcpys")


def device_map(profile: Profile) -> pa.Table:
    """List the devices of the recording and those that worked.

    Args:
        profile: Needs one of ``devices``, ``kernels`` and ``memcpys``.

    Returns:
        One row per device and process that used it, columns as in `DEVICE_MAP`; one row for a
        device that nobody used.
    """
    used: dict[tuple[int | None, int | None], dict[str, int]] = defaultdict(dict)
    for table in _USED:
        if profile.has(table):
            for row in _counts(profile, table):
                used[row["device_id"], row["process_id"]][f"{table[:-1]}_calls"] = row["calls"]
    known = profile.table("devices").to_pylist() if profile.has("devices") else []
    for device in known:
        if not any(device_id == device["device_id"] for device_id, _ in used):
            used[device["device_id"], device["process_id"]] = {}
    ranks = profile.table("runs").to_pylist() if profile.has("runs") else []
    rank = {row["process_id"]: row["rank"] for row in ranks}
    peers = _peers(profile) if profile.has("memcpys") else {}
    rows = [
        _described(known, device_id, process_id)
        | {"device_id": device_id, "process_id": process_id, "rank": rank.get(process_id)}
        | {f"{table[:-1]}_calls": 0 for table in _USED if profile.has(table)}
        | calls
        | {
            f"{path}_peers": ", ".join(map(str, sorted(peers[device_id, path]))) or None
            for path in ("direct", "staged")
            if (device_id, path) in peers
        }
        for (device_id, process_id), calls in used.items()
    ]
    rows.sort(key=lambda row: (row["device_id"] is None, row["device_id"], row["process_id"] or 0))
    return DEVICE_MAP.table(rows)


def _counts(profile: Profile, table: str) -> list[dict[str, Any]]:
    sql = f"SELECT device_id, process_id, count(*) AS calls FROM {table} GROUP BY ALL"
    found: list[dict[str, Any]] = profile.query(sql).to_pylist()
    return found


def _described(
    known: list[dict[str, Any]], device_id: int | None, process_id: int | None
) -> dict[str, Any]:
    """What is known of the device; each process may number the devices in its own way."""
    same = [row for row in known if row["device_id"] == device_id]
    own = [row for row in same if row["process_id"] in {None, process_id}] or same
    return dict(own[0]) if own else {}


def _peers(profile: Profile) -> dict[tuple[int | None, str], set[int]]:
    found: dict[tuple[int | None, str], set[int]] = defaultdict(set)
    for route in transfer_times(profile):
        if route.src is None or route.dst is None or HOST in {route.src, route.dst}:
            continue
        found[route.src, route.path].add(route.dst)
        found[route.dst, route.path].add(route.src)
    return found


ANALYSIS: Final = Analysis(
    "Devices and processes", DEVICE_MAP, (), device_map, needs_any_of=("devices", *_USED)
)
