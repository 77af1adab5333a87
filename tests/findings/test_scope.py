"""What a step pays of some instants: the usual, whatever a single step does."""

import numpy as np
import pytest
from drawing import draw

from gpuprof.facts.timeline import timelines
from gpuprof.findings.scope import Scope, scopes
from gpuprof.model.intervals import union


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ([10] * 39 + [100], 10),  # one outlier tells nothing of the others
        ([0] * 39 + [100], 0),
        ([0, 0, 40] * 14, 11),  # every third step: the mean without the longest twentieth
        ([7], 7),
    ],
)
def test_a_step_pays_the_median_or_what_steps_pay_on_average(costs, expected):
    profile = draw(kernels=[(0, 100 * len(costs))])
    start = np.arange(len(costs)) * 100
    scope = Scope(profile, timelines(profile)[0], "step #", start, start + 100, len(costs))

    assert scope.per_step(union(start, start + np.array(costs))) == expected


def test_phases_of_one_name_are_numbered_in_time():
    def solver(at, step_ns, kernels):
        return [
            (at + step_ns * n + 10 * k, at + step_ns * n + 10 * k + 9, {"name": name})
            for n in range(30)
            for k, name in enumerate(kernels)
        ]

    first = solver(0, 100, ("relax", "norm", "norm"))
    second = solver(10_000, 1_000, ("relax", "norm", "norm"))
    measured = sorted(scopes(draw(kernels=[*first, *second])), key=lambda scope: scope.start_ns[0])

    assert [scope.phase.rpartition(" ")[2] for scope in measured] == ["(1)", "(2)"]


def test_a_device_whose_phases_hold_its_work_is_not_looked_at_as_a_whole():
    kernels = [
        (100 * n + 10 * k, 100 * n + 10 * k + 9, {"name": name})
        for n in range(30)
        for k, name in enumerate(("relax", "norm", "norm"))
    ]

    assert [scope.has_steps for scope in scopes(draw(kernels=kernels))] == [True]
    more = [(10_000, 60_000, {"name": "other"})]
    assert [scope.has_steps for scope in scopes(draw(kernels=[*kernels, *more]))] == [True, False]


def test_steps_that_differ_take_their_mean_as_costs_do():
    """Every third step takes five times as long."""
    lengths = np.array([100, 100, 500] * 10)
    start = np.cumsum(lengths) - lengths
    profile = draw(kernels=[(0, int(lengths.sum()))])
    scope = Scope(profile, timelines(profile)[0], "step #", start, start + lengths, len(start))

    # Two of thirty, the longest twentieth, are left out.
    assert scope.step_ns == (20 * 100 + 8 * 500) // 28
    assert scope.median_ns == 100


def test_steps_that_differ_little_take_their_median():
    lengths = np.array([100, 100, 120] * 10)
    start = np.cumsum(lengths) - lengths
    profile = draw(kernels=[(0, int(lengths.sum()))])
    scope = Scope(profile, timelines(profile)[0], "step #", start, start + lengths, len(start))

    assert scope.step_ns == scope.median_ns == 100
