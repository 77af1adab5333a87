"""Collectives of NCCL and similar libraries, which move data in kernels and leave no copy.

Source of the two bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.communication import (
    COMMUNICATION_READS,
    Collective,
    bandwidths,
    communication_kernels,
)
from gpuprof.facts.links import link_of_collectives
from gpuprof.facts.timeline import COMPUTE, TIMELINE_READS, timelines
from gpuprof.model.analysis import per_file, reads, summed
from gpuprof.model.intervals import difference, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

COLLECTIVES: Final = Schema(
    "collectives",
    "all communication kernels of one collective, message and group on one device",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "collective": Column(
            TEXT,
            "",
            "AllReduce, SendRecv, ...; the framework's word where it tells one, else the kernel's "
            "name where that tells none.",
        ),
        "data_type": Column(TEXT, "", "Type of the elements, where name or framework tell it."),
        "message_bytes": Column(
            INT, "B", "The larger of message in and out on this rank; null where not told."
        ),
        "group_size": Column(INT, "1", "Ranks that take part; null where not told."),
        "process_group": Column(TEXT, "", "The framework's name of the group."),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(
            INT, "ns", "Sum of durations, waiting for the slowest rank included.", required=True
        ),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "exposed_ns": Column(INT, "ns", "One of them runs, and no compute kernel.", required=True),
        "algorithm_bytes_per_s": Column(FLOAT, "B/s", "calls * message_bytes / total_ns."),
        "bus_bytes_per_s": Column(
            FLOAT,
            "B/s",
            "What each rank's link carries at least: the former * 2 (n - 1) / n for an all-reduce "
            "of n ranks, * (n - 1) / n for gather, scatter and all-to-all, * 1 for all else.",
        ),
        "peak_bytes_per_s": Column(
            INT,
            "B/s",
            "What all NVLinks of the device carry in one direction, else its PCIe; null where "
            "neither links nor the device's name tell. Between machines it is less.",
        ),
        "peak_share": Column(FLOAT, "1", "bus_bytes_per_s / peak_bytes_per_s."),
    },
)


_ALIKE: Final = ("device_id", *Collective._fields)
_SUMS: Final = ("calls", "total_ns", "exposed_ns")


# Those of several recordings of one process are added up.
@per_file(
    COLLECTIVES,
    lambda table: _table(summed(table, _ALIKE, _SUMS, most=("peak_bytes_per_s",)).to_pylist()),
    needs=("kernels",),
)
def collectives(profile: Profile) -> pa.Table:
    """Sum up the communication kernels by collective, message and group.

    PyTorch's traces tell messages and groups; kernels' names tell the collective alone. A
    kernel's time includes waiting for the slowest rank, so that both bandwidths are at least
    what is given.

    Args:
        profile: Needs ``kernels``; ``collectives`` tell messages and groups.

    Returns:
        One row per device, collective, message and group, the longest exposed first, columns
        as in `COLLECTIVES`; no rows where no communication kernel ran.
    """
    kernels = communication_kernels(profile)
    lines, rows = timelines(profile.unrestricted), []
    links = {line.number: link_of_collectives(profile, line.device_id) for line in lines}
    peaks = {number: None if link is None else link.bytes_per_s for number, link in links.items()}
    for kind, group in enumerate(kernels.collectives):
        of_kind = np.flatnonzero(kernels.kind == kind)
        for line in lines:
            here = of_kind[kernels.device[of_kind] == line.number]
            start, end = kernels.start_ns[here], kernels.end_ns[here]
            if len(here):
                rows.append(
                    {
                        "device_id": line.device_id,
                        **group._asdict(),
                        "calls": len(here),
                        "total_ns": int((end - start).sum()),
                        "exposed_ns": difference(union(start, end), line.busy[COMPUTE]).length,
                        "peak_bytes_per_s": peaks[line.number],
                    }
                )
    return _table(rows)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with their means and rates, the longest exposed first."""
    rows.sort(key=lambda row: (-row["exposed_ns"], -row["total_ns"], row["device_id"] or 0))
    for row in rows:
        group = Collective(*(row[name] for name in Collective._fields))
        row["mean_ns"] = row["total_ns"] / row["calls"]
        row.update(bandwidths(group, row["calls"], row["total_ns"]))
        if row["peak_bytes_per_s"] and row.get("bus_bytes_per_s") is not None:
            row["peak_share"] = row["bus_bytes_per_s"] / row["peak_bytes_per_s"]
    return COLLECTIVES.table(rows)


ANALYSIS: Final = collectives.analysis(
    "Collectives",
    reads(
        TIMELINE_READS,
        COMMUNICATION_READS,
        links="device_id peer_device_id link bytes_per_s",
        devices="device_id name compute_capability",
    ),
)
