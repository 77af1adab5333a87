"""What a sweep says of itself, in one sentence and in notes."""

import pytest

from gpuprof.show import Page
from gpuprof.show.sweep_results import sweep_text
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.results import CELLS, RECORDED, Results, _schema


def text(dual_speed_up, **changes):
    plan = Plan(
        ("train.py", "{placement}"),
        {"placement": ("single", "dual", "broken")},
        baseline={"placement": "single"},
        skipped_epochs=1,
    )
    rows = [
        {"placement": "single", "speed_up": 1.0, "peer_transfer_ns": 0},
        {"placement": "dual", "speed_up": dual_speed_up, "peer_transfer_bytes_per_step": 3e6},
        {"placement": "broken", "status": "failed", "reason": "exit status 1: boom", "runs": 0},
    ]
    usual = {"status": "ok", "runs": 1, "seconds": 2.0}
    filled = [usual | row | {"cell": f"placement={row['placement']}"} | changes for row in rows]
    table = _schema(plan, "cells", {**CELLS, **RECORDED}).table(filled)
    return sweep_text(Results(plan, None, table, per_epoch=True), "terminal", Page())


def test_the_fastest_cell_is_named():
    assert text(1.5).startswith(
        "2 of 3 cells ran. The highest speed-up is 1.50x, with placement=dual.\n"
    )


def test_the_range_of_repeated_runs_stands_in_the_sentence():
    shown = text(1.5, speed_up_min=1.25, speed_up_max=1.75)

    assert shown.startswith(
        "2 of 3 cells ran. The highest speed-up is 1.50x (range 1.25 to 1.75), with\n"
        "placement=dual.\n"
    )


def test_a_sweep_in_which_nothing_gains_says_so():
    assert text(0.8).startswith("2 of 3 cells ran. None is faster than the baseline.\n")


@pytest.mark.parametrize(("speed_up", "starred"), [(1.5, ["dual"]), (0.8, [])])
def test_a_star_marks_the_cell_with_the_highest_speed_up(speed_up, starred):
    table = text(speed_up).partition("Note:")[0]

    assert [line.split()[0] for line in table.splitlines() if "x *" in line] == starred


def test_failed_cells_have_their_reason_and_columns_of_nothing_are_left_out():
    shown = text(1.5)

    assert (
        "Cell              Status  Reason\nplacement=broken  failed  exit status 1: boom\n" in shown
    )
    assert "3.000 MB" in shown
    assert "PtoP" not in shown


@pytest.mark.parametrize(
    "note",
    [
        "Seconds are the time of a marked epoch, without the first epoch of each run; the",
        "Speed-up is the seconds with placement=single divided by the seconds of the cell; *",
        "With one run per cell, noise cannot be judged.",
    ],
)
def test_notes_explain_the_figures(note):
    assert note in " ".join(text(1.5).split())


def test_a_break_even_of_repeated_runs_comes_with_its_extremes():
    plan = Plan(
        ("train.py", "{devices}", "{batch}"),
        {"devices": ("1", "2"), "batch": ("64", "256")},
        baseline={"devices": "1"},
        repeat=2,
    )
    speed_ups = {(2, 64): (0.5, 0.25, 1.0), (2, 256): (2.0, 0.5, 4.0)}
    columns = ("speed_up", "speed_up_min", "speed_up_max")
    rows = [
        {"devices": devices, "batch": batch, "status": "ok", "runs": 2, "cell": ""}
        | dict(zip(columns, speed_ups.get((devices, batch), (1.0, 1.0, 1.0)), strict=True))
        for devices in (1, 2)
        for batch in (64, 256)
    ]
    table = _schema(plan, "cells", CELLS).table(rows)
    shown = sweep_text(Results(plan, None, table, per_epoch=True), "terminal", Page())

    assert (
        "devices=2   faster from about 102 on\n"
        "  at best   faster at all measured values, from 64 on\n"
        "  at worst  slower at all measured values, up to 256\n"
    ) in shown
