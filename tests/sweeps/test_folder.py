"""A sweep's folder goes on with the plan that it was made for, and refuses what is none."""

import json

import pytest

from gpuprof.errors import CorruptFileError, OutputError
from gpuprof.sweeps.folder import PLAN, open_sweep
from gpuprof.sweeps.plan import Plan

SWEEP = Plan(command=("train.py", "{batch}"), axes={"batch": ("64", "128")}, seed=5)


@pytest.fixture
def document(tmp_path):
    open_sweep(tmp_path, SWEEP)
    return json.loads((tmp_path / PLAN).read_text(encoding="utf-8"))


def test_a_sweep_goes_on_with_its_seed(tmp_path, document):
    assert document["seed"] == 5
    assert open_sweep(tmp_path, SWEEP) == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 7},
        {"plan": None},
        {"plan": ["axes"]},
        {"seed": None},
        {"seed": -1},
        {"seed": "five"},
        {"seed": 1e300},
        {"seed": 10**30},
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, document, changes):
    (tmp_path / PLAN).write_text(json.dumps(document | changes), encoding="utf-8")

    with pytest.raises(CorruptFileError, match="plan"):
        open_sweep(tmp_path, SWEEP)


@pytest.mark.parametrize("key", ["format", "plan", "seed"])
def test_a_plan_that_lacks_a_field_is_refused(tmp_path, document, key):
    del document[key]
    (tmp_path / PLAN).write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(CorruptFileError, match="not the plan of a sweep"):
        open_sweep(tmp_path, SWEEP)


@pytest.mark.parametrize("text", ["", "[]", "7", "null", '"plan"'])
def test_a_file_of_something_else_is_refused(tmp_path, document, text):
    del document
    (tmp_path / PLAN).write_text(text, encoding="utf-8")

    with pytest.raises(CorruptFileError, match="the plan of a sweep"):
        open_sweep(tmp_path, SWEEP)


@pytest.mark.parametrize("value", [None, 7, "text", [], {}])
@pytest.mark.parametrize("key", ["command", "axes", "recorder", "skipped_epochs"])
def test_a_plan_with_another_field_is_another_sweep(tmp_path, document, key, value):
    document["plan"][key] = value
    (tmp_path / PLAN).write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(OutputError, match=f"contains a sweep with another {key}"):
        open_sweep(tmp_path, SWEEP)


def test_a_seed_that_is_a_text_is_read(tmp_path, document):
    (tmp_path / PLAN).write_text(json.dumps(document | {"seed": "5"}), encoding="utf-8")

    assert open_sweep(tmp_path, SWEEP) == 5
