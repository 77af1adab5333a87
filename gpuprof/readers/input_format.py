"""What a reader is: how it knows its files, and what it can and cannot tell from them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuprof.model.profile import Profile

HEAD_BYTES: Final = 64 * 1024
ZIP_MAGIC: Final = b"PK\x03\x04"
# A member's header in a zip archive: so long before its name.
LOCAL_HEADER_BYTES: Final = 30


def begins_archive(head: bytes, member: str) -> bool:
    """Whether a file that begins so is a zip archive whose first member has this name."""
    return head.startswith(ZIP_MAGIC) and head[LOCAL_HEADER_BYTES:].startswith(member.encode())


@dataclass(frozen=True)
class Reader:
    """One input format.

    Args:
        name: As in ``--reader``: ``nvprof-text``.
        title: One line for people.
        versions: Versions of the tool whose files are read.
        gives: Names of the tables that it can fill.
        cannot: What a file of this format cannot tell, in a sentence; empty for nothing.
        read: Turns a file into a profile; raises only `GpuprofError`.
        recognises: Certain from the first 64 KiB (gunzipped) that a file is of this format.
        recognises_folder: Certain that a folder is of this format.
        searches: Looks through a whole file where no reader was certain from its head.
    """

    name: str
    title: str
    versions: str
    gives: tuple[str, ...]
    cannot: str
    read: Callable[[Path], Profile]
    recognises: Callable[[bytes], bool] = lambda _: False
    recognises_folder: Callable[[Path], bool] | None = None
    searches: Callable[[Path], bool] = lambda _: False
