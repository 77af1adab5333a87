"""Workers are killed at random while they work, and the result is the same every time."""

import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from counted import children, outcome
from counting import Counting

_COUNT = 32
_RUNS = 6
# Three kills can meet the same file three times, which gives it up.
_KILLS = 2


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="kills by Linux' list of children")
def test_killed_workers_change_nothing(job_of):
    folder = job_of(_COUNT)
    expected = outcome(folder, workers=2).partial
    killed = 0
    for seed in range(_RUNS):
        with _Killer(random.Random(seed)) as killer:  # noqa: S311 - no secret
            result = outcome(folder, Counting(pause_s=0.01), workers=2)
        killed += killer.killed

        assert result.faults == (), seed
        assert result.partial == expected, seed
    assert killed >= _RUNS


class _Killer:
    """Kills children of this process at random moments."""

    def __init__(self, random_source):
        self._random, self._ended, self.killed = random_source, threading.Event(), 0
        self._thread = threading.Thread(target=self._kill)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _kill(self):
        while self.killed < _KILLS and not self._ended.wait(self._random.uniform(0.05, 0.5)):
            if workers := _workers():
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(workers), signal.SIGKILL)
                    self.killed += 1


def _workers():
    return sorted(child for child in children() if b"gpuprof.ranks" in _command(child))


def _command(process_id):
    with suppress(FileNotFoundError, ProcessLookupError):  # it may have ended by now
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    return b""
