"""The noise between the steps of one run; other runs may differ by more."""

from typing import Any, Final

from gpuprof.base.statistics import Interval, step_interval
from gpuprof.comparisons.judge.certainty import BEYOND, WITHIN
from gpuprof.comparisons.measure.runs import MeasuredRun

LEAST_STEPS: Final = 3


def step_noise(baseline: MeasuredRun, candidate: MeasuredRun) -> dict[str, Any]:
    """The steps of a run of each side, as columns of `OUTCOMES`; none where no step is timed."""
    runs = {"baseline": baseline, "candidate": candidate}
    devices = {side: run.device for side, run in runs.items()}
    steps = {
        side: device.steps_ns
        for side, device in devices.items()
        if device is not None and device.steps is not None
    }
    if len(steps) < len(runs):
        return {}
    columns: dict[str, Any] = {f"{side}_steps": len(of_side) for side, of_side in steps.items()}
    ends = [step_interval(of_side) for of_side in steps.values() if len(of_side) >= LEAST_STEPS]
    intervals = [interval for interval in ends if interval is not None]
    if len(intervals) < len(runs):
        return columns
    for side, (low, high) in zip(runs, intervals, strict=True):
        columns |= {f"{side}_low_ns": low, f"{side}_high_ns": high}
    return columns | {"certainty_of_steps": WITHIN if _meet(*intervals) else BEYOND}


def _meet(first: Interval, second: Interval) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]
