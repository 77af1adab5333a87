"""PyTorch's and JAX's own profilers around scripts that know nothing of it."""

import gzip
import importlib
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import recorded_runs
from recorded_runs import PROGRAMS, manifest

from gpuprof import read_profile
from gpuprof.base.errors import EmptyRecordingError
from gpuprof.launch.contract import Ended, LaunchedRun, Program
from gpuprof.launch.recorders import in_process, jax, torch
from gpuprof.launch.run.gpus import gpus

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

NO_GPU = pytest.mark.skipif(bool(gpus()), reason="shows what is said where there is no GPU")


EACH_FRAMEWORK = pytest.mark.parametrize(
    ("name", "title"),
    [
        pytest.param("torch", "PyTorch", marks=pytest.mark.torch),
        pytest.param("jax", "JAX", marks=pytest.mark.jax),
    ],
)


def record(name, *words, options=(), recorder=None, **variables):
    program = [PROGRAMS / f"epochs_of_{name}.py", *words]
    return recorded_runs.record(recorder or name, program, *options, **variables)


def contents(name):
    """All texts of the one file that was recorded."""
    [path] = Path("run").glob("torch-*.json.gz" if name == "torch" else "jax-*.xplane.pb")
    data = path.read_bytes()
    return gzip.decompress(data) if name == "torch" else data


def epochs_in(name):
    return [n for n in range(4) if f"in epoch {n}".encode() in contents(name)]


@EACH_FRAMEWORK
@NO_GPU
def test_a_script_is_recorded_by_what_it_imports_and_says_that_no_gpu_was_seen(name, title):
    completed = record(name, recorder="auto")

    assert (completed.returncode, completed.stdout) == (7, ""), completed.stderr
    first = f"Recording with {name} (no NVIDIA driver here; the program imports {title}) into run"
    assert completed.stderr.splitlines()[0] == first
    assert epochs_in(name) == [0, 1, 2, 3]
    saved_manifest = manifest()
    assert [(e["epoch"], e["steps"]) for e in saved_manifest["epochs"]] == [
        (n, 5) for n in range(4)
    ]
    assert saved_manifest["versions"][name]
    assert saved_manifest["nothing_recorded"].startswith(
        f"{title}'s profiler recorded no GPU activity: no NVIDIA driver here; {name}-"
    )
    # Nobody asked for this recorder, so the epochs are read without what it should have recorded.
    profile = read_profile("run")
    assert profile.table("epochs").num_rows == 4
    assert profile.origin.warnings[-1].startswith(
        f"Only the marked epochs are known: {title}'s profiler recorded no GPU activity"
    )
    assert {p.suffix for p in Path("run").iterdir()} == {".json", ".jsonl", ".log", *(
        [".gz"] if name == "torch" else [".pb"]
    )}  # fmt: skip


@EACH_FRAMEWORK
def test_only_the_epochs_that_were_asked_for_are_there(name, title):
    completed = record(name, options=("--epochs", "1:3"))

    assert completed.returncode == 7, (title, completed.stderr)
    assert epochs_in(name) == [1, 2]
    if not gpus():
        # Who names a recorder wants what it records.
        with pytest.raises(EmptyRecordingError, match="recorded no GPU activity"):
            read_profile("run")


@EACH_FRAMEWORK
def test_a_script_with_a_profiler_of_its_own_is_left_in_peace(name, title):
    completed = record(name, "own", "own-trace")

    assert completed.returncode == 7, completed.stderr
    assert Path("own-trace").exists()
    assert epochs_in(name) == [0, 1, 2, 3]
    assert manifest()["warnings"] == [
        f"the script ran {title}'s profiler itself; not recorded from there on"
    ]


@EACH_FRAMEWORK
def test_a_long_program_is_recorded_for_a_bounded_time_and_says_so(name, title):
    completed = record(name, GPUPROF_MOST_SECONDS="0")

    assert completed.returncode == 7, completed.stderr
    assert epochs_in(name) != [0, 1, 2, 3]
    [warning] = manifest()["warnings"]
    assert warning.startswith(f"{title}'s profiler keeps events in memory, so only the first 0 s")


@EACH_FRAMEWORK
def test_a_program_that_is_told_to_stop_keeps_its_trace_and_dies_of_it(name, title):
    # A forked child of PyTorch leaves the trace to its parent.
    forks = ["fork"] if name == "torch" else []
    completed = record(name, "signal", "15", *forks)

    assert completed.returncode == 143, (title, completed.stderr)
    assert epochs_in(name) == [0, 1, 2, 3]
    assert len(manifest()["epochs"]) == 4


@pytest.mark.jax
def test_a_killed_program_keeps_its_marks():
    completed = record("jax", "signal", "9")

    assert completed.returncode == 137, completed.stderr
    assert len(manifest()["epochs"]) == 4
    assert not list(Path("run").glob("jax-*"))


def run_with(folder, **files):
    (folder / "python-started").touch()
    for name, text in files.items():
        (folder / name).write_text(text)
    return LaunchedRun(Program(("python", "train.py")), folder)


def test_the_program_sees_no_warning_of_the_profiler_that_it_did_not_start(monkeypatch, tmp_path):
    """PyTorch 2.11 warns at each start that events of earlier cycles are cleared."""
    monkeypatch.syspath_prepend(str(in_process.INJECT))
    recording = importlib.import_module("gpuprof_torch").TorchRecording(str(tmp_path))
    text = "Warning: Profiler clears events at the end of each cycle."
    profiler = SimpleNamespace(start=lambda: warnings.warn(text, stacklevel=1))
    recording.torch = SimpleNamespace(profiler=SimpleNamespace(supported_activities=set))
    recording.profile = lambda activities: profiler  # noqa: ARG005 - named as PyTorch's

    recording.start_or_stop()
    assert recording.profiler is profiler


def test_a_trace_with_gpu_work_is_the_recording(tmp_path):
    run = run_with(tmp_path, **{
        "torch-7.json.gz": "", "torch-7.info": '{"gpu_events": 12}',
        "torch-8.json.gz": "", "torch-8.info": '{"gpu_events": 0}',
        "torch-8.notes": "a note\n",
    })  # fmt: skip
    got = torch.RECORDER.finish(run, Ended(0, 1.0, 0))

    assert (got.recordings, got.nothing_recorded) == (("torch-7.json.gz",), None)
    assert got.warnings == ("a note",)
    assert sorted(p.name for p in tmp_path.glob("torch*")) == ["torch-7.json.gz", "torch-8.json.gz"]


@pytest.mark.parametrize("recorder", [torch.RECORDER, jax.RECORDER])
def test_a_program_that_did_not_load_the_recorder_is_told_from_an_idle_one(tmp_path, recorder):
    idle = recorder.finish(run_with(tmp_path), Ended(0, 1.0, 0))
    isolated = recorder.finish(LaunchedRun(Program(("python",)), tmp_path), Ended(0, 1.0, 0))

    assert idle.nothing_recorded.endswith("profiler recorded nothing")
    assert isolated.nothing_recorded.startswith("the recorder was not loaded: ")


def test_processes_that_marked_epochs_and_left_nothing_are_told_of(tmp_path):
    lines = [{"epoch": 0, "seconds": 1.0, "steps": 1, "process_id": n} for n in (7, 8, 9)]
    (tmp_path / "marks.jsonl").write_text("\n".join(map(json.dumps, lines)))

    assert in_process.silent(tmp_path, ["torch-rank1-7.json.gz"]) == [
        "2 of 3 processes that marked epochs have no recording: they were forked or killed"
    ]
    assert in_process.silent(tmp_path, ["cupti-7", "cupti-8", "cupti-9"]) == []
    assert in_process.silent(tmp_path, []) == []


def test_a_rank_that_left_no_trace_is_in_the_warnings(tmp_path):
    mark = {"epoch": 0, "seconds": 1.0, "steps": 1, "process_id": 8}
    run = run_with(tmp_path, **{
        "torch-7.json.gz": "", "torch-7.info": '{"gpu_events": 12}',
        "marks.jsonl": json.dumps(mark),
    })  # fmt: skip

    [warning] = torch.RECORDER.finish(run, Ended(0, 1.0, 0)).warnings
    assert warning.startswith("1 of 1 processes that marked epochs have no recording")
