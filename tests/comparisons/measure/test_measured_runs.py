"""Large recordings are measured one after the other, and compared as smaller ones are."""

import itertools
import weakref

import pytest
from drawing import draw

from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure import measured_runs
from gpuprof.comparisons.measure.compared_kernels import by_call
from gpuprof.comparisons.measure.compared_steps import STEP, ComparedSteps
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.timeline import timelines

US = 1_000


def _recording(names, *, step_us=100, gap_us=0, pause_us=0):
    """Thirty steps that ranges mark: a kernel of each name, and a copy between two GPUs."""
    drawn = {"nvtx_ranges": [], "api_calls": [], "kernels": [], "memcpys": []}
    for n in range(30):
        start = (n * (step_us + gap_us) + pause_us * (n > 5)) * US
        drawn["nvtx_ranges"].append((start, start + step_us * US, {"text": f"step {n}"}))
        for place, name in enumerate(names):
            at, number = start + place * 20 * US, {"correlation_id": 10 * n + place}
            drawn["api_calls"].append((at, at + US, number))
            drawn["kernels"].append(
                (at + US, at + (12 + n % 3) * US, {**number, "name": name, "grid_x": 1 + place})
            )
        ends = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "bytes": 4096}
        drawn["memcpys"].append((start + 70 * US, start + 80 * US, ends))
    return draw(**drawn)


ONE = ("gemm", "relu", "softmax")
PAIRS = {
    "the same kernels": (ONE, {}, ONE, {"step_us": 110}),
    "kernels of one side": (ONE, {}, ("gemm", "fused"), {}),
    "the time between marks of one side": (ONE, {"pause_us": 40}, ONE, {"gap_us": 150}),
}


@pytest.mark.parametrize(("names", "drawn", "other", "other_drawn"), PAIRS.values(), ids=[*PAIRS])
def test_recordings_measured_one_by_one_compare_as_those_measured_together(
    monkeypatch, names, drawn, other, other_drawn
):
    def compared():
        return comparison({"a": _recording(names, **drawn), "b": _recording(other, **other_drawn)})

    together = compared()
    monkeypatch.setattr(measured_runs, "_LARGE", 1)

    assert compared() == together
    assert together.unit == STEP


def test_a_large_recording_lets_go_of_its_events_before_the_next_one_is_read(monkeypatch):
    monkeypatch.setattr(measured_runs, "_LARGE", 1)
    sides = {"a": _recording(ONE), "b": _recording(ONE, step_us=110)}
    measured_run, of_both = measured_runs.measured_run, []

    def measured(compared):
        # Of the two devices the first one is the busiest, which is kept.
        _, other = timelines(compared.profile.unrestricted)
        of_both.append([weakref.ref(copy_rows(compared.profile.unrestricted)), weakref.ref(other)])
        if len(of_both) > 1:
            assert [of_first() for of_first in of_both[0]] == [None, None]
        return measured_run(compared)

    monkeypatch.setattr(measured_runs, "measured_run", measured)
    comparison(sides)

    assert len(of_both) == len(sides)


def test_devices_that_always_compute_take_twice_the_time_of_a_step_together():
    """Two devices call a kernel at nearly the same time; which calls are typical differs."""
    kernels = []
    for device in (0, 1):
        starts = [(100 * n + 20 * (n % 2) + (7 * n + 11 * device) % 5) * US for n in range(41)]
        kernels += [(*of, {"device_id": device, "name": "k"}) for of in itertools.pairwise(starts)]
    compared = by_call(ComparedSteps(draw(kernels=kernels)), "k")

    run = measured_runs.measured_run(compared)

    assert {len(series.devices) for series in compared.series} == {1}
    assert run.figure("kernel_ns") == pytest.approx(2 * run.figure("step_ns"), rel=0.05)
