"""Slow devices among drawn times of steps, of which it is known who is slow, when and how much."""

import itertools

import numpy as np
import pytest

from gpuprof.facts.slow_devices import beside_median, slow_steps

DEVICES, STEPS = (4, 5, 8, 16, 64), (20, 30, 60)
# Of so many steps the first slow one.
FIRST = {"start": 0, "middle": 1 / 2, "last third": 2 / 3}


def drawn(devices, steps, noise, seed, **slow):
    """Times of steps whose work varies; of a slow device so many times as long from a step on."""
    dice = np.random.default_rng(seed)
    work = dice.uniform(800, 1200, steps)
    times = work * np.maximum(1 + dice.normal(0, noise, (devices, steps)), 0.3)
    for device, (first, factor) in slow.items():
        times[int(device[1:]), first:] *= factor
    return times


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("factor", "noise"), [(1.25, 0.05), (1.5, 0.05), (1.5, 0.1)])
def test_a_slow_device_is_named_with_its_factor_and_its_first_step(first, factor, noise):
    for seed, (devices, steps) in enumerate(itertools.product(DEVICES, STEPS)):
        begins = round(FIRST[first] * steps)
        times = drawn(devices, steps, noise, seed, d2=(begins, factor))

        slow = slow_steps(times)

        assert [*slow] == [2]
        assert slow[2].stop == steps
        assert abs(slow[2].start - begins) <= 2


def test_two_slow_devices_are_both_named_each_from_its_step():
    for seed, (devices, steps) in enumerate(itertools.product((8, 16, 64), STEPS)):
        times = drawn(devices, steps, 0.05, seed, d1=(0, 1.5), d3=(steps // 2, 1.25))

        slow = slow_steps(times)

        assert [*slow] == [1, 3]
        assert abs(slow[1].start) <= 1
        assert abs(slow[3].start - steps // 2) <= 2


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_among_devices_that_differ_by_chance_none_is_slow(noise):
    jobs = itertools.product((3, *DEVICES), (3, 12, *STEPS), range(4))
    assert not any(slow_steps(drawn(devices, steps, noise, seed)) for devices, steps, seed in jobs)


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_a_device_with_few_slow_steps_is_not_slow(noise):
    for seed, (devices, steps) in enumerate(itertools.product(DEVICES, STEPS)):
        times = drawn(devices, steps, noise, seed)
        times[2, np.random.default_rng(seed).choice(steps, steps // 10, replace=False)] *= 2

        assert slow_steps(times) == {}


def test_a_few_slow_steps_one_after_another_are_not_a_slow_device_an_eighth_of_all_are():
    times = np.full((6, 80), 1000.0)
    times[4, 30:39] = 2000
    assert slow_steps(times) == {}

    times[4, 39] = 2000
    assert slow_steps(times) == {4: slice(30, 40)}


@pytest.mark.parametrize(("devices", "least"), [(3, 1.1), (4, 1.1), (5, 1.01), (8, 1.01)])
def test_a_device_is_slow_from_so_many_times_the_median_on(devices, least):
    times = np.full((devices, 400), 1000.0)
    times[1] = 1000 * least
    assert slow_steps(times) == {}

    times[1] += 1
    assert slow_steps(times) == {1: slice(0, 400)}


def test_devices_that_differ_all_the_time_make_none_of_them_slow():
    """2 % faster to 8 % slower: the slowest is no outlier."""
    usual = np.array([0.98, 1.0, 1.02, 1.04, 1.06, 1.08])[:, np.newaxis]

    assert slow_steps(usual * np.full((6, 50), 1000.0)) == {}


def test_of_two_devices_nobody_knows_which_is_slow():
    assert slow_steps(np.array([[1000.0] * 9, [2000.0] * 9])) is None


def test_steps_that_a_device_did_not_record_count_to_none():
    times = np.full((5, 20), 1000.0)
    times[0, 10:] = np.nan
    times[3, :4] = np.nan
    times[3, 4:] = 1500

    assert slow_steps(times) == {3: slice(4, 20)}


def test_steps_of_no_time_have_no_ratio():
    assert np.isnan(beside_median(np.zeros((3, 2)))).all()
    assert slow_steps(np.zeros((3, 2))) == {}
