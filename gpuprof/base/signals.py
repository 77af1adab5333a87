"""Ctrl-C and other signals that end a program: who takes them, and for how long.

Python hears of Ctrl-C only between two steps of the main thread, which may wait for a library
that never comes back. In `interruptible` work a thread hears of it, gives the orderly end a moment,
and else ends the process, after what was registered with ``atexit`` has been removed.
"""

import atexit
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    import duckdb

STATUS: Final = 130
# The orderly end gets this, then what must be removed: both together are half a second.
_ORDERLY_S: Final = 0.3
_REMOVAL_S: Final = 0.2

# Windows has no SIGHUP.
ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

_pressed = threading.Event()
_ending = threading.Lock()


@contextmanager
def handling(
    handle: Callable[[int, FrameType | None], object], numbers: Sequence[int] = ENDING
) -> Iterator[None]:
    """Take signals for a while; the former handlers come back.

    Only a process's main thread can; elsewhere the caller's handlers stay. What is ignored stays
    so: nohup has SIGHUP ignored, and the program is to go on then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    former = {number: signal.signal(number, handle) for number in taken}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def interrupting(*connections: "duckdb.DuckDBPyConnection") -> Iterator[None]:
    """Let Ctrl-C end what DuckDB's threads do: by itself it waits until they are through.

    A handler of the caller's own is left alone.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        for connection in connections:
            connection.interrupt()
        signal.default_int_handler(number, frame)

    with handling(stop, [signal.SIGINT] if _is_default() else []):
        yield


@contextmanager
def interruptible(before_message: Callable[[], object]) -> Iterator[None]:
    """Let Ctrl-C end the process within half a second while this work goes on.

    Work outside of the main thread, or under a handler of its own, is left alone.

    Args:
        before_message: Clears what was drawn on the terminal.
    """
    if threading.current_thread() is not threading.main_thread() or not _is_default():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    ended = threading.Event()
    waiting = threading.Thread(target=_wait, args=(reading, ended, before_message), daemon=True)
    waiting.start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(writing)
        waiting.join()
        os.close(reading)


def remove_before_end() -> None:
    """Let SIGTERM and SIGHUP end the process as they do, after what is temporary is removed.

    Handlers that are there, and signals that are ignored, stay.
    """
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    _remove_in_time()
    # By the signal itself, as whoever waits for this process expects. Python sets handlers in its
    # main thread alone, which may be busy.
    ctypes.CDLL(None).signal(number, 0)
    os.kill(os.getpid(), number)


def was_pressed() -> bool:
    """Whether Ctrl-C met long work, whose threads may still go on."""
    return _pressed.is_set()


def end(before_message: Callable[[], object] = lambda: None) -> NoReturn:
    """Say so once, remove what is temporary, and end without waiting for any thread."""
    _ending.acquire()  # never released: who comes second waits for the end
    with suppress(OSError, ValueError):
        before_message()
        say_stopped()
    leave(STATUS)


def leave(status: int) -> NoReturn:
    """Remove what is temporary, and end without waiting for any thread."""
    _remove_in_time()
    os._exit(status)


def say_stopped() -> None:
    """Say on stderr why the program ends."""
    sys.stderr.write("Error: stopped by Ctrl-C\n")
    sys.stderr.flush()


def _is_default() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _wait(reading: int, ended: threading.Event, before_message: Callable[[], object]) -> None:
    while number := os.read(reading, 1):
        if signal.getsignal(number[0]) is _leave:
            _leave(number[0], None)
        if number[0] == signal.SIGINT:
            _pressed.set()
            if not ended.wait(_ORDERLY_S):
                end(before_message)
            return


def _remove_in_time() -> None:
    def remove() -> None:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        atexit._run_exitfuncs()  # noqa: SLF001 - os._exit would leave temporary files behind

    removal = threading.Thread(target=remove, daemon=True)
    removal.start()
    removal.join(_REMOVAL_S)
