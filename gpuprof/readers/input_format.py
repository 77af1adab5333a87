"""What a reader is, and which files no reader can read that people take for recordings."""

import re
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


_EXPORT: Final = "Export the report as SQLite: `nsys export --type sqlite FILE.nsys-rep`."

# Of each kind what it is, as in "run.nvvp is a ..."; what to do instead; how its first bytes look.
_UNSUPPORTED: Final = (
    (
        "a report of nsys as JSON, which holds no tables",
        _EXPORT,
        rb'\A\s*\{(?:"data":\["|"Type":\d+,|\s*"VmSystemInformation":)',
    ),
    (
        "a report of nsys as text, which holds no tables",
        _EXPORT,
        rb'\A(?:data: "[^\n]*\n){2}',
    ),
    (
        "an HDF5 file; of what nsys exports, SQLite and Parquet are read",
        _EXPORT,
        rb"\A\x89HDF\r\n\x1a\n",
    ),
    (
        "an Arrow file; of what nsys exports, SQLite and folders of Arrow or Parquet are read",
        _EXPORT,
        rb"(?s)\A(?:ARROW1|\xff\xff\xff\xff.{2}\x00\x00\x10\x00\x00\x00)",
    ),
    (
        "a Git LFS pointer, not the file itself",
        "Fetch it with `git lfs pull`.",
        rb"\Aversion https://git-lfs\.github\.com/spec/",
    ),
    (
        "a Jupyter notebook",
        "Save the profiler's output in a file of its own, such as `nsys stats ... > report.txt`.",
        rb'(?s)\A\s*\{\s*"cells"\s*:|\A\s*\{.{0,2000}"nbformat"\s*:',
    ),
    (
        "a session of the NVIDIA Visual Profiler, which holds no measurements itself",
        "Give the file that it was imported from, or record with `nvprof -o run.nvprof`.",
        rb"\A(?:\xef\xbb\xbf)?<\?xml [^>]*>\s*<session\b",
    ),
    (
        "a profile of an nvprof that did not write SQLite yet",
        "Print it with the nvprof that wrote it: `nvprof -i FILE --print-gpu-trace --csv`.",
        rb"\A\x00\x04\x00\x00[\x04\x05]\x00\x00\x00",
    ),
    (
        "a web page, not a recording",
        "Download the file itself.",
        rb"(?i)\A\s*<!doctype html",
    ),
    (
        "the output of several processes, each line with the number of its own",
        "Separate them, such as: grep '^0: ' FILE > rank0.txt",
        rb"\A(?: *[0-9]+: [^\n]*\n){2}",
    ),
    (
        "a tar archive",
        "Unpack it, and give the folder or a file in it.",
        rb"(?s)\A.{257}ustar",
    ),
    (
        "a zip archive of another program than `gpuprof pack`",
        "Unpack it, and give the folder or a file in it.",
        rb"\APK(?:\x03\x04|\x05\x06)",
    ),
    (
        "a Parquet table, and a recording has several",
        "Give the folder that nsys exported, or the recording that the table is from.",
        rb"\APAR1",
    ),
    (
        "compressed with xz, Zstandard or bzip2",
        "Unpack it, or give it through a pipe, such as <(xz -dc FILE).",
        rb"\A(?:\xfd7zXZ\x00|\x28\xb5\x2f\xfd|BZh[1-9]1AY&SY)",
    ),
)


def unsupported(head: bytes) -> tuple[str, str] | None:
    """What a file is whose first bytes are these, and what to do; None where it is not known."""
    kinds = ((kind, hint) for kind, hint, marks in _UNSUPPORTED if re.search(marks, head))
    return next(kinds, None)
