"""What each device's time went to in every training step, and what a step takes in each phase.

Of a phase these are medians over its steps, and how sure they are.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.breakdown import BREAKDOWN, LAYER_NAMES
from gpuprof.base.statistics import step_interval
from gpuprof.facts.phases import PHASE_READS, PhaseSteps, per_step, phases, steps_in_part
from gpuprof.facts.step_times import STATUS, parts_of_median
from gpuprof.facts.timeline import TIMELINE_READS, DeviceTimeline, timelines
from gpuprof.model.analysis import by, per_file, reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Id, Instant, Ns, Process, Schema, Text

_PARTS: Final = (
    "compute_ns",
    "exposed_communication_ns",
    "exposed_transfer_ns",
    "exposed_local_copy_ns",
)
_WITH_IDLE: Final = (*_PARTS, "idle_ns")
STEPS: Final = Schema(
    "steps",
    "one training step on one device",
    {
        "process_id": Process("Process; null where steps were detected by device."),
        "step": Count("0 for the first that was recorded.", required=True),
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "source": Text("ranges, or detected: a pattern of kernels that repeats.", required=True),
        "text": Text("Text of the ranges with # for digits, or the kernel that opens a step."),
        "phase": Text("Name of its phase, as in the table phases.", required=True),
        "phase_number": Count(
            "1 for the first phase of that name in its process, 2 for the next one.", required=True
        ),
        "status": Text(
            "sample: the figures of its phase are medians of these; outlier: a sample far longer "
            "than most; warm_up, set aside; cut off by the recording's ends; other: not alike, or "
            "with the pause before the next phase.",
            required=True,
        ),
        "start_ns": Instant("Start of the step on the devices.", required=True),
        "span_ns": Ns("Its length, idle time included.", required=True),
        **{name: BREAKDOWN.columns[name] for name in _WITH_IDLE},
        **{
            name: BREAKDOWN.columns[name]
            for state in ("busy", "hidden")
            for name in (f"{state}_{layer}_ns" for layer in LAYER_NAMES.values())
        },
    },
)


@per_file(
    STEPS,
    by(start_ns="ascending", process_id="ascending", device_id="ascending"),
    needs=("kernels", "memcpys"),
)
def steps(profile: Profile) -> pa.Table:
    """Split every step's time on each device, as `breakdown` does for the whole recording.

    A step runs from the first activity that its range launched to the first of the next step
    where their ranges follow one another closely, else to the last that it launched. Where no
    range names steps, a pattern of kernels that repeats is taken for them, and said to be: those
    of several devices of a file at once are the steps of the busiest.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``nvtx_ranges`` and ``api_calls`` for steps
            that are named.

    Returns:
        One row per step and device, columns as in `STEPS`, which add up to ``span_ns`` as in
        `BREAKDOWN`; no rows where no steps are found. Of a part of a recording, the steps that
        start in it.
    """
    by_device = {timeline.device_id: timeline for timeline in timelines(profile.unrestricted)}
    # When the phases of each process and name begin.
    starts: dict[tuple[int | None, str], list[int]] = {}
    for phase in phases(profile.unrestricted):
        starts.setdefault((phase.process_id, phase.name), []).append(phase.span[0])
    rows = [
        row
        for series in steps_in_part(profile)
        for number in series.phase.devices
        if profile.selection.device_id in {None, device := if_known(number)}
        for row in _rows(series, by_device[device], starts)
    ]
    rows.sort(key=lambda row: (row["start_ns"], row["process_id"] or 0, row["device_id"] or 0))
    return STEPS.table(rows)


def _rows(
    series: PhaseSteps,
    device: DeviceTimeline,
    phase_starts: Mapping[tuple[int | None, str], list[int]],
) -> list[dict[str, Any]]:
    start, end = series.start_ns, series.end_ns
    phase = series.phase
    starts = phase_starts[phase.process_id, phase.name]
    parts = {
        name: covered_within(layer, start, end).tolist()
        for name, layer in zip(_PARTS, device.exposed, strict=True)
    }
    busy = {
        layer_name: covered_within(device.busy[layer], start, end).tolist()
        for layer, layer_name in LAYER_NAMES.items()
    }
    of_series = {
        "process_id": phase.process_id,
        "device_id": device.device_id,
        "source": phase.source,
        "text": series.text,
        "phase": phase.name,
        # Of a part of a recording, a phase may begin later than it does there.
        "phase_number": sum(start_ns <= phase.span[0] for start_ns in starts),
    }
    status = [STATUS[code] for code in series.status.tolist()]
    for place in series.outliers.tolist():
        status[place] = "outlier"
    rows = []
    for place, step in enumerate(series.number.tolist()):
        split = {name: values[place] for name, values in parts.items()}
        span = int(end[place] - start[place])
        times = {"step": step, "start_ns": int(start[place]), "span_ns": span}
        for layer_name, values in busy.items():
            times[f"busy_{layer_name}_ns"] = values[place]
            times[f"hidden_{layer_name}_ns"] = values[place] - split[f"exposed_{layer_name}_ns"]
        idle = {"status": status[place], "idle_ns": span - sum(split.values())}
        rows.append(of_series | times | split | idle)
    return rows


ANALYSIS: Final = steps.analysis("Time of each training step", reads(PHASE_READS, TIMELINE_READS))


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
        "name": Text(
            "Text, with # for digits, of the ranges that mark its steps or enclose the inferred "
            "ones; else the kernel that opens a step.",
            required=True,
        ),
        "source": Text("ranges, or detected: a pattern of kernels that repeats.", required=True),
        "process_id": Process("Process; null where steps were detected by device."),
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "steps": Count("Whole steps past the warm-up: the medians are theirs.", required=True),
        "warm_up_steps": Count(
            "Steps set aside at its beginning.", required=True, label="Warm-up steps"
        ),
        "warm_up_ns": Ns("Time of these.", required=True, label="Warm-up"),
        "cut_steps": Count(
            "Steps that the recording's ends cut off: a part of them was not recorded, or the next "
            "one, which ends them.",
            required=True,
        ),
        "start_ns": Instant("Start of its first step.", required=True),
        "span_ns": Ns("From there to the end of its last step.", required=True),
        "step_ns": Ns("Median time of a step, the sum of its parts; null for no whole one."),
        "mean_step_ns": Ns("Mean time of a step; null for no whole one."),
        "step_low_ns": Ns(
            "Lower end of the 95 % interval of that; null for fewer than three steps."
        ),
        "step_high_ns": Ns("Upper end of it; null for fewer than three steps."),
        **{
            name: Ns(f"{doc[:-1]}; null for no whole step.")
            for name, doc in zip(_WITH_IDLE, _DOCS, strict=True)
        },
        "longest_step": Count("Number of the whole step that takes longest."),
        "longest_step_ns": Ns("Its time."),
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
        for device in map(if_known, phase.devices):
            if profile.selection.device_id not in {None, device}:
                continue
            row = summary | {"device_id": device}
            if len(phase.start_ns):
                times = [per_step(layer, phase) for layer in by_device[device].exposed]
                parts = parts_of_median(phase.end_ns - phase.start_ns, times)
                row |= dict(zip(_WITH_IDLE, parts, strict=True))
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


PHASES_ANALYSIS: Final = phases_table.analysis(
    "What a step takes in each phase", reads(PHASE_READS, TIMELINE_READS)
)
