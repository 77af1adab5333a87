"""How far long work has come, as a line on a terminal's stderr; nothing in a pipe or a file."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gpuprof.base.short_texts import cut, shortened
from gpuprof.base.signals import interruptible
from gpuprof.base.units import counted, format_bytes, format_count

if TYPE_CHECKING:
    from gpuprof.model.profile import Profile
    from gpuprof.ranks.engine import Standing
    from gpuprof.readers.remote import Fetch

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


class Progress:
    """What is known of work while it goes on.

    Args:
        work: What is done, for people.
        files: What is read.
    """

    def __init__(self, work: str, files: Sequence[str]) -> None:
        self._work, self._began, self._skipped = work, time.monotonic(), _bytes_read() or 0
        self._size = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
        self._events = 0

    def of(self, profile: "Profile") -> "Profile":
        """The same recording, whose events are told from now on."""
        self._events = profile.events
        return profile

    def line(self, columns: int = _COLUMNS) -> str:
        """How far it has come, in so many columns; each pass over the files fills the bar."""
        if (fetch := _fetch()) is not None:
            return cut(_fetching(fetch), columns)
        details = [f"{time.monotonic() - self._began:.0f} s"]
        if self._events:
            details.insert(0, f"{format_count(self._events)} events")
        read = max((_bytes_read() or 0) - self._skipped, 0)
        bar = ""
        if self._size and read:
            passes, pass_bytes = divmod(read, self._size)
            filled = _BAR * pass_bytes // self._size
            bar = _drawn(filled)
            number = f", pass {passes + 1}" if passes else ""
            details.insert(0, f"{format_bytes(pass_bytes)} of {format_bytes(self._size)}{number}")
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
            details.append(f"up to {format_bytes(latest.peak_bytes)} a worker")
        details.append(f"{elapsed_s:.0f} s")
        if latest.waiting_count < first.waiting_count:
            rest_s = elapsed_s * latest.waiting_count / (first.waiting_count - latest.waiting_count)
            details.append(f"about {rest_s:.0f} s to go")
        return _fitted("Reading files", _drawn(filled), details, columns)


_Drawn = TypeVar("_Drawn", Progress, JobProgress)


def watched(work: str, files: Sequence[str] = ()) -> AbstractContextManager[Progress]:
    """Show how far work has come; see `shown`."""
    return shown(Progress(work, files))


@contextmanager
def shown(progress: _Drawn) -> Iterator[_Drawn]:
    """Show on a terminal's stderr how far work has come that takes longer than a second.

    A terminal that cannot clear a line gets none.
    Ctrl-C ends it within a second, whatever it waits for.
    """
    stopped = threading.Event()
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        with interruptible(lambda: None):
            yield progress
        return
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


@contextmanager
def reading(
    files: Sequence[str], reader: str | None, section: str | None, *, shows_notes: bool = False
) -> "Iterator[Profile]":
    """Read a recording, and show how far the work on it has come; see `watched`.

    Args:
        files: What the user names.
        reader: Name of the format; None where it is to be found.
        section: Which recording of a file that holds several.
        shows_notes: Whether the output itself lists files that could not be read.
    """
    from gpuprof.cli.partial import note_unread  # noqa: PLC0415 - start-up time of --help
    from gpuprof.readers import read_profile  # noqa: PLC0415 - start-up time of --help

    name = files[0] if len(files) == 1 else f"{len(files)} files"
    with watched(f"Reading {name}", files) as progress:
        profile = read_profile(files, reader, section)
        note_unread([profile], shows_notes=shows_notes)
        yield progress.of(profile)


def _draw(progress: Progress | JobProgress, stopped: threading.Event) -> None:
    if stopped.wait(_PATIENCE_S):
        return
    while not stopped.wait(_PAUSE_S):
        _say(f"{_CLEARED}{progress.line(_columns())}")
    _say(_CLEARED)


def _columns() -> int:
    """How long a line may be: a terminal breaks a longer one, and only its end is cleared."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return _COLUMNS
    return columns - 1 if columns > 1 else _COLUMNS


def _fitted(work: str, bar: str, details: Sequence[str], columns: int) -> str:
    """A line in which the bar yields first, then names, then the last of the details."""
    from gpuprof.show.cells import clean  # noqa: PLC0415 - start-up time of --help

    ends = [f"{drawn} {', '.join(details)}" for drawn in (bar, "")]
    end = ends[len(ends[0]) + min(len(work), _LEAST_NAME) > columns]
    # Letters of Chinese and its kin take two columns.
    room = max(columns - len(end), _LEAST_NAME) // (1 if work.isascii() else 2)
    return cut(f"{shortened(clean(work), room)}{end}", columns)


def _drawn(filled: int) -> str:
    return f" [{'#' * filled}{' ' * (_BAR - filled)}]"


def _fetch() -> "Fetch | None":
    """What is being fetched; None for nothing, and where nothing was ever fetched."""
    remote = sys.modules.get("gpuprof.readers.remote")
    return remote.now() if remote is not None else None


def _fetching(fetch: "Fetch") -> str:
    fetched_bytes, size_bytes = fetch.fetched_bytes, fetch.size_bytes
    files = counted(len(fetch.copies), "file", "files")
    if not size_bytes:
        return f"Fetching {files}, {format_bytes(fetched_bytes)}"
    bar = _drawn(min(_BAR * fetched_bytes // size_bytes, _BAR))
    return f"Fetching {files}{bar} {format_bytes(fetched_bytes)} of {format_bytes(size_bytes)}"


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
