"""What each device of a job does in a typical step, in few slices: small for a thousand ranks."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.lanes import LANES_IN_STEP, typical_step
from gpuprof.facts.phases import PHASE_READS
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    LOCAL_COPY,
    TIMELINE_READS,
    TRANSFER,
    equal_slices,
    timelines,
)
from gpuprof.model.analysis import Analysis, per_file, reads
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, Column, Schema

_SLICES: Final = 96
_LAYERS: Final = {
    "compute": COMPUTE,
    "communication": COMMUNICATION,
    "transfer": TRANSFER,
    "local_copy": LOCAL_COPY,
}

RANKS_IN_STEP: Final = Schema(
    "ranks_in_step",
    f"one device in one of {_SLICES} equal slices of a typical step of its file",
    {
        **{
            name: LANES_IN_STEP.columns[name]
            for name in ("device_id", "step", "start_ns", "end_ns")
        },
        **{
            name: Column(INT, "ns", f"{words}.", required=True)
            for layer in _LAYERS
            for name, words in (
                (f"{layer}_ns", "It runs, and nothing of a kind before it"),
                (f"hidden_{layer}_ns", "It runs, and so does a kind before it"),
            )
        },
    },
)


@per_file(RANKS_IN_STEP, needs=("kernels", "memcpys"))
def ranks_in_step(profile: Profile) -> pa.Table:
    """Measure compute, communication, transfers and local copies in the step nearest to the median.

    Args:
        profile: As for `gpuprof.analyses.lanes.lanes_in_step`.

    Returns:
        Columns as in `RANKS_IN_STEP`, by device and time; no rows of a file without a typical
        step, nor of devices that do nothing in it.
    """
    step = typical_step(profile)
    if step is None:
        return RANKS_IN_STEP.empty()
    _, number, first, last = step
    borders, tables = equal_slices(first, last, _SLICES), [RANKS_IN_STEP.empty()]
    start, end = borders[:-1], borders[1:]
    for line in timelines(profile):
        columns: dict[str, Any] = {
            "device_id": pa.array([line.device_id] * len(start), pa.int64()),
            "step": [number] * len(start),
            "start_ns": start,
            "end_ns": end,
        }
        for layer, place in _LAYERS.items():
            busy, exposed = (
                covered_within(times[place], start, end) for times in (line.busy, line.exposed)
            )
            columns |= {f"{layer}_ns": exposed, f"hidden_{layer}_ns": busy - exposed}
        if any(np.any(columns[f"{layer}_ns"]) for layer in _LAYERS):
            tables.append(RANKS_IN_STEP.conform(pa.table(columns)))
    return pa.concat_tables(tables)


ANALYSIS: Final = Analysis(
    "Ranks in a typical step",
    RANKS_IN_STEP,
    ("kernels", "memcpys"),
    ranks_in_step,
    reads(PHASE_READS, TIMELINE_READS),
)
