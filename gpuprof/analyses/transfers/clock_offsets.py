"""How far the clocks of ranks are apart, by the common ends of their collectives."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.facts.collective_parts import (
    PARTS_READS,
    CollectiveParts,
    collective_parts,
)
from gpuprof.analyses.facts.job_collectives import (
    COLLECTIVE_CALLS,
    DEVICE_KERNELS,
    collective_record_of_job,
)
from gpuprof.analyses.facts.last_ranks import ranks_of
from gpuprof.analyses.facts.rank_matching import are_apart
from gpuprof.analyses.merge import JobStates, Merge
from gpuprof.profile import Profile
from gpuprof.schema import FLAG, INT, Column, Schema
from gpuprof.units import number_ranges, say_ns

CLOCK_OFFSETS: Final = Schema(
    "clock_offsets",
    "the clock of one device beside that of the first one with which it has collectives",
    {
        "rank": Column(INT, "1", "Rank that uses the device, where known."),
        "device_id": Column(INT, "", "CUDA device ordinal.", required=True),
        "reference_rank": Column(INT, "1", "Rank of the other device, where known."),
        "reference_device_id": Column(INT, "", "The other device.", required=True),
        "offset_ns": Column(
            INT,
            "ns",
            "How far its clock is ahead: the median difference of the ends of the same calls.",
            required=True,
        ),
        "error_ns": Column(
            INT,
            "ns",
            "How far a call may differ from that: 1.4826 times the median distance from the"
            " median.",
            required=True,
        ),
        "collectives": Column(INT, "1", "Calls that were compared.", required=True),
        "is_set_right": Column(
            FLAG,
            "",
            "Whether the clock is so far apart that its collectives were shifted to compare them"
            " with those of other ranks; not where they do not end together even so.",
            required=True,
        ),
    },
)


def clock_offsets(profile: Profile) -> pa.Table:
    """Compare the clocks of ranks.

    The kernels of a collective end on all ranks together, whoever came late. Ranks of one host
    share a clock; the clocks of hosts are apart by as much as their time servers allow.

    Args:
        profile: Needs ``kernels``.

    Returns:
        One row per device whose collectives could be matched with those of others, columns as in
        `CLOCK_OFFSETS`; no rows for a single one.
    """
    return _table(collective_parts(profile), ranks_of(profile))


def _of_job(job: JobStates) -> pa.Table:
    record = job.once(collective_record_of_job)
    return _table(record.parts, record.ranks)


def _table(parts: CollectiveParts, ranks: Mapping[int, int]) -> pa.Table:
    matched = {device for communicator in parts.communicators for device in communicator.devices}
    return CLOCK_OFFSETS.table(
        [
            {
                "rank": ranks.get(offset.device),
                "device_id": offset.device,
                "reference_rank": ranks.get(offset.reference_device),
                "reference_device_id": offset.reference_device,
                "offset_ns": offset.offset_ns,
                "error_ns": offset.error_ns,
                "collectives": offset.calls,
                "is_set_right": are_apart(offset) and offset.device in matched,
            }
            for offset in parts.offsets
        ]
    )


def clock_notes(profile: Profile) -> list[str]:
    """That clocks were set right to compare collectives; nothing where they agree."""
    return _notes(_table(collective_parts(profile), ranks_of(profile)))


def clock_notes_of_job(job: JobStates) -> list[str]:
    """The same of a job."""
    return _notes(_of_job(job))


def _notes(offsets: pa.Table) -> list[str]:
    shifted = [row for row in offsets.to_pylist() if row["is_set_right"]]
    if not shifted:
        return []
    ranks = sorted({row["rank"] for row in shifted if row["rank"] is not None})
    devices = sorted({row["device_id"] for row in shifted})
    names = f"ranks {number_ranges(ranks)}" if ranks else f"devices {number_ranges(devices)}"
    most_ns = max(abs(row["offset_ns"]) for row in shifted)
    error_ns = max(row["error_ns"] for row in shifted)
    note = (
        f"The clocks of {names} are up to {say_ns(most_ns)} from those of other ranks. Their"
        " collectives were set right by the common ends of calls, to"
        f" {say_ns(error_ns)} (--table clock_offsets)."
    )
    return [note]


ANALYSIS: Final = Analysis(
    "Clocks of ranks",
    CLOCK_OFFSETS,
    ("kernels",),
    clock_offsets,
    PARTS_READS,
    merge=Merge((COLLECTIVE_CALLS, DEVICE_KERNELS), _of_job),
)
