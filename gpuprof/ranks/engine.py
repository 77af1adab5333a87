"""Runs work over all files of a job, and takes losses into account."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from gpuprof import __version__
from gpuprof.base import machine
from gpuprof.base.errors import GpuprofError, UsageError
from gpuprof.ranks.dask import DaskCluster
from gpuprof.ranks.local import LocalWorkers
from gpuprof.ranks.state import State
from gpuprof.ranks.task import Loss, TaskResult
from gpuprof.ranks.work import Fault, JobFile, Outcome, Settings, Work, unpack
from gpuprof.ranks.work_plan import Task, Tree, plan, root_of


@dataclass(frozen=True)
class Standing:
    """How far the work has come.

    Args:
        read_count: Files that were read, now or by a former run.
        failed_count: Files that could not be read.
        waiting_count: Files that are still to be read.
        peak_bytes: The most memory that a worker has taken; 0 where unknown.
    """

    read_count: int
    failed_count: int
    waiting_count: int
    peak_bytes: int


class Backend(Protocol):
    """Runs tasks, several at a time; a context manager, at whose end nothing runs any more."""

    def submit(self, task: Task) -> None:
        """Have a task done, after those that were submitted before."""
        ...

    def next_result(self) -> tuple[Task, TaskResult | Loss]:
        """Wait for a task that ends, whichever it is.

        Raises:
            GpuprofError: There is nobody to do the rest.
            Exception: What the work's ``merge`` raises.
        """
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *_exception: object) -> None:
        """End what still runs."""
        ...


def run(
    work: Work,
    files: Sequence[JobFile],
    settings: Settings,
    say: Callable[[Standing], object] = lambda _: None,
) -> Outcome:
    """Reduce all files, and merge their partial results.

    Args:
        work: What is done with each file.
        files: All files of the job, by their places; one at least.
        settings: Who does the work.
        say: Called with how far the work has come, when it begins and after each task.

    Raises:
        GpuprofError: Nobody can do the work, or partial results cannot be kept.
    """
    job = _RunningJob(work, files, settings, say)
    pending = [task for planned in plan(files) for task in job.resumed(planned)]
    if pending:
        backend: Backend
        if settings.scheduler is None:
            count = settings.workers or machine.core_count()
            backend = LocalWorkers(work, min(count, len(pending)), settings.limit_bytes)
        elif settings.workers is None and settings.limit_bytes is None:
            backend = DaskCluster(work, settings.scheduler)
        else:
            msg = "--workers and --memory-limit are those of this machine's processes"
            raise UsageError(msg, "Give them to the workers of the cluster when they are started.")
        with backend:
            job.finish(backend, pending)
    return job.outcome()


class _RunningJob:
    """What is known of a job while it runs."""

    def __init__(
        self,
        work: Work,
        files: Sequence[JobFile],
        settings: Settings,
        say: Callable[[Standing], object],
    ) -> None:
        self._files, self._say = files, say
        self._tree = Tree(work, root_of(len(files)), len(files))
        self._state = None if settings.state is None else State(settings.state, work.key)
        self._faults: dict[int, Fault] = {}
        self._taken = self._resumed = self._peak_bytes = 0

    def resumed(self, task: Task) -> list[Task]:
        """Take in what a former run did of a task; what is left of it."""
        if self._state is None:
            return [task]
        if (result := self._state.load(task)) is not None:
            self._take(task, result)
            self._resumed += len(task.files)
            return []
        parts = task.of_each_file() if len(task.files) > 1 else []
        pending = [task_left for part in parts for task_left in self.resumed(part)]
        return pending if len(pending) < len(parts) else [task]

    def finish(self, backend: Backend, tasks: Sequence[Task]) -> None:
        """Have tasks done until none is left."""
        for task in tasks:
            backend.submit(task)
        pending_count = len(tasks)
        self._say(self._standing())
        while pending_count:
            task, result = backend.next_result()
            again = task.after_loss() if isinstance(result, Loss) else []
            for retried in again:
                backend.submit(retried)
            pending_count += len(again) - 1
            if isinstance(result, TaskResult):
                if result.version != __version__:
                    msg = f"a worker has gpuprof {result.version}, and this is {__version__}"
                    raise GpuprofError(msg, "Install the same version on all machines.")
                self._take(task, result)
                if self._state is not None:
                    self._state.save(task, result)
            elif not again:
                (file,) = task.files
                fault = Fault(file.path, f"{file.path} {result.reason}")
                self._take(task, TaskResult(None, (fault,)))
            self._say(self._standing())

    def outcome(self) -> Outcome:
        """What came of it."""
        return Outcome(
            self._tree.result,
            tuple(fault for file in self._files if (fault := self._faults.get(file.place))),
            len(self._files),
            self._resumed,
            self._peak_bytes,
        )

    def _take(self, task: Task, result: TaskResult) -> None:
        self._peak_bytes = max(self._peak_bytes, result.peak_bytes)
        self._tree.add(task.node, None if result.packed is None else unpack(result.packed))
        faults = {fault.path: fault for fault in result.faults}
        self._faults |= {f.place: faults[f.path] for f in task.files if f.path in faults}
        self._taken += len(task.files)

    def _standing(self) -> Standing:
        failed = sum(not fault.is_empty for fault in self._faults.values())
        waiting = len(self._files) - self._taken
        return Standing(self._taken - failed, failed, waiting, self._peak_bytes)
