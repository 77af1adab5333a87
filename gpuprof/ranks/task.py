"""What a worker does with a task, wherever the worker runs."""

import gc
from dataclasses import dataclass
from typing import Final

from gpuprof import __version__
from gpuprof.base import startup
from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    GpuprofError,
    UnknownFormatError,
)
from gpuprof.base.machine import peak_bytes
from gpuprof.ranks.rank_files import has_changed
from gpuprof.ranks.work import Fault, JobFile, Partial, Work, pack
from gpuprof.ranks.work_plan import Node, Task, Tree
from gpuprof.readers import inputs

# Of a file of less, what lies freed serves the next one.
_LARGE_BYTES: Final = 1 << 26
# Faults of the content: the same file has them every time.
_LASTING: Final = (CorruptFileError, EmptyRecordingError, UnknownFormatError)


@dataclass(frozen=True)
class TaskResult:
    """What came of a task.

    Args:
        packed: The merge of its files as `pack` writes it; None where none could be read.
        faults: Those of its files that are not in it.
        version: The version of gpuprof that did it.
        peak_bytes: The most memory that the worker has taken so far; 0 where unknown.
    """

    packed: bytes | None
    faults: tuple[Fault, ...]
    version: str = __version__
    peak_bytes: int = 0


@dataclass(frozen=True)
class Loss:
    """Why a task has no result: the worker is gone that had it.

    Args:
        reason: Of the one file of the task: "rank3.sqlite {reason}".
    """

    reason: str


def run_task(work: Work, task: Task) -> TaskResult:
    """Reduce the files of a task one after another, and merge their partial results."""
    tree = Tree(work, task.node, task.files[-1].place + 1)
    faults = []
    # Spare the collector of garbage what is loaded by now: 30 ms for each file and more.
    gc.freeze()
    try:
        for file in task.files:
            reduced = _reduced(work, file)
            gc.collect()  # columns of a recording may lie in cycles
            if file.size_bytes >= _LARGE_BYTES:  # what it took may be more than the next one takes
                startup.give_back_freed_memory()
            tree.add(Node(0, file.place), None if isinstance(reduced, Fault) else reduced)
            if isinstance(reduced, Fault):
                faults.append(reduced)
    finally:
        gc.unfreeze()
    packed = None if tree.result is None else pack(tree.result)
    return TaskResult(packed, tuple(faults), peak_bytes=peak_bytes())


def _reduced(work: Work, file: JobFile) -> Partial | Fault:
    reduced: Partial | Fault
    try:
        with inputs.copies_discarded():
            reduced = work.reduce(file)
    except EmptyRecordingError as error:
        reduced = Fault(file.path, error.message, is_empty=True, is_lasting=True)
    except GpuprofError as error:
        reduced = Fault(file.path, error.message, is_lasting=isinstance(error, _LASTING))
    except Exception as error:  # noqa: BLE001 - one file must not end the work on all others
        reduced = Fault(file.path, f"{file.path}: gpuprof itself failed: {error!r}")
    if has_changed(file):
        # What it holds now may be half of it, or a mixture.
        msg = f"{file.path} changed while it was read: it is still being written"
        return Fault(file.path, msg)
    return reduced
