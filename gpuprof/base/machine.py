"""What of this machine a process may take, as workers of one job share it; work of its threads."""

import importlib.util
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from gpuprof.base.errors import MissingToolError

_STATUS: Final = "/proc/{}/status"
# What a process reads through the page cache is not its own.
_PRIVATE: Final = ("RssAnon:", "RssShmem:")
_PEAK: Final = "VmHWM:"
# How many processes share the machine; unset for one.
PROCESSES: Final = "GPUPROF_PROCESSES"
# Beyond four, threads wait for memory.
_MOST_THREADS: Final = 4
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Task = Callable[[], object]


def process_count() -> int:
    """How many processes share the machine."""
    text = os.environ.get(PROCESSES, "")
    return max(int(text), 1) if text.isdecimal() else 1


def core_count() -> int:
    """How many cores all processes have together that share the machine."""
    # Of a container, or of a job of a cluster, only some are given to it.
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def thread_count(most: int) -> int:
    """How many threads this process should run at most."""
    return min(max(core_count() // process_count(), 1), most)


def check_measurable() -> None:
    """See that the memory of other processes can be measured here.

    Raises:
        MissingToolError: It cannot.
    """
    if not _fields("self") and importlib.util.find_spec("psutil") is None:
        msg = "--memory-limit needs the package psutil on this system"
        raise MissingToolError(msg, "Install it: pip install psutil")


def memory_bytes(process_id: int | str) -> int:
    """The memory that a process takes now beside files that it reads; 0 where it has ended."""
    fields = _fields(process_id)
    if fields:
        return sum(fields.get(name, 0) for name in _PRIVATE)
    try:
        psutil = importlib.import_module("psutil")
        rss_bytes: int = psutil.Process(process_id).memory_info().rss
    except Exception:  # noqa: BLE001 - it is not installed, or the process has ended
        return 0
    return rss_bytes


def peak_bytes() -> int:
    """The most memory that this process has taken so far; 0 where the system does not say."""
    return _fields("self").get(_PEAK, 0)


def _fields(process_id: int | str) -> dict[str, int]:
    """The fields of a process' memory as Linux names them, in bytes; empty where there are none."""
    try:
        lines = Path(_STATUS.format(process_id)).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {name: int(kibibytes) * 1024 for name, kibibytes, _ in sizes}


class SecondThread:
    """Does one task after another; it runs while there are any.

    What a task raises is dropped: who needs its result asks again, and gets the error then.
    """

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._turn: Final = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, tasks: Iterable[Task], *, is_first: bool = False) -> None:
        """Do these tasks after the others, or before them."""
        listed = [*tasks]
        with self._turn:
            if is_first:
                self._tasks.extendleft(reversed(listed))
            else:
                self._tasks.extend(listed)
            if self._thread is None and self._tasks:
                self._thread = threading.Thread(target=self._run)
                self._thread.start()

    def finish(self, *, is_all: bool) -> None:
        """Wait until the task that runs is done, or all are; those that do not run are dropped."""
        with self._turn:
            if not is_all:
                self._tasks.clear()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._turn:
                if not self._tasks:
                    self._thread = None
                    return
                task = self._tasks.popleft()
            with suppress(BaseException):  # Ctrl-C is for the main thread
                task()


def in_turn(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The result for each item, in their order; only a few are waiting at a time.

    Args:
        work: Called on other threads, or where there is one core on the caller's.
        items: Taken on the caller's thread.

    Raises:
        Exception: What ``work`` or ``items`` raise.
    """
    if (threads := thread_count(_MOST_THREADS)) == 1:  # another one would only wait for this one
        yield from map(work, items)
        return
    pool, waiting = ThreadPoolExecutor(threads), deque[Future[_Result]]()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # as after Ctrl-C
