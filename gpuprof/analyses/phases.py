"""What a step takes in each phase of a recording: medians over its steps, and how sure they are."""

from typing import Any, Final

import pyarrow as pa

from gpuprof.base.statistics import step_interval
from gpuprof.facts.phases import PHASE_READS, PhaseSteps, per_step, steps_in_part
from gpuprof.facts.step_times import parts_of_median
from gpuprof.facts.timeline import TIMELINE_READS, timelines
from gpuprof.model.analysis import per_file, reads
from gpuprof.model.derived import known
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema, instant_column, process_column

_PARTS: Final = (
    "compute_ns",
    "exposed_communication_ns",
    "exposed_transfer_ns",
    "exposed_local_copy_ns",
    "idle_ns",
)
_DOCS: Final = (
    "In the median step, the time in which a kernel other than communication runs.",
    "In the median step, the time in which communication kernels run, and no other.",
    "In the median step, the time in which transfers run, and no kernel.",
    "In the median step, the time in which local copies or memsets run, and nothing else.",
    "In the median step, the time in which nothing runs on the device.",
)

PHASES: Final = Schema(
    "phases",
    "one phase of alike steps on one device",
    {
        "name": Column(
            TEXT,
            "",
            "Text, with # for digits, of the ranges that mark its steps or enclose the inferred "
            "ones; else the kernel that opens a step.",
            required=True,
        ),
        "source": Column(
            TEXT, "", "ranges, or detected: a pattern of kernels that repeats.", required=True
        ),
        "process_id": process_column("Process; null where steps were detected by device."),
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "steps": Column(
            INT, "1", "Whole steps past the warm-up: the medians are theirs.", required=True
        ),
        "warm_up_steps": Column(
            INT, "1", "Steps set aside at its beginning.", required=True, label="Warm-up steps"
        ),
        "warm_up_ns": Column(INT, "ns", "Time of these.", required=True, label="Warm-up"),
        "cut_steps": Column(
            INT,
            "1",
            "Steps that the recording's ends cut off: a part of them was not recorded, or the next "
            "one, which ends them.",
            required=True,
        ),
        "start_ns": instant_column("Start of its first step.", required=True),
        "span_ns": Column(INT, "ns", "From there to the end of its last step.", required=True),
        "step_ns": Column(
            INT, "ns", "Median time of a step, the sum of its parts; null for no whole one."
        ),
        "mean_step_ns": Column(INT, "ns", "Mean time of a step; null for no whole one."),
        "step_low_ns": Column(
            INT, "ns", "Lower end of the 95 % interval of that; null for fewer than three steps."
        ),
        "step_high_ns": Column(INT, "ns", "Upper end of it; null for fewer than three steps."),
        **{
            name: Column(INT, "ns", f"{doc[:-1]}; null for no whole step.")
            for name, doc in zip(_PARTS, _DOCS, strict=True)
        },
        "longest_step": Column(INT, "1", "Number of the whole step that takes longest."),
        "longest_step_ns": Column(INT, "ns", "Its time."),
    },
)


def _costliest_first(table: pa.Table) -> pa.Table:
    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        device = row["device_id"]
        time_ns = row["steps"] * (row["step_ns"] or 0)
        return -time_ns, row["start_ns"], device is None, device or 0, row["name"]

    return PHASES.table(sorted(table.to_pylist(), key=order))


@per_file(PHASES, _costliest_first, needs=("kernels", "memcpys"))
def phases_table(profile: Profile) -> pa.Table:
    """Say what a step of each phase takes on each of its devices.

    The time of a step is the median over the phase's whole steps past the warm-up; its parts are
    those of the steps nearest to it, and add up to it: see `parts_of_median`. The interval is drawn
    from these steps: it says what this run allows, and nothing of other runs.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``nvtx_ranges`` and ``api_calls`` for steps
            that are named.

    Returns:
        One row per phase and device, the phase of most time first, columns as in `PHASES`; no
        rows where no steps are found. Of a part of a recording, of the steps that start in it.

    Raises:
        UsageError: The profile leaves out all steps of each phase.
    """
    by_device = {timeline.device_id: timeline for timeline in timelines(profile.unrestricted)}
    rows = []
    for steps in steps_in_part(profile):
        summary, phase = _summary(steps), steps.phase
        for device in map(known, phase.devices):
            if profile.selection.device_id not in {None, device}:
                continue
            row = summary | {"device_id": device}
            if len(phase.start_ns):
                times = [per_step(layer, phase) for layer in by_device[device].exposed]
                parts = parts_of_median(phase.end_ns - phase.start_ns, times)
                row |= dict(zip(_PARTS, parts, strict=True))
            rows.append(row)
    return PHASES.table(rows)


def _summary(steps: PhaseSteps) -> dict[str, Any]:
    phase = steps.phase
    row = {
        "name": phase.name,
        "source": phase.source,
        "process_id": phase.process_id,
        "steps": len(phase.start_ns),
        "warm_up_steps": phase.warm_up_steps,
        "warm_up_ns": phase.warm_up_ns,
        "cut_steps": phase.cut_steps,
        "start_ns": phase.span[0],
        "span_ns": phase.span[1] - phase.span[0],
    }
    length = phase.end_ns - phase.start_ns
    if not len(length):
        return row
    longest = int(length.argmax())
    low, high = step_interval(length) or (None, None)
    return row | {
        "step_ns": phase.step_ns,
        "mean_step_ns": int(length.mean()),
        "step_low_ns": None if low is None else round(low),
        "step_high_ns": None if high is None else round(high),
        "longest_step": int(steps.number[steps.is_sample][longest]),
        "longest_step_ns": int(length[longest]),
    }


ANALYSIS: Final = phases_table.analysis(
    "What a step takes in each phase", reads(PHASE_READS, TIMELINE_READS)
)
