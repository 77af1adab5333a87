import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from commands import python
from tensorflow_recording import manifest, needs_tensorflow, record, recorded, start_recording

from gpuprof.launch.contract import Ended, LaunchedRun, Program
from gpuprof.launch.recorders.in_process import INJECT
from gpuprof.launch.recorders.tensorflow import RECORDER

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.fixture(scope="module")
def corners(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corners") / "run"
    completed = record(folder, PROGRAMS / "corners.py")
    assert completed.returncode == 0, completed.stderr
    return recorded(folder)


def copies(document, function):
    return [
        (c["src_device"], c["dst_device"], c["src_operation"], c["calls"], c["bytes_per_call"])
        for c in document["tensor_copies"]
        if c["function"] == function
    ]


class TestWhatIsHardToCount:
    pytestmark = needs_tensorflow

    def test_traces_of_one_function_keep_their_sizes_apart(self, corners):
        # 64 x 10 and 43 x 10 floats of 4 bytes.
        assert copies(corners, "traced_per_shape") == [
            ("CPU:0", "CPU:1", "sent", 3, 2560),
            ("CPU:0", "CPU:1", "sent", 2, 1720),
        ]

    def test_a_size_that_changes_from_call_to_call_is_unknown(self, corners):
        assert copies(corners, "traced_once") == [("CPU:0", "CPU:1", "sent", 2, None)]

    def test_sizes_follow_from_the_bytes_of_each_batch(self, corners):
        rows = {
            (calls, size)
            for *_, name, calls, size in copies(corners, "takes_batches")
            if name == "sent_rows"
        }

        assert rows == {(2, 32 * 10 * 4), (1, 6 * 10 * 4)}

    def test_sizes_that_do_not_grow_linearly_with_a_batch_are_unknown(self, corners):
        pairs = [
            size for *_, name, _, size in copies(corners, "takes_batches") if name == "sent_pairs"
        ]

        assert set(pairs) == {None}

    def test_a_loop_that_keeps_its_shapes_has_sizes(self, corners):
        sizes = {size: calls for *_, calls, size in copies(corners, "steady_loop")}

        # Five iterations, and one send more when the loop ends: x, the product, the condition.
        assert sizes == {2560: 6, 64 * 64 * 4: 6, 1: 6}

    def test_a_loop_that_grows_its_tensors_has_none(self, corners):
        sizes = [size for *_, size in copies(corners, "growing_loop")]

        assert sorted(sizes, key=str) == [1, None, None]

    def test_each_output_of_an_operation_has_its_own_size(self, corners):
        rows = copies(corners, "two_outputs")

        assert sorted((name, size) for _, _, name, _, size in rows) == [
            ("halves", 64 * 2 * 4),
            ("halves", 64 * 8 * 4),
        ]

    def test_a_call_within_a_function_counts_for_it_with_unknown_sizes(self, corners):
        assert copies(corners, "outer") == [
            ("CPU:1", "CPU:0", "Sum", 2, None),
            ("CPU:0", "CPU:1", "sent_within", 2, None),
        ]
        assert any("what it calls" in note for note in corners["notes"])

    def test_texts_have_no_known_size(self, corners):
        assert copies(corners, "sends_text") == [("CPU:0", "CPU:1", "sent_text", 1, None)]

    def test_eager_copies_are_counted_with_unknown_size(self, corners):
        # Four products, both of whose inputs lie on the other device.
        assert copies(corners, None) == [("CPU:0", "CPU:1", None, 8, None)]

    def test_an_operation_on_another_device_than_asked_for_is_noted(self, corners):
        [row] = [r for r in corners["operations"] if r["operation"] == "asked_for_a_gpu"]

        assert (row["requested_device"], row["device"], row["calls"]) == ("GPU:1", "CPU:0", 1)
        assert (
            "operations that ran on another device than asked for: 1, the first asked_for_a_gpu:"
            " asked for GPU:1, ran on CPU:0"
        ) in corners["notes"]

    def test_every_execution_is_seen_and_none_is_a_training_step(self, corners):
        executions = {f["function"]: f["executions"] for f in corners["functions"]}

        assert executions == {
            "falls_back": 1,
            "growing_loop": 1,
            "outer": 2,
            "sends_text": 1,
            "steady_loop": 1,
            "takes_batches": 3,
            "traced_once": 2,
            "traced_per_shape": 5,
            "two_outputs": 1,
        }
        assert not any(f["is_step"] for f in corners["functions"])


class TestHowProgramsEnd:
    pytestmark = needs_tensorflow

    def test_a_program_that_is_told_to_end_keeps_every_step(self, tmp_path):
        folder = tmp_path / "run"
        completed = record(folder, PROGRAMS / "endings.py", "terminate")

        assert completed.returncode == 143, completed.stderr
        assert recorded(folder)["functions"] == [
            {"function": "training_step", "executions": 20, "is_step": True}
        ]
        assert recorded(folder)["windows"]["ended_in_order"]

    def test_a_program_that_leaves_abruptly_keeps_its_closed_windows(self, tmp_path):
        folder = tmp_path / "run"
        times = {"TRAIN_SECONDS": "1.5", "GPUPROF_WINDOW_SECONDS": "0.2"}
        completed = record(folder, PROGRAMS / "endings.py", "leave-at-once", **times)

        assert completed.returncode == 3, completed.stderr
        [step] = recorded(folder)["functions"]
        assert step["executions"] > 0
        per_execution = {
            c["calls"] / step["executions"]
            for c in recorded(folder)["tensor_copies"]
            if c["function"] == "training_step"
        }
        assert per_execution == {1.0}
        lost = (
            "the program was killed or exited abruptly, so the events of its last window are lost"
        )
        assert lost in manifest(folder)["warnings"]

    def test_a_program_that_hangs_keeps_every_step_when_it_is_stopped(self, tmp_path):
        folder = tmp_path / "run"
        child = start_recording(folder, PROGRAMS / "endings.py", "hang")
        assert child.stdout.readline() == "trained\n"
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=60)

        assert child.returncode == 130, stderr
        assert recorded(folder)["functions"][0]["executions"] == 20
        assert recorded(folder)["windows"]["ended_in_order"]

    def test_a_script_with_a_profiler_of_its_own_is_left_in_peace(self, tmp_path):
        folder = tmp_path / "run"
        completed = record(folder, PROGRAMS / "endings.py", "own-profiler", tmp_path / "own")

        assert completed.returncode == 0, completed.stderr
        assert len(list((tmp_path / "own").rglob("*.xplane.pb"))) >= 1
        assert recorded(folder)["functions"][0]["executions"] == 20
        assert recorded(folder)["notes"] == [
            "the script ran TensorFlow's profiler itself; not recorded meanwhile"
        ]


class TestNothingRecorded:
    def test_an_isolated_python_is_reported_not_shown_as_zero(self, tmp_path):
        completed = record(tmp_path / "run", "--", sys.executable, "-I", "-c", "print(5)")

        assert (completed.returncode, completed.stdout) == (0, "5\n")
        assert not list((tmp_path / "run").glob("tensorflow-*"))
        assert manifest(tmp_path / "run")["nothing_recorded"] == (
            "the recorder was not loaded: no Python process started, or it ignored PYTHONPATH"
            " (python -I, -E or -S)"
        )

    def test_a_program_without_tensorflow_is_told_from_it(self, tmp_path):
        completed = record(tmp_path / "run", "-m", "this")

        assert completed.returncode == 0
        assert manifest(tmp_path / "run")["nothing_recorded"] == (
            "the program did not use TensorFlow"
        )
        assert not (tmp_path / "run" / "python-started").exists()

    def test_a_program_that_is_not_python_is_refused(self, tmp_path):
        completed = record(tmp_path / "run", "--", shutil.which("true"))

        assert completed.returncode == 1
        assert completed.stderr == (
            "Error: true is not a Python program, which this recorder needs\n"
            "Hint: Record it with --recorder nsys.\n"
        )

    def test_a_folder_with_half_a_recording_is_brought_home(self, tmp_path):
        raw = tmp_path / "tensorflow-7"
        raw.mkdir()
        (raw / "process.json").write_text('{"process_id": 7}\n', encoding="utf-8")
        (raw / "windows.jsonl").write_text(
            '{"folder": "window-00001", "start_unix_ns": 1, "stop_unix_ns": 5}\n{"fol',
            encoding="utf-8",
        )
        (tmp_path / "python-started").touch()

        got = RECORDER.finish(LaunchedRun(Program(("python",)), tmp_path), Ended(137, 1.0, 0))

        assert got.recordings == ()
        assert got.nothing_recorded == (
            "no run of a tf.function was recorded; the program was killed or exited abruptly, so"
            " the events of its last window are lost"
        )
        assert "1 of 1 profiler windows are unreadable" in got.warnings
        assert not raw.exists()


class TestSitecustomize:
    def python(self, folder, code, *paths):
        path = os.pathsep.join(map(str, (INJECT, *paths)))
        return python("-c", code, PYTHONPATH=path, GPUPROF_RUN_DIR=str(folder)).stdout

    def test_the_users_own_runs_too(self, tmp_path):
        (tmp_path / "sitecustomize.py").write_text("print('mine')", encoding="utf-8")
        code = "import sitecustomize; print(sitecustomize.__file__)"

        process = self.python(tmp_path, code, tmp_path)

        assert process == f"mine\n{tmp_path / 'sitecustomize.py'}\n"

    def test_a_script_that_does_not_import_tensorflow_loads_nothing_of_the_recorder(self, tmp_path):
        code = "import sys, json; print([m for m in sys.modules if m.startswith('gpuprof')])"

        # Of the recorder no more than what waits for the import.
        assert self.python(tmp_path, code) == "['gpuprof_importing']\n"

    def test_the_recorder_follows_the_import_of_tensorflow(self, tmp_path):
        (tmp_path / "tensorflow.py").write_text("done = True", encoding="utf-8")
        code = "import tensorflow, sys; print(tensorflow.done, 'gpuprof_tensorflow' in sys.modules)"

        assert self.python(tmp_path, code, tmp_path) == "True True\n"

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("-I", "-I"),
            ("-uE", "-E"),
            ("-S", "-S"),
            ("-Wignore::ImportWarning", None),
            ("-u", None),
        ],
    )
    def test_a_child_that_asks_for_isolation_is_told_of_and_runs(self, tmp_path, options, told):
        words = f"[sys.executable, {options!r}, '-c', 'print(5)', '-I']"

        assert self.python(tmp_path, f"import subprocess, sys; subprocess.run({words})") == "5\n"
        notes = [path.read_text() for path in tmp_path.glob("tensorflow-*.notes")]
        note = f"a child that ran as python {told} was not recorded"
        assert notes == ([] if told is None else [f"{note}\n"])
        if told:
            got = RECORDER.finish(LaunchedRun(Program(("python",)), tmp_path), Ended(0, 1.0, 0))
            assert got.warnings == (note,)

    def test_a_missing_tensorflow_is_the_scripts_own_error(self, tmp_path):
        code = "import sys; sys.path[:] = sys.path[:1]\nimport tensorflow"
        run = {"PYTHONPATH": str(INJECT), "GPUPROF_RUN_DIR": str(tmp_path)}
        completed = python("-c", code, check=False, **run)

        assert completed.returncode == 1
        assert completed.stderr.endswith("ModuleNotFoundError: No module named 'tensorflow'\n")


def test_the_environment_keeps_the_users_path_and_log_level(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")

    environment = RECORDER.environment(LaunchedRun(Program(("python",)), tmp_path))

    assert environment == {
        "PYTHONPATH": f"{INJECT}{os.pathsep}/mine",
        "GPUPROF_RUN_DIR": str(tmp_path),
        "GPUPROF_RECORDER": "tensorflow",
    }
