"""Warm-up and lasting changes of the time of steps, on series of known truth."""

import numpy as np
import pytest

from gpuprof.facts.step_times import levels, warm_up_steps

SEEDS = range(20)


def steady(number, ns=30_000_000, spread=0.01, seed=0):
    drawn = np.random.default_rng(seed).normal(ns, spread * ns, number)
    return drawn.astype(np.int64)


def borders(lengths):
    return [one.start for one in levels(lengths)][1:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("number", "slow"), [(10, 2), (12, 1), (30, 5), (200, 40), (2000, 30)])
def test_the_slow_steps_at_the_beginning_are_the_warm_up(number, slow, seed):
    lengths = steady(number, seed=seed)
    lengths[:slow] *= 2

    assert warm_up_steps(lengths) == slow


def test_steady_steps_have_no_warm_up():
    found = [warm_up_steps(steady(50, seed=seed)) for seed in range(200)]

    # A first step that is slow by chance is told apart from no warm-up by nothing.
    assert np.mean(np.array(found) > 0) < 0.05
    assert max(found) <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_warm_up_that_fades_ends_where_steps_are_usual(seed):
    lengths = steady(100, spread=0.003, seed=seed)
    lengths += (lengths * np.exp(-np.arange(100) / 3)).astype(np.int64)

    # exp(-d / 3) falls to the 2 % that are worth setting aside at 11.7.
    assert 10 <= warm_up_steps(lengths) <= 14


@pytest.mark.parametrize("place", [1, 5, 40, 99])
def test_a_slow_step_after_usual_ones_is_no_warm_up(place):
    lengths = steady(100)
    lengths[place] *= 3

    assert warm_up_steps(lengths) == 0


def test_a_usual_step_between_slow_ones_does_not_end_the_warm_up():
    lengths = steady(30)
    lengths[[0, 1, 2, 4, 5]] *= 2

    assert warm_up_steps(lengths) == 6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("number", "slower"), [(90, 42), (400, 70), (2000, 300)])
def test_steps_that_are_slow_for_long_are_a_level_and_only_the_first_warm_up(number, slower, seed):
    lengths = steady(number, spread=0.003, seed=seed)
    lengths[:slower] += lengths[:slower] // 8
    lengths[:4] *= 2

    assert warm_up_steps(lengths) == 4


@pytest.mark.parametrize(
    ("slow", "number", "most"), [(1, 1, 0), (2, 2, 0), (2, 3, 1), (3, 4, 2), (9, 12, 4)]
)
def test_two_steps_are_left_and_two_thirds_of_many(slow, number, most):
    lengths = np.full(number, 100)
    lengths[:slow] = 300

    assert warm_up_steps(lengths) <= most


def test_a_first_step_slow_by_less_than_two_percent_is_kept():
    lengths = np.full(20, 1000)
    lengths[0] = 1019
    assert warm_up_steps(lengths) == 0
    lengths[0] = 1021
    assert warm_up_steps(lengths) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_that_lasts_parts_two_levels(seed):
    lengths = np.concatenate([steady(100, seed=seed), steady(80, 20_000_000, seed=seed)])

    assert borders(lengths) == [100]


@pytest.mark.parametrize("seed", SEEDS)
def test_three_levels_are_told_apart(seed):
    parts = [steady(60, ns, seed=seed) for ns in (30_000_000, 10_000_000, 20_000_000)]

    assert borders(np.concatenate(parts)) == [60, 120]


@pytest.mark.parametrize("seed", SEEDS)
def test_outliers_and_small_changes_part_nothing(seed):
    lengths = steady(100, seed=seed)
    lengths[[3, 41, 77]] *= 4
    assert borders(lengths) == []
    lengths[50:] = lengths[50:] * 11 // 10
    assert borders(lengths) == []


def test_noise_of_any_width_is_parted_rarely():
    wide = [borders(np.abs(steady(60, spread=0.5, seed=seed)) + 1) for seed in range(100)]

    assert np.mean([bool(found) for found in wide]) <= 0.1


@pytest.mark.parametrize("number", range(8))
def test_few_steps_are_one_level(number):
    assert borders(np.arange(1, number + 1) ** 4) == []


def test_equal_steps_are_one_level():
    assert borders(np.full(1000, 7)) == []
