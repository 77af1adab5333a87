"""Only a part of a run is recorded: by time, by epochs, by a range, or as the program says."""

import sqlite3
from contextlib import closing
from importlib.util import find_spec

import pytest
import recorded_runs
from recorded_runs import PROGRAMS
from tensorflow_recording import manifest, needs_tensorflow, record, recorded

from gpuprof.api.values import parse_epochs
from gpuprof.base.errors import UsageError
from gpuprof.launch.contract import LaunchedRun, Program
from gpuprof.launch.recorders import nsys, nvprof, tensorflow
from gpuprof.launch.run.window import CaptureWindow, check_window

PROGRAM = Program(("python", "train.py"))
S = 10**9


@pytest.mark.parametrize(("text", "span"), [("2:4", (2, 4)), ("0:1", (0, 1)), ("3", (3, 4))])
def test_epochs_are_counted_from_0_and_the_last_is_left_out(text, span):
    assert parse_epochs(text) == span


@pytest.mark.parametrize("text", ["", ":", "2:", ":2", "4:2", "2:2", "-1:3", "a:b", "1:2:3", "1.5"])
def test_what_is_no_span_of_epochs_is_refused(text):
    with pytest.raises(ValueError, match="epoch"):
        parse_epochs(text)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (CaptureWindow(), []),
        (CaptureWindow(delay_ns=90 * S), ["--delay=90"]),
        (
            CaptureWindow(delay_ns=S // 2, duration_ns=2 * S),
            ["--delay=0.5", "--duration=2", "--kill=none"],
        ),
        (
            CaptureWindow(epochs=(2, 4)),
            ["--capture-range=nvtx", "--nvtx-capture=gpuprof window@gpuprof",
             "--capture-range-end=stop"],
        ),
        (
            CaptureWindow(range_name="forward"),
            ["--capture-range=nvtx", "--nvtx-capture=forward@*", "--capture-range-end=stop"],
        ),
        (
            CaptureWindow(range_name="forward@model"),
            ["--capture-range=nvtx", "--nvtx-capture=forward@model", "--capture-range-end=stop"],
        ),
        (
            CaptureWindow(cuda_profiler=True),
            ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"],
        ),
    ],
)  # fmt: skip
def test_nsys_is_told_the_part_in_its_own_words(tmp_path, window, words):
    words_with_window = nsys.command(
        LaunchedRun(PROGRAM, tmp_path, window=window), ("python", "train.py")
    )
    words_of_run = nsys.command(LaunchedRun(PROGRAM, tmp_path), ("python", "train.py"))

    assert words_with_window == [*words_of_run[:-2], *words, "python", "train.py"]


def test_nvprof_waits_for_the_program_to_start_it(tmp_path):
    run = LaunchedRun(PROGRAM, tmp_path, window=CaptureWindow(epochs=(2, 4)))

    assert nvprof.command(run, ("a",))[2:4] == ["--profile-from-start", "off"]
    assert nvprof.RECORDER.environment(run) == {"GPUPROF_EPOCHS": "2:4"}
    assert "off" not in nvprof.command(LaunchedRun(PROGRAM, tmp_path), ("a",))


@pytest.mark.parametrize(
    ("window", "recorder", "said"),
    [
        (
            CaptureWindow(delay_ns=1),
            nvprof.RECORDER,
            "the recorder nvprof does not support --delay",
        ),
        (CaptureWindow(range_name="x"), tensorflow.RECORDER, "tensorflow does not support --range"),
        (
            CaptureWindow(delay_ns=1, epochs=(1, 2)),
            nsys.RECORDER,
            ("--delay and --epochs cannot be combined"),
        ),
    ],
)
def test_a_part_that_a_recorder_cannot_tell_is_refused(window, recorder, said):
    with pytest.raises(UsageError, match=said):
        check_window(window, recorder.name, recorder.windows)


def ranges():
    with closing(sqlite3.connect("run/nsys.sqlite")) as database:
        found = database.execute(
            "SELECT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
            "WHERE eventType = 59 ORDER BY start"
        ).fetchall()
    return [text for (text,) in found if text.startswith("epoch")]


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.profilers
@pytest.mark.skipif(find_spec("nvtx") is None, reason="nvtx is not installed")
class TestRealNsys:
    def nsys(self, *options, epochs="8"):
        completed = recorded_runs.record("nsys", [PROGRAMS / "epochs.py", epochs], *options)
        saved_manifest = recorded_runs.manifest()
        assert (completed.returncode, completed.stdout) == (7, "end of program\n"), completed.stderr
        assert (saved_manifest["exit_status"], len(saved_manifest["epochs"])) == (7, int(epochs))
        return saved_manifest

    def test_only_the_epochs_that_were_asked_for_are_there(self):
        saved_manifest = self.nsys("--epochs", "2:5")

        assert ranges() == ["epoch 2", "epoch 3", "epoch 4"]
        assert (
            saved_manifest["warnings"][0] == "Only a part of the run was recorded: epochs 2 to 4."
        )

    def test_only_the_first_range_of_a_name_is_there(self):
        self.nsys("--range", "epoch 3@gpuprof")

        assert ranges() == ["epoch 3"]

    def test_a_program_runs_on_to_its_end_after_the_time_to_record(self):
        self.nsys("--delay", "1s", "--duration", "1s", epochs="60")

        assert 5 <= len(ranges()) <= 15

    def test_a_part_that_never_came_is_no_empty_recording(self):
        saved_manifest = self.nsys("--epochs", "20:21")

        assert saved_manifest["nothing_recorded"] == "the part to record never came: epoch 20"


class TestTensorflow:
    pytestmark = needs_tensorflow
    program = PROGRAMS / "epochs_of_tensorflow.py"

    def executions(self, folder):
        [step] = [f for f in recorded(folder)["functions"] if f["is_step"]]
        return step["executions"]

    def test_only_the_epochs_that_were_asked_for_are_there(self, tmp_path):
        completed = record(tmp_path / "run", "--epochs", "2:4", self.program)

        assert completed.returncode == 0, completed.stderr
        assert self.executions(tmp_path / "run") == 20
        assert len(manifest(tmp_path / "run")["epochs"]) == 6

    def test_nothing_is_recorded_before_the_delay_or_after_the_duration(self, tmp_path):
        completed = record(tmp_path / "run", "--delay", "60s", self.program)
        saved_manifest = manifest(tmp_path / "run")

        assert completed.returncode == 0, completed.stderr
        assert saved_manifest["nothing_recorded"].startswith("no run of a tf.function was recorded")
        assert saved_manifest["warnings"][0] == (
            "Only a part of the run was recorded: what came after 60.0 s."
        )
