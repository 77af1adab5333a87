"""Tasks on processes of this machine.

A worker is a Python of its own that is given the search path of the client and nothing else, so
that neither threads of the client nor libraries that do not survive a fork matter. One thread of
the client waits for each worker. A worker that dies takes nothing with it but its task.
"""

import os
import queue
import tempfile
import threading
from typing import Final, Self

from gpuprof.base import machine
from gpuprof.base.errors import GpuprofError
from gpuprof.base.machine import check_measurable, memory_bytes
from gpuprof.model import spilling
from gpuprof.ranks.task import Loss, TaskResult
from gpuprof.ranks.work import Work
from gpuprof.ranks.work_plan import Task
from gpuprof.ranks.worker import Worker

_WATCH_S: Final = 0.05
# Columns may take as much of the limit as of a machine's memory.
_PART_OF_COLUMNS: Final = 4
# Workers may be killed while they start, by whatever kills them later.
_STARTS: Final = 5


_Answer = TaskResult | Loss | Exception


class LocalWorkers:
    """Worker processes of this machine.

    Args:
        work: What they do.
        count: How many there are at most.
        limit_bytes: The memory that each may take; None for any amount.

    Raises:
        MissingToolError: There is a limit, and this system does not say what they take.
    """

    def __init__(self, work: Work, count: int, limit_bytes: int | None) -> None:
        if limit_bytes is not None:
            check_measurable()
        self._work, self._count, self._limit_bytes = work, count, limit_bytes
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Task, _Answer]] = queue.SimpleQueue()
        self._temporary = tempfile.TemporaryDirectory(prefix="gpuprof-", ignore_cleanup_errors=True)
        # That of a process that shares the machine with others of its kind.
        self._environment = {
            **os.environ,
            machine.PROCESSES: str(count),
            "TMPDIR": self._temporary.name,
        }
        if limit_bytes is not None:
            self._environment[spilling.BUDGET] = f"{limit_bytes // _PART_OF_COLUMNS}B"
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._workers: set[Worker] = set()  # those that run

    def submit(self, task: Task) -> None:
        """Have a task done by the next worker that is free."""
        self._tasks.put(task)
        if len(self._threads) < self._count:
            self._threads.append(threading.Thread(target=self._serve, daemon=True))
            self._threads[-1].start()

    def next_result(self) -> tuple[Task, TaskResult | Loss]:
        """Wait for a task that ends, whichever it is.

        Raises:
            GpuprofError: No worker can be started.
            Exception: What the work's ``merge`` raises.
        """
        task, result = self._results.get()
        if isinstance(result, Exception):
            raise result
        return task, result

    def __enter__(self) -> Self:
        """Watch the memory of the workers to come."""
        if self._limit_bytes is not None:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """End all workers, whatever they do."""
        self._ended.set()
        for _ in self._threads:
            self._tasks.put(None)
        for worker in [*self._workers]:
            worker.kill()
        for thread in self._threads:
            thread.join()
        for worker in [*self._workers]:
            self._end(worker)
        self._temporary.cleanup()

    def _serve(self) -> None:
        """Hand a worker one task after another; after its end, and for a last try, a new one."""
        worker: Worker | None = None
        while (task := self._tasks.get()) is not None:
            if worker is not None and task.is_last_try:
                self._end(worker)
                worker = None
            try:
                worker = worker or self._started()
                answer = worker.answer(task)
            except Exception as error:  # noqa: BLE001 - the main thread raises it
                answer = error
            if worker is not None and isinstance(answer, Loss):
                self._end(worker)
                worker = None
            self._results.put((task, answer))

    def _started(self) -> Worker:
        """A worker that is ready.

        Raises:
            GpuprofError: It ends before it is.
        """
        for _ in range(_STARTS):
            worker = Worker(self._environment, self._temporary.name)
            self._workers.add(worker)
            if self._ended.is_set():
                worker.kill()
            if worker.begin(self._work):
                return worker
            end, was_killed = worker.end(), worker.was_killed()
            self._end(worker)
            if not was_killed:
                msg = f"a worker process cannot start: it {end}"
                raise GpuprofError(msg)
        msg = f"{_STARTS} worker processes were killed while they started"
        if self._limit_bytes is not None:
            raise GpuprofError(msg, "A process needs more: give a larger --memory-limit.")
        raise GpuprofError(msg, "Is memory short? Give fewer --workers.")

    def _end(self, worker: Worker) -> None:
        worker.kill()
        worker.close()
        self._workers.discard(worker)

    def _watch(self) -> None:
        """Kill workers that take more memory than they may."""
        while not self._ended.wait(_WATCH_S):
            for worker in [*self._workers]:
                if memory_bytes(worker.process_id) > (self._limit_bytes or 0):
                    worker.is_too_large = True
                    worker.kill()
