"""What all of nvprof's printed output shares: lines with a process id, processes, warnings.

nvprof of CUDA 5.5 to 12 writes ``==4711== text``, or ``======== text`` where it knows no
process, between lines that the profiled program prints.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuprof.base.secrets import masked_text
from gpuprof.readers.common import gunzip

_BLOCK_BYTES: Final = 1 << 20
# A line without an end is a program's progress bar; a name is some thousand bytes at most.
_LONGEST_LINE: Final = 1 << 18
_COMMENT_BYTES: Final = 4096

_TIME: Final = rb"[0-9.]+(?:ns|us|ms|s)"
ROW: Final = rb"%%[ \t]+%(t)s[ \t]+[0-9]+[ \t]+%(t)s[ \t]+%(t)s[ \t]+%(t)s[ \t]+[^ \t\r\n]" % {
    b"t": _TIME
}
# The first table of a log says what was asked of nvprof. Each begins with a literal, or with
# the percent sign, so that the search jumps from one to the next.
_TABLES: Final = (
    ("text", re.compile(rb"Time\(%\)[ \t]+Time[ \t]+Calls")),
    ("text", re.compile(ROW)),
    ("csv", re.compile(rb'Time\(%\)"?,"?Time"?,')),
    ("csv", re.compile(rb'"Invocations","(?:Metric|Event) Name"')),
    ("csv", re.compile(rb'"Device","Count","Avg')),
    ("trace", re.compile(rb'Start"?(?:,"?|[ \t]+)Duration"?[, \t]+"?(?:Grid|Name|Size|Device)')),
)
_MARK: Final = re.compile(
    rb"==(?:[0-9]+|====)== (?:NVPROF is profiling process|Profiling (?:application|result):"
    rb"|CPU profiling result|Generated result file"
    rb"|Warning: (?:No profile data collected|unable to locate cuda))"
)
MESSAGE: Final = re.compile(rb"==(?:[0-9]+|====)== +[A-Z]")
_PREFIX: Final = re.compile(r"==(?:([0-9]{1,10})|====)== *(.*)")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROFILING: Final = re.compile(
    r"NVPROF is profiling process ([0-9]{1,10})(?![0-9])(?:, command: (.*))?"
)


@dataclass(frozen=True)
class LogLine:
    """One line of a log, decoded, without its end and without colours.

    Args:
        number: 1 for the first of the file.
        text: The line.
        comment: A person's ``# comment`` between the line before and this one; None for none.
    """

    number: int
    text: str
    comment: str | None = None


def blocks(path: Path) -> Iterator[bytes]:
    """A log in pieces of some hundred kilobytes that end where a line ends."""
    pending = b""
    with gunzip.opened(path) as file:
        for piece in gunzip.pieces(path, file, _BLOCK_BYTES):
            complete_lines, end, tail = piece.rpartition(b"\n")
            if end:
                yield pending + complete_lines + end
            pending = tail if end else (pending + tail)[-_LONGEST_LINE:]
    if pending:
        yield pending


def lines_with(path: Path, anchors: tuple[re.Pattern[bytes], ...]) -> Iterator[LogLine]:
    """The lines that hold a match of one of the patterns, in order.

    The rest of a log, megabytes of a program's own output, is never looked at line by line.
    A pattern is fast when it begins with a literal.
    """
    number = 1
    for block in blocks(path):
        counted = end = 0
        for start in sorted(m.start() for anchor in anchors for m in anchor.finditer(block)):
            if start < end:
                continue
            begin = _line_start(block, start)
            number += block.count(b"\n", counted, begin)
            comment_start = block.rfind(b"\n#", max(end, begin - _COMMENT_BYTES), begin) + 1
            comment = (
                clean(block[comment_start : _line_end(block, comment_start)]).strip("# ")
                if comment_start
                else None
            )
            counted, end = begin, _line_end(block, start)
            yield LogLine(number, clean(block[begin:end]), comment)
        number += block.count(b"\n", counted)


def all_lines(path: Path) -> Iterator[LogLine]:
    """Every line of a log, in order; of a line that was written over, what shows at last."""
    number = 1
    for block in blocks(path):
        yield from lines_of(block, number)
        number += block.count(b"\n")


def lines_of(block: bytes, number: int) -> Iterator[LogLine]:
    """Every line of a part of a log whose first line has this number, as `all_lines`."""
    for place, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), number):
        yield LogLine(place, clean(raw.rstrip(b"\r").rpartition(b"\r")[2]))


def _line_start(block: bytes, position: int) -> int:
    return max(block.rfind(b"\n", 0, position), block.rfind(b"\r", 0, position)) + 1


def _line_end(block: bytes, position: int) -> int:
    end = block.find(b"\n", position)
    return len(block) if end < 0 else end


def clean(raw: bytes) -> str:
    """Text of bytes that may hold colours, Windows line ends and a name in any encoding."""
    text = raw.decode("utf-8", errors="replace")
    return (_ANSI.sub("", text) if "\x1b" in text else text).rstrip("\r\n")


def csv_cells(text: str) -> list[str]:
    """The cells of a line; none where it is a program's, too long for a cell."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def first_table(text: bytes) -> str | None:
    """Which of nvprof's tables comes first: ``text``, ``csv``, ``trace``; None for none."""
    starts = [(start, name) for name, table in _TABLES if (start := _at(table, name, text)) >= 0]
    return min(starts)[1] if starts else None


def _at(table: re.Pattern[bytes], name: str, text: bytes) -> int:
    """Where a table is; a text table quoted in a notebook's JSON is none."""
    for match in table.finditer(text):
        lead = text[_line_start(text, match.start()) : match.start()]
        if name != "text" or b'"' not in lead:
            return match.start()
    return -1


def other_tables(path: Path, table: str) -> list[str]:
    """Which of nvprof's tables a file holds beside those of this kind."""
    is_found = {kind: False for kind, _ in _TABLES if kind != table}
    for block in blocks(path):
        for kind, pattern in _TABLES:
            if not is_found.get(kind, True):
                is_found[kind] = _at(pattern, kind, block) >= 0
    return [kind for kind, is_there in is_found.items() if is_there]


def is_log(text: bytes) -> bool:
    """Whether nvprof itself speaks in a text."""
    return _MARK.search(text) is not None


def table_in(path: Path) -> str | None:
    """`first_table` of a whole file; ``none`` where nvprof speaks and prints no table."""
    has_log = False
    for block in blocks(path):
        if (table := first_table(block)) is not None:
            return table
        has_log = has_log or is_log(block)
    return "none" if has_log else None


# Runs by their ids; None for a table that no run printed.
Job = tuple[int | None, ...]


@dataclass
class Frame:
    """The processes of a log and what nvprof says about them, gathered line by line."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    result_file: str | None = None
    comments: dict[int, str] = field(default_factory=dict)
    _run_of: dict[int | None, int] = field(default_factory=dict)
    _with_result: set[int] = field(default_factory=set)
    _heard: int = 0
    _spans: dict[int, tuple[int, int]] = field(default_factory=dict)

    def hear(self, text: str) -> tuple[int | None, str] | None:
        """Take in a line; its run and what nvprof says in it, or None where it says nothing."""
        match = _PREFIX.search(text)
        if match is None:
            return None
        self._heard += 1
        process_id, line = int(match[1]) if match[1] else None, match[2].strip()
        profiling = _PROFILING.match(line)
        if profiling is not None:
            self._start(int(profiling[1]), profiling[2])
        elif line.startswith("Profiling application:"):
            run_id = self._run_of.get(process_id)
            if run_id is None or run_id in self._with_result:
                self._start(process_id, line.partition(":")[2].strip() or None)
        elif line.startswith("Profiling result:"):
            self._result(process_id)
        elif line.startswith("Generated result file:"):
            self.result_file = line.partition(":")[2].strip()
        else:
            kind, _, message = line.partition(": ")
            is_doubt = kind in {"Warning", "Error"} and not message.startswith("This can happen")
            message = message if kind in {"Warning", "Error"} else line
            if is_doubt or "will be replayed" in message:
                # One note per kind: the same doubt with other numbers is the same doubt.
                message_kind = re.sub(r"[0-9]+", "#", message)
                self.notes.setdefault(message_kind, f'nvprof reported: "{message}"')
        return self._run_of.get(process_id), line

    def start_unnamed(self, comment: str | None = None) -> int:
        """A further run, which only its table or a comment marks in the log."""
        self._heard += 1
        run_id = self._start(None, None)
        if comment:
            self.comments[run_id] = comment
        return run_id

    @property
    def jobs(self) -> list[Job]:
        """Runs by their ids; those that ran at the same time together, as ranks of a job do.

        One that began before another's result, and ended after it began, ran beside it.
        """
        jobs: list[Job] = []
        last_end = -1
        for run_id, (begin, end) in sorted(self._spans.items(), key=lambda item: item[1]):
            if begin > last_end:
                jobs.append(())
            jobs[-1] = (*jobs[-1], run_id)
            last_end = max(last_end, end)
        return jobs

    def listed(self, run_ids: Job) -> list[dict[str, Any]]:
        """Some of the runs, as rows of ``runs``; a table that no run printed is of the only one."""
        runs = [run for run in self.runs if run["run_id"] in run_ids]
        return self.runs if len(self.runs) == 1 and run_ids == (None,) else runs

    def command(self, run_ids: Job) -> str | None:
        """The command of some runs, where all of them have the same."""
        commands = {run["command"] for run in self.listed(run_ids)}
        return commands.pop() if len(commands) == 1 else None

    def job_notes(self, run_ids: Job) -> list[str]:
        """That sums are over several processes, where they are."""
        with_result = self._with_result & {*run_ids}
        is_job = len(with_result) > 1 and any({*run_ids} <= {*job} for job in self.jobs)
        return [f"Sums are over {len(with_result)} processes of one job."] if is_job else []

    @property
    def without_result(self) -> int:
        """How many runs printed no result."""
        return len(self.runs) - len(self._with_result)

    def _result(self, process_id: int | None) -> None:
        run_id = self._run_of.get(process_id)
        if run_id is None and process_id is None and len(self.runs) == 1:
            run_id = self._run_of[None] = 0
        if run_id is None or run_id in self._with_result:
            run_id = self._start(process_id, None)
        self._with_result.add(run_id)
        self._spans[run_id] = (self._spans[run_id][0], self._heard)

    def _start(self, process_id: int | None, command: str | None) -> int:
        run_id = len(self.runs)
        shown = None if command is None else masked_text(command)
        self.runs.append({"run_id": run_id, "process_id": process_id, "command": shown})
        self._run_of[process_id] = run_id
        self._spans[run_id] = (self._heard, self._heard)
        return run_id
