"""API calls in which the host waits for a device."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.by_number import names_by_number
from gpuprof.facts.durations import figures
from gpuprof.facts.groups import groups
from gpuprof.facts.growing import columns_of
from gpuprof.facts.host_activity import waiting_calls
from gpuprof.model.analysis import Analysis, by, per_file, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema, process_column

SYNCHRONISING_CALLS: Final = Schema(
    "synchronising_calls",
    "all calls of one function of the API that returns when work on a device has ended",
    {
        "name": Column(TEXT, "", "cudaStreamSynchronize, cudaMemcpy, ...", required=True),
        "process_id": process_column("Operating-system process; null where unknown."),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(INT, "ns", "Host time spent in it.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "max_ns": Column(INT, "ns", "Longest."),
    },
)

_FIGURES: Final = ("calls", "total_ns", "mean_ns", "max_ns")
_COLUMNS: Final = ("start_ns", "end_ns", "process_id", "name_id")


@per_file(
    SYNCHRONISING_CALLS,
    by(total_ns="descending", name="ascending", process_id="ascending"),
    needs=("api_calls",),
)
def synchronising_calls(profile: Profile) -> pa.Table:
    """Sum up the calls that wait: synchronisations, synchronous copies and frees.

    Args:
        profile: Needs ``api_calls``.

    Returns:
        One row per function and process, the longest total first, columns as in
        `SYNCHRONISING_CALLS`. It is host time, not to be added to the time of devices.
    """
    name_id, process, duration_ns = columns_of(_waits(profile), 3)
    text = dict(zip(*names_by_number(profile, "api_calls"), strict=True))
    of_name: dict[tuple[str, int | None], list[Int64s]] = defaultdict(list)
    for alike in groups(name_id, process):
        name, process_number = text[int(name_id[alike[0]])], int(process[alike[0]])
        of_name[name, None if process_number == UNKNOWN else process_number].append(
            duration_ns[alike]
        )
    rows: list[dict[str, Any]] = [
        {"name": name, "process_id": process_id}
        | {figure: getattr(of, figure) for figure in _FIGURES}
        for (name, process_id), times in of_name.items()
        if (of := figures(np.concatenate(times))) is not None
    ]
    rows.sort(
        key=lambda row: (
            -row["total_ns"],
            row["name"],
            (math.inf if row["process_id"] is None else row["process_id"]),
        )
    )
    return SYNCHRONISING_CALLS.table(rows)


def _waits(profile: Profile) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    """Number of the name, process and duration of the calls that wait, in pieces."""
    waits = waiting_calls(profile)
    for start, end, process, name_id in profile.integers("api_calls", *_COLUMNS):
        rows = np.flatnonzero(waits.of(name_id))
        yield name_id[rows], process[rows], (end - start)[rows]


ANALYSIS: Final = Analysis(
    "Calls that wait for a device",
    SYNCHRONISING_CALLS,
    ("api_calls",),
    synchronising_calls,
    reads(api_calls="start_ns end_ns name name_id process_id is_waiting"),
)
