"""Tasks on an existing Dask cluster, of whatever kind: SSH, SLURM, Kubernetes.

Workers read files by the same absolute paths as the client would, and have the same gpuprof.
"""

import importlib
import logging
import queue
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from gpuprof.base.errors import GpuprofError, MissingToolError, install
from gpuprof.ranks.task import Loss, TaskResult, run_task
from gpuprof.ranks.work import Work
from gpuprof.ranks.work_plan import Task

_RESUME: Final = "With --resume FOLDER, a new run goes on from here."
_CONNECT_S: Final = 10
# A scheduler that is only busy answers in between.
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.5
# Dask's own clusters give up workers that ended several times, and tell nobody.
_WITHOUT_WORKERS_S: Final = 600.0


class DaskCluster:
    """A Dask cluster.

    Args:
        work: What is done.
        address: That of its scheduler, as ``tcp://host:8786``, or a scheduler file.

    Raises:
        GpuprofError: Dask is not installed here, or no scheduler answers.
    """

    def __init__(self, work: Work, address: str) -> None:
        self._work, self._address = work, address
        self._ended: queue.SimpleQueue[tuple[Task, Any]] = queue.SimpleQueue()
        # Dask forgets what nobody refers to.
        self._running: dict[Task, Any] = {}
        self._distributed = _distributed()
        named = {"scheduler_file" if Path(address).is_file() else "address": address}
        try:
            self._client = self._distributed.Client(
                **named, timeout=_CONNECT_S, set_as_default=False
            )
        except (OSError, TypeError, ValueError) as error:
            msg = f"no Dask scheduler answers at {address}"
            raise GpuprofError(msg, "Give its address, as in tcp://host:8786.") from error

    def submit(self, task: Task) -> None:
        """Have a task done by a worker of the cluster."""
        files = tuple(replace(file, path=file.path.absolute()) for file in task.files)
        future = self._client.submit(run_task, self._work, replace(task, files=files), pure=False)
        self._running[task] = future
        future.add_done_callback(lambda ended: self._ended.put((task, ended)))

    def next_result(self) -> tuple[Task, TaskResult | Loss]:
        """Wait for a task that ends, whichever it is.

        Raises:
            GpuprofError: The scheduler is gone, or its workers cannot do the work.
            Exception: What the work's ``merge`` raises.
        """
        task, future = self._next()
        del self._running[task]
        error = future.exception()
        if error is None:
            # Its paths are absolute; faults name them as the user did.
            result, paths = (
                future.result(),
                {file.path.absolute(): file.path for file in task.files},
            )
            faults = tuple(
                replace(
                    fault,
                    path=paths[fault.path],
                    reason=fault.reason.replace(str(fault.path), str(paths[fault.path])),
                )
                for fault in result.faults
            )
            return task, replace(result, faults=faults)
        if isinstance(error, self._distributed.KilledWorker):
            return task, Loss("was read by workers of the cluster that ended (is memory short?)")
        if "gpuprof" in str(error) and "No module named" in str(error):
            msg = f"the workers of {self._address} have no gpuprof of this version"
            raise GpuprofError(msg, "Install the same version on all machines.") from error
        raise error

    def __enter__(self) -> Self:
        """Nothing is to be begun."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Cancel what still waits, and leave the cluster to others."""
        if self._running and self._client.status == "running":
            self._client.cancel([*self._running.values()], force=True)
        self._client.close(timeout=1)

    def _next(self) -> tuple[Task, Any]:
        """The next task that ends, and what its end is.

        Raises:
            GpuprofError: The scheduler is gone, or no worker came for long.
        """
        answered = worked = time.monotonic()
        while time.monotonic() - answered < _PATIENCE_S:
            try:
                task, future = self._ended.get(timeout=_LOOK_S)
            except queue.Empty:
                future = None
            if future is not None and future.status in ("finished", "error"):
                return task, future
            if self._client.status == "running":
                answered = time.monotonic()
                if future is not None:
                    self.submit(task)  # its worker died before the result was fetched
                worked = self._last_worked(worked)
            elif future is not None:
                break  # Dask gives up all tasks when it has lost the scheduler
        msg = f"the Dask scheduler at {self._address} is gone"
        raise GpuprofError(msg, _RESUME)

    def _last_worked(self, before: float) -> float:
        """When the cluster was last seen to have workers, if that was not too long ago."""
        now = time.monotonic()
        try:
            if self._client.nthreads():
                return now
        except OSError:  # busy or gone, which its status tells
            return now
        if now - before > _WITHOUT_WORKERS_S:
            minutes = _WITHOUT_WORKERS_S / 60
            msg = f"the Dask cluster at {self._address} had no worker for {minutes:g} min"
            raise GpuprofError(msg, _RESUME)
        return before


def _distributed() -> Any:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        msg = "--scheduler needs Dask, which is not installed"
        raise MissingToolError(msg, f"Install it: {install('scale')}") from error
    # It logs every lost connection at length; errors say what matters.
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)
    return distributed
