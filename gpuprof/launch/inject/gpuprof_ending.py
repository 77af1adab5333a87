"""Brings a recording home when its program ends: in order, or by a signal that would end it.

SIGTERM and SIGHUP end a Python program without a word to `atexit`. They come from whoever stops a
job, and to all ranks where one has failed. The program dies of them as it would, a moment later;
a script that handles one itself keeps its handler.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# For a main thread outside Python, where no handler runs, which may never come back.
PATIENCE_SECONDS = 5.0


def at_end(end: Callable[[], object]) -> None:
    """Call this once when the program ends, but not in children that it forks."""
    ending = _Ending(end)
    atexit.register(ending.end_once)
    if threading.current_thread() is threading.main_thread():
        ending.handle_signals()


class _Ending:
    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end
        self.pid = os.getpid()
        self.has_begun = False
        self.signal: int | None = None
        self.held = threading.local()

    def end_once(self) -> None:
        """Bring it home, then die of a signal that came meanwhile or before."""
        if self.has_begun or os.getpid() != self.pid:
            return
        self.has_begun = True
        try:
            self.end()
        finally:
            if self.signal is not None:
                _die(self.signal)

    def handle_signals(self) -> None:
        """Take the signals that would end the program."""
        taken = [n for n in SIGNALS if signal.getsignal(n) is signal.SIG_DFL]
        for number in taken:
            signal.signal(number, self._handle)
        if not taken:
            return
        # A thread hears of them, too; the interpreter has one pipe for this.
        hear, tell = os.pipe()
        os.set_blocking(tell, False)
        wakeup_fd = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        if wakeup_fd != -1:  # the script's own, as asyncio has one
            signal.set_wakeup_fd(wakeup_fd)
        threading.Thread(target=self._wait, args=(hear,), name="gpuprof", daemon=True).start()
        os.register_at_fork(
            before=self._hold,
            after_in_parent=self._release,
            after_in_child=lambda: self._leave_to_child(tell),
        )

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        self.end_once()

    def _wait(self, hear: int) -> None:
        while True:
            [number] = os.read(hear, 1)
            if number in SIGNALS:
                time.sleep(PATIENCE_SECONDS)
                if not self.has_begun and signal.getsignal(number) == self._handle:
                    _die(number)

    def _hold(self) -> None:
        """Let no signal of a child come to what it inherits."""
        self.held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def _release(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.held.mask)

    def _leave_to_child(self, tell: int) -> None:
        for number in SIGNALS:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)
        wakeup_fd = signal.set_wakeup_fd(-1)
        if wakeup_fd != tell:
            signal.set_wakeup_fd(wakeup_fd)
        self._release()


def _die(number: int) -> None:
    """Of a signal as if nobody had handled it; `signal.signal` works in the main thread alone."""
    ctypes.CDLL(None).signal(number, 0)
    os.kill(os.getpid(), number)
