import numpy as np
import pytest
from scipy import stats

from gpuprof.base.statistics import (
    adjusted,
    coverage,
    difference_interval,
    median,
    median_interval,
    quantiles,
    quantiles_of_rows,
    rank_test,
    rank_tests,
    step_interval,
)


@pytest.mark.parametrize("most", [3, 10**9, 2**62])
@pytest.mark.parametrize("number", [1, 2, 3, 10, 101])
def test_medians_and_quantiles_of_integers_are_numpys(number, most):
    values, shares = np.random.default_rng(number).integers(0, most, number), (0.1, 0.25, 0.5, 0.9)

    assert median(values) == np.median(values)
    assert quantiles(values, *shares) == np.quantile(values, shares).tolist()
    rows = np.stack([values, values[::-1] // 2])
    assert (quantiles_of_rows(rows, *shares) == np.quantile(rows, shares, axis=1)).all()


def test_one_run_has_no_interval():
    assert median_interval([1.0]) is None
    assert difference_interval([1.0], [1.0, 2.0]) is None
    assert rank_test([1.0, 2.0], [1.0]) is None


def test_an_interval_lies_within_the_runs_and_is_the_same_each_time():
    runs = [10.0, 11.0, 12.0, 13.0, 30.0]

    low, high = median_interval(runs)

    assert min(runs) <= low <= 12.0 <= high <= max(runs)
    assert median_interval(runs) == (low, high)


def test_the_interval_of_a_difference_holds_the_difference():
    low, high = difference_interval([10.0, 10.2, 9.9, 10.1], [12.0, 12.1, 11.8, 12.2])

    assert 1.5 < low <= 2.0 <= high < 2.5


def test_runs_without_spread_have_an_interval_without_width():
    assert median_interval([3.0, 3.0]) == (3.0, 3.0)
    assert difference_interval([3.0, 3.0], [5.0, 5.0, 5.0]) == (2.0, 2.0)


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        low, high = median_interval(rng.normal(size=15).tolist())
        hits += low <= 0 <= high

    assert hits / 100 >= 0.9


@pytest.mark.parametrize(("runs", "share"), [(1, 0), (2, 0.5), (5, 0.9375), (6, 0.96875)])
def test_few_runs_cover_little(runs, share):
    assert coverage(runs) == share


def test_rank_tests_are_those_of_scipy_one_by_one():
    rng = np.random.default_rng(2)
    base, candidate = rng.normal(size=(20, 5)), rng.normal(1, size=(20, 4))

    p_values = rank_tests(base, candidate)

    expected = [stats.mannwhitneyu(a, b).pvalue for a, b in zip(base, candidate, strict=True)]
    assert p_values == pytest.approx(expected)


def test_runs_that_are_all_equal_do_not_differ():
    assert rank_tests(np.ones((1, 3)), np.ones((1, 3))).tolist() == [1.0]


def test_many_tests_need_smaller_p_values():
    assert adjusted(np.array([0.01, 0.02, 0.03, 0.5])).tolist() == pytest.approx(
        [0.04, 0.04, 0.04, 0.5]
    )


def test_fewer_than_three_steps_have_no_interval():
    assert step_interval(np.array([10, 11])) is None
    assert step_interval(np.array([10, 10, 10])) == (10, 10)


@pytest.mark.parametrize("number", [3, 10, 471, 50_000])
def test_an_interval_of_steps_holds_their_median_and_is_the_same_each_time(number):
    lengths = np.random.default_rng(number).integers(900, 1100, number)

    low, high = step_interval(lengths)

    assert lengths.min() <= low <= np.median(lengths) <= high <= lengths.max()
    assert step_interval(lengths) == (low, high)


def walks(dependence, count, number):
    """Series in which each value holds so much of the one before."""
    drawn = np.random.default_rng(1).normal(0, 1, (count, number))
    for place in range(1, number):
        drawn[:, place] += dependence * drawn[:, place - 1]
    return drawn[:, number // 5 :]


@pytest.mark.parametrize(("dependence", "least"), [(0.0, 0.90), (0.5, 0.85)])
def test_intervals_of_steps_hold_the_true_median_as_often_as_they_say(dependence, least):
    intervals = [step_interval(series) for series in walks(dependence, 100, 250)]

    assert least <= np.mean([low <= 0 <= high for low, high in intervals]) <= 0.99


def test_steps_that_depend_on_one_another_have_a_wider_interval_than_others():
    (series,) = walks(0.8, 1, 500)
    mixed = np.random.default_rng(2).permutation(series)

    widths = [high - low for low, high in map(step_interval, (series, mixed))]

    assert widths[0] > 1.5 * widths[1]
