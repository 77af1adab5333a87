"""The range of a prediction holds what the replay got wrong, and never less than half a percent."""

import numpy as np
import pytest

from gpuprof.predict.effects import LEAST_SHARE, margin_ns

STEPS = np.full(10, 1_000_000)


@pytest.mark.parametrize(
    ("replayed", "predicted", "margin"),
    [
        pytest.param(STEPS, 1_000_000, LEAST_SHARE * 1_000_000, id="nothing-is-known-more-closely"),
        pytest.param(STEPS + 30_000, 1_000_000, 30_000, id="the-error-of-the-replay"),
        pytest.param(STEPS - 30_000, 500_000, np.hypot(15_000, 62_500), id="half-a-step"),
        pytest.param(STEPS, 1_400_000, 50_000, id="an-eighth-of-the-change"),
        pytest.param(STEPS, 100_000, 50_000, id="half-of-what-is-left"),
    ],
)
def test_a_range_is_as_wide_as_the_errors_that_are_known(replayed, predicted, margin):
    assert margin_ns(STEPS, replayed, predicted) == round(margin)


def test_one_step_that_the_replay_gets_wrong_is_no_error_of_most():
    replayed = STEPS.copy()
    replayed[0] *= 3

    assert margin_ns(STEPS, replayed, 1_000_000) == LEAST_SHARE * 1_000_000


def test_few_steps_that_vary_leave_more_open_than_many():
    numbers = np.random.default_rng(0)
    few, many = (np.rint(numbers.normal(1e6, 1e5, n)).astype(np.int64) for n in (20, 600))

    wide_ns, narrow_ns = (margin_ns(its, its, 1_000_000) for its in (few, many))
    assert wide_ns > 4 * narrow_ns > 4 * LEAST_SHARE * 1_000_000


def test_nine_in_ten_medians_of_another_run_are_within_the_range():
    numbers = np.random.default_rng(1)
    runs = np.rint(numbers.normal(1e6, 5e4, (400, 2, 25))).astype(np.int64)

    inside = [
        abs(np.median(truth) - np.median(run)) <= margin_ns(run, run, int(np.median(run)))
        for run, truth in runs
    ]
    assert 0.8 < np.mean(inside) < 0.96
