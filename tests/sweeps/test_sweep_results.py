"""What a sweep's runs show, to the byte: rows of runs and cells as CSV and JSON."""

import json

import pytest

from gpuprof.base.manifest import PROGRAM_LOG, Manifest, finish_manifest
from gpuprof.show import Page
from gpuprof.show.sweep_results import sweep_text
from gpuprof.sweeps.plan import Plan, cells, runs_of
from gpuprof.sweeps.results import CELLS, Results, _schema, cells_to_compare, results
from gpuprof.sweeps.sweep_folder import note_failure

PLAN = Plan(
    ("train.py", "{mode}", "{batch}"),
    {"mode": ("one", "two"), "batch": ("64", "128")},
    repeat=2,
    recorder="none",
    baseline={"mode": "one"},
    figures={"loss": r"loss (\S+)"},
)
SECONDS = {"mode=one,batch=64": (2.0, 4.0), "mode=two,batch=64": (1.0, 2.0)}
CSV = """\
mode,batch,cell,status,reason,runs,seconds,seconds_min,seconds_max,spread,speed_up,speed_up_min,\
speed_up_max,loss
one,64,"mode=one,batch=64",ok,,2,3.0,2.0,4.0,0.6666666666666666,1.0,1.0,1.0,0.25
one,128,"mode=one,batch=128",not run,,0,,,,,,,,
two,64,"mode=two,batch=64",ok,,2,1.5,1.0,2.0,0.6666666666666666,2.0,1.0,4.0,0.25
two,128,"mode=two,batch=128",failed,it did not start; exit status 1: no,0,,,,,,,,
"""


@pytest.fixture
def folder(tmp_path):
    """A sweep of which one cell did not run, and one failed."""
    for cell in cells(PLAN):
        for run, seconds in zip(runs_of(PLAN, cell), SECONDS.get(cell.name, ()), strict=False):
            _write(tmp_path / run.folder, seconds, "loss 0.5\nloss 0.25\n", 0)
    first, second = runs_of(PLAN, cells(PLAN)[-1])
    note_failure(tmp_path, first, "it did not start")
    _write(tmp_path / second.folder, 1.0, "no", 1)
    return tmp_path


def _write(place, seconds, log, status):
    place.mkdir(parents=True)
    (place / PROGRAM_LOG).write_text(log)
    manifest = Manifest(
        "none", "a", ("train.py",), "2026-01-01", wall_seconds=seconds, exit_status=status
    )
    finish_manifest(place, manifest)


def test_cells_as_csv(folder):
    assert sweep_text(results(PLAN, folder), "csv", Page()) == CSV


def test_runs_cells_and_break_evens_as_json(folder):
    document = json.loads(sweep_text(results(PLAN, folder), "json", Page()))

    assert list(document) == [
        "format_version",
        "per_epoch",
        "cells",
        "runs",
        "break_evens",
        "notes",
    ]
    ended, *_ = document["runs"]
    assert list(ended.items()) == [
        ("mode", "one"), ("batch", 64), ("run", 1), ("status", "ok"), ("reason", None),
        ("folder", "runs/mode=one,batch=64/1"), ("exit_status", 0), ("wall_seconds", 2.0),
        ("seconds_per_epoch", None), ("loss", 0.25),
    ]  # fmt: skip
    assert [(run["status"], run["exit_status"], run["reason"]) for run in document["runs"][2:]] == [
        ("not run", None, None), ("not run", None, None), ("ok", 0, None), ("ok", 0, None),
        ("failed", None, "it did not start"), ("failed", 1, "exit status 1: no"),
    ]  # fmt: skip
    assert document["break_evens"] == []


@pytest.mark.parametrize(
    ("baseline", "seconds", "expected"),
    [
        # By the speed-up over the baseline with the same batch, not by time.
        ({"mode": "one"}, (4.0, 9.0, 3.0, 4.5), ("mode=one,batch=128", "mode=two,batch=128")),
        ({"mode": "one"}, (4.0, None, 5.0, 4.5), ("mode=one,batch=64", "mode=two,batch=64")),
        ({"mode": "one"}, (4.0, 9.0, None, None), None),
        ({}, (4.0, 9.0, 3.0, 4.5), ("mode=one,batch=128", "mode=two,batch=64")),
        ({}, (4.0, None, None, None), None),
    ],
)
def test_the_two_cells_to_compare_are_the_baseline_and_the_fastest_beside_it(
    baseline, seconds, expected
):
    plan = Plan(("x", "{mode}", "{batch}"), PLAN.axes, baseline=baseline)
    by_cell = dict(zip([(m, b) for m in ("one", "two") for b in (64, 128)], seconds, strict=True))
    rows = [
        {"mode": mode, "batch": batch, "cell": "", "status": "ok", "runs": 1, "seconds": time}
        | {
            "speed_up": by_cell["one", batch] / time
            if baseline and time and by_cell["one", batch]
            else None
        }
        for (mode, batch), time in by_cell.items()
    ]
    table = _schema(plan, "cells", CELLS).table(rows)

    pair = cells_to_compare(Results(plan, None, table, per_epoch=True))

    assert pair == (expected and tuple(f"runs/{name}" for name in expected))
