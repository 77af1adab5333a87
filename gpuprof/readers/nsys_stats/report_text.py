"""Text that Nsight Systems prints: `nsys stats` in all its formats, ``profile --stats=true``.

Written by nsys 2019.5 to 2026.1, alone in a file or among what a program printed, with the
reports of several recordings after one another. Names of reports and labels changed in 2023.
Lines are found by a few literals, so that megabytes of a program's own output cost next to
nothing; what a literal finds is then judged by the whole line.
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "Report Scripts", and the
scripts' own ``--help-reports ALL``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gpuprof.base.errors import CorruptFileError
from gpuprof.model.profile import Profile
from gpuprof.readers.common import gunzip
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys_stats.blocks import Block, FaultError, ReportTitle
from gpuprof.readers.nsys_stats.text_tables import (
    box_block,
    column_block,
    csv_block,
    html_block,
    json_block,
    line_end,
    text,
)

_MIXED: Final = (
    "Output of several processes may be mixed, or the file edited; "
    "print the reports again with `nsys stats --format csv`."
)
_PROCESSING: Final = re.compile(
    rb"^(?:Processing \[(?P<source>.*?)\] with \[(?P<path>[^\]]*?)(?P<name>\w+)\.py[^\]]*\]"
    rb"(?P<arguments>\([^)]*\))?|Running \[(?P<old>.*?)(?P<old_name>\w+)\.py (?P<old_source>.*)\])"
)
_EXECUTING: Final = re.compile(rb"(?:^|\r)(?:\[\d+/\d+\] )?Executing '(\w+)' stats report")
_TITLE: Final = re.compile(rb"^ ?\*\* .* \((\w+(?:sum|trace))[^)\s]*\):")
_OLD_TITLE: Final = re.compile(
    rb"^(?:CUDA (?:API|Kernel|Memory Operation)|Operating System Runtime API|NVTX [\w-]+ Range|NVTX"
    rb" Range) Statistics(?::| \((?:nanoseconds|KiB|by time|by size(?: in KiB)?)\):?)\s*$"
    rb"|^CUDA Kernel & Memory Operations Trace:"
)
_BEGINS: Final = re.compile(rb"^Generating '.*nsys-report-|^Exported successfully to")
_SKIPPED: Final = re.compile(rb"^SKIPPED: (?P<file>.*) does not contain (?P<what>.*?)\.?\s*$")
_DASHES: Final = re.compile(rb"^[ \t]*-{3,}(?:  +-{3,})+[ \t]*$")
_BORDER: Final = re.compile(rb"^\+-{3,}(?:\+-{3,})+\+[ \t]*$")
_CSV: Final = re.compile(
    rb'^(?:\xef\xbb\xbf)?"?(?:Time(?: ?\(%\))?|Total(?: \(\w+\))?|Start ?\(\w+\))"?[,\t]'
)
_JSON: Final = re.compile(rb'\[\s*\{\s*"(?:Time|Total|Start) ?\([%\w]+\)"\s*:')
_VERSION: Final = re.compile(rb"nsight-systems(?:-cli)?[/-](\d{4}\.\d+(?:\.\d+)?)")

# What a line begins, the literal that finds it, and what the line must be.
_LINES: Final = (
    ("processing", b"Processing [", _PROCESSING),
    ("processing", b"Running [", _PROCESSING),
    ("executing", b"' stats report", _EXECUTING),
    ("executing", b"** ", _TITLE),
    ("title", b" Statistics", _OLD_TITLE),
    ("title", b"& Memory Operations Trace", _OLD_TITLE),
    ("begins", b"nsys-report-", _BEGINS),
    ("begins", b"Exported successfully", _BEGINS),
    ("skipped", b"SKIPPED: ", _SKIPPED),
    ("doubt", b"Not all CUDA events might have been collected", re.compile(rb"")),
    ("doubt", b"CUDA profiling might have not been started correctly", re.compile(rb"")),
    ("column", b"---  -", _DASHES),
    ("box", b"--+--", _BORDER),
    ("csv", b"Total Time", _CSV),
    ("csv", b"Total", _CSV),
    ("csv", b"Duration", _CSV),
)
_TABLES: Final[dict[str, Callable[[bytes, int], tuple[Block | None, int]]]] = {
    "column": column_block,
    "box": box_block,
    "csv": csv_block,
    "json": json_block,
    "html": html_block,
}
# Longer than any of these lines, and shorter than a file of JSON in one line.
_LONGEST_LINE_BYTES: Final = 1 << 20
# Marks of these lines alone make a file certain to be of this format.
_CERTAIN: Final = frozenset({"processing", "executing", "title", "skipped"})


@dataclass
class Scan:
    """What a file says, in its order: tables, and why there are none."""

    blocks: list[Block] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    version: str | None = None
    report: ReportTitle = field(default_factory=ReportTitle)

    def note(self, kind: str, match: re.Match[bytes]) -> None:
        """Take what a line says that begins no table."""
        words = {name: text(word) for name, word in match.groupdict().items() if word is not None}
        if kind == "begins":
            self.report = ReportTitle(None, None, self.report.segment + 1)
        elif kind == "skipped":
            self.skipped.append(words["what"])
        elif kind == "doubt":
            self.doubts.append(text(match.string).strip())
        elif kind == "processing":
            version = _VERSION.search(match.string)
            self.version = self.version or (text(version[1]) if version else None)
            name = words.get("name") or words["old_name"]
            source = words.get("source") or words.get("old_source")
            arguments = words.get("arguments", "")
            self.report = ReportTitle(name + arguments, source, self.report.segment)
        elif kind == "title":
            self.report = ReportTitle(None, None, self.report.segment)
        elif self.report.name is None or not self.report.name.startswith(text(match[1])):
            self.report = self.report._replace(name=text(match[1]))


def scan(data: bytes) -> Scan:
    """All tables of a file, each with its report's name and source from the lines before it.

    Raises:
        FaultError: A table breaks the rules of its format.
    """
    result = Scan()
    consumed = 0
    for start, kind, match in sorted(_marks(data), key=lambda mark: mark[0]):
        if start < consumed:
            continue
        if kind in _TABLES:
            block, consumed = _TABLES[kind](data, start)
            if block is not None:
                result.blocks.append(replace(block, report=result.report))
        else:
            result.note(kind, match)
    return result


def recognises(data: bytes) -> bool:
    """Whether some bytes of a file can only be of this format."""
    for start, kind, _ in _marks(data):
        try:
            if kind in _CERTAIN or (kind in _TABLES and _TABLES[kind](data, start)[0] is not None):
                return True
        except ValueError:  # a table that is cut off by the end of the bytes is one, too
            return True
    return False


def _marks(data: bytes) -> Iterator[tuple[int, str, re.Match[bytes]]]:
    for kind, literal, pattern in _LINES:
        position = data.find(literal)
        while position >= 0:
            start = data.rfind(b"\n", 0, position) + 1
            end = line_end(data, position)
            match = pattern.search(data[start : min(end, start + _LONGEST_LINE_BYTES)])
            if match is not None:
                yield start, kind, match
            position = data.find(literal, end)
    for match in _JSON.finditer(data):
        yield match.start(), "json", match
    for match in re.finditer(rb"<table\b", data):
        yield match.start(), "html", match


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
        return printed_recording.profile(path, scan(_lines(gunzip.content(path))))
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
    gives=("activity_summary", "kernels", "memcpys", "memsets", "api_calls", "devices", "runs"),
    cannot=(
        "Sums do not show what ran at the same time, and no report shows between which devices "
        "a copy went. Sizes are rounded to 0.001 MB as printed, and unknown where that is 0."
    ),
    read=read,
    recognises=lambda head: recognises(_lines(head)),
    searches=lambda path: recognises(_lines(gunzip.content(path))),
)
