"""The devices: what they are, which processes use them, and which they copy to directly."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.copies import COPY_READS, transfers_by_route
from gpuprof.facts.hosts import names_of
from gpuprof.facts.links import links
from gpuprof.facts.numbers import groups
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.derived import HOST, if_known
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, Bytes, Column, Count, Id, Process, Schema, Text

DEVICE_MAP: Final = Schema(
    "device_map",
    "one device, as one process numbers it",
    {
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "process_id": Process("Process that used it; null where unknown or none did."),
        "rank": Count("Rank of the process in its job, where known."),
        "name": Text("Marketing name."),
        "total_memory_bytes": Bytes("Memory."),
        "memory_bandwidth_bytes_per_s": Column(INT, "B/s", "Peak of its memory."),
        "compute_capability": Text("Such as 8.0."),
        "bus_id": Text("PCI bus id."),
        "links": Text("What joins it to which: PCIe 3 x16 (host), NVLink 2 x1 (1, 2), ..."),
        "accessible_peers": Text(
            "Devices whose memory it can address over a link, where the recording tells."
        ),
        "kernel_calls": Count("Kernels that the process ran on it."),
        "memcpy_calls": Count("Copies that the process ran on it."),
        "direct_peers": Text("Devices that it exchanged direct copies with: peer access was on."),
        "staged_peers": Text(
            "Devices that its copies reached through the host: peer access was off."
        ),
    },
)
_USED: Final = ("kernels", "memcpys")


def device_map(profile: Profile) -> pa.Table:
    """List the devices of the recording and those that worked.

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
    # That to the host comes first.
    joined: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (end, peer), link in sorted(links(profile).items()):
        joined[end][link.name].append("host" if peer == HOST else str(peer))
    accessible: dict[int | None, set[int]] = defaultdict(set)
    for row in profile.table("links").to_pylist() if profile.has("links") else ():
        if row["has_peer_access"] and row["peer_device_id"] is not None:
            accessible[row["device_id"]].add(row["peer_device_id"])
            accessible[row["peer_device_id"]].add(row["device_id"])
    for row in rows:
        of_device = joined[row["device_id"]].items()
        row["links"] = ", ".join(f"{name} ({', '.join(ends)})" for name, ends in of_device) or None
        row["accessible_peers"] = _listed(accessible[row["device_id"]])
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
    used: dict[tuple[int | None, int | None], Counter[str]] = defaultdict(Counter)
    for table in filter(profile.has, _USED):
        for device, process in profile.columns(table, "device_id", "process_id"):
            for alike in groups(device, process):
                place = if_known(int(device[alike[0]])), if_known(int(process[alike[0]]))
                used[place][table] += len(alike)
    devices, runs = (
        profile.table(table).to_pylist() if profile.has(table) else []
        for table in ("devices", "runs")
    )
    for row in devices:
        if row["device_id"] not in {device_id for device_id, _ in used}:
            used[row["device_id"], row["process_id"]] = Counter()
    rank = {row["process_id"]: row["rank"] for row in runs}
    rows = []
    for (device_id, process_id), calls in used.items():
        of_device = [row for row in devices if row["device_id"] == device_id]
        # Each process may number the devices in its own way.
        of_device.sort(key=lambda row: row["process_id"] not in {None, process_id})
        row = dict(of_device[0]) if of_device else {}
        row |= {"device_id": device_id, "process_id": process_id, "rank": rank.get(process_id)}
        row |= {f"{table[:-1]}_calls": calls[table] for table in _USED if profile.has(table)}
        rows.append(row | _peers(profile, device_id))
    order = itemgetter("device_id", "process_id")
    return sorted(rows, key=lambda row: [(number is None, number) for number in order(row)])


def _peers(profile: Profile, device_id: int | None) -> dict[str, str]:
    """What a device copied from and to, by the path."""
    peers: dict[str, set[int | None]] = defaultdict(set)
    for src, dst, path in transfers_by_route(profile) if profile.has("memcpys") else ():
        if device_id in {src, dst} and {src, dst}.isdisjoint({None, HOST}):
            peers[f"{path}_peers"].add(dst if src == device_id else src)
    return {
        column: ", ".join(f"device {peer}" for peer in of_path) for column, of_path in peers.items()
    }


def _listed(devices: Iterable[int]) -> str | None:
    return ", ".join(map(str, sorted(devices))) or None


ANALYSIS: Final = Analysis(
    "Devices and processes",
    DEVICE_MAP,
    (),
    device_map,
    reads(COPY_READS, kernels="device_id process_id"),
    needs_any_of=("devices", *_USED),
    of_files=(used_devices,),
)
