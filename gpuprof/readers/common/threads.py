"""Work of several threads whose results are taken one after another."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from gpuprof.base import machine

# Beyond four, threads wait for memory.
_MOST_THREADS: Final = 4
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_turn(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The result for each item, in their order; only a few are waiting at a time.

    Args:
        work: Called on other threads.
        items: Taken on the caller's thread.

    Raises:
        Exception: What ``work`` or ``items`` raise.
    """
    threads = machine.thread_count(_MOST_THREADS)
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
