"""Pass Ctrl-C and such signals on to the recorded program, so that its profiler ends after it."""

import os
import signal
from pathlib import Path
from types import FrameType


class Signals:
    """Passes signals on to the program, harder each time, at last to all that was started.

    Attributes:
        received: The signals, in their order.
        program: The program's process id, once it is known.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self.program: int | None = None
        self._leader: int | None = None

    def started(self, leader: int) -> None:
        """The process that was started is there: the profiler, or the program itself."""
        self._leader = leader

    def running(self, program: int) -> None:
        """The program is there: deliver what came before it was."""
        self.program = program
        if self.received:
            self._send(self.received[-1])

    def ended(self) -> None:
        """All is over: the process ids may soon belong to others."""
        self.program = self._leader = None

    def handle(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal; as a handler it runs in the main thread between two bytecodes."""
        self.received.append(number)
        self._send(number)

    def _send(self, number: int) -> None:
        times = len(self.received)
        if self.program is not None and times == 1:
            signal_program(self.program, number)
        elif self.program is not None and times == 2 and number == signal.SIGINT:  # noqa: PLR2004
            signal_program(self.program, signal.SIGTERM)
        elif times > 1:
            for root in (self._leader, self.program):
                for process in () if root is None else tree(root):
                    _kill(process, signal.SIGKILL)


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
    processes = [root]
    for process in processes:
        processes += children.get(process, [])
    return processes


def _kill(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
