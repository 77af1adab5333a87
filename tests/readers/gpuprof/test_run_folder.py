"""A run's folder reads as the recordings in it, with what its manifest knows."""

from dataclasses import replace

import pytest

from gpuprof import read_profile
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    InputError,
    UnknownFormatError,
)
from gpuprof.base.manifest import Manifest, finish_manifest, read_manifest
from gpuprof.model.data_model import DEVICES, KERNELS, LINKS, RUNS
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof import run_folder

LOG = """==7== NVPROF is profiling process 7, command: ./a
==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.0000ms         3  1.0000ms  1.0000ms  1.0000ms  saxpy(float*)
"""
RUN = Manifest(
    recorder="nvprof",
    variant="dual",
    command=("python", "my train.py"),
    started_at="2026-01-02T03:04:05+00:00",
    exit_status=0,
    recordings=("log.txt",),
)


def of_process(number):
    return LOG.replace("==7==", f"=={number}==").replace("process 7", f"process {number}")


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "log.txt").write_text(LOG)
    return run


def write(folder, **changes):
    finish_manifest(folder, replace(RUN, **changes))
    return folder


def test_origin_is_the_manifests_and_the_tables_are_the_recordings(folder):
    profile = read_profile(write(folder))

    origin = profile.origin
    assert (origin.source, origin.variant, origin.tool) == (folder, "dual", "nvprof")
    assert origin.command == "python 'my train.py'"
    assert origin.recorded_at == "2026-01-02T03:04:05+00:00"
    assert profile.table("activity_summary")["total_ns"].to_pylist() == [3_000_000]
    assert not profile.has("epochs")


def test_marked_epochs_are_a_table(folder):
    epochs = (
        {"epoch": 0, "seconds": 1.5, "steps": 16},
        {"epoch": 1, "seconds": 1.0, "steps": None},
    )
    profile = read_profile(write(folder, epochs=epochs))

    assert profile.table("epochs").to_pylist() == list(epochs)


def test_failed_program_and_warnings_are_said_first(folder):
    profile = read_profile(write(folder, exit_status=137, warnings=("Stopped early.",)))

    assert profile.origin.warnings[:2] == (
        "The program ended with exit status 137.",
        "Stopped early.",
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"nothing_recorded": "nsys recorded no GPU work: no NVIDIA driver here"}, None),
        ({"recordings": ()}, "nothing was recorded"),
        ({"recordings": (), "epochs": ({"epoch": 0, "seconds": 1.5},)}, "nothing was recorded"),
        ({"recordings": (), "recorder": "none"}, "nothing was recorded"),
    ],
    ids=["with-a-reason", "no-files", "epochs-alone", "only-timed-without-epochs"],
)
def test_empty_recording_is_refused_with_its_reason(folder, changes, sentence):
    write(folder, **changes)
    with pytest.raises(EmptyRecordingError) as caught:
        read_profile(folder)

    assert caught.value.message == f"{folder}: {sentence or changes['nothing_recorded']}"
    assert caught.value.hint == f"What the program printed is in {folder / 'program.log'}."


def test_run_that_was_only_timed_reads_as_its_epochs(folder):
    only = {"recorder": "none", "recordings": (), "nothing_recorded": "it was only timed"}
    profile = read_profile(write(folder, **only, epochs=({"epoch": 0, "seconds": 1.5},)))

    assert list(profile.sources) == ["epochs"]
    assert profile.table("epochs").to_pylist() == [{"epoch": 0, "seconds": 1.5, "steps": None}]
    origin = profile.origin
    assert (origin.tool, origin.variant, origin.reader) == ("none", "dual", "run")
    assert origin.warnings == ("Only the marked epochs are known: it was only timed.",)


@pytest.mark.parametrize("name", ["../elsewhere.txt", "/etc/passwd", "log.txt\0", "", ".", "a/.."])
def test_recording_outside_of_the_folder_is_refused(folder, name):
    (folder.parent / "elsewhere.txt").write_text(LOG)
    write(folder, recordings=(name,))

    with pytest.raises(CorruptFileError, match="which is not in its folder"):
        read_profile(folder)


def test_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UnknownFormatError, match="is a folder, and no recording is in it"):
        read_profile(tmp_path)


def test_a_folder_of_repeats_names_its_runs(tmp_path):
    for number in (1, 2):
        (tmp_path / f"run-{number}").mkdir()
        write(tmp_path / f"run-{number}", recordings=())

    with pytest.raises(UnknownFormatError, match="is a folder of 2 runs") as caught:
        read_profile(tmp_path)

    assert caught.value.hint == "Give one of them: run-1, run-2; `gpuprof compare` takes all."
    with pytest.raises(InputError, match="is not a run folder") as caught:
        read_manifest(tmp_path)
    assert caught.value.hint == "Give one of its runs: run-1, run-2."


def one_process(epoch_ns, start):
    kernels = [{"start_ns": start, "end_ns": start + 5, "name": "k", "device_id": 0}]
    return Profile(
        Origin("p", "nvprof-sqlite", "nvprof", epoch_ns=epoch_ns, warnings=("Same doubt.",)),
        {
            "kernels": KERNELS.table(kernels),
            "runs": RUNS.table([{"run_id": 0, "process_id": start}]),
            "devices": DEVICES.table([{"device_id": 0, "name": "K80"}]),
            "links": LINKS.table([{"device_id": 0, "link": "PCIe 3 x16"}]),
        },
    )


def test_recordings_of_several_processes_share_one_clock(folder, monkeypatch):
    profiles = {"a": one_process(1_000_000, 10), "b": one_process(1_000_300, 20)}
    monkeypatch.setattr(run_folder, "_read_one", lambda _, name: profiles[name])
    joined = run_folder.read(write(folder, recordings=("a", "b")))

    assert joined.origin.epoch_ns == 1_000_000
    assert joined.table("kernels").select(["start_ns", "end_ns"]).to_pylist() == [
        {"start_ns": 10, "end_ns": 15},
        {"start_ns": 320, "end_ns": 325},
    ]
    assert joined.table("runs")["run_id"].to_pylist() == [0, 1]
    assert joined.table("devices")["name"].to_pylist() == ["K80"]
    assert joined.table("links")["link"].to_pylist() == ["PCIe 3 x16"]
    assert joined.origin.warnings == ("Same doubt.",)


def test_runs_of_recordings_that_hold_several_stay_apart(folder):
    (folder / "log.txt").write_text(LOG + of_process(8))
    (folder / "more.txt").write_text(of_process(9))

    joined = read_profile(write(folder, recordings=("log.txt", "more.txt")))

    assert joined.table("activity_summary")["run_id"].to_pylist() == [0, 1, 2]
    runs = joined.table("runs").select(["run_id", "process_id"]).to_pylist()
    assert [tuple(run.values()) for run in runs] == [(0, 7), (1, 8), (2, 9)]


def test_recordings_without_a_common_clock_say_so(folder, monkeypatch):
    profiles = {"a": one_process(None, 10), "b": one_process(5, 20)}
    monkeypatch.setattr(run_folder, "_read_one", lambda _, name: profiles[name])
    joined = run_folder.read(write(folder, recordings=("a", "b")))

    assert joined.origin.warnings[-1] == (
        "The recordings of several processes have no common clock."
    )


def test_a_recording_of_an_impossible_name_is_not_there(folder):
    with pytest.raises(InputError, match=r"no such file, though manifest\.json names it"):
        read_profile(write(folder, recordings=("x" * 5000,)))
