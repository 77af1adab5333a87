"""Work on real processes of this machine: what comes of files that fail, and of limits."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import counted
import pytest
from counted import children, shape
from counting import Counting, Failing

from gpuprof import sql
from gpuprof.base import machine
from gpuprof.base.errors import GpuprofError, MissingToolError
from gpuprof.base.units import parse_decimal_bytes
from gpuprof.ranks import worker
from gpuprof.ranks.engine import run
from gpuprof.ranks.rank_files import job_files
from gpuprof.ranks.work import Settings

GOOD = "(((0 1 2 3) (4 5 6 7) (8 9 10 11) (12 13 14 15)) (16 17))"


outcome = partial(counted.outcome, workers=2)


def reasons(result, folder):
    return [fault.reason.replace(f"{folder}/", "") for fault in result.faults]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("workers", [1, 3])
def test_the_result_is_the_same_with_any_number_of_workers(job_of, workers):
    result = outcome(job_of(18), workers=workers)

    assert shape(result) == GOOD
    assert result.partial["counts"].to_pydict() == {
        "place": [*range(18)],
        "rank": [*range(18)],
        "lines": [*range(18)],
    }
    assert (result.faults, result.file_count, result.is_complete) == ((), 18, True)
    assert result.peak_bytes > 10_000_000


def test_one_file_alone_is_a_job(job_of):
    assert shape(outcome(job_of(1))) == "0"


@pytest.mark.usefixtures("small_tasks")
def test_files_that_cannot_be_read_are_left_out_with_their_reasons(job_of):
    folder = job_of(
        9, rank01="corrupt", rank03="bug", rank04="nothing", rank06="die", rank07="grow"
    )
    result = outcome(folder)

    assert shape(result) == "((0 2) 5 8)"
    assert reasons(result, folder) == [
        "rank01.txt: broken at byte 7",
        "rank03.txt: gpuprof itself failed: KeyError('oops')",
        "rank04.txt: nothing was recorded",
        "rank06.txt was read by a worker that was killed (is memory short?)",
        "rank07.txt changed while it was read: it is still being written",
    ]
    assert [fault.is_empty for fault in result.faults] == [False, False, True, False, False]
    assert [fault.is_lasting for fault in result.faults] == [True, False, True, False, False]
    assert not result.is_complete


def test_a_job_of_which_some_ranks_recorded_nothing_is_complete(job_of):
    assert outcome(job_of(3, rank01="nothing")).is_complete


def test_where_no_file_can_be_read_there_is_no_result(job_of):
    result = outcome(job_of(2, rank00="corrupt", rank01="corrupt"))

    assert result.partial is None
    assert len(result.faults) == 2


def test_a_file_that_is_not_there_is_a_fault(job_of):
    paths = [job_of(1) / "rank00.txt", Path("gone.txt")]

    result = run(Counting(), job_files(paths), Settings(workers=1))

    assert [fault.reason for fault in result.faults] == ["gone.txt: no such file"]


@pytest.mark.usefixtures("small_tasks")
def test_a_file_that_takes_too_much_memory_is_left_out(job_of):
    folder = job_of(5, rank02="hog")
    result = outcome(folder, limit_bytes=300_000_000)

    assert shape(result) == "((0 1 3) 4)"
    assert reasons(result, folder) == ["rank02.txt takes more memory than --memory-limit allows"]


def test_a_limit_that_cannot_be_watched_is_refused(job_of, monkeypatch):
    monkeypatch.setattr(machine, "_STATUS", "/nowhere/{}")
    monkeypatch.setitem(sys.modules, "psutil", None)

    with pytest.raises(MissingToolError, match="--memory-limit needs the package psutil"):
        outcome(job_of(1), limit_bytes=300_000_000)


def test_without_a_limit_the_same_file_is_read(job_of):
    assert outcome(job_of(2, rank01="hog")).is_complete


def test_a_worker_that_cannot_start_ends_the_work_with_its_last_words(job_of, monkeypatch):
    monkeypatch.setattr(worker, "_START", "raise SystemExit('no gpuprof here')")

    with pytest.raises(GpuprofError) as caught:
        outcome(job_of(2))

    assert caught.value.message == (
        "a worker process cannot start: it ended with status 1: no gpuprof here"
    )


def test_workers_that_are_killed_while_they_start_are_not_started_for_ever(job_of, monkeypatch):
    monkeypatch.setattr(worker, "_START", "import os; os.kill(os.getpid(), 9)")

    with pytest.raises(GpuprofError) as caught:
        outcome(job_of(2))

    assert caught.value.message == "5 worker processes were killed while they started"


def test_a_limit_below_what_a_worker_itself_takes_is_said_to_be_too_small(job_of):
    with pytest.raises(GpuprofError) as caught:
        outcome(job_of(2), limit_bytes=1_000_000)

    assert caught.value.hint == "A process needs more: give a larger --memory-limit."


def test_what_merging_raises_is_raised(job_of):
    with pytest.raises(ZeroDivisionError):
        outcome(job_of(2), Failing())


def test_workers_share_the_cores_and_the_memory(monkeypatch):
    monkeypatch.delenv(machine.PROCESSES, raising=False)
    alone = _memory_limit()
    monkeypatch.setenv(machine.PROCESSES, "100")
    connection = sql.connect({})

    assert connection.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    assert parse_decimal_bytes(_memory_limit()) < parse_decimal_bytes(alone) / 50


def _memory_limit():
    ((text,),) = sql.connect({}).execute("SELECT current_setting('memory_limit')").fetchall()
    return text.replace(" ", "")


def test_no_process_and_no_file_is_left_when_the_client_is_killed(job_of):
    folder = job_of(4)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from counting import Counting\n"
        "from gpuprof.ranks.engine import run\n"
        "from gpuprof.ranks.rank_files import job_files\n"
        "from gpuprof.ranks.work import Settings\n"
        "from gpuprof.readers import recording_files\n"
        "files = job_files(recording_files([sys.argv[2]]))\n"
        "run(Counting(pause_s=60), files, Settings(workers=2), print)\n"
    )
    arguments = [sys.executable, "-uc", code, str(Path(__file__).parent), str(folder)]
    client = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ)
    client.stdout.readline()
    while not (workers := children(client.pid)):
        time.sleep(0.05)
    client.kill()
    client.wait()
    client.stdout.close()

    end = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in workers):
        assert time.monotonic() < end, "a worker goes on"
        time.sleep(0.05)
