"""Kernels of both sides: other amounts of work, kernels of one side alone, and missing ones."""

import pytest
from commands import CORPUS
from drawing import draw

from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile

US = 1_000


def _cut(calls, attention_us, pause_us=10, name="attention"):
    """So many calls of a kernel, another one after each that is never called again."""
    kernels, start = [], 0
    for n in range(calls):
        middle = start + attention_us * US
        kernels.append((start, middle, {"name": name}))
        kernels.append((middle, middle + (2 + n % 3) * US, {"name": f"other {n}"}))
        start = middle + (pause_us + n % 2) * US
    return draw(kernels=kernels)


def _compared(a, b):
    result = comparison({"a": a, "b": b})
    (row,) = result.outcomes.to_pylist()
    return result, row


def test_fewer_calls_in_the_same_time_are_no_gain():
    # 34 calls of 100 µs with pauses of about 10 µs, and 30 of 110 µs: about as long in all.
    result, row = _compared(_cut(34, 100), _cut(30, 110))

    assert result.verdict.startswith(
        "b does a different amount of work than a: attention runs 30 times instead of 34"
    )
    assert "from one call of attention to the next" in result.verdict
    assert row["percent"] == pytest.approx(9.1, abs=0.3)
    assert row["candidate"] == pytest.approx(120_500, abs=1_000)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((34, 100), (30, 110), "11.5 % less work, and each call takes 9.7 % longer on average"),
        ((30, 110), (34, 100), "13.0 % more work, and each call takes 8.9 % less on average"),
    ],
)
def test_work_and_the_time_of_a_call_are_said_with_their_signs(before, after, said):
    result, _ = _compared(_cut(*before), _cut(*after))

    assert f" The kernels that both have do {said}." in result.verdict


def test_calls_that_hardly_differ_are_equal_work():
    result, row = _compared(_cut(100, 100), _cut(99, 100))

    assert "different amount of work" not in result.verdict
    assert row["work_percent"] == pytest.approx(-1, abs=0.3)


def test_calls_that_take_as_long_are_not_said_to_take_less():
    result, row = _compared(_cut(34, 100), _cut(30, 100))

    assert row["call_percent"] == pytest.approx(0, abs=0.05)
    assert "and each call takes as long on average" in result.verdict


def test_too_few_calls_are_compared_by_their_means():
    result, row = _compared(_cut(4, 100), _cut(2, 110))

    assert row["basis"] == "calls"
    assert row["percent"] == pytest.approx(10, abs=1)
    assert "only the time per call is compared" in result.verdict


def test_recordings_that_share_less_than_80_percent_of_the_time_are_compared_by_totals():
    def cut(calls, attention_us, other, other_us):
        kernels, start = [], 0
        for n in range(calls):
            middle, end = start + attention_us * US, start + (attention_us + other_us) * US
            kernels.append((start, middle, {"name": "attention"}))
            kernels.append((middle, end, {"name": f"{other} {n}"}))
            start = end + (10 + n % 2) * US
        return draw(kernels=kernels)

    result, row = _compared(cut(34, 60, "old", 40), cut(30, 66, "new", 30))

    # Calls of attention take 10 % longer, and all that runs takes 12.9 % less.
    assert (row["basis"], row["call_percent"]) == ("exposed", None)
    assert result.verdict.startswith("Against a, b takes 562 µs (15.0 %) less on its busiest")
    assert result.headline.startswith("b takes 562 µs (15.0 %) less than a")
    assert "Many kernels differ, so totals are compared, not calls: in a, kernels such as old" in (
        result.verdict
    )


def test_a_kernel_is_judged_by_its_mean_where_calls_differ():
    result, _ = _compared(_cut(34, 100), _cut(30, 110))

    (row,) = [row for row in result.kernels.to_pylist() if row["name"] == "attention"]
    assert row["status"] == "slower"
    assert (row["baseline_mean_ns"], row["candidate_mean_ns"]) == (100 * US, 110 * US)


MS = 1_000_000


def one_after_another(**lengths_ms):
    """Kernels of some lengths in ms, by name."""
    kernels, at = [], 0
    for name, length_ms in lengths_ms.items():
        kernels.append((at, at + length_ms * MS, {"name": name, "grid_x": length_ms}))
        at += length_ms * MS
    return draw(kernels=kernels)


def verdict(before, after):
    return comparison({"a": before, "b": after}).verdict


def test_kernels_of_one_side_that_take_most_time_are_named():
    before = one_after_another(copy=5, forward=2, step=1)
    after = one_after_another(copy=5, fused=4, backward=2)

    assert verdict(before, after).endswith(
        " Most kernels differ, so totals are compared, not calls: in a, kernels such as forward"
        " that b lacks take 3.00 ms (37.5 % of its kernel time) and in b, kernels such as fused"
        " that a lacks take 6.00 ms (54.5 % of its kernel time)."
    )


def test_a_side_that_lacks_none_is_not_named():
    text = verdict(one_after_another(copy=5), one_after_another(copy=5, backward=5))

    assert text.endswith(
        " Most kernels differ, so totals are compared, not calls: in b, kernels such as backward"
        " that a lacks take 5.00 ms (50.0 % of its kernel time)."
    )


def test_programs_without_a_kernel_in_common_say_so():
    text = verdict(one_after_another(a=5), one_after_another(b=4))

    assert (
        " No kernel runs on both sides, so totals are compared, not calls: in a, kernels such as a"
        " that b lacks" in text
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"copy": 81, "one": 19}, {"copy": 81, "other": 19}),
        # The same kernel on more data has other launch shapes.
        ({"copy": 2}, {"copy": 20}),
    ],
)
def test_recordings_that_share_most_kernels_are_not_said_to_differ(before, after):
    text = verdict(one_after_another(**before), one_after_another(**after))

    assert "kernels differ" not in text
    assert "No kernel" not in text


def test_kernels_of_communication_are_no_other_work():
    nccl = {"ncclKernel_AllReduce_RING_LL_Sum_float": 20}
    text = verdict(one_after_another(copy=5), one_after_another(copy=5, **nccl))

    assert "kernels differ" not in text


def test_a_real_kernel_that_gives_way_to_those_of_a_library_is_named():
    names = (
        "xprotobeast2__ece408_project__m3.1.timeline.nvvp",
        "m-goldstein__GPU_ML__timeline.nvvp",
    )
    paths = [CORPUS / "nvprof-sqlite" / name for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip("the corpus of real recordings is not here")

    text = verdict(*map(read_profile, paths))
    assert "in a, kernels such as forward_kernel that b lacks take 223 ms (91.7 %" in text
    assert "volta_scudnn_128x64_relu_interior_nn_v1" in text


def _launched(kernel_us, *, apart=1, name="step", step_us=0):
    """120 launches 20 µs apart, with numbers that lie ``apart``, each with a kernel."""
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

    assert result.verdict.startswith("Against all, some takes 20.0 µs (50.0 %) more per step")
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


def test_unequal_work_is_compared_by_calls_of_the_same_kernel_in_both_directions():
    def drawn(x_calls):
        """Kernel x takes most of the time in one side, y in the other, x in both together."""
        times = [(at * 100 * US, at * 100 * US + 10 * US, {"name": "x"}) for at in range(x_calls)]
        times += [
            (at * 100 * US + 50 * US, at * 100 * US + 59 * US, {"name": "y"}) for at in range(30)
        ]
        return draw(kernels=times)

    sides = {"more": drawn(40), "less": drawn(20)}
    there = comparison(sides, baseline="more").outcomes.to_pylist()[0]
    back = comparison(sides, baseline="less").outcomes.to_pylist()[0]

    assert (there["baseline_steps"], there["candidate_steps"]) == (39, 19)
    assert (back["baseline_steps"], back["candidate_steps"]) == (19, 39)
    assert there["difference"] == -back["difference"]
