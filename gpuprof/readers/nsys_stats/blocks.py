"""Tables that `nsys stats` printed, however laid out: cells by column name, and whose they are."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.model.words import narrowed
from gpuprof.readers.common.compact_columns import Lexicon, coded, listed

# Other reports have the same columns, so that names tell: cudaMalloc, cuMemAlloc_v2.
API_NAME: Final = re.compile(r"^cu(?:da)?[A-Z]")
# "Avg (ns)" is the column Avg in ns; "Time(%)" of old versions has no blank.
_HEADER: Final = re.compile(r"^(?P<base>.*?)\s*(?:\((?P<unit>[A-Za-z%/]{1,8})\))?$")
_BASES: Final = {
    "Average": "Avg",
    "Minimum": "Min",
    "Maximum": "Max",
    "Calls": "Count",
    "Num Calls": "Count",
    "Instances": "Count",
    "Operations": "Count",
    "Operation": "Name",
    "CorrID": "CorrId",
}
_UNITS: Final = {"sec": "s", "msec": "ms", "usec": "us", "nsec": "ns"}
_MARKS: Final = (
    {"Total Time", "Avg"},
    {"Total", "Count", "Avg", "Name"},
    {"Start", "Duration", "Name"},
)
_BLANK: Final = ("", "-", "None")
# Columns of traces in which hardly two cells are the same.
_OF_EACH: Final = frozenset({"Start", "Duration", "CorrId"})


class PrintedColumn(NamedTuple):
    """Cells of one column, blank ones null, and the unit in its heading, if any.

    Cells are texts, or a dictionary of texts where few of them are different.
    """

    unit: str | None
    cells: pa.Array


class ReportTitle(NamedTuple):
    """What is known of a table from the lines before it.

    Args:
        name: The report that printed it, such as ``cuda_gpu_kern_sum``; None where not said.
        source: The exported file that it sums up; None where not said.
        segment: How many recordings began before it in the file.
    """

    name: str | None = None
    source: str | None = None
    segment: int = 0


class Style(NamedTuple):
    """Which character separates groups of digits (empty for none), and which is the point."""

    group: str = ""
    point: str = "."


_NO_TITLE: Final = ReportTitle()
_PLAIN: Final = Style()


@dataclass(frozen=True)
class Block:
    """One table of the file.

    Args:
        offset: The byte at which the line begins after which its rows come.
        columns: Cells by the words of today's headings.
        headings: As printed.
        report: The report's name and source, from the lines before it.
        is_cut: Whether its last row is incomplete and left out.
        has_lines: Whether each row is a line.
        kind: What it is a table of, as `gpuprof.readers.nsys_stats.blocks.kind` says.
        style: How it writes numbers.
    """

    offset: int
    columns: dict[str, PrintedColumn]
    headings: tuple[str, ...]
    report: ReportTitle = _NO_TITLE
    is_cut: bool = False
    has_lines: bool = True
    kind: str = ""
    style: Style = _PLAIN

    @property
    def num_rows(self) -> int:
        """Rows, without the heading."""
        return len(next(iter(self.columns.values())).cells)

    def texts(self, name: str) -> list[str | None]:
        """Cells of a column; all None where there is no such column."""
        return listed(self.column(name).cells)

    def column(self, name: str) -> PrintedColumn:
        """A column; all null where there is no such one."""
        return self.columns.get(name) or PrintedColumn(None, pa.nulls(self.num_rows, pa.string()))


class FaultError(ValueError):
    """A table breaks the rules of its format.

    Args:
        offset: A byte of the line.
        message: What is wrong there.
        lines: How many lines further on it is.
    """

    def __init__(self, offset: int, message: str, lines: int = 0) -> None:
        super().__init__(message)
        self.offset = offset
        self.lines = lines


class Cells:
    """The cells of a table as they are read, piece by piece; blank ones are null.

    Most columns have few different values, which are held once: a table takes a fraction of
    what it takes as text.

    Args:
        headings: As printed.
    """

    def __init__(self, headings: Sequence[str]) -> None:
        self._headings = headings
        self._names = [_column_name(heading) for heading in headings]
        self._lexicons = [Lexicon() for _ in headings]
        self._pieces: list[list[Any]] = [[] for _ in headings]

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self._names)

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add a piece of the table: as many cells of each column."""
        import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that recognising does not need

        columns_of = zip(self._names, columns, self._lexicons, self._pieces, strict=True)
        for (name, _), cells, lexicon, pieces in columns_of:
            if name in _OF_EACH:
                trimmed = pc.utf8_trim_whitespace(cells)
                is_blank = pc.is_in(trimmed, pa.array(_BLANK))
                pieces.append(pc.if_else(is_blank, pa.scalar(None, pa.string()), trimmed))
                continue
            encoded = cells.dictionary_encode()
            texts = [text.strip() for text in encoded.dictionary.to_pylist()]
            codes = lexicon.codes(texts, len(texts))
            codes[[text in _BLANK for text in texts]] = -1
            pieces.append(narrowed(codes[np.from_dlpack(encoded.indices)]))
        # Else what each piece took for a while adds up.
        pa.default_memory_pool().release_unused()

    def block(self, offset: int) -> Block:
        """The table, whose rows come after the line that begins at a byte."""
        columns: dict[str, PrintedColumn] = {}
        for (name, unit), lexicon, pieces in zip(
            self._names, self._lexicons, self._pieces, strict=True
        ):
            if name in _OF_EACH:
                cells = pa.chunked_array(pieces, pa.string())
            else:
                codes = np.concatenate([np.zeros(0, np.int8), *pieces])
                texts = [None if text in _BLANK else text for text in lexicon.texts]
                cells = coded(texts, codes).array(pa.string())
            # The first of two columns of one name is the one that the reports document.
            columns.setdefault(name, PrintedColumn(unit, cells))
        return Block(offset, columns, tuple(heading.strip() for heading in self._headings))


def is_heading(headings: Sequence[str]) -> bool:
    """Whether these are the headings of a table of `nsys stats`."""
    bases = {_column_name(heading)[0] for heading in headings}
    return any(bases >= marks for marks in _MARKS)


def _column_name(heading: str) -> tuple[str, str | None]:
    words = heading.strip().strip('"')
    match = _HEADER.search(words)
    base, unit = (match["base"], match["unit"]) if match else (words, None)
    return _BASES.get(base, base), _UNITS.get(unit, unit) if unit else None


# The tables of one recording by their kind.
Run = dict[str, list[Block]]


def kind(block: Block) -> str | None:
    """What a table is a table of; None for what is not read.

    The headings decide, since a title may be another process's where output is mixed.
    """
    headings = block.columns.keys()
    if "Start" in headings:
        return "api_trace" if "Result" in headings else "gpu_trace" if "Strm" in headings else None
    if headings & {"Range", "NVTX Range", "Style", "Kernel Name", "Kern Inst"}:
        return None
    if "Category" in headings:
        return "api_gpu" if "CUDA_API" in block.texts("Category") else "gpu"
    if "Total Time" not in headings:
        return "size"
    return _sum_kind(block)


def _sum_kind(block: Block) -> str | None:
    names = [name for name in block.texts("Name") if name is not None]
    if "GridXYZ" in block.columns:
        return "kernel_by_grid"
    if any(cuda.memcpy_kind(name) is not None or cuda.is_memset(name) for name in names):
        return "memory"
    if any(map(API_NAME.match, names)):
        return "api"
    return "kernel" if "Instances" in block.headings else None


def jobs(parts: Iterable[Block]) -> list[list[Run]]:
    """Tables of each recording, by kind; those of processes that printed at once together.

    A recording has one table of a kind, so the second of a kind begins another one. A file
    does not label the tables of processes that printed at once, as ranks of a job do; the first
    of each kind are then taken together.
    """
    groups: dict[tuple[int, str | None], list[Block]] = defaultdict(list)
    for part in parts:
        report = part.report
        groups[report.segment, report.source].append(part)
    jobs_of_groups: list[list[Run]] = []
    for group in groups.values():
        # Without the tables that say again, or in another way, what one before has said.
        distinct: list[Block] = []
        for part in group:
            report = part.report
            same_kind = [k for k in distinct if k.kind == part.kind and report.source is not None]
            is_another_view = any(k.report.name != report.name for k in same_kind)
            if not is_another_view and all(k.columns != part.columns for k in same_kind):
                distinct.append(part)
        runs = _runs(distinct)
        places = [
            [distinct.index(t) for tables in run.values() for t in tables if t.kind != "size"]
            for run in runs
        ]
        pairs = itertools.pairwise(places)
        is_mixed = any(before and after and max(before) > min(after) for before, after in pairs)
        jobs_of_groups += [runs] if is_mixed else [[run] for run in runs]
    return jobs_of_groups


def _runs(parts: Sequence[Block]) -> list[Run]:
    runs: list[Run] = []
    count: dict[str, int] = defaultdict(int)
    for part in (part for part in parts if part.kind != "size"):
        if count[part.kind] == len(runs):
            runs.append(defaultdict(list))
        runs[count[part.kind]][part.kind].append(part)
        count[part.kind] += 1
    for part in (part for part in parts if part.kind == "size"):
        # The sizes of copies belong to their times: those of the same copies, as often.
        waiting, counts = [run for run in runs if "size" not in run], _counts(part)
        alike = (r for r in waiting if any(_counts(t) == counts for t in r.get("memory", ())))
        run = next(itertools.chain(alike, waiting), None)
        if run is None:
            run = defaultdict(list)
            runs.append(run)
        run["size"] = [part]
    return runs


def _counts(block: Block) -> dict[str | None, str | None]:
    return dict(zip(block.texts("Name"), block.texts("Count"), strict=True))
