"""Partial results on disk: a client that was killed goes on, and what is damaged is done again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import counted
import pytest
from counted import shape
from counting import Counting

from gpuprof.base.errors import OutputError

pytestmark = pytest.mark.usefixtures("small_tasks")
GOOD = "((0 1 2 3) (4 5 6 7) (8 9))"
_CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from counting import Counting
from gpuprof.ranks import work_plan
from gpuprof.ranks.engine import run
from gpuprof.ranks.rank_files import job_files
from gpuprof.ranks.work import Settings
from gpuprof.readers import recording_files
work_plan._MOST_FILES = 4
settings = Settings(workers=1, state=Path(sys.argv[3]))
files = job_files(recording_files([sys.argv[2]]))
run(Counting(pause_s=0.1), files, settings, lambda now: print(now.waiting_count))
"""


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def outcome(folder, state, work=None):
    return counted.outcome(folder, work, workers=1, state=state)


def test_a_second_run_reads_nothing_again(job_of, state):
    folder = job_of(10)
    first, second = outcome(folder, state), outcome(folder, state)

    assert (first.resumed_count, second.resumed_count) == (0, 10)
    assert shape(first) == shape(second) == GOOD
    assert first.partial == second.partial


def test_a_client_that_was_killed_goes_on_from_there(job_of, state):
    folder = job_of(10)
    arguments = [sys.executable, "-uc", _CLIENT, Path(__file__).parent, folder, state]
    client = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ, text=True
    )
    left = [client.stdout.readline() for _ in range(2)]
    client.send_signal(signal.SIGKILL)
    client.communicate()

    resumed = outcome(folder, state, Counting(pause_s=0.1))

    assert left == ["10\n", "6\n"]
    assert resumed.resumed_count in (4, 6, 8, 10)  # it may have got further before it died
    assert shape(resumed) == GOOD
    assert {file.suffix for file in state.iterdir()} == {".partial"}


def test_what_a_killed_client_left_of_a_task_is_removed_when_it_is_done(job_of, state):
    folder = job_of(4)
    outcome(folder, state)
    [*results] = state.iterdir()
    drafts = [file.with_name(f".{file.stem}.unfinished-x.partial") for file in results]
    for file, draft in zip(results, drafts, strict=True):
        file.rename(draft)

    assert shape(outcome(folder, state)) == shape(outcome(folder, None))
    assert {*state.iterdir()} == {*results}


def test_a_file_that_has_changed_is_read_again_with_those_of_its_task(job_of, state):
    folder = job_of(10)
    outcome(folder, state)
    (folder / "rank05.txt").write_text("line\n" * 100)

    result = outcome(folder, state)

    assert result.resumed_count == 6
    assert result.partial["counts"]["lines"].to_pylist()[5] == 100


def test_what_was_done_for_another_question_is_not_taken(job_of, state):
    folder = job_of(10)
    outcome(folder, state)

    assert outcome(folder, state, Counting(key="words")).resumed_count == 0


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda content: content[:-1], id="cut-off"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda content: content[:50] + b"?" + content[51:], id="another-byte"),
    ],
)
def test_a_damaged_state_is_done_again(job_of, state, damaged):
    folder = job_of(10)
    outcome(folder, state)
    for file in state.iterdir():
        file.write_bytes(damaged(file.read_bytes()))

    result = outcome(folder, state)

    assert (result.resumed_count, shape(result)) == (0, GOOD)
    assert outcome(folder, state).resumed_count == 10


def test_what_is_wrong_with_a_file_itself_is_kept(job_of, state):
    folder = job_of(10, rank01="corrupt", rank02="nothing")
    first, second = outcome(folder, state), outcome(folder, state)

    assert second.resumed_count == 10
    assert second.faults == first.faults
    assert len(second.faults) == 2


def test_what_may_be_better_next_time_is_tried_again(job_of, state):
    folder = job_of(10, rank01="die", rank08="bug")
    first = outcome(folder, state)
    (folder / "rank01.txt").write_text("")
    second = outcome(folder, state)

    assert (len(first.faults), len(second.faults)) == (2, 1)
    # Of the first task the other files, which were read one by one after the worker's death.
    assert second.resumed_count == 3 + 4


def test_a_state_that_is_a_file_is_refused_before_the_work(job_of, tmp_path):
    (tmp_path / "state").write_text("")

    with pytest.raises(OutputError) as caught:
        outcome(job_of(1), tmp_path / "state")

    assert caught.value.message == (
        f"{tmp_path / 'state'} cannot keep partial results: File exists"
    )
    assert caught.value.hint == "Name another folder with --resume."
