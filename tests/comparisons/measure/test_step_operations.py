import numpy as np
import pytest
from drawing import draw

from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.step_operations import (
    ALONE,
    LONGER,
    SHORTER,
    UNCHANGED,
    marks,
    operations,
    partners,
)
from gpuprof.show.charts.side_by_side import side_by_side

_US = 1_000


def _steps(*works, count=6, pause_us=10, device=0, step_us=1_000):
    """Steps of kernels in a row, each ``(name, us)`` or ``(name, [us of each])``."""
    kernels, ranges, calls = [], [], []
    for step in range(count):
        at = begin = step * step_us * _US
        for name, of_steps in works:
            length_us = of_steps[step] if isinstance(of_steps, list) else of_steps
            call = {"correlation_id": len(kernels)}
            kernels.append((at, at + length_us * _US, {"name": name, "device_id": device} | call))
            calls.append((at, at + 1, call))
            at += (length_us + pause_us) * _US
        ranges.append((begin, begin + step_us * _US - 1, {"text": f"step {step}"}))
    return draw(kernels=kernels, api_calls=calls, nvtx_ranges=ranges)


def _compared(base, other):
    result = comparison({"a": base, "b": other}, skip_steps=0)
    sides = [operations(part) for part in result.compared.values()]
    partner = partners(*sides)
    return sides, partner, marks(*sides, partner)


def _named(side, mark, wanted):
    return [side.names[name] for name in side.name[mark == wanted].tolist()]


def test_a_recording_without_times_has_no_operations():
    result = comparison({"a": draw(), "b": draw()})

    assert operations(result.compared["a"]) is None
    assert side_by_side(result, {"a": "a", "b": "b"}) is None


def test_a_typical_step_begins_at_0_and_its_end_is_known():
    work = _steps(("load", 100), ("gemm", [200, 200, 900, 200, 200, 200]), count=6)
    (side, _), _, _ = _compared(work, work)

    assert [side.names[name] for name in side.name.tolist()] == ["load", "gemm", "end of the step"]
    assert side.start_ns.tolist()[:2] == [0, 110 * _US]
    assert side.usual_ns.tolist() == [100 * _US, 200 * _US, 0]
    assert side.pauses_ns[1].tolist()[:2] == [0, 10 * _US]


def test_a_kernel_that_takes_longer_than_it_varies_is_marked_and_one_that_varies_is_not():
    varying = [100, 120, 100, 120, 100, 120]
    before = _steps(("load", varying), ("gemm", 200), ("sum", 300))
    after = _steps(("load", varying[::-1]), ("gemm", 220), ("sum", 250))
    (_, side), _, (of_base, of_side, _) = _compared(before, after)

    assert _named(side, of_side, LONGER) == ["gemm"]
    assert _named(side, of_side, SHORTER) == ["sum"]
    assert of_base.tolist() == of_side.tolist()


@pytest.mark.parametrize(("after_us", "mark"), [(203, UNCHANGED), (205, LONGER)])
def test_less_than_two_percent_is_no_difference_however_little_it_varies(after_us, mark):
    _, _, (_, of_side, _) = _compared(_steps(("gemm", 200)), _steps(("gemm", after_us)))

    assert of_side[0] == mark


def test_a_kernel_that_one_side_alone_has_stands_between_the_same_two():
    layer = ("gemm", 100), ("relu", 20)
    before = _steps(*layer, ("gemm", 100), *layer, ("sum", 50))
    after = _steps(*layer, *layer, *layer, ("sum", 50))
    (_, side), partner, (of_base, of_side, _) = _compared(before, after)

    # The second of three.
    assert np.flatnonzero(of_side == ALONE).tolist() == [3]
    assert _named(side, of_side, ALONE) == ["relu"]
    assert ALONE not in of_base
    assert partner.tolist() == [0, 1, 2, -1, 3, 4, 5, 6]


def test_a_longer_pause_is_said_of_what_follows_it():
    before, after = (_steps(("gemm", 100), ("sum", 50), pause_us=pause_us) for pause_us in (10, 40))
    (_, side), _, (_, of_side, of_pauses) = _compared(before, after)

    assert of_side.tolist() == [UNCHANGED] * 3
    assert _named(side, of_pauses, LONGER) == ["sum"]


def test_work_that_moved_to_another_device_is_the_same_work():
    (_, side), partner, _ = _compared(_steps(("gemm", 100)), _steps(("gemm", 100), device=3))

    assert partner.tolist() == [0, 1]
    assert side.device.tolist() == [3, 3]


def test_the_list_says_how_much_and_where():
    before = _steps(("load", 100), ("gemm", 200), ("gemm", 200), ("old", 30))
    after = _steps(("load", 100), ("gemm", 220), ("gemm", 240), ("new", 30))

    shown = side_by_side(comparison({"a": before, "b": after}), {"a": "A", "b": "B"})
    (candidate,) = shown["candidates"]

    assert [(one["name"], one["words"]) for one in candidate["largest"]] == [
        ("gemm", "longer: +60.0 µs in 2 calls"),
        ("end of the step", "shorter pause before it: -60.0 µs in 1 call"),
        ("old", "only in A: -30.0 µs in 1 call"),
        ("new", "only in B: +30.0 µs in 1 call"),
    ]
    assert candidate["largest"][0]["start"] == (100 + 10 + 220 + 10) * _US
    of_base, of_side = candidate["marks"]
    assert of_side == [0, 100 * _US, 1, 200 * _US, 1, 200 * _US, 3, 0, 0, 0]
    assert of_base == [0, 100 * _US, 1, 220 * _US, 1, 240 * _US, 3, 0, 0, 0]


def test_of_many_candidates_the_eight_that_differ_most_are_shown():
    recordings = {"base": _steps(("gemm", 100))}
    recordings |= {f"v{n}": _steps(("gemm", 100), step_us=1_000 + n) for n in range(12)}
    result = comparison(recordings)

    shown = side_by_side(result, dict(zip(recordings, recordings, strict=True)))

    assert [one["label"] for one in shown["candidates"]] == [f"v{n}" for n in range(4, 12)]
    assert shown["left_out"] == 4
