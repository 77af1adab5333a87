"""A cache of exports outside the user's folder: keyed by content, bounded, all or nothing."""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpuprof.errors import InputError

_LIMIT_BYTES: Final = 8 * 2**30
_ABANDONED_S: Final = 24 * 3600
_PARTIAL: Final = "partial-"


def cached(path: Path, kind: str, make: Callable[[Path], None]) -> Path:
    """The folder that ``make`` fills from a file, made once per content.

    Args:
        path: The user's file.
        kind: What makes two exports of one content differ, such as the exporter's version.
        make: Fills the empty folder that it is given; raises where it cannot.

    Raises:
        InputError: The file cannot be read, or there is no room for its export.
    """
    try:
        folder = location()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        entry = folder / f"{kind}-{_digest(path)}"
        if entry.is_dir():
            os.utime(entry)  # the entry that was used longest ago is the first to go
            return entry
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
        try:
            make(partial)
            return _kept(partial, entry)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            _shrink(folder, entry)
    except OSError as error:
        msg = f"{path} cannot be exported to the cache: {error.strerror}"
        hint = "Name a folder with room for it in the environment variable GPUPROF_CACHE."
        raise InputError(msg, hint) from error


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


def _kept(partial: Path, entry: Path) -> Path:
    try:
        partial.rename(entry)
    except OSError:
        if not entry.is_dir():  # else another process was first with the same content
            raise
    return entry


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _shrink(folder: Path, newest: Path) -> None:
    """Remove what an interrupted export left, and the longest unused beyond the limit."""
    now = time.time()
    entries = sorted(folder.iterdir(), key=_used, reverse=True)
    for entry in (e for e in entries if e.name.startswith(_PARTIAL)):
        if now - _used(entry) > _ABANDONED_S:
            shutil.rmtree(entry, ignore_errors=True)
    total = 0
    for entry in (e for e in entries if not e.name.startswith(_PARTIAL)):
        total += sum(file.stat().st_size for file in entry.rglob("*"))
        if total > _LIMIT_BYTES and entry != newest:
            shutil.rmtree(entry, ignore_errors=True)


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0  # another process has just removed it
