"""Pass Ctrl-C and its kin on to the recorded program, so that its profiler ends after it."""

import os
import signal
from pathlib import Path
from types import FrameType


class Signals:
    """Passes signals on to the program, harder each time, at last to all that was started."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._leader: int | None = None
        self._program: int | None = None

    def started(self, leader: int) -> None:
        """The process that was started is there: the profiler, or the program itself."""
        self._leader = leader

    def running(self, program: int) -> None:
        """The program is there: deliver what came before it was."""
        self._program = program
        if self.received:
            self._send(self.received[-1])

    @property
    def program(self) -> int | None:
        """The program's process id, once it is known."""
        return self._program

    def ended(self) -> None:
        """All is over: the process ids may soon belong to others."""
        self._program = self._leader = None

    def handle(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal; as a handler it runs in the main thread between two bytecodes."""
        self.received.append(number)
        self._send(number)

    def _send(self, number: int) -> None:
        times = len(self.received)
        if self._program is not None and times == 1:
            signal_program(self._program, number)
        elif self._program is not None and times == 2 and number == signal.SIGINT:  # noqa: PLR2004
            signal_program(self._program, signal.SIGTERM)
        elif times > 1:
            for root in (self._leader, self._program):
                _kill_tree(root)


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
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may itself hold parentheses and blanks.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def _kill_tree(root: int | None) -> None:
    for process in tree(root) if root is not None else ():
        _kill(process, signal.SIGKILL)


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
