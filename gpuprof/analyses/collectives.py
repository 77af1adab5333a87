"""Collectives of NCCL and similar libraries, which move data in kernels and leave no copy.

Source of the two bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from typing import Any, Final

import pyarrow as pa

from gpuprof.facts.communication import (
    COMMUNICATION_READS,
    Collective,
    CommunicationKernels,
    bandwidths,
    communication_kernels,
)
from gpuprof.facts.timeline import COMPUTE, TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, per_file, reads, summed
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
    },
)


def _added(table: pa.Table) -> pa.Table:
    """The rows of all files; those of several recordings of one process are added up."""
    keys = ["device_id", *Collective._fields]
    return _table(summed(table, keys, ["calls", "total_ns", "exposed_ns"]).to_pylist())


@per_file(COLLECTIVES, _added, needs=("kernels",))
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
    rows = [
        row for kind in range(len(kernels.collectives)) for row in _rows(profile, kernels, kind)
    ]
    return _table(rows)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with their means and rates, the longest exposed first."""
    rows.sort(key=lambda row: (-row["exposed_ns"], -row["total_ns"], row["device_id"] or 0))
    for row in rows:
        group = Collective(*(row[name] for name in Collective._fields))
        row["mean_ns"] = row["total_ns"] / row["calls"]
        row.update(bandwidths(group, row["calls"], row["total_ns"]))
    return COLLECTIVES.table(rows)


def _rows(profile: Profile, kernels: CommunicationKernels, kind: int) -> list[dict[str, Any]]:
    group, is_of = kernels.collectives[kind], kernels.kind == kind
    start, end, device = (c[is_of] for c in (kernels.start_ns, kernels.end_ns, kernels.device))
    rows = []
    for timeline in timelines(profile.unrestricted):
        here = device == timeline.number
        if here.any():
            running = union(start[here], end[here])
            calls, total = int(here.sum()), int((end - start)[here].sum())
            rows.append(
                {
                    "device_id": timeline.device_id,
                    **group._asdict(),
                    "calls": calls,
                    "total_ns": total,
                    "exposed_ns": difference(running, timeline.busy[COMPUTE]).length,
                }
            )
    return rows


ANALYSIS: Final = Analysis(
    "Collectives",
    COLLECTIVES,
    ("kernels",),
    collectives,
    reads(TIMELINE_READS, COMMUNICATION_READS),
)
