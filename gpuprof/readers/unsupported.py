"""Files that people take for recordings, which no reader can read: what they are, what to do."""

import re
from typing import Final

_EXPORT: Final = "Export the report as SQLite: `nsys export --type sqlite FILE.nsys-rep`."

# Of each kind what it is, as in "run.nvvp is a ..."; what to do instead; how its first bytes look.
_UNSUPPORTED: Final = (
    (
        "a report of nsys as JSON, which holds no tables",
        _EXPORT,
        re.compile(rb'\A\s*\{(?:"data":\["|"Type":\d+,|\s*"VmSystemInformation":)'),
    ),
    (
        "a report of nsys as text, which holds no tables",
        _EXPORT,
        re.compile(rb'\A(?:data: "[^\n]*\n){2}'),
    ),
    (
        "an HDF5 file; of what nsys exports, SQLite and Parquet are read",
        _EXPORT,
        re.compile(rb"\A\x89HDF\r\n\x1a\n"),
    ),
    (
        "an Arrow file; of what nsys exports, SQLite and folders of Arrow or Parquet are read",
        _EXPORT,
        re.compile(rb"\A(?:ARROW1|\xff\xff\xff\xff.{2}\x00\x00\x10\x00\x00\x00)", re.DOTALL),
    ),
    (
        "a Git LFS pointer, not the file itself",
        "Fetch it with `git lfs pull`.",
        re.compile(rb"\Aversion https://git-lfs\.github\.com/spec/"),
    ),
    (
        "a Jupyter notebook",
        "Save the profiler's output in a file of its own, such as `nsys stats ... > report.txt`.",
        re.compile(rb'\A\s*\{\s*"cells"\s*:|\A\s*\{.{0,2000}"nbformat"\s*:', re.DOTALL),
    ),
    (
        "a session of the NVIDIA Visual Profiler, which holds no measurements itself",
        "Give the file that it was imported from, or record with `nvprof -o run.nvprof`.",
        re.compile(rb"\A(?:\xef\xbb\xbf)?<\?xml [^>]*>\s*<session\b"),
    ),
    (
        "a profile of an nvprof that did not write SQLite yet",
        "Print it with the nvprof that wrote it: `nvprof -i FILE --print-gpu-trace --csv`.",
        re.compile(rb"\A\x00\x04\x00\x00[\x04\x05]\x00\x00\x00"),
    ),
    (
        "a web page, not a recording",
        "Download the file itself.",
        re.compile(rb"\A\s*<!doctype html", re.IGNORECASE),
    ),
    (
        "a tar archive",
        "Unpack it, and give the folder or a file in it.",
        re.compile(rb"\A.{257}ustar", re.DOTALL),
    ),
    (
        "a zip archive of another program than `gpuprof pack`",
        "Unpack it, and give the folder or a file in it.",
        re.compile(rb"\APK(?:\x03\x04|\x05\x06)"),
    ),
    (
        "a Parquet table, and a recording has several",
        "Give the folder that nsys exported, or the recording that the table is from.",
        re.compile(rb"\APAR1"),
    ),
    (
        "compressed with xz, Zstandard or bzip2",
        "Unpack it, or give it through a pipe, such as <(xz -dc FILE).",
        re.compile(rb"\A(?:\xfd7zXZ\x00|\x28\xb5\x2f\xfd|BZh[1-9]1AY&SY)"),
    ),
)


def unsupported(head: bytes) -> tuple[str, str] | None:
    """What a file is whose first bytes are these, and what to do; None where it is not known."""
    kinds = ((kind, hint) for kind, hint, marks in _UNSUPPORTED if marks.search(head))
    return next(kinds, None)
