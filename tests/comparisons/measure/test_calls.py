"""Recordings of unequal work are compared by what a call takes, not by what they take."""

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
    # 34 calls of 100 us with pauses of about 10 us, and 30 of 110 us: about as long in all.
    result, row = _compared(_cut(34, 100), _cut(30, 110))

    assert result.verdict.startswith(
        "b does a different amount of work than a: attention runs 30 times instead of 34"
    )
    assert "from one call of attention to the next" in result.verdict
    assert row["percent"] == pytest.approx(9.1, abs=0.3)
    assert row["candidate"] == pytest.approx(120_500, abs=1_000)


def test_calls_that_hardly_differ_are_equal_work():
    result, row = _compared(_cut(100, 100), _cut(99, 100))

    assert "different amount of work" not in result.verdict
    assert row["work_percent"] == pytest.approx(-1, abs=0.3)


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
    assert result.verdict.startswith("Against a, b takes 562.0 us (15.0 %) less on its busiest")
    assert result.headline.startswith("b takes 562.0 us (15.0 %) less than a")
    assert "Many kernels differ, so totals are compared, not calls: in a, kernels such as old" in (
        result.verdict
    )


def test_a_kernel_is_judged_by_its_mean_where_calls_differ():
    result, _ = _compared(_cut(34, 100), _cut(30, 110))

    (row,) = [row for row in result.kernels.to_pylist() if row["name"] == "attention"]
    assert row["status"] == "slower"
    assert (row["baseline_mean_ns"], row["candidate_mean_ns"]) == (100 * US, 110 * US)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside this repository")
def test_cuts_of_fixed_length_are_compared_by_their_attention():
    folder = CORPUS / "nsys-sqlite"
    sides = (folder / f"GindaChen__nsys-ai__mfu_2gpu_{name}.sqlite" for name in ("before", "after"))
    result, row = _compared(*map(read_profile, sides))

    assert result.verdict.startswith(
        "b does a different amount of work than a: flash_fwd_kernel runs 60 times"
    )
    assert row["percent"] == pytest.approx(5, abs=0.25)
