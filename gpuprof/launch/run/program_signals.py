"""Pass Ctrl-C and such signals on to the recorded program, so that its profiler ends after it.

A profiler that is killed loses its report, and the agent that it has started runs on. So the
program is stopped first, by force at last; the profiler only where it does not come to its end.
"""

import os
import selectors
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

from gpuprof.base.manifest import RUN_DIR_VARIABLE

# A profiler that was told to stop, or has used up the program's time, gets this to save. Managers
# of jobs that send SIGTERM kill after 10 to 90 s.
SAVING_SECONDS: Final = 60.0
# From here on, signals also end a profiler whose program does not even die of SIGKILL.
_LAST: Final = 5


class Signals:
    """Passes signals on to the program, harder each time, at last to all that was started.

    Args:
        folder: Of the run, which the environment of all its processes names.
        say: Takes a line for the person who waits.

    Attributes:
        received: The signals, in their order.
        program: The program's process id, once it is known.
    """

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self.received: list[int] = []
        self.program: int | None = None
        self._folder, self._say = folder, say
        self._leader: int | None = None
        # The profiler's processes before the program, the program's parent first.
        self._before: list[int] = []
        self._executables: set[Path] = set()
        self._was_told = False
        self._limit: threading.Timer | None = None

    def started(self, leader: int) -> None:
        """The process that was started is there: the profiler, or the program itself."""
        self._leader = leader

    def running(self, program: int) -> None:
        """The program is there: deliver what came before it was."""
        self.program = program
        parents, process = _parents(), program
        while process not in {self._leader, 0, 1}:
            process = parents.get(process, 0)
            self._before.append(process)
        self._executables = {path for p in self._before if (path := _executable(p))}
        if self.received:
            self._send(self.received[-1])

    def ended(self) -> None:
        """All is over: the process ids may soon belong to others."""
        self.program = self._leader = None
        if self._limit is not None:
            self._limit.cancel()

    def handle(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal; as a handler it runs in the main thread between two bytecodes."""
        self.received.append(number)
        self._send(number)

    def is_saving(self) -> bool:
        """Whether nothing of the program runs any more, and its profiler does."""
        return self.program not in {None, self._leader} and not self.left_behind(or_program=True)

    def left_behind(self, *, or_program: bool = False) -> list[int]:
        """What the program has left running, which profilers wait for: not the profiler's own."""
        if self.program is None or not self._before:
            return []
        if not wait_for(self.program, 0):
            return [self.program] if or_program else []
        # An orphan falls to the program's parent, as nsys wants it, or to another process. What
        # else the profiler starts, such as an importer, is its own, and so are its agents.
        of_profiler = {*tree(self._before[-1])} - {*tree(self._before[0])[1:]}
        return [
            process
            for process in processes_of(self._folder)
            if process not in of_profiler and _executable(process) not in self._executables
        ]

    def limit(self, seconds: float) -> None:
        """Kill all that was started unless it ends in time.

        Managers of jobs send SIGTERM once, and who uses Ctrl-C can use it again.
        """
        if self._limit is None:
            self._limit = threading.Timer(seconds, self._kill_all)
            self._limit.daemon = True
            self._limit.start()

    def _send(self, number: int) -> None:
        times, is_saving = len(self.received), self.is_saving()
        if self.program is None:
            is_last = times > 1
        else:
            # What a profiler saves is what was wanted: at the first word it may come to its end.
            is_last = self._was_told if is_saving else times >= _LAST
        if is_last:
            self._kill_all()
        elif self.program is not None and not is_saving:
            second = signal.SIGTERM if number == signal.SIGINT else signal.SIGKILL
            number = [number, second, *[signal.SIGKILL] * _LAST][times - 1]
            signal_program(self.program, number)
            for process in self.left_behind():
                _kill(process, number)
        else:
            if is_saving:
                self._was_told = True
                self._say("The profiler is saving the recording; stop again to discard it")
            if number != signal.SIGINT:
                self.limit(SAVING_SECONDS)

    def _kill_all(self) -> None:
        for root in (self._leader, self.program):
            for process in () if root is None else tree(root):
                _kill(process, signal.SIGKILL)
        kill_processes_of(self._folder)


def kill_processes_of(folder: str) -> None:
    """Kill the processes of a run, its profiler's agents among them."""
    for process in processes_of(folder):
        _kill(process, signal.SIGKILL)


def processes_of(folder: str) -> list[int]:
    """The living processes whose environment names a run's folder, wherever they belong now."""
    if not folder:
        return []
    variable = f"{RUN_DIR_VARIABLE}={folder}".encode("utf-8", "surrogateescape")
    processes: list[int] = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            # A process that has ended and was not yet asked for has none.
            process = int(environ.parent.name)
            if variable in environ.read_bytes().split(b"\0") and process != os.getpid():
                processes.append(process)
        except OSError:
            continue  # another user's, or it ended meanwhile
    return processes


def _executable(process: int) -> Path | None:
    """The file that a process runs; None where it has ended or is another user's."""
    try:
        return Path(f"/proc/{process}/exe").readlink()
    except OSError:
        return None


def wait_for(process: int, seconds: float | None = None) -> bool:
    """Wait for the end of a process, which need not be a child of this one; whether it came."""
    try:
        descriptor = os.pidfd_open(process)
    except OSError:
        return True
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            return bool(selector.select(seconds))
    finally:
        os.close(descriptor)


def signal_program(program: int, number: int) -> None:
    """Signal a program and its children as a terminal would, but not its profiler."""
    try:
        if os.getpgid(program) == program:
            os.killpg(program, number)
            return
    except ProcessLookupError:
        return  # it has ended, and its profiler is at work
    for process in tree(program):
        _kill(process, number)


def tree(root: int) -> list[int]:
    """A process and its living descendants, parents first."""
    children: dict[int, list[int]] = {}
    for process, parent in _parents().items():
        children.setdefault(parent, []).append(process)
    processes = [root]
    for process in processes:
        processes += children.get(process, [])
    return processes


def _parents() -> dict[int, int]:
    """The parent of every living process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may itself hold parentheses and blanks.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        parents[int(stat.parent.name)] = parent
    return parents


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
