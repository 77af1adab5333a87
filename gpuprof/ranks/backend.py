"""What runs tasks: processes of this machine, or a cluster."""

from dataclasses import dataclass
from typing import Protocol, Self

from gpuprof.ranks.task import TaskResult
from gpuprof.ranks.work_plan import Task


@dataclass(frozen=True)
class Loss:
    """Why a task has no result: the worker is gone that had it.

    Args:
        reason: Of the one file of the task: "rank3.sqlite {reason}".
    """

    reason: str


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
