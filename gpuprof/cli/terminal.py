"""What a terminal shows: how far long work has come, and the room that it has for a result.

Progress is a line on a terminal's stderr; nothing in a pipe or a file.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, TypeVar

import click

from gpuprof.base.short_texts import cut, shortened
from gpuprof.base.signals import interruptible
from gpuprof.base.units import counted, format_count, say_bytes
from gpuprof.show import Page

if TYPE_CHECKING:
    from gpuprof.ranks.engine import Standing

# Work that is done sooner needs no word.
_PATIENCE_S: Final = 1.0
_PAUSE_S: Final = 0.2
_BAR: Final = 20
# What Linux counts of this process, from files in the page cache, too.
_COUNTERS: Final = Path("/proc/self/io")
_CLEARED: Final = "\r\x1b[K"
# Of a terminal that does not tell.
_COLUMNS: Final = 80
# So much of a name tells which file it is.
_LEAST_NAME: Final = 24
_NO_OPTIONS: Final = SimpleNamespace()


def say(line: str) -> None:
    """Print a line on stderr, at once, as what a recorded program prints follows.

    That nobody reads it any more (`2>&1 | head`, a lost terminal) changes neither a run nor its
    exit status.
    """
    try:
        click.echo(line, err=True)
    except OSError:
        # What is left of it must not fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class Progress:
    """What is known of work while it goes on.

    Args:
        work: What is done, for people.
        files: What is read.

    Attributes:
        events: How many events it is about, once that is known; else 0.
    """

    def __init__(self, work: str, files: Sequence[str]) -> None:
        self._work, self._began, self._skipped = work, time.monotonic(), _bytes_read() or 0
        self._size = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
        self.events = 0

    def line(self, columns: int = _COLUMNS) -> str:
        """How far it has come, in so many columns; each pass over the files fills the bar."""
        # Nothing was ever fetched where nobody has imported it.
        remote = sys.modules.get("gpuprof.readers.remote")
        if remote is not None and (fetch := remote.now()) is not None:
            fetching = f"Fetching {counted(len(fetch.copies), 'file', 'files')}"
            fetched = say_bytes(fetch.fetched_bytes)
            if not fetch.size_bytes:
                return cut(f"{fetching}, {fetched}", columns)
            bar = _drawn(min(_BAR * fetch.fetched_bytes // fetch.size_bytes, _BAR))
            return cut(f"{fetching}{bar} {fetched} of {say_bytes(fetch.size_bytes)}", columns)
        details = [f"{time.monotonic() - self._began:.0f} s"]
        if self.events:
            details.insert(0, f"{format_count(self.events)} events")
        read = max((_bytes_read() or 0) - self._skipped, 0)
        bar = ""
        if self._size and read:
            passes, pass_bytes = divmod(read, self._size)
            bar = _drawn(_BAR * pass_bytes // self._size)
            number = f", pass {passes + 1}" if passes else ""
            details.insert(0, f"{say_bytes(pass_bytes)} of {say_bytes(self._size)}{number}")
        return _fitted(self._work, bar, details, columns)


class JobProgress:
    """How many files of a job are done while workers read them."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: Standing | None = None
        self._latest: Standing | None = None

    def say(self, standing: "Standing") -> None:
        """Show this from now on."""
        self._first, self._latest = self._first or standing, standing

    def line(self, columns: int = _COLUMNS) -> str:
        """How far it has come, and how long the rest takes, in so many columns."""
        elapsed_s, first, latest = time.monotonic() - self._began, self._first, self._latest
        if first is None or latest is None:
            return f"Reading files {elapsed_s:.0f} s"
        read = latest.read_count + latest.failed_count
        filled = _BAR * read // (read + latest.waiting_count)
        details = [f"{latest.read_count} done", f"{latest.failed_count} failed"]
        details.append(f"{latest.waiting_count} left")
        if latest.peak_bytes:
            details.append(f"up to {say_bytes(latest.peak_bytes)} a worker")
        details.append(f"{elapsed_s:.0f} s")
        if latest.waiting_count < first.waiting_count:
            rest_s = elapsed_s * latest.waiting_count / (first.waiting_count - latest.waiting_count)
            details.append(f"about {rest_s:.0f} s to go")
        return _fitted("Reading files", _drawn(filled), details, columns)


def page(values: SimpleNamespace = _NO_OPTIONS, tables: Sequence[str] = ()) -> Page:
    """The room for a result: width and colour of the terminal, else 80 columns and none.

    Args:
        values: ``output``, ``wide`` and ``full_names``, where the command has them.
        tables: Names of the tables to show whole; none for the overview.
    """
    is_terminal = getattr(values, "output", "-") == "-" and sys.stdout.isatty()
    has_width = is_terminal or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if has_width else 80
    is_dumb = os.environ.get("TERM") == "dumb"
    is_colour = is_terminal and not is_dumb and not os.environ.get("NO_COLOR")
    is_wide, has_full_names = getattr(values, "wide", False), getattr(values, "full_names", False)
    return Page(width, is_colour, is_wide, tuple(tables) or None, has_full_names)


_Drawn = TypeVar("_Drawn", Progress, JobProgress)


def watched(work: str, files: Sequence[str] = ()) -> AbstractContextManager[Progress | None]:
    """Show how far work has come; see `shown`."""
    return shown(partial(Progress, work, files))


@contextmanager
def shown(make: Callable[[], _Drawn]) -> Iterator[_Drawn | None]:
    """Show on a terminal's stderr how far work has come that takes longer than a second.

    Where there is no terminal, or one that cannot clear a line, nobody is told: None.
    Ctrl-C ends it within a second, whatever it waits for.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        with interruptible(lambda: None):
            yield None
        return
    progress, stopped = make(), threading.Event()
    drawing = threading.Thread(target=_draw, args=(progress, stopped), daemon=True)
    drawing.start()

    def stop_drawing() -> None:
        stopped.set()
        drawing.join()

    try:
        with interruptible(stop_drawing):
            yield progress
    finally:
        stop_drawing()


def _draw(progress: Progress | JobProgress, stopped: threading.Event) -> None:
    if stopped.wait(_PATIENCE_S):
        return
    while not stopped.wait(_PAUSE_S):
        # A terminal breaks a line that is as long as it is wide, and only its end is cleared.
        columns = 0
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns - 1
        _say(f"{_CLEARED}{progress.line(columns if columns > 0 else _COLUMNS)}")
    _say(_CLEARED)


def _fitted(work: str, bar: str, details: Sequence[str], columns: int) -> str:
    """A line in which the bar yields first, then names, then the last of the details."""
    from gpuprof.show.cells import clean  # noqa: PLC0415 - a recording needs none

    ends = [f"{drawn} {', '.join(details)}" for drawn in (bar, "")]
    end = ends[len(ends[0]) + min(len(work), _LEAST_NAME) > columns]
    # Letters of Chinese and its kin take two columns.
    room = max(columns - len(end), _LEAST_NAME) // (1 if work.isascii() else 2)
    return cut(f"{shortened(clean(work), room)}{end}", columns)


def _drawn(filled: int) -> str:
    return f" [{'#' * filled}{' ' * (_BAR - filled)}]"


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal may be gone
        sys.stderr.write(text)
        sys.stderr.flush()


def _bytes_read() -> int | None:
    """How many bytes this process has read; None where the system does not say."""
    try:
        first = _COUNTERS.read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    return int(first.removeprefix("rchar: "))
