"""A sweep's folder goes on with the plan that it was made for, and refuses what is none."""

import json
import subprocess
import sys

import pytest

from gpuprof.base.errors import CorruptFileError, OutputError
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.sweep_folder import PLAN, open_sweep, working_in

SWEEP = Plan(("train.py", "{batch}"), {"batch": ("64", "128")}, skipped_epochs=1, seed=5)


@pytest.fixture
def document(tmp_path):
    open_sweep(tmp_path, SWEEP)
    return json.loads((tmp_path / PLAN).read_text(encoding="utf-8"))


def test_a_sweep_goes_on_with_its_seed(tmp_path, document):
    assert document["seed"] == 5
    assert open_sweep(tmp_path, SWEEP) == 5


ABSENT = object()


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
        *({key: ABSENT} for key in ("format", "plan", "seed")),
        *("", "[]", "7", "null", '"plan"'),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, document, changes):
    """With other values, without a field, or of something else."""
    if not isinstance(changes, str):
        changed = document | changes
        changes = json.dumps({key: of for key, of in changed.items() if of is not ABSENT})
    (tmp_path / PLAN).write_text(changes, encoding="utf-8")

    with pytest.raises(CorruptFileError, match="the plan of a sweep"):
        open_sweep(tmp_path, SWEEP)


@pytest.mark.parametrize("value", [None, 7, "text", [], {}])
@pytest.mark.parametrize("key", ["command", "axes", "recorder", "skipped_epochs"])
def test_a_plan_with_another_field_is_another_sweep(tmp_path, document, key, value):
    document["plan"][key] = value
    (tmp_path / PLAN).write_text(json.dumps(document), encoding="utf-8")

    with pytest.raises(OutputError, match=f"contains a sweep with another {key}") as caught:
        open_sweep(tmp_path, SWEEP)

    assert caught.value.hint == "Choose another folder with -o, or replace it with --force."


def test_a_seed_that_is_a_text_is_read(tmp_path, document):
    (tmp_path / PLAN).write_text(json.dumps(document | {"seed": "5"}), encoding="utf-8")

    assert open_sweep(tmp_path, SWEEP) == 5


def test_a_sweep_waits_until_the_run_of_a_killed_sweep_has_ended(tmp_path):
    """As the process of a run does, this one holds the lock until it ends."""
    code = """
import fcntl, sys
lock = open(sys.argv[1], "wb")
fcntl.flock(lock, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
open(sys.argv[2], "w").close()
"""
    ended = tmp_path / "ended"
    words = [sys.executable, "-c", code, str(tmp_path / ".run.lock"), str(ended)]
    said = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        run.stdout.readline()

        def say(line):
            said.append((line, ended.exists()))
            run.stdin.close()  # now it may end

        with working_in(tmp_path, say):
            assert ended.exists()

    waits = "A run of an interrupted sweep is still active; waiting until it ends ..."
    assert said == [(waits, False)]


def test_a_second_sweep_in_a_folder_is_refused(tmp_path):
    with (
        working_in(tmp_path, print),
        pytest.raises(OutputError, match="another sweep is running in"),
        working_in(tmp_path, print),
    ):
        pass
