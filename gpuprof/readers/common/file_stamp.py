"""Files that another program writes or replaces while they are read."""

import os
from pathlib import Path
from typing import NamedTuple

from gpuprof.base.errors import InputError


class Stamp(NamedTuple):
    """What differs between two files, and between two states of one file.

    The time when the inode changed also differs where a program sets the file's own time back, as
    ``cp -p`` and ``rsync -t`` do, and after the file was moved away and back.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    inode_changed_ns: int


def stamp(about: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return Stamp(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def changed(path: Path) -> InputError:
    """The error for a file whose stamp differs from that at the start of the reading."""
    return InputError(
        f"{path} changed while it was read",
        "Is it still being written or copied? Wait for that, then try again.",
    )


def check(path: Path, before: Stamp) -> None:
    """Check that a file is still the one that was read from.

    Raises:
        InputError: It is another one, or in another state, or gone.
    """
    try:
        is_same = stamp(path.stat()) == before
    except OSError as error:
        raise changed(path) from error
    if not is_same:
        raise changed(path)
