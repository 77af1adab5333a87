"""Charts of sweeps hold the measured points, the break-even and the ideal."""

import pytest

from gpuprof.show.charts.figure import figure_of
from gpuprof.show.charts.sweeps import break_even, seconds
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.results import CELLS, Results, _schema

SECONDS = {(1, 64): 1.0, (2, 64): 2.0, (1, 256): 2.0, (2, 256): 1.0}


def results(plan, cells):
    rows = [
        {"status": "ok", "runs": 1, "cell": ",".join(f"{k}={v}" for k, v in axes.items())}
        | axes
        | {"seconds": s, "seconds_min": s - 0.25, "seconds_max": s + 0.25, "speed_up": speed_up}
        | {"speed_up_min": speed_up and speed_up / 2, "speed_up_max": speed_up and speed_up * 2}
        for axes, s, speed_up in cells
    ]
    return Results(plan, None, _schema(plan, "cells", CELLS).table(rows), per_epoch=True)


@pytest.fixture
def swept():
    plan = Plan(
        ("train.py", "{devices}", "{batch}"),
        {"devices": ("1", "2"), "batch": ("64", "256")},
        baseline={"devices": "1"},
    )
    return results(
        plan,
        [
            ({"devices": d, "batch": b}, took, SECONDS[1, b] / took)
            for (d, b), took in SECONDS.items()
        ],
    )


def _points(axes, label):
    [line] = [line for line in axes.get_lines() if line.get_label() == label]
    return [tuple(map(float, point)) for point in line.get_xydata()]


def test_speed_up_is_drawn_with_its_break_even(swept):
    figure = figure_of(break_even(swept))
    [axes] = figure.axes

    assert _points(axes, "devices=2") == [(64, 0.5), (256, 2.0)]
    # A third of the way from 64 to 256 in logarithms.
    [star] = [line for line in axes.get_lines() if line.get_marker() == "*"]
    assert float(star.get_xdata()[0]) == pytest.approx(64 * 4 ** (1 / 3))
    assert axes.texts[0].get_text() == "102"
    [ranges] = axes.collections
    assert [[float(y) for _, y in segment] for segment in ranges.get_segments()] == [
        [0.25, 1],
        [1, 4],
    ]
    assert figure.get_suptitle() == (
        "Along batch, devices=2 is faster from about 102 on (one run each)"
    )
    assert [text.get_text() for text in axes.get_xticklabels()] == ["64", "256"]


def test_seconds_are_drawn_with_their_range_and_the_ideal_of_more_devices(swept):
    by_devices, by_batch = figure_of(seconds(swept)).axes

    assert _points(by_batch, "devices=1") == [(64, 1.0), (256, 2.0)]
    assert _points(by_devices, "batch=256") == [(1, 2.0), (2, 1.0)]
    ideals = [
        [float(y) for y in line.get_ydata()]
        for line in by_devices.get_lines()
        if line.get_linestyle() == ":" and len(line.get_ydata())
    ]
    assert ideals == [[1.0, 0.5], [2.0, 1.0]]
    ranges = by_batch.collections[0].get_segments()
    assert [[float(y) for _, y in segment] for segment in ranges] == [[0.75, 1.25], [1.75, 2.25]]
    assert by_batch.get_ylabel() == "seconds [s]"


def test_cells_without_an_axis_of_numbers_are_bars():
    plan = Plan(("train.py", "{placement}"), {"placement": ("single", "dual")}, repeat=2)
    found = results(
        plan, [({"placement": "single"}, 2.0, None), ({"placement": "dual"}, 1.5, None)]
    )
    figure = figure_of(seconds(found))
    [axes] = figure.axes

    assert [bar.get_width() for bar in axes.patches] == [2.0, 1.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "placement=single",
        "placement=dual",
    ]
    [ranges] = axes.collections
    assert [[float(x) for x, _ in segment] for segment in ranges.get_segments()] == [
        [1.75, 2.25],
        [1.25, 1.75],
    ]
    assert figure.get_suptitle() == "Fastest is placement=dual: 1.50 s for an epoch"
    assert break_even(found) is None


def test_nothing_is_drawn_where_nothing_ran():
    plan = Plan(("train.py", "{n}"), {"n": ("1", "2")})

    assert seconds(results(plan, [])) is None
