"""A cache of exports and pages outside the user's folder: bounded, all or nothing.

An entry is checked by the sums of its files at each use, and made again where they differ. Where
the folder of the cache cannot be used, an export is made for this process alone.

An export that a process reads is held by a shared lock until that process ends (on systems
with ``flock``), and is neither cleared nor pushed out meanwhile.
"""

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from gpuprof.base import json_input
from gpuprof.base.errors import InputError, OutputError
from gpuprof.base.temporary_files import put, removed_at_exit
from gpuprof.readers.inputs import changed, check_unchanged, stamp

LIMIT_BYTES: Final = 8 * 2**30
_DAY_S: Final = 24 * 3600
_PARTIAL: Final = "partial-"
# The file that was exported, for people; beside the export's own files.
_SOURCE: Final = "source.txt"
# Sums of all other files, by their names in the entry.
_SUMS: Final = "sums.json"
_CHUNK_BYTES: Final = 1 << 20
_ROOM: Final = "Name a folder with room for it in the environment variable GPUPROF_CACHE."


@dataclass(frozen=True)
class Entry:
    """One export or page in the cache.

    Args:
        folder: Where it lies.
        source: The file that was exported first with this content, or what a page shows; None
            where unknown.
        size_bytes: What it takes on disk.
        used_at: When it was last used, in seconds of the Unix clock.
    """

    folder: Path
    source: str | None
    size_bytes: int
    used_at: float


def cached(path: Path, kind: str, make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills from a file, made once per content.

    Args:
        path: The user's file.
        kind: What makes two exports of one content differ, such as the exporter's version.
        make: Fills the empty folder that it is given; raises where it cannot.

    Raises:
        InputError: The file cannot be read, changes meanwhile, or there is no room for its export.
    """

    def make_checked(into: Path) -> None:
        make(into)
        check_unchanged(path, before)
        if _digest(path) != digest:
            raise changed(path)

    try:
        before, digest = stamp(path.stat()), _digest(path)
        name, source = f"{kind}-{digest}", str(path.absolute())
        try:
            return _entry_of(location(), name, source, make_checked)
        except (OSError, RuntimeError):  # the latter where there is no home
            return _entry_of(_folder_of_this_process(), name, source, make_checked)
    except OSError as error:
        msg = f"{path} cannot be exported: {error.strerror}"
        raise InputError(msg, "Set TMPDIR or GPUPROF_CACHE to a folder with more room.") from error


def cached_page(text: str, name: str, source: str) -> Path:
    """A page as a file of the cache: a browser may open it when this process has ended.

    Args:
        text: The page; the same one is kept once.
        name: Name of the file.
        source: What it shows, for people.

    Raises:
        OutputError: There is no room for it.
    """

    def make(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    digest = hashlib.sha256(f"{name}\0{text}".encode()).hexdigest()[:32]
    try:
        return _entry_of(location(), f"page-{digest}", f"page of {source}", make) / name
    except OSError as error:
        msg = f"the page of {source} cannot be kept in the cache: {error.strerror}"
        raise OutputError(msg, _ROOM) from error


def _entry_of(folder: Path, name: str, source: str, make: Callable[[Path], None]) -> Path:
    """The entry of this name, locked; `make` fills it first where it is not there, or damaged."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    entry = folder / name
    if _hold(entry):
        inode = entry.stat().st_ino
        if _is_whole(entry):
            with contextlib.suppress(OSError):  # of a cache that others fill
                os.utime(entry)  # the entry that was used longest ago is the first to go
            return entry
        # A damaged one goes, unless another process was first and has made it anew.
        with (
            contextlib.suppress(OSError),
            removed_at_exit(Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))) as aside,
        ):
            if entry.stat().st_ino == inode:
                entry.rename(aside / name)
    try:
        with removed_at_exit(Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))) as partial:
            make(partial)
            (partial / _SOURCE).write_text(source, encoding="utf-8")
            (partial / _SUMS).write_text(json.dumps(_sums(partial)), encoding="utf-8")
            try:
                put(partial, entry)
            except OSError:
                if not entry.is_dir():  # else another process was first with the same content
                    raise
            _hold(entry)
            return entry
    finally:
        _shrink(folder, entry)


def _sums(entry: Path) -> dict[str, int]:
    """The CRC-32 of each file of an entry, by its name in it."""
    sums = {}
    for path in filter(Path.is_file, sorted(entry.rglob("*"))):
        total = 0
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                total = zlib.crc32(chunk, total)
        sums[path.relative_to(entry).as_posix()] = total
    return sums


def _is_whole(entry: Path) -> bool:
    """Whether an entry holds what was written into it, and nothing else."""
    try:
        sums = json_input.loads((entry / _SUMS).read_text(encoding="utf-8"))
        return bool({name: s for name, s in _sums(entry).items() if name != _SUMS} == sums)
    except (OSError, ValueError):
        return False


@cache
def _folder_of_this_process() -> Path:
    """For exports where the cache cannot be used; removed at the end of the process."""
    folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def location() -> Path:
    """The cache's folder: GPUPROF_CACHE, or where this system keeps caches of a user."""
    named = os.environ.get("GPUPROF_CACHE")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gpuprof"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "gpuprof" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuprof"


def entries(unused_days: float = 0.0) -> list[Entry]:
    """What the cache holds, the most recently used first.

    Args:
        unused_days: Only exports that were not used for so many days.

    Raises:
        InputError: The cache's folder cannot be read.
    """
    try:
        folders = location().iterdir() if location().exists() else ()
        exports = []
        for folder in folders:
            if folder.is_dir() and not folder.name.startswith(_PARTIAL):
                source = None
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    source = (folder / _SOURCE).read_text(encoding="utf-8")
                exports.append(Entry(folder, source, _size(folder), _used(folder)))
    except OSError as error:
        msg = f"{location()} cannot be read: {error.strerror}"
        hint = "Name another folder in the environment variable GPUPROF_CACHE."
        raise InputError(msg, hint) from error
    latest = time.time() - unused_days * _DAY_S
    old = [entry for entry in exports if entry.used_at <= latest or not unused_days]
    return sorted(old, key=lambda entry: (-entry.used_at, entry.folder.name))


def clear(chosen: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Remove exports.

    Returns:
        Those that were removed, and those that are in use and were kept.
    """
    removed: list[Entry] = []
    in_use: list[Entry] = []
    for entry in chosen:
        (removed if _remove(entry.folder) else in_use).append(entry)
    return removed, in_use


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):  # another process is removing it
            total += file.stat().st_size
    return total


@cache
def _flock() -> ModuleType | None:
    """The module of file locks, which not every system has."""
    try:
        import fcntl  # noqa: PLC0415 - absent on Windows
    except ImportError:
        return None
    return fcntl


def _hold(entry: Path) -> bool:
    """Keep other processes from removing an export as long as this one lives; if it is there."""
    with contextlib.suppress(OSError):
        _shared_lock(entry, entry.stat().st_ino)
    # Another process may have removed it while this one waited for the lock.
    return entry.is_dir()


@cache
def _shared_lock(entry: Path, _inode: int) -> int | None:
    fcntl = _flock()
    if fcntl is None:
        return None
    # Open until the process ends, also when it is killed.
    descriptor = os.open(entry, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def _remove(entry: Path) -> bool:
    """Remove an export that no process holds; whether it is gone."""
    fcntl = _flock()
    if fcntl is None:
        shutil.rmtree(entry, ignore_errors=True)
        return not entry.exists()
    try:
        descriptor = os.open(entry, os.O_RDONLY)
    except FileNotFoundError:
        return True  # another process was first
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry, ignore_errors=True)
    except OSError:
        return False  # a process reads it
    finally:
        os.close(descriptor)
    return not entry.exists()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _shrink(folder: Path, newest: Path) -> None:
    """Remove what an interrupted export left, and the longest unused beyond the limit."""
    now = time.time()
    total = 0
    for entry in sorted(folder.iterdir(), key=_used, reverse=True):
        if entry.name.startswith(_PARTIAL):
            if now - _used(entry) > _DAY_S:
                shutil.rmtree(entry, ignore_errors=True)
            continue
        total += _size(entry)
        if total > LIMIT_BYTES and entry != newest:
            _remove(entry)


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0  # another process has just removed it
