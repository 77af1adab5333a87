"""The figures of every run, and the run that stands for its variant: the median one.

Each is measured once; what a large recording is compared by, before the next one is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import numpy as np

from gpuprof.analyses.activity_summary import activity_summary
from gpuprof.base.units import encodable
from gpuprof.comparisons.measure.compared_steps import (
    COMPARED_READS,
    MEASURED_READS,
    ComparedSteps,
    own_steps,
    restricted,
)
from gpuprof.comparisons.measure.device_time import (
    COMMUNICATING,
    IDLE,
    BusiestDevice,
    busiest_device,
    copy_layers,
    exposed_times,
    exposed_unit,
)
from gpuprof.comparisons.measure.matching import kernel_groups
from gpuprof.comparisons.variant_figures import EXTENSIVE, SHARES, VARIANTS, Metrics, metrics
from gpuprof.facts.activity_sums import TABLES
from gpuprof.facts.copies import copy_rows, too_fast
from gpuprof.facts.launches import activities, hold_kernels, launches
from gpuprof.facts.moves import backward_copies
from gpuprof.facts.nvtx import named_parts, ranges_of
from gpuprof.facts.phases import steps_by_phase
from gpuprof.facts.step_times import typical_steps
from gpuprof.facts.step_windows import StepWindows
from gpuprof.facts.timeline import timelines
from gpuprof.findings.whole_recording import recorded_calls
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT

METRICS: Final = tuple(
    name
    for name, column in VARIANTS.columns.items()
    if column.dtype in {INT, FLOAT} and name != "runs"
)
# Of a call, so that it is not of one step.
_MEAN: Final = "peer_transfer_mean_ns"
# The first of these that all runs of a variant know orders them.
_ORDERING: Final = ("step_ns", "span_ns", "gpu_activity_ns", "seconds_per_epoch")


@dataclass(frozen=True)
class MeasuredRun:
    """One run of a variant.

    Args:
        compared: What of it is compared.
        device: Its busiest device; None where it has no times.
        metrics: Its metrics by name, of all that is compared; absent or None where unknown.
        of_step: The times of its median step, and shares of these; empty where no step is timed.
    """

    compared: ComparedSteps
    device: BusiestDevice | None
    metrics: Metrics
    of_step: Metrics

    def figure(self, metric: str) -> float | None:
        """A metric; where steps are compared, times of the median one, and the mean of counts."""
        of_step: float | None = self.of_step.get(metric)
        value: float | None = self.metrics.get(metric)
        if of_step is not None:
            return of_step
        if value is None or self.compared.steps is None or metric not in EXTENSIVE:
            return value
        return value / self.compared.steps


@dataclass(frozen=True)
class Variant:
    """A variant: its runs, and every figure that is known of each.

    Args:
        label: Its label.
        runs: Its runs.
        middle: The one in the middle, or of an even number both, the faster one first.
    """

    label: str
    runs: tuple[MeasuredRun, ...]
    middle: tuple[MeasuredRun, ...]

    @property
    def median(self) -> MeasuredRun:
        """The run whose recording stands for the variant: of an even number the faster one."""
        return self.middle[0]

    def median_figure(self, metric: str) -> float | None:
        """The median of a metric over the runs that know it; None where none does."""
        values = self.figures(metric)
        return median(values) if values else None

    def figures(self, metric: str) -> list[float]:
        """A metric of every run that knows it."""
        values = (run.figure(metric) for run in self.runs)
        return [value for value in values if value is not None]


def measured_run(compared: ComparedSteps) -> MeasuredRun:
    """What of a recording is compared, with its figures."""
    figures, device = metrics(compared.profile), busiest_device(compared)
    of_step: Metrics = {}
    if compared.steps is not None:
        figures["steps"] = compared.steps
    if device is not None:
        step_ns = device.total_ns / compared.steps if compared.steps else None
        figures["span_ns"] = device.total_ns
        figures["step_ns"] = float(np.median(device.steps_ns)) if device.steps else step_ns
        figures |= _exposed(exposed_times(compared, device))
        of_step = {} if device.steps is None else _of_step(compared, device)
    return MeasuredRun(compared, device, figures, of_step)


def _of_step(compared: ComparedSteps, device: BusiestDevice) -> Metrics:
    """What the median step goes to: the times of typical steps, scaled to it, and their shares.

    Means over all steps would be those of outliers, and kernels could take longer than a step.
    """
    part = restricted(replace(compared, series=_typical(compared, device)))
    figures = metrics(part.profile)
    median_ns = float(np.median(device.steps_ns))
    usual_ns = float(device.steps_ns[device.typical].mean())
    scale = median_ns / usual_ns if usual_ns else 0.0
    times = {
        name: value and value * scale / (part.steps or 1)
        for name, value in figures.items()
        if name in EXTENSIVE and VARIANTS.columns[name].unit == "ns"
    }
    exposed = exposed_unit(compared, device, frozenset())
    if figures.get(_MEAN):
        times[_MEAN] = figures[_MEAN] * scale
    return {
        **times,
        **{name: figures[name] for name in SHARES if name in figures},
        "span_ns": median_ns,
        **_exposed(exposed),
    }


def _typical(compared: ComparedSteps, device: BusiestDevice) -> tuple[StepWindows, ...]:
    """The typical steps of a device, each until the next one begins on any other.

    Windows are of all devices: typical steps of each would together be more steps than are
    counted. Devices that work before or after this one have their own.
    """
    steps = device.steps
    if steps is None:
        return ()
    first_ns, last_ns = steps.start_ns[0], steps.end_ns[-1]
    of_others = [s for s in compared.series if s is not steps and len(s.start_ns)]
    apart = [s for s in of_others if s.end_ns[-1] <= first_ns or s.start_ns[0] >= last_ns]
    at_once = [s for s in of_others if s not in apart]
    alike = [s for s in at_once if len(s.start_ns) == len(steps.start_ns)]
    start = np.min([s.start_ns for s in (steps, *alike)], axis=0)
    end = np.max([s.end_ns for s in (steps, *alike)], axis=0)
    end[:-1] = np.minimum(end[:-1], start[1:])
    rows = [(replace(steps, start_ns=start, end_ns=end), device.typical)]
    rows += [(s, typical_steps(s.end_ns - s.start_ns)) for s in apart]
    return tuple(
        replace(s, start_ns=s.start_ns[np.sort(of)], end_ns=s.end_ns[np.sort(of)]) for s, of in rows
    )


def _exposed(times: Mapping[str, int]) -> Metrics:
    """Times of the busiest device by the names of `VARIANTS`."""
    return {
        "compute_ns": sum(times[part] for part in ("kernels_common", "graphs")),
        "exposed_communication_ns": times[COMMUNICATING],
        "idle_ns": times[IDLE],
    }


def run_rows(variant: Variant) -> list[Metrics]:
    """Its runs as rows of `RUNS`."""
    return [
        variant_row(variant, run)
        | {"run": number, "is_median": any(run is middle for middle in variant.middle)}
        for number, run in enumerate(variant.runs, start=1)
    ]


def variant_row(variant: Variant, run: MeasuredRun) -> Metrics:
    """A run of a variant as a row of `VARIANTS`."""
    origin = run.compared.profile.origin
    head = {"variant": variant.label, "source": encodable(str(origin.source)), "tool": origin.tool}
    return head | run.metrics | {"runs": len(variant.runs)}


def median_figures(variant: Variant) -> Metrics:
    """The medians over the runs for sentences, of one step where steps are compared.

    ``gpu_ns`` is its GPU time as recorded, or else as printed shares imply it; ``runs`` how many
    there are.
    """
    figures = variant.median.metrics | {metric: variant.median_figure(metric) for metric in METRICS}
    recorded, implied = figures["gpu_activity_ns"], figures["implied_gpu_activity_ns"]
    gpu_ns = implied if recorded is None else recorded
    return figures | {"runs": len(variant.runs), "gpu_ns": gpu_ns}


def is_same(first: MeasuredRun, second: MeasuredRun) -> bool:
    """Whether two runs are one and the same: every figure of theirs is equal, to the ns.

    Two runs may well be equal in what is only counted: then the file decides.
    """
    if first.metrics != second.metrics:
        return False
    rows, second_rows = _listed(first.compared.profile), _listed(second.compared.profile)
    if rows or second_rows:
        return rows == second_rows
    runs = first, second
    source, second_source = (run.compared.profile.origin.source.absolute() for run in runs)
    return bool(source == second_source)


def _listed(profile: Profile) -> Sequence[Any]:
    """Its kernels with their calls and times, else all activities; none where none are known."""
    if profile.has("kernels") and (kernels := profile.once(kernel_groups)):
        return kernels
    is_known = any(profile.has(table) for table in TABLES)
    return profile.once(activity_summary).to_pylist() if is_known else ()


# Of smaller recordings the threads of what is computed ahead would mostly wait for each other.
_LARGE: Final = 2_000_000


class Measurements:
    """The figures of what is compared, each measured when it is first asked for.

    Args:
        epoch_seconds: Measured seconds per epoch by label, where no recording has them.
    """

    def __init__(self, epoch_seconds: Mapping[str, float]) -> None:
        self._epoch_seconds = epoch_seconds
        self._runs: dict[tuple[Any, ...], MeasuredRun] = {}

    def variant(self, label: str, parts: Sequence[ComparedSteps]) -> Variant:
        """The runs of a variant, of which these parts are compared, and which stand for it."""
        seconds = self._epoch_seconds.get(label)
        # In place of marked ones.
        of_user = {} if seconds is None else {"seconds_per_epoch": seconds}
        measured = map(self._of, parts)
        runs = tuple(replace(run, metrics=run.metrics | of_user) for run in measured)
        measures = (m for m in _ORDERING if all(run.figure(m) is not None for run in runs))
        if (metric := next(measures, None)) is None:
            return Variant(label, runs, runs[:1])
        in_order = sorted(runs, key=lambda run: run.figure(metric) or 0)
        return Variant(label, runs, tuple(in_order[(len(runs) - 1) // 2 : len(runs) // 2 + 1]))

    def take_ahead(
        self, label: str, profile: Profile, range_text: str | None, skip_steps: int | None
    ) -> None:
        """Measure the steps of a large recording, and let go of what hardly anything asks for then.

        Of ten million activities that is 1 GB, which the next recording may take. One without
        steps keeps what tells the calls of its kernels, which may stand for steps.

        Raises:
            UsageError: As in `compared_steps`.
        """
        recording = profile.unrestricted
        if not _is_large(recording):
            return
        profile.expect(COMPARED_READS)
        if range_text is None:
            # Steps are found on two threads; the devices' timelines are asked for first.
            ahead: list[Callable[[Profile], object]] = [copy_layers]
            ahead = [launches, *ahead] if recording.has("api_calls") else ahead
            ahead = [ranges_of, *ahead] if recording.has("nvtx_ranges") else ahead
            hold_kernels(recording)
            recording.compute_ahead(ahead)
            steps_by_phase(recording)
            backward_copies(recording)
            recorded_calls(recording)
            recording.forget(launches, activities, ranges_of, named_parts)
            recording.release(but=MEASURED_READS)
        parts = own_steps(label, profile, range_text, skip_steps)
        for part in parts:
            self._of(part)
        if parts:
            too_fast(recording)
            recording.forget(timelines, copy_rows)
            recording.release(but={})

    def _of(self, compared: ComparedSteps) -> MeasuredRun:
        """The figures of one part."""
        part, lengths = compared.profile, compared.lengths_ns.tobytes()
        known_by = compared.source, compared.phase, compared.steps, lengths
        key = id(part.unrestricted), part.selection, *known_by
        if key not in self._runs:
            if is_large := _is_large(part.unrestricted):
                part.compute_ahead([kernel_groups])
            self._runs[key] = measured_run(compared)
            if is_large:
                part.once(kernel_groups)
                part.forget(copy_rows)
        return self._runs[key]


def _is_large(recording: Profile) -> bool:
    return recording.events >= _LARGE and recording.has("kernels", "memcpys")
