"""Sides whose idle time is none of the program's are compared by the time of kernels alone."""

import pytest
from drawing import draw

from gpuprof.comparisons import comparison

US = 1_000


def _launched(kernel_us, *, apart=1, name="step", step_us=0):
    """120 launches 20 us apart, with numbers that lie ``apart``, each with a kernel."""
    rows = [(at * 20 * US, {"correlation_id": 1 + at * apart}) for at in range(120)]
    calls = [(start, start + US, row) for start, row in rows]
    kernels = [
        (start + 5 * US, start + (5 + kernel_us) * US, row | {"name": name}) for start, row in rows
    ]
    if not step_us:
        return draw(kernels=kernels, api_calls=calls)
    starts = range(0, 2400 * US, step_us * US)
    steps = [(at, at + step_us * US, {"text": f"step {at}"}) for at in starts]
    return draw(kernels=kernels, api_calls=calls, nvtx_ranges=steps)


def test_a_side_that_lacks_kernels_is_compared_by_call():
    result = comparison({"all": _launched(5), "some": _launched(6, apart=50)})

    assert result.verdict == (
        "Kernels are missing from some, so idle times and sums do not compare. What compares is"
        " the time per call: the recorded calls of the kernels that both have take 20.0 % longer"
        " on average in some than in all."
    )
    assert result.split.num_rows == 0
    (outcome,) = result.outcomes.to_pylist()
    assert (outcome["basis"], outcome["percent"]) == ("calls", pytest.approx(20))


def test_steps_that_ranges_mark_compare_whichever_kernels_were_recorded():
    slow = _launched(6, apart=50, step_us=60)
    result = comparison({"all": _launched(5, step_us=40), "some": slow})

    assert result.verdict.startswith("Against all, some takes 20.00 us (50.0 %) more per step")
    assert result.verdict.endswith(
        "Kernels are missing from some, so idle times and sums do not compare. What else compares"
        " is the time per call: the recorded calls of the kernels that both have take 20.0 % longer"
        " on average in some than in all."
    )
    assert result.split.num_rows == 0
    (outcome,) = result.outcomes.to_pylist()
    assert (outcome["metric"], outcome["cause"]) == ("step_ns", None)


def test_without_kernels_of_both_nothing_compares():
    result = comparison({"all": _launched(5), "some": _launched(6, apart=50, name="other")})

    assert result.verdict.endswith("some and all have too few kernels in common to compare.")
    assert result.outcomes.to_pylist()[0]["difference"] is None


def test_sides_that_have_all_are_compared_on_the_clock():
    result = comparison({"a": _launched(5), "b": _launched(6)})

    assert "Against a, b takes" in result.verdict
    assert result.split.num_rows > 0
