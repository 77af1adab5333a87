"""Partial results on disk, which a later run takes up.

A file holds the result of one node of the tree. Its name says what the result depends on: paths,
sizes and times of the node's files, what was done with them, and the version of gpuprof. A file
begins with a checksum of the rest; what does not agree with its checksum is done again. So is what
failed for a reason that may not last.
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof import __version__
from gpuprof.base.errors import OutputError
from gpuprof.base.temporary_files import unfinished
from gpuprof.ranks.task import TaskResult
from gpuprof.ranks.work import Fault, pack, unpack
from gpuprof.ranks.work_plan import Task

_SUFFIX: Final = ".partial"
_CHECKSUM_BYTES: Final = hashlib.sha256().digest_size
_FAULTS: Final = pa.schema(
    [("path", pa.string()), ("reason", pa.string()), ("is_empty", pa.bool_())]
)


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
