"""Text summaries that nvprof prints: kernels, copies and API calls, one row per name.

Written by nvprof of CUDA 5.5 to 12, on its own (``--log-file``) or mixed with what the profiled
program prints; also excerpts that people pasted, down to a single row.
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "Summary Mode".
"""

import re
from pathlib import Path
from typing import Final

from gpuprof.base import units
from gpuprof.base.errors import CorruptFileError
from gpuprof.model.profile import Profile
from gpuprof.readers.input_format import HEAD_BYTES, Reader
from gpuprof.readers.nvprof import log
from gpuprof.readers.nvprof.summary import (
    CANNOT,
    GIVES,
    REMOTE_MAPPING,
    SKIPPED,
    PrintedSummary,
)

_ANCHORS: Final = (
    log.MESSAGE,
    re.compile(rb"%[ \t]+[0-9.,]+[A-Za-z\xc2\xb5]+[ \t]+[0-9]"),
    re.compile(rb"%[ \t]+[0-9](?:[^\s]+[ \t]+){0,5}?[^\s]*[\x80-\xff]"),
    re.compile(rb"Time\(%\)[ \t]+Time[ \t]+Calls"),
    re.compile(rb"Profiling result:"),
    re.compile(rb"API calls:"),
    re.compile(rb"No (?:kernels|events/metrics) were profiled\."),
    re.compile(rb"(?:Metric|Event) Name"),
    re.compile(rb'Context"?[, \t]+"?Stream"?[, \t]+"?Kernel'),
    re.compile(rb" To (?:Host|Device)"),
    re.compile(REMOTE_MAPPING.encode()),
    re.compile(rb'Device "'),
    re.compile(rb"\(device: [0-9]+, name: "),
)
_TIME: Final = r"([0-9]+(?:\.[0-9]+)?(?:ns|us|ms|s))"
# A row whose numbers hold bytes that are no text is a row still: it must not be passed over.
_GARBLED: Final = r"[0-9](?:\S+\s+){0,5}?\S*\ufffd"
_ROW_START: Final = re.compile(
    rf'^([^"%]*?)([0-9.]+)%\s+(?:[0-9.,]+[A-Za-zµ]+\s+[0-9]+(?=\s|$)|{_GARBLED})'
)
_ROW: Final = re.compile(
    rf"^([0-9.]+)%\s+{_TIME}\s+([0-9]+)\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(\S.*)$"
)
_CELLS: Final = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_EXPECTED: Final = "Time(%), Time, Calls, Avg, Min, Max and Name as nvprof prints them"
_LABEL: Final = re.compile(r"([A-Z][A-Za-z ()]*):\s*$")
_MIGRATION: Final = re.compile(
    r"^\s*([0-9]+)\s+\S+\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s+"
    rf"((?:Host|Device) To (?:Host|Device)|{REMOTE_MAPPING})\s*$"
)
_DEVICE: Final = re.compile(r'^\s*Device "(.+)"')
_TENSORFLOW_DEVICE: Final = re.compile(
    r"\(device: ([0-9]{1,6}), name: (?P<name>[^,]+), pci bus id: (?P<bus_id>[^,)]+)"
    r"(?:, compute capability: (?P<compute_capability>[0-9.]+))?\)"
)


def read(path: Path) -> Profile:
    """Read all tables of a log, whatever else the log holds."""
    summary = PrintedSummary(path, unread_tables=log.other_tables(path, "text"))
    for line in log.lines_with(path, _ANCHORS):
        if summary.broken is not None:
            raise summary.broken
        _take(summary, line)
    return summary.profile(READER.name)


def _take(summary: PrintedSummary, line: log.LogLine) -> None:
    """Take in one line that may be nvprof's."""
    if (start := _ROW_START.match(line.text)) is not None:
        _row(summary, line, start[1])
    elif "Time(%)" in line.text and "Calls" in line.text:
        summary.head(is_labelled="Type" in line.text)
    elif summary.hear(line.text):
        return
    elif summary.section == "migrations" and (row := _MIGRATION.match(line.text)):
        calls, size, time, name = row.groups()
        try:
            summary.migrate(
                name,
                units.parse_count(calls),
                None if size == "-" else units.parse_binary_bytes(size),
                None if time == "-" else units.parse_ns(time),
            )
        except ValueError as error:
            msg = f"{summary.path}, line {line.number}: {error}"
            raise CorruptFileError(msg, "Was the log edited?") from error
    elif (device := _DEVICE.match(line.text)) is not None:
        summary.device(device[1])
    elif (match := _TENSORFLOW_DEVICE.search(line.text)) is not None:
        summary.tensorflow_device(int(match[1]), **match.groupdict())


def _row(summary: PrintedSummary, line: log.LogLine, lead: str) -> None:
    if line.comment is not None and all(r["process_id"] is None for r in summary.frame.runs):
        # An excerpt of several runs, told apart by a person's comments.
        summary.run_id = summary.frame.start_unnamed(line.comment)
    if (label := _LABEL.search(lead)) is not None:
        summary.label(label[1])
        summary.is_new_table = True
    if summary.section in SKIPPED:
        return
    match = _ROW.match(line.text[len(lead) :])
    if match is None:
        summary.broken = summary.fault(line, _EXPECTED)
        return
    summary.row(line, _EXPECTED, dict(zip(_CELLS, match.groups(), strict=True)))


READER: Final = Reader(
    name="nvprof-text",
    title="nvprof's printed summary, or rows of it",
    versions="CUDA 5.5 to 12",
    gives=GIVES,
    cannot=CANNOT,
    read=read,
    # Where the log goes on, its table may still be of another kind.
    recognises=lambda head: (
        (table := log.first_table(head)) == "text"
        or (table is None and len(head) < HEAD_BYTES and log.is_log(head))
    ),
    searches=lambda path: log.table_in(path) in {"text", "none"},
)
