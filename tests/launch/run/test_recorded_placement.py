"""A placement that `gpuprof place` found is applied to a program that nobody edits."""

import importlib
import json
from pathlib import Path

import pytest
from commands import gpuprof

from gpuprof import read_profile
from gpuprof.launch.recorders.in_process import INJECT

PROGRAM = Path(__file__).parents[1] / "programs" / "fit_towers.py"
FOUND = {"format": "gpuprof-placement", "format_version": 1, "layers": {}, "scopes": {}}


@pytest.fixture
def placement(monkeypatch):
    monkeypatch.syspath_prepend(str(INJECT))
    return importlib.import_module("gpuprof_placement")


def _loss(folder):
    (line,) = [n for n in (folder / "program.log").read_text().splitlines() if n[:5] == "loss "]
    return line


def _per_step(folder):
    done = gpuprof("report", folder, "--table", "tensor_transfers_per_step", "--format", "csv")
    names, values = (line.split(",") for line in done.stdout.splitlines())
    row = dict(zip(names, values, strict=True))
    return float(row["bytes_per_step"]), float(row["copies_per_step"])


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A run, a run as it should be placed, the placement, and what the second one said.

    Beside what was found, the placement names a scope that the program lacks.
    """
    base = tmp_path_factory.mktemp("placed")
    before, after, found = base / "before", base / "after", base / "found.json"
    words = ("record", "--recorder", "tensorflow", "-o")
    assert gpuprof(*words, before, PROGRAM).returncode == 0
    assert gpuprof("place", before, "--output", found).returncode == 0
    predicted = json.loads(found.read_text())
    found.write_text(json.dumps(predicted | {"scopes": predicted["scopes"] | {"other": "CPU:1"}}))

    done = gpuprof(*words, after, "--placement", found, PROGRAM)

    assert done.returncode == 0, done.stderr
    return before, after, predicted, done.stderr


def test_what_is_found_is_recorded_by_one_command_and_copies_as_predicted(placed):
    """``fit`` included: the bytes are as predicted, and the loss is the same."""
    before, after, predicted, _ = placed

    assert _per_step(after) == (predicted["bytes_per_step"], predicted["copies_per_step"])
    assert _per_step(before)[0] > 2 * predicted["bytes_per_step"]
    assert _loss(after) == _loss(before)
    operations = read_profile(after).tables["operations"]
    moved = operations[operations["operation"].str.contains("gradient_tape/.*item_1_1/MatMul")]
    assert {*moved["device"]} == {"CPU:1"}


def test_only_what_the_program_lacks_is_a_warning_of_the_run(placed):
    warnings = [line for line in placed[3].splitlines() if line.startswith("Warning")]

    missing = "the placement names operations that were not traced: other"
    assert warnings == [f"Warning: {missing}"]


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("gradient_tape/item/dense/MatMul", "gradient_tape/item"),
        ("gradient_tape/item_2/dense/MatMul", None),
        ("gradient_tape/item/head/MatMul", "gradient_tape/item/head"),
        ("item/dense/MatMul", None),
    ],
)
def test_the_longest_beginning_of_a_name_counts(placement, name, scope):
    scopes = {"gradient_tape/item": "CPU:1", "gradient_tape/item/head": "CPU:0"}

    assert placement.scope_of(name, scopes) == scope


@pytest.mark.parametrize(
    ("path", "layer"),
    [("model/item/dense", "item/dense"), ("dense", "dense"), ("model/other", None)],
)
def test_the_longest_end_of_a_layers_path_counts(placement, path, layer):
    assert placement.layer_of(path, {"item/dense": "CPU:1", "dense": "CPU:0"}) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is not JSON"),
        ("[]", "is no placement"),
        (json.dumps(FOUND | {"format": "other"}), "is no placement"),
        (json.dumps(FOUND | {"scopes": {"a": 1}}), "is no placement"),
        (json.dumps(FOUND | {"layers": []}), "is no placement"),
    ],
)
def test_a_file_that_is_no_placement_is_refused_before_the_program_runs(tmp_path, text, message):
    (tmp_path / "script.py").write_text("open('ran', 'w').close()")
    if text is not None:
        (tmp_path / "found.json").write_text(text)
    words = ("record", "--recorder", "tensorflow", "--placement", "found.json", "script.py")

    done = gpuprof(*words, cwd=tmp_path)

    assert done.returncode == 1
    assert f"found.json {message}" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "gpuprof-runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--recorder", "nsys"), "--placement needs the recorder tensorflow, not nsys"),
        (("--recorder", "tensorflow", "--repeat", "2"), "--placement cannot be repeated"),
    ],
)
def test_only_one_run_under_tensorflows_recorder_is_placed(tmp_path, options, message):
    (tmp_path / "script.py").write_text("")
    (tmp_path / "found.json").write_text(json.dumps(FOUND))

    done = gpuprof("record", *options, "--placement", "found.json", "script.py", cwd=tmp_path)

    assert done.returncode == 2
    assert message in done.stderr
