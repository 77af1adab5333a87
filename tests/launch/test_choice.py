"""Which recorder `auto` takes, and why."""

# ruff: noqa: N802, SLF001 - the names of CUDA, and the way ctypes.byref is followed

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import gpuprof

from gpuprof import read_profile
from gpuprof.base.errors import EmptyRecordingError, MissingToolError, UsageError
from gpuprof.launch import choice, recording
from gpuprof.launch.choice import chosen, printed_command
from gpuprof.launch.contract import Program, Recorded, Recorder
from gpuprof.launch.recording import Options
from gpuprof.launch.run import gpus
from gpuprof.launch.run.gpus import Gpu
from gpuprof.launch.run.program import script
from gpuprof.launch.run.window import CaptureWindow

PROGRAM = Program(("python", "train.py"))
K80 = Gpu("Tesla K80", (3, 7), 12 << 30)


def recorder(name, obstacle=None):
    return Recorder(name, "", lambda _: obstacle, lambda *_: Recorded())


def missing(name):
    return recorder(name, MissingToolError(f"{name} is not installed", f"Get {name}."))


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(choice, "gpus", lambda: (K80,))


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(choice, "gpus", lambda: ())
    monkeypatch.setattr(choice, "why_no_gpu", lambda: "no NVIDIA driver here")


def names(*recorders):
    taken, reason = chosen("auto", PROGRAM, recorders)
    return taken.name, reason


TOOLS = {
    "nsys-where-it-is-there": (
        [recorder("nvprof"), recorder("nsys"), recorder("tensorflow")],
        "nsys",
        "",
    ),
    "else-nvprof": ([missing("nsys"), recorder("nvprof")], "nvprof", "; nsys is not installed"),
    "else-tensorflow": (
        [missing("nsys"), missing("nvprof"), recorder("tensorflow")],
        "tensorflow",
        (
            "; nsys is not installed; nvprof is not installed; only activity of TensorFlow will be"
            " recorded"
        ),
    ),
    "no-nsys-that-would-record-nothing": (
        [replace(recorder("nsys"), doubt=lambda: "nsys is too old"), recorder("nvprof")],
        "nvprof",
        "; nsys is too old",
    ),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("recorders", "name", "why"), TOOLS.values(), ids=TOOLS)
def test_a_gpu_is_recorded_with_the_best_tool_and_what_is_missing_is_said(recorders, name, why):
    assert names(*recorders) == (name, f"found an NVIDIA GPU (Tesla K80){why}")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_nsys_would_record_nothing_and_is_not_taken():
    assert names(recorder("nsys"), recorder("tensorflow")) == (
        "tensorflow",
        "no NVIDIA driver here; only activity of TensorFlow will be recorded",
    )


@pytest.mark.usefixtures("no_gpu")
def test_program_that_imports_tensorflow_is_known_by_reading_it(tmp_path):
    (tmp_path / "train.py").write_text("from models import tower")
    (tmp_path / "models.py").write_text("import tensorflow as tf")
    program = Program(("python", "train.py"), tmp_path / "train.py")
    _, reason = chosen("auto", program, (recorder("tensorflow"),))

    assert reason == "no NVIDIA driver here; the program imports TensorFlow"


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("code", "name", "title"),
    [("import torch", "torch", "PyTorch"), ("from jax import numpy", "jax", "JAX")],
)
def test_frameworks_own_profiler_is_taken_by_what_the_program_imports(tmp_path, code, name, title):
    (tmp_path / "train.py").write_text(code)
    program = Program(("python", "train.py"), tmp_path / "train.py")
    taken, reason = chosen(
        "auto", program, (recorder("tensorflow"), recorder("torch"), recorder("jax"))
    )

    assert taken.name == name
    assert reason == f"no NVIDIA driver here; the program imports {title}"


@pytest.mark.usefixtures("no_gpu")
def test_nothing_that_can_record_is_an_error_with_a_way_out():
    with pytest.raises(MissingToolError) as caught:
        names(recorder("nsys"), missing("tensorflow"))

    assert caught.value.message == (
        "no recorder works here: no NVIDIA driver here; tensorflow is not installed"
    )
    assert caught.value.hint == "Get tensorflow."


def test_recorder_that_was_asked_for_is_taken_or_says_why_not():
    doubtful = replace(recorder("nsys"), doubt=lambda: "nsys is too old")

    assert chosen("nsys", PROGRAM, (doubtful,))[0].name == "nsys"
    with pytest.raises(MissingToolError, match="nsys is not installed"):
        chosen("nsys", PROGRAM, (missing("nsys"),))


def test_unknown_recorder_names_those_that_there_are():
    with pytest.raises(UsageError) as caught:
        chosen("vtune", PROGRAM, (recorder("nsys"), recorder("nvprof")))

    assert caught.value.message == "there is no recorder vtune"
    assert caught.value.hint.startswith("Recorders: auto, nsys, cupti, nvprof, ")


class FakeCuda:
    """Answers as libcuda does for two GPUs."""

    def cuInit(self, _flags):
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = 2
        return 0

    def cuDeviceGetName(self, name, _size, ordinal):
        name.value = f"GPU number {ordinal}".encode()

    def cuDeviceGetAttribute(self, value, attribute, _ordinal):
        value._obj.value = {75: 7, 76: 5}[attribute]

    def cuDeviceTotalMem_v2(self, size, _ordinal):
        size._obj.value = 16 << 30


def test_gpus_are_those_that_the_driver_tells(monkeypatch):
    monkeypatch.setattr(gpus, "_driver", FakeCuda)
    listed_gpus = gpus.gpus.__wrapped__()

    assert listed_gpus == (
        Gpu("GPU number 0", (7, 5), 16 << 30),
        Gpu("GPU number 1", (7, 5), 16 << 30),
    )


def test_manifest_lists_the_gpus_in_words(monkeypatch):
    monkeypatch.setattr(gpus, "gpus", lambda: (K80,))

    assert gpus.described_gpus() == (
        {"name": "Tesla K80", "compute_capability": "3.7", "total_memory_bytes": 12 << 30},
    )


def test_machine_without_a_driver_has_no_gpus(monkeypatch):
    monkeypatch.setattr(gpus, "_driver", lambda: None)

    assert gpus.gpus.__wrapped__() == ()
    assert gpus.why_no_gpu() == "no NVIDIA driver here"


class TestPrintedCommand:
    def printed(self, name, folder=None, *words):
        program = Program((sys.executable, *words), None)
        return printed_command(name, program, folder, CaptureWindow())

    def test_nsys_is_printed_for_a_machine_that_has_it(self, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        line = self.printed("auto", None, "train.py", "--name", "a b")

        assert line == (
            "nsys profile --output=nsys.nsys-rep --force-overwrite=true "
            "--trace=cuda,nvtx,cublas,cudnn --sample=none --cpuctxsw=none "
            "--cuda-graph-trace=node python3 train.py --name 'a b'"
        )

    def test_the_folder_is_made_by_the_line_itself(self):
        line = self.printed("nvprof", Path("my runs/x"), "train.py")

        assert line.startswith("mkdir -p 'my runs/x' && nvprof --profile-child-processes ")
        assert shlex.split(line)[-2:] == ["python3", "train.py"]

    def test_a_recorder_without_a_command_says_what_to_do_instead(self):
        with pytest.raises(UsageError, match="works inside the program and has no command"):
            self.printed("tensorflow", None, "train.py")


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["--", "./solve", "--steps", "9"], ["./solve", "--steps", "9"]),
        (["-m", "package.train"], ["python3", "-m", "package.train"]),
        (["there/train.py"], ["python3", "there/train.py"]),
    ],
)
def test_what_is_to_run_elsewhere_need_not_be_here(words, program):
    completed = gpuprof("record", "--recorder", "nvprof", "--print-command", *words)

    assert completed.returncode == 0, completed.stderr
    assert shlex.split(completed.stdout)[-len(program) :] == program


@pytest.mark.profilers
def test_a_printed_command_runs_in_a_shell_as_it_is(tmp_path):
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:])")
    words = ("record", "--print-command", "-o", "a b", "train.py", "x y")
    line = gpuprof(*words, cwd=tmp_path).stdout

    assert not (tmp_path / "a b").exists()
    output = subprocess.check_output(["sh", "-c", line], cwd=tmp_path, text=True)

    assert "['x y']" in output
    assert (tmp_path / "a b" / "nsys.nsys-rep").stat().st_size > 0


def test_epochs_are_kept_where_the_recorder_that_auto_takes_records_nothing(tmp_path, monkeypatch):
    def finish(*_):
        return Recorded(nothing_recorded="the program used no device")

    empty = Recorder("empty", "", lambda _: None, finish)
    monkeypatch.setattr(recording, "chosen", lambda *_: (empty, "the only one"))
    epochs = str(Path(__file__).parent / "programs" / "epochs.py")
    runs, said = {}, []
    for name in ("auto", "empty"):
        options = Options(name, folder=tmp_path / name)
        _, runs[name] = recording.record(script(epochs, ["2"]), options, said.append)

    assert (runs["auto"].recorder, len(runs["auto"].epochs)) == ("none", 2)
    assert "Warning: the program used no device" in said
    profile = read_profile(tmp_path / "auto")
    assert profile.table("epochs").num_rows == 2
    assert profile.origin.warnings == (
        "The program ended with exit status 7.",
        "Only the marked epochs are known: the program used no device.",
    )
    # Who names a recorder wants what it records.
    assert runs["empty"].recorder == "empty"
    with pytest.raises(EmptyRecordingError):
        read_profile(tmp_path / "empty")
