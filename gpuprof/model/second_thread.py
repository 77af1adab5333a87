"""Work that will be asked for, done on a second thread meanwhile."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

Task = Callable[[], object]


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
