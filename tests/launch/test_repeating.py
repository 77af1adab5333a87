"""Several runs in one folder, with plain ones in between that tell what recording costs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from commands import DUAL, SINGLE
from recorded_runs import gpuprof

from gpuprof.base.manifest import Manifest, repeats
from gpuprof.comparisons.measure.labelled_runs import runs_of
from gpuprof.launch.repeating import overhead

# Appends who ran to a file; twice as slow where the recorder of tests says that it is there.
SCRIPT = """
import os, sys, time, gpuprof
recorded = "FOLDER" in os.environ
with open(sys.argv[1], "a") as file: file.write("r" if recorded else "p")
for _ in range(2):
    with gpuprof.epoch(): time.sleep(0.2 if recorded else 0.1)
fails = os.path.exists("fail-at-%d" % os.path.getsize(sys.argv[1]))
raise SystemExit(5 if fails else 0)
"""


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)


def record(*options, recorder="wrapped", folder="runs"):
    program = ("script.py", "order")
    return gpuprof("record", "--recorder", recorder, "-o", folder, *options, *program)


def names(folder="runs"):
    return sorted(p.name for p in Path(folder).iterdir())


def test_recorded_and_plain_runs_alternate_and_tell_the_overhead():
    completed = record("--repeat", "3", "--warmup", "2", "--variant", "dual")

    assert completed.returncode == 0, completed.stderr
    assert Path("order").read_text() == "pp" + "pr" + "rp" + "pr"
    assert names() == ["plain-1", "plain-2", "plain-3", "run-1", "run-2", "run-3"]
    manifests = [json.loads(Path(f"runs/run-{n}/manifest.json").read_text()) for n in (1, 2, 3)]
    assert {m["variant"] for m in manifests} == {"dual"}
    [warning] = {m["warnings"][-1] for m in manifests}
    ratio = float(warning.split(" times")[0].split()[-1])
    assert warning.startswith("With recording, an epoch takes ")
    assert "(medians of 3 and 3 runs" in warning
    assert 1.5 < ratio < 2.5
    assert f"Warning: {warning}" in completed.stderr
    assert completed.stderr.endswith("Recorded in runs\nNext: gpuprof report runs/run-1\n")


def test_the_folder_is_one_variant_of_several_runs():
    record("--repeat", "2", recorder="plain")

    assert [p.name for p in repeats(Path("runs"))] == ["run-1", "run-2"]
    assert [p.origin.variant for p in runs_of("runs")] == ["runs", "runs"]
    completed = gpuprof("compare", "runs", DUAL)
    assert completed.returncode == 0, completed.stderr
    assert SINGLE not in completed.stdout


@pytest.mark.parametrize("recorder", ["none", "auto"], ids=["only-timed", "no-profiler-saw-it"])
def test_what_no_recorder_saw_anything_of_compares_by_its_epochs_if_none_was_asked_for(recorder):
    for folder in ("few", "many"):
        completed = record("--repeat", "2", recorder=recorder, folder=folder)
        assert completed.returncode == 0, completed.stderr

    assert ("(as requested)" in completed.stderr) == (recorder == "none")
    compared = gpuprof("compare", "few", "many")
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.startswith("Against few, many takes ")
    if recorder == "none":
        assert Path("order").read_text() == "p" * 4
        assert names("few") == ["run-1", "run-2"]
        assert "With recording," not in completed.stderr
        said = " ".join(compared.stdout.split())
        assert "Only the marked epochs are known: it was only timed" in said


def test_a_run_that_fails_ends_the_repeats_and_what_was_recorded_stays():
    Path("fail-at-3").touch()
    completed = record("--repeat", "3", recorder="plain")

    assert completed.returncode == 5
    assert Path("order").read_text() == "ppp"
    assert names() == ["plain-1", "run-1", "run-2"]


def test_a_failing_warm_up_ends_it_before_anything_is_recorded():
    Path("fail-at-1").touch()
    completed = record("--repeat", "3", "--warmup", "1", recorder="plain")

    assert completed.returncode == 5
    assert names() == []


def test_a_folder_of_repeats_is_replaced_by_force_alone():
    record("--repeat", "2", recorder="plain")
    again = record("--repeat", "1", recorder="plain")
    forced = record("--repeat", "1", "--force", recorder="plain")

    assert (again.returncode, forced.returncode) == (1, 0)
    assert names() == ["plain-1", "run-1"]


RUN = Manifest("nsys", "a", ("x",), "2026-01-02T03:04:05+00:00", wall_seconds=6.0)


@pytest.mark.parametrize(
    ("recorded", "plain", "said"),
    [
        ([], [], None),
        ([RUN], [], None),
        (
            [RUN],
            [replace(RUN, wall_seconds=4.0), replace(RUN, wall_seconds=2.0)],
            (
                "the whole run takes 2.00 times as long: 6.00 s instead of 3.00 s (medians of 1"
                " and 2 runs)."
            ),
        ),
        (
            [replace(RUN, seconds_per_epoch=1.5)],
            [replace(RUN, seconds_per_epoch=1.2)],
            (
                "an epoch takes 1.25 times as long: 1.50 s instead of 1.20 s (medians of 1 and 1"
                " runs)."
            ),
        ),
        (
            [replace(RUN, seconds_per_epoch=1.5), replace(RUN, seconds_per_epoch=1.3)],
            [replace(RUN, seconds_per_epoch=1.2), replace(RUN, seconds_per_epoch=1.4)],
            (
                "an epoch takes 1.08 times as long: 1.40 s instead of 1.30 s"
                " (medians of 2 and 2 runs; their ranges overlap, so this may be noise)."
            ),
        ),
    ],
)
def test_overhead_is_that_of_epochs_where_they_are_marked(recorded, plain, said):
    assert overhead(recorded, plain) == (said and f"With recording, {said}")
