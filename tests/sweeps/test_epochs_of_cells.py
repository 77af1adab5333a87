"""A cell has one figure per epoch, in the sweep's results and in a comparison of its runs."""

from dataclasses import replace

import pytest

from gpuprof.base.manifest import PROGRAM_LOG, Manifest, finish_manifest
from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.labelled_runs import labelled
from gpuprof.comparisons.variant_figures import time_of_epochs
from gpuprof.sweeps.plan import Plan, cells, runs_of
from gpuprof.sweeps.results import results
from gpuprof.sweeps.sweep_folder import open_sweep

PLAN = Plan(("train.py", "{mode}"), {"mode": ("one", "two")}, recorder="none")
# Tracing takes the first epoch of the first cell half a second.
EPOCHS = {"one": (0.503, 0.040, 0.041, 0.039, 0.040), "two": (0.060, 0.030, 0.031, 0.030, 0.032)}


@pytest.mark.parametrize(
    ("skipped", "seconds", "set_aside"),
    [
        (None, {"one": 0.04, "two": 0.0305}, 1),
        (0, {"one": 0.04, "two": 0.031}, 0),
        (3, {"one": 0.0395, "two": 0.031}, 3),
    ],
)
def test_a_sweep_and_a_comparison_say_the_same_of_a_cell(tmp_path, skipped, seconds, set_aside):
    plan = replace(PLAN, skipped_epochs=skipped)
    open_sweep(tmp_path / "swept", plan)
    for cell in cells(plan):
        for run in runs_of(plan, cell):
            _write(tmp_path / "swept" / run.folder, cell.values["mode"])

    swept = results(plan, tmp_path / "swept").cells.to_pylist()
    compared = comparison(labelled([tmp_path / "swept"]))

    assert {row["mode"]: row["seconds"] for row in swept} == pytest.approx(seconds)
    assert {
        row["variant"].removeprefix("mode="): row["median"]
        for row in compared.figures.to_pylist()
        if row["metric"] == "seconds_per_epoch"
    } == pytest.approx(seconds)
    notes = [note for note in compared.notes if note.startswith("Seconds per epoch")]
    assert len(notes) == (set_aside > 0)
    for note in notes:
        assert f"{set_aside} epoch{'s' * (set_aside > 1)} of mode=one (503 ms" in note


def _write(place, mode):
    place.mkdir(parents=True)
    (place / PROGRAM_LOG).write_text("")
    epochs = tuple(
        {"epoch": number, "seconds": seconds, "steps": None}
        for number, seconds in enumerate(EPOCHS[mode])
    )
    manifest = Manifest(
        *("none", f"mode={mode}", ("train.py",), "2026-01-01"),
        epochs=epochs, wall_seconds=1.0, exit_status=0,
    )  # fmt: skip
    finish_manifest(place, manifest)


@pytest.mark.parametrize(
    ("seconds", "skipped", "expected"),
    [
        ([], None, (None, 0)),
        ([2.0], None, (2.0, 0)),
        ([3.0, 2.0], None, (2.5, 0)),
        ([3.0, None], None, (None, 0)),
        ([9.0, 2.0, 2.1, 2.0], None, (2.0, 1)),
        ([9.0, 2.0, 2.1, 2.0], 0, (2.05, 0)),
        ([None, 2.0, 2.0], 1, (2.0, 1)),
    ],
)
def test_of_few_epochs_none_is_set_aside_and_unknown_stays_unknown(seconds, skipped, expected):
    assert time_of_epochs(seconds, skipped) == expected
