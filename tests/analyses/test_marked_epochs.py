"""The epochs that a script marked: times in ns, per step where steps were marked."""

from pathlib import Path

from commands import gpuprof

from gpuprof.analyses.monitoring import EPOCHS_ANALYSIS, marked_epochs
from gpuprof.base.manifest import Manifest, finish_manifest
from gpuprof.model import schema
from gpuprof.model.profile import Origin, Profile

EPOCHS = (
    {"epoch": 1, "seconds": 2.000000001, "steps": 4},
    {"epoch": 0, "seconds": 2.5, "steps": 0},
    {"epoch": 2, "seconds": 0.1, "steps": None},
)


def test_no_epochs_are_no_rows():
    profile = Profile(Origin(Path("a"), "run", "none"), {"epochs": schema.EPOCHS.empty()})

    assert marked_epochs(profile) == EPOCHS_ANALYSIS.schema.empty()


def test_epochs_stand_in_their_order_with_their_time_per_step():
    table = schema.EPOCHS.table([dict(epoch) for epoch in EPOCHS])
    profile = Profile(Origin(Path("a"), "run", "none"), {"epochs": table})

    assert [tuple(row.values()) for row in marked_epochs(profile).to_pylist()] == [
        (0, 2_500_000_000, 0, None),
        (1, 2_000_000_001, 4, 500_000_000),
        (2, 100_000_000, None, None),
    ]


def test_report_of_a_run_that_was_only_timed_shows_its_epochs(tmp_path):
    run = Manifest("none", "a", ("x",), "2026-01-02T03:04:05+00:00", epochs=EPOCHS)
    finish_manifest(tmp_path, run)

    shown = gpuprof("report", tmp_path)
    assert shown.returncode == 0
    assert "Marked epochs\n" in shown.stdout
    assert "    1   2.000 s      4  500.0 ms\n" in shown.stdout
