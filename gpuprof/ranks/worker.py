"""A worker process: as the client sees it, and what it does.

It takes tasks from standard input and writes their results to standard output. What goes to and fro
are pickles between a process and its child. When standard input ends, the client is gone, and the
worker goes, too.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Final

from gpuprof.base import signals, startup
from gpuprof.ranks.task import Loss, TaskResult, run_task
from gpuprof.ranks.work import Work
from gpuprof.ranks.work_plan import Task

_START: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    "from gpuprof.ranks.worker import main; main()"
)
_ENDING_S: Final = 2.0
_HAS_GROUPS: Final = os.name == "posix"


class Worker:
    """One worker process.

    Args:
        environment: Its environment variables.
        folder: For a temporary file with what it prints.
    """

    def __init__(self, environment: Mapping[str, str], folder: str) -> None:
        self._printed = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - until it is killed
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=environment,
            # Ctrl-C in a terminal is for the client, which ends workers and what they started.
            process_group=0 if _HAS_GROUPS else None,
        )
        self.is_too_large = False

    @property
    def process_id(self) -> int:
        """Its number."""
        return self._process.pid

    def begin(self, work: Work) -> bool:
        """Tell it what to do; whether it is ready for tasks."""
        try:
            self._send(sys.path)
            self._send(work)
            return bool(self._received())
        except (EOFError, OSError, pickle.UnpicklingError):
            self._await_end()
            return False

    def answer(self, task: Task) -> TaskResult | Exception | Loss:
        """Have it do a task: the result, what was raised, or how the worker came to its end."""
        try:
            self._send(task)
            answer: TaskResult | Exception = self._received()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._await_end()
            if self.is_too_large:
                return Loss("takes more memory than --memory-limit allows")
            return Loss(f"was read by a worker that {self.end()}")
        return answer

    def kill(self) -> None:
        """End it at once, and what it started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                if _HAS_GROUPS:
                    os.killpg(self.process_id, signal.SIGKILL)
                else:
                    self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close what led to a worker that has ended."""
        for stream in (self._process.stdin, self._process.stdout, self._printed):
            if stream is not None:
                with suppress(OSError):  # it does not take what was still to be written
                    stream.close()

    def end(self) -> str:
        """How it came to its end, after "the worker"."""
        status = self._process.wait()
        if status == -signal.SIGKILL:
            return "was killed (is memory short?)"
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        self._printed.seek(0)
        lines = self._printed.read().decode("utf-8", "replace").split("\n")
        last = next((line for line in lines[::-1] if line.strip()), "")
        return f"ended with status {status}{': ' if last else ''}{last}"

    def was_killed(self) -> bool:
        """Whether a signal ended it, which need not meet the next one."""
        return self._process.wait() < 0

    def _await_end(self) -> None:
        """Wait until it has ended; its streams close a little earlier."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self.kill()

    def _send(self, request: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()

    def _received(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        return pickle.load(self._process.stdout)  # noqa: S301 - from the child


def main() -> None:
    """Do what standard input asks for, until it ends: first a `Work`, then tasks."""
    startup.prepare()
    # What a library prints would be taken for a result.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    # Ready, before any task.
    work, answer = requests.get(), pickle.dumps("ready")
    while True:
        results.write(answer)
        results.flush()
        task = requests.get()
        try:
            answer = pickle.dumps(run_task(work, task))
        except Exception as error:  # noqa: BLE001 - the client raises it
            answer = pickle.dumps(error)


def _listen(stream: IO[bytes], requests: queue.SimpleQueue[Any]) -> None:
    """Take requests while a task is worked on, so as to hear that the client is gone."""
    try:
        while True:
            requests.put(pickle.load(stream))  # noqa: S301 - from the parent process
    finally:
        signals.leave(0)
