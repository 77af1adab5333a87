"""The devices: what they are, which processes use them, and which they copy to directly."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.copies import COPY_READS, transfer_times
from gpuprof.facts.hosts import names_of
from gpuprof.facts.links import links
from gpuprof.facts.numbers import groups
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, process_column

DEVICE_MAP: Final = Schema(
    "device_map",
    "one device, as one process numbers it",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "process_id": process_column("Process that used it; null where unknown or none did."),
        "rank": Column(INT, "1", "Rank of the process in its job, where known."),
        "name": Column(TEXT, "", "Marketing name."),
        "total_memory_bytes": Column(INT, "B", "Memory."),
        "memory_bandwidth_bytes_per_s": Column(INT, "B/s", "Peak of its memory."),
        "compute_capability": Column(TEXT, "", "Such as 8.0."),
        "bus_id": Column(TEXT, "", "PCI bus id."),
        "links": Column(
            TEXT, "", "What joins it to which: PCIe 3 x16 (host), NVLink 2 x1 (1, 2), ..."
        ),
        "accessible_peers": Column(
            TEXT, "", "Devices whose memory it can address over a link, where the recording tells."
        ),
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
        device of a single recording that nobody used.
    """
    if profile.job is None:
        rows = _rows(profile)
    else:
        rank_of = names_of(profile).ranks
        rows = profile.once(used_devices).to_pylist()
        rows = [row | {"rank": rank_of.get(row["device_id"], row["rank"])} for row in rows]
    joined, accessible = _links_of(profile), _accessible(profile)
    for row in rows:
        row["links"] = ", ".join(joined.get(row["device_id"], ())) or None
        row["accessible_peers"] = _listed(accessible.get(row["device_id"], ()))
        for path in ("direct", "staged"):
            if peers := row.get(f"{path}_peers"):
                row[f"{path}_peers"] = _listed(map(int, _NUMBER.findall(peers)))
    return DEVICE_MAP.table(rows)


_NUMBER: Final = re.compile(r"\d+")


@per_file(
    DEVICE_MAP,
    by(device_id="ascending", process_id="ascending"),
    device_texts=("direct_peers", "staged_peers"),
)
def used_devices(profile: Profile) -> pa.Table:
    """The rows of one file whose devices worked; peers as in ``device 1, device 2``."""
    rows = _rows(profile)
    calls = ("kernel_calls", "memcpy_calls")
    return DEVICE_MAP.table([row for row in rows if any(row.get(name) for name in calls)])


def _rows(profile: Profile) -> list[dict[str, Any]]:
    """The rows without links, peers as in ``device 1, device 2``."""
    used: dict[tuple[int | None, int | None], dict[str, int]] = defaultdict(dict)
    for table in _USED:
        if profile.has(table):
            for place, calls in _counts(profile, table).items():
                used[place][f"{table[:-1]}_calls"] = calls
    device_rows = profile.table("devices").to_pylist() if profile.has("devices") else []
    for device in device_rows:
        if not any(device_id == device["device_id"] for device_id, _ in used):
            used[device["device_id"], device["process_id"]] = {}
    ranks = profile.table("runs").to_pylist() if profile.has("runs") else []
    rank = {row["process_id"]: row["rank"] for row in ranks}
    peers = _peers(profile) if profile.has("memcpys") else {}
    rows = [
        _described(device_rows, device_id, process_id)
        | {"device_id": device_id, "process_id": process_id, "rank": rank.get(process_id)}
        | {f"{table[:-1]}_calls": 0 for table in _USED if profile.has(table)}
        | calls
        | {
            f"{path}_peers": ", ".join(f"device {peer}" for peer in peers[device_id, path])
            for path in ("direct", "staged")
            if (device_id, path) in peers
        }
        for (device_id, process_id), calls in used.items()
    ]
    order = itemgetter("device_id", "process_id")
    return sorted(rows, key=lambda row: [(number is None, number) for number in order(row)])


def _listed(devices: Iterable[int]) -> str | None:
    return ", ".join(map(str, sorted(devices))) or None


def _links_of(profile: Profile) -> dict[int | None, list[str]]:
    """For each device its links in words, that to the host first."""
    by_device: dict[int | None, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (end, peer), link in sorted(links(profile).items()):
        if end != HOST:
            by_device[end][link.name].append("host" if peer == HOST else str(peer))
    return {
        device: [f"{name} ({', '.join(ends)})" for name, ends in joined.items()]
        for device, joined in by_device.items()
    }


def _accessible(profile: Profile) -> dict[int | None, set[int]]:
    peers: dict[int | None, set[int]] = defaultdict(set)
    for row in profile.table("links").to_pylist() if profile.has("links") else ():
        if row["has_peer_access"] and row["peer_device_id"] is not None:
            peers[row["device_id"]].add(row["peer_device_id"])
            peers[row["peer_device_id"]].add(row["device_id"])
    return peers


def _counts(profile: Profile, table: str) -> Mapping[tuple[int | None, int | None], int]:
    """How many activities each device and process has."""
    counts: Counter[tuple[int | None, int | None]] = Counter()
    for device, process in profile.columns(table, "device_id", "process_id"):
        for alike in groups(device, process):
            ids = (int(column[alike[0]]) for column in (device, process))
            device_id, process_id = (None if number == UNKNOWN else number for number in ids)
            counts[device_id, process_id] += len(alike)
    return counts


def _described(
    device_rows: list[dict[str, Any]], device_id: int | None, process_id: int | None
) -> dict[str, Any]:
    """What is known of the device; each process may number the devices in its own way."""
    of_device = [row for row in device_rows if row["device_id"] == device_id]
    of_process = [row for row in of_device if row["process_id"] in {None, process_id}] or of_device
    return dict(of_process[0]) if of_process else {}


def _peers(profile: Profile) -> dict[tuple[int | None, str], set[int]]:
    peers: dict[tuple[int | None, str], set[int]] = defaultdict(set)
    for route in transfer_times(profile):
        if route.src is None or route.dst is None or HOST in {route.src, route.dst}:
            continue
        peers[route.src, route.path].add(route.dst)
        peers[route.dst, route.path].add(route.src)
    return peers


ANALYSIS: Final = Analysis(
    "Devices and processes",
    DEVICE_MAP,
    (),
    device_map,
    reads(COPY_READS, kernels="device_id process_id"),
    needs_any_of=("devices", *_USED),
    of_files=(used_devices,),
)
