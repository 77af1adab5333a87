"""Runs work over all files of a job, takes losses into account, and takes up an earlier run.

For that, a file on disk holds the result of one node of the tree. Its name says what the result
depends on: paths, sizes and times of the node's files, what was done with them, and the version of
gpuprof. A file begins with a checksum of the rest; what does not agree with its checksum is done
again. So is what failed for a reason that may not last.
"""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

import pyarrow as pa

from gpuprof import __version__
from gpuprof.base import machine
from gpuprof.base.errors import GpuprofError, OutputError, UsageError
from gpuprof.base.temporary_files import unfinished
from gpuprof.ranks.dask import DaskCluster
from gpuprof.ranks.local import LocalWorkers
from gpuprof.ranks.task import Loss, TaskResult
from gpuprof.ranks.work import Fault, JobFile, Outcome, Settings, Work, pack, unpack
from gpuprof.ranks.work_plan import Task, Tree, plan, root_of

_SUFFIX: Final = ".partial"
_CHECKSUM_BYTES: Final = hashlib.sha256().digest_size
_FAULTS: Final = pa.schema(
    [("path", pa.string()), ("reason", pa.string()), ("is_empty", pa.bool_())]
)


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


class State:
    """A folder of partial results.

    Args:
        folder: Made where it is not there.
        key: What was done with the files, see `gpuprof.ranks.work.Work`.

    Raises:
        OutputError: There is no such folder and none can be made, or nothing can be written to it.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Better now than after an hour of work.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise self._unwritable(error) from error

    def load(self, task: Task) -> TaskResult | None:
        """The result of a task that was done before; None where it must be done."""
        if not _are_dated(task):
            return None
        try:
            content = self._path(task).read_bytes()
        except OSError:
            return None
        checksum, packed = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if hashlib.sha256(packed).digest() != checksum:
            return None
        tables = unpack(packed)
        faults = tuple(
            Fault(Path(fault["path"]), fault["reason"], fault["is_empty"], is_lasting=True)
            for fault in tables["faults"].to_pylist()
        )
        return TaskResult(tables["partial"]["packed"][0].as_py(), faults)

    def save(self, task: Task, result: TaskResult) -> None:
        """Keep the result of a task, whole or not at all.

        Raises:
            OutputError: It cannot be written.
        """
        if not _are_dated(task) or not all(fault.is_lasting for fault in result.faults):
            return
        faults = [
            {"path": str(fault.path), "reason": fault.reason, "is_empty": fault.is_empty}
            for fault in result.faults
        ]
        partial = pa.table({"packed": pa.array([result.packed], pa.large_binary())})
        packed = pack({"partial": partial, "faults": pa.Table.from_pylist(faults, _FAULTS)})
        try:
            # What a client that was killed has left of this task is removed.
            with unfinished(self._path(task)) as draft:
                draft.write_bytes(hashlib.sha256(packed).digest() + packed)
                draft.replace(self._path(task))
        except OSError as error:
            raise self._unwritable(error) from error

    def _path(self, task: Task) -> Path:
        parts = [__version__, self._key]
        for file in task.files:
            parts += [str(file.path.absolute()), str(file.place), str(file.rank)]
            parts += [str(file.size_bytes), str(file.modified_ns)]
        # A length before each part: no two lists of parts are the same text.
        text = "".join(f"{len(part)}:{part}" for part in parts)
        name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self._folder / f"{name}{_SUFFIX}"

    def _unwritable(self, error: OSError) -> OutputError:
        msg = f"{self._folder} cannot keep partial results: {error.strerror or error}"
        return OutputError(msg, "Name another folder with --resume.")


def _are_dated(task: Task) -> bool:
    """Whether it shows when a file of the task changes: not where it is fetched from elsewhere."""
    return all(file.modified_ns for file in task.files)
