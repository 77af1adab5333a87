"""Temporary files and folders, which must not stay behind when the program ends early."""

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


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
