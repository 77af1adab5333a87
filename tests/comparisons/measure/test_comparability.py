"""What else differs than what is compared is named, and nothing is refused."""

from dataclasses import replace

import pytest
from commands import CORPUS
from drawing import draw
from tensorflow_runs import copy, document, written

from gpuprof.comparisons import comparison
from gpuprof.comparisons.measure.comparability import batch, script
from gpuprof.comparisons.measure.compared_steps import ComparedSteps
from gpuprof.comparisons.measure.measured_runs import Measurements
from gpuprof.model.data_model import EPOCHS
from gpuprof.model.profile import Profile
from gpuprof.readers import read_profile

_SHAPE = dict.fromkeys(("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)


def _recording(command=None, tool="nsys", gpu=None, clock=None, grid=1, **versions):
    kernels = [
        (0, 90, {**_SHAPE, "name": "conv", "grid_x": grid}),
        (95, 100, {**_SHAPE, "name": "dense"}),
    ]
    devices = [{"device_id": 0, "name": gpu, "clock_hz": clock}]
    profile = draw(kernels=kernels, **({"devices": devices} if gpu else {}))
    return replace(profile, origin=replace(profile.origin, command=command, tool=tool, **versions))


def _rows(first, second):
    rows = comparison({"a": first, "b": second}).comparability.to_pylist()
    return {row["aspect"]: row for row in rows}


def test_the_same_is_not_mentioned():
    recording = _recording("python train.py --batch-size 64", gpu="H100", clock=10**9)

    assert _rows(recording, recording) == {}


def test_a_maker_before_the_model_is_the_same_gpu():
    first, second = "A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"

    assert "gpu" not in _rows(_recording(gpu=first), _recording(gpu=second))
    assert "gpu" in _rows(_recording(gpu=first), _recording(gpu="NVIDIA A100-SXM4-80GB"))


DIFFERENT = {
    "script": (
        _recording("python train.py --batch-size 64"),
        _recording("python other.py --batch-size 64"),
        "script",
        "Scripts differ: train.py in a, other.py in b.",
    ),
    "batch": (
        _recording("python train.py --batch-size 64"),
        _recording("python train.py --batch-size=128"),
        "batch",
        "Batch sizes differ: 64 in a, 128 in b.",
    ),
    "gpu": (
        _recording(gpu="Tesla K80"),
        _recording(gpu="NVIDIA H100"),
        "gpu",
        "GPU models differ: Tesla K80 in a, NVIDIA H100 in b.",
    ),
    "clock": (
        _recording(gpu="H100", clock=1_980_000_000),
        _recording(gpu="H100", clock=1_755_000_000),
        "clock",
        "Maximum clocks differ: 1980 MHz in a, 1755 MHz in b.",
    ),
    "tool": (
        _recording(),
        _recording(tool="nvprof"),
        "tool",
        "Profilers differ: nsys in a, nvprof in b.",
    ),
    "version-exported-by-one": (
        _recording(tool_version="2020.5.1.85", exporter_version="2023.4.4.54"),
        _recording(tool_version="2023.4.4.54", exporter_version="2023.4.4.54"),
        "tool",
        "Profilers differ: nsys 2020.5.1.85 in a, nsys 2023.4.4.54 in b.",
    ),
    "version-told-in-part": (
        _recording(tool_version="2024.5.1"),
        _recording(tool_version="2024.5.11.113"),
        "tool",
        "Profilers differ: nsys 2024.5.1 in a, nsys 2024.5.11.113 in b.",
    ),
    "shapes": (
        _recording(),
        _recording(grid=2),
        "shapes",
        (
            "Kernels that take 94.7 % of a's kernel time run with other launch shapes in b, so"
            " their calls do not compare. The batch size may differ, or the work may be split."
        ),
    ),
}


@pytest.mark.parametrize(
    ("first", "second", "aspect", "warning"), DIFFERENT.values(), ids=DIFFERENT
)
def test_what_differs_is_named(first, second, aspect, warning):
    mismatch = _rows(first, second)[aspect]

    assert (mismatch["warning"], mismatch["is_known"]) == (warning, True)


SAME_VERSIONS = {
    "exporters": (
        {"tool_version": "2024.5.1.113", "exporter_version": "2024.5.1.113"},
        {"tool_version": "2024.5.1.113", "exporter_version": "2025.3.1.90"},
    ),
    "told-in-part": ({"tool_version": "2024.5.1"}, {"tool_version": "2024.5.1.113"}),
    "not-told": ({"exporter_version": "2023.4.4.54"}, {"tool_version": "2024.5.1"}),
}


@pytest.mark.parametrize(("first", "second"), SAME_VERSIONS.values(), ids=SAME_VERSIONS)
def test_versions_that_are_not_known_to_differ_are_not_mentioned(first, second):
    assert "tool" not in _rows(_recording(**first), _recording(**second))


def test_numbers_of_steps_that_differ_are_named():
    marks = ({"epochs": [{"epoch": 0, "seconds": 1.0, "steps": n}]} for n in (3, 4))

    mismatch = _rows(*(draw(kernels=[(0, 12)], **mark) for mark in marks))["steps"]

    assert mismatch["warning"] == "Step counts differ: 3 in a, 4 in b."


def _sampled(folder, executions, trained=None):
    """A run of TensorFlow whose recorder saw some of the steps; each copies twice."""
    folder.mkdir()
    functions = [{"function": "step", "executions": executions, "is_step": True}]
    copies = [copy("a/x", 1_000, calls=2 * executions)]
    recorded = read_profile(written(folder, document(*copies, functions=functions)))
    marks = EPOCHS.table([{"epoch": 0, "seconds": 1.0, "steps": trained}])
    tables = {name: recorded.table(name) for name in recorded.sources}
    return Profile(recorded.origin, tables | ({} if trained is None else {"epochs": marks}))


def test_a_number_of_steps_that_differs_by_sampling_alone_is_no_difference(tmp_path):
    result = comparison(
        {"a": _sampled(tmp_path / "a", 84, 96), "b": _sampled(tmp_path / "b", 90, 96)}
    )

    assert "steps" not in result.comparability.column("aspect").to_pylist()
    assert not [note for note in result.notes if "steps" in note]
    changed = {row["metric"]: row["difference"] for row in result.differences.to_pylist()}
    assert changed["peer_transfer_calls_per_step"] == 0
    assert not {"steps", "peer_transfer_calls", "peer_transfer_bytes"} & changed.keys()
    figures = {(row["variant"], row["metric"]): row["median"] for row in result.figures.to_pylist()}
    assert (figures["a", "steps"], figures["b", "peer_transfer_calls"]) == (84, 180)


def test_numbers_of_steps_that_were_sampled_and_not_marked_are_not_compared(tmp_path):
    rows = _rows(_sampled(tmp_path / "a", 84), _sampled(tmp_path / "b", 90))

    assert "steps" not in rows


def test_marked_numbers_of_steps_are_compared_whatever_was_sampled(tmp_path):
    rows = _rows(_sampled(tmp_path / "a", 84, 96), _sampled(tmp_path / "b", 84, 192))

    assert rows["steps"]["warning"] == "Step counts differ: 96 in a, 192 in b."


def test_copies_that_one_side_lacks_are_no_matter_of_sampling(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    none = read_profile(written(folder, document()))

    result = comparison({"a": none, "b": _sampled(tmp_path / "b", 90)})

    changed = {row["metric"]: row["difference"] for row in result.differences.to_pylist()}
    assert changed["peer_transfer_calls"] == 180


def test_what_is_not_known_on_a_side_is_said():
    mismatch = _rows(_recording("python train.py --batch 8"), _recording())["batch"]

    assert (mismatch["baseline"], mismatch["candidate"], mismatch["is_known"]) == ("8", None, False)
    assert mismatch["warning"] == "Batch sizes were not compared: b does not state them."


def test_warnings_of_many_candidates_are_one_sentence():
    variants = {"a": _recording(gpu="K80"), "b": _recording(gpu="H100"), "c": _recording(gpu="L4")}

    notes = comparison(variants).notes

    assert notes[0] == "GPU models differ: K80 in a, H100 in b, L4 in c."
    assert notes[1] == "Scripts and batch sizes were not compared: not every recording states them."


COMMANDS = {
    "short-option": ("python -u runs/train.py -b 32 --lr 1", "train.py", "32"),
    "program": ("./a.out", "a.out", None),
    "launcher": ("torchrun --standalone train.py", "train.py", None),
    "processes": ("torchrun --nproc-per-node 2 a/train.py", "train.py", None),
    "profiler": ("env A=1 nsys profile -o x python train.py", "train.py", None),
    "module": ("python -m lab.train batch_size=8", "lab.train", "8"),
    "configuration": ("train.py trainer.batch-size=8", "train.py", "8"),
    "hugging-face": (
        "train.py --per_device_eval_batch_size 64 --per_device_train_batch_size 8",
        "train.py",
        "8",
    ),
    "megatron": ("train.py --micro-batch-size 4 --global-batch-size=16", "train.py", "4 and 16"),
    "other-options": ("train.py --batches 8 --adam-b 2 --dynamic-batch --x", "train.py", None),
    "quote": ("python train.py --name 'unclosed", "train.py", None),
    "unknown": (None, None, None),
}


@pytest.mark.parametrize(("command", "name", "size"), COMMANDS.values(), ids=COMMANDS)
def test_script_and_batch_of_a_command(command, name, size):
    variant = Measurements({}).variant("a", [ComparedSteps(_recording(command))])

    assert (script(variant), batch(variant)) == (name, size)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside this repository")
@pytest.mark.parametrize(
    ("name", "clock"),
    [
        ("nsys-sqlite/Qcompiler__MIXQ__report1.sqlite", 1_410_000_000),
        ("nvprof-sqlite/dipsankarb__csl7520__profile.nvvp", 1_531_000_000),
    ],
)
def test_databases_tell_the_highest_clock(name, clock):
    clocks = read_profile(CORPUS / name).table("devices").column("clock_hz").to_pylist()

    assert set(clocks) == {clock}
