"""A worker process: takes tasks from standard input and writes their results to standard output.

`gpuprof.ranks.local` starts it. What goes to and fro are pickles between a process and its child.
When standard input ends, the client is gone, and the worker goes, too.
"""

import os
import pickle
import queue
import sys
import threading
from typing import IO, Any, Final

from gpuprof.base import signals, startup
from gpuprof.ranks.task import run_task

# The first answer, before any task.
READY: Final = "ready"


def main() -> None:
    """Do what standard input asks for, until it ends: first a `Work`, then tasks."""
    startup.prepare()
    # What a library prints would be taken for a result.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    work, answer = requests.get(), pickle.dumps(READY)
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
