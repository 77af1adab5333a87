"""Text that Nsight Systems prints: `nsys stats` in all its formats, ``profile --stats=true``.

Written by nsys 2019.5 to 2026.1, alone in a file or among what a program printed, with the
reports of several recordings after one another. Names of reports and labels changed in 2023.
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "Report Scripts", and the
scripts' own ``--help-reports ALL``.
"""

from pathlib import Path
from typing import Final

from gpuprof.base.errors import CorruptFileError
from gpuprof.model.profile import Profile
from gpuprof.readers.common import gunzip
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys_stats import scan
from gpuprof.readers.nsys_stats.blocks import FaultError

_MIXED: Final = (
    "Output of several processes may be mixed, or the file edited; "
    "print the reports again with `nsys stats --format csv`."
)


def read(path: Path) -> Profile:
    """Read all sums and traces that a file holds.

    Raises:
        InputError: The file cannot be opened.
        EmptyRecordingError: nsys found nothing of CUDA to print.
        CorruptFileError: A table breaks the rules of its format.
    """
    from gpuprof.readers.nsys_stats import printed_recording  # noqa: PLC0415 - 0.1 s to import

    try:
        # The text is no longer in memory when the tables are made of its cells.
        return printed_recording.profile(path, scan.scan(_lines(gunzip.content(path))))
    except FaultError as error:
        before = _lines(gunzip.content(path)).count(b"\n", 0, error.offset)
        msg = f"{path}, line {before + 1 + error.lines}: {error}"
        raise CorruptFileError(msg, _MIXED) from error


def _lines(data: bytes) -> bytes:
    """The same text with Unix's line ends."""
    return data.replace(b"\r\n", b"\n") if b"\r\n" in data else data


READER: Final = Reader(
    name="nsys-stats",
    title="Reports of `nsys stats` and `nsys profile --stats=true`",
    versions="2019.5 to 2026.1; column, table, csv, tsv, json, hdoc and htable",
    gives=("activity_summary", "kernels", "memcpys", "memsets", "api_calls", "runs"),
    cannot=(
        "Sums do not show what ran at the same time, and no report shows between which devices "
        "a copy went. Sizes are rounded to 0.001 MB as printed, and unknown where that is 0."
    ),
    read=read,
    recognises=lambda head: scan.recognises(_lines(head)),
    searches=lambda path: scan.recognises(_lines(gunzip.content(path))),
)
