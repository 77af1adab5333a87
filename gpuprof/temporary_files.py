"""Temporary files and folders, which must not stay behind when the program ends early.

A draft gets its name when it is whole and on the disk: after a crash of the machine there is the
file that was there before, or the new one.
"""

import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path


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
