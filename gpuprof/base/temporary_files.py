"""Temporary files and folders, which must not stay behind when the program ends early.

A draft gets its name when it is whole and on the disk: after a crash of the machine there is the
file that was there before, or the new one.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def removed_at_exit(path: Path) -> Iterator[Path]:
    """Remove a file or folder after its use, or at the process's end if that comes first."""
    remove = partial(_remove, path)
    atexit.register(remove)
    try:
        yield path
    finally:
        remove()
        atexit.unregister(remove)


@contextmanager
def unfinished(target: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """A draft beside a file or folder that is to be made, removed after its use.

    A process that is killed leaves its draft behind. So each is locked as long as its process
    lives, and those of the same target that are not are removed first.

    Args:
        target: What gets the draft's content in the end, see `put`.
        is_folder: Whether the draft is a folder.

    Raises:
        OSError: It cannot be made.
    """
    stem, suffix = (target.name, "") if is_folder else (target.stem, target.suffix)
    prefix = f".{stem}.unfinished-"
    for entry in os.listdir(target.parent):  # noqa: PTH208 - names alone
        if entry.startswith(prefix) and entry.endswith(suffix):
            left_behind = _locked(target.parent / entry)
            if left_behind is not None:
                _remove(target.parent / entry)
                os.close(left_behind)
    if is_folder:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    else:
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=target.parent)
        os.close(handle)
        path = Path(name)
    with removed_at_exit(path):
        descriptor = _locked(path)
        try:
            yield path
        finally:
            if descriptor is not None:
                os.close(descriptor)


def lock(descriptor: int, *, waits: bool = False) -> bool | None:
    """Lock an open file or folder for this process, as long as the descriptor is open.

    Args:
        descriptor: Of the file.
        waits: Whether to wait until nobody else has the lock.

    Returns:
        Whether it could be locked: False where another process has it, None where there are no
        locks (Windows, some file systems).
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _locked(path: Path) -> int | None:
    """A descriptor that holds a lock as long as it is open; None where that cannot be had."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # of a folder on Windows, too
        return None
    if lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def give_usual_mode(path: Path) -> None:
    """Give a temporary file or folder, which is its owner's alone, the mode of a new one."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def put(draft: Path, target: Path) -> None:
    """Give a draft its name, in place of a file of this name; what it holds is on the disk first.

    Args:
        draft: A file, or a folder with all that is in it.
        target: In the same folder; where the draft is a folder, there must be none, or an empty
            one.

    Raises:
        OSError: It cannot be written or renamed.
    """
    for path in (*draft.rglob("*"), draft):
        _flush(path)
    draft.replace(target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
