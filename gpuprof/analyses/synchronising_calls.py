"""API calls in which the host waits for a device."""

import math
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.cuda import is_waiting
from gpuprof.facts.durations import figures
from gpuprof.facts.numbers import columns_of, groups, rows_named
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import known
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
    names = [name for name in profile.loaded("api_calls").names.distinct if is_waiting(name)]
    parts = rows_named(profile, "api_calls", names, "start_ns", "end_ns", "process_id")
    start, end, process, name = columns_of(parts, 4)
    rows: list[dict[str, Any]] = []
    for alike in groups(name, process):
        of = figures((end - start)[alike])
        if of is not None:
            process_id = known(int(process[alike[0]]))
            of_calls = {figure: getattr(of, figure) for figure in _FIGURES}
            rows.append({"name": names[name[alike[0]]], "process_id": process_id, **of_calls})
    rows.sort(
        key=lambda row: (
            -row["total_ns"],
            row["name"],
            (math.inf if row["process_id"] is None else row["process_id"]),
        )
    )
    return SYNCHRONISING_CALLS.table(rows)


ANALYSIS: Final = synchronising_calls.analysis(
    "Calls that wait for a device",
    reads(api_calls="start_ns end_ns name name_id process_id is_waiting"),
)
