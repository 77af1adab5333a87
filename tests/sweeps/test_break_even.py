"""Where two devices begin to pay, from speed-ups whose crossing is known."""

import pytest

from gpuprof.sweeps.break_even import break_evens, crossing
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.results import CELLS, Results, _schema

# Published for a GRU on two GTX 1080 Ti: batch size, speed-up over one.
PUBLISHED = [(64, 0.51), (128, 0.73), (256, 0.98), (512, 1.24), (1024, 1.43)]


def test_the_published_speed_ups_break_even_just_above_256():
    # 2 ** (8 + (1 - 0.98) / (1.24 - 0.98)) = 2 ** 8.0769
    assert crossing(PUBLISHED) == pytest.approx(270.0, abs=0.1)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param([(1, 0.5), (4, 1.5)], 2.0, id="halfway-in-logarithms"),
        pytest.param([(0, 0.5), (4, 1.5)], 2.0, id="from-zero-along-the-axis-itself"),
        pytest.param([(0, 0.2), (1, 0.5), (4, 1.5)], 2.5, id="an-axis-from-zero-has-no-logarithms"),
        pytest.param([(1, 0.5), (4, 1.0)], 4.0, id="touching-counts-as-reached"),
        pytest.param([(1, 0.5), (2, 1.1), (4, 0.5), (16, 1.5)], 8.0, id="the-last-of-several"),
        pytest.param([(1, 1.0), (4, 1.5)], None, id="above-all-along"),
        pytest.param([(1, 0.5), (4, 0.9)], None, id="below-all-along"),
        pytest.param([(1, 1.5), (4, 0.9)], None, id="falling-below"),
    ],
)
def test_it_is_where_speed_up_rises_through_one_for_good(points, expected):
    break_even = crossing(points)

    assert break_even == (expected if expected is None else pytest.approx(expected))


def results(points, **changes):
    plan = Plan(
        ("rnn.py", "{devices}", "{batch}"),
        {"devices": ("1", "2"), "batch": tuple(str(batch) for batch, _ in points)},
        baseline={"devices": "1"},
        **changes,
    )
    rows = [
        {"devices": devices, "batch": batch, "cell": "", "status": "ok", "runs": 1}
        | {"speed_up": speed_up if devices == 2 else 1.0}
        | {"speed_up_min": speed_up and speed_up / 2, "speed_up_max": speed_up and speed_up * 2}
        for devices in (1, 2)
        for batch, speed_up in points
    ]
    return Results(plan, None, _schema(plan, "cells", CELLS).table(rows), per_epoch=True)


@pytest.mark.parametrize(
    ("points", "meaning"),
    [
        (PUBLISHED, "faster from about 270 on"),
        ([(64, 1.5), (128, 1.2)], "faster at all measured values, from 64 on"),
        ([(64, 0.5), (128, 0.6)], "slower at all measured values, up to 128"),
        (
            [(64, 0.5), (128, 1.6), (256, 0.9)],
            "slower at 256, the largest measured value; faster only at 128",
        ),
    ],
)
def test_it_is_said_in_words_and_never_beyond_what_was_measured(points, meaning):
    [row] = break_evens(results(points)).to_pylist()

    assert (row["axis"], row["variant"], row["meaning"]) == ("batch", "devices=2", meaning)


def test_a_cell_that_failed_is_left_out_of_its_line():
    [row] = break_evens(results([(64, 0.5), (128, None), (256, 2.0)])).to_pylist()

    assert row["break_even"] == pytest.approx(2 ** (6 + 2 / 3))


def test_repeated_runs_say_where_it_would_be_by_the_luckiest_and_the_unluckiest_of_them():
    [row] = break_evens(results([(64, 0.25), (256, 1.0), (1024, 1.5)], repeat=3)).to_pylist()

    # Half and twice the speed-ups: 0.5 to 2 crosses a third of the way, 0.75 never.
    assert (row["break_even"], row["break_even_max"]) == (pytest.approx(256), None)
    assert row["break_even_min"] == pytest.approx(64 * 4 ** (1 / 3))
    assert row["at_best"] == "faster from about 102 on"
    assert row["at_worst"] == "slower at all measured values, up to 1024"


def test_one_run_of_each_cell_tells_no_extremes():
    [row] = break_evens(results(PUBLISHED)).to_pylist()

    assert (row["at_best"], row["at_worst"], row["break_even_min"]) == (None, None, None)
