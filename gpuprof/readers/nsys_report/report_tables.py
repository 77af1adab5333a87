"""A report as the export that nsys would make of it, decoded column by column when asked."""

import re
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model import schema, spilling
from gpuprof.model.schema import arrow
from gpuprof.model.spilling import KeptColumns, Kinds, Packed
from gpuprof.model.stored import InMemory, Stored
from gpuprof.model.words import Names, Values, Words, narrowed
from gpuprof.native import nsys_reports
from gpuprof.native.nsys_reports import NO_VALUE, Fields, Int64s, Layout, ReportError
from gpuprof.readers.inputs import Stamp, changed, check_unchanged
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.columns import Export
from gpuprof.readers.nsys.export import SETTINGS, SYSTEM
from gpuprof.readers.nsys.export_schema import NVTX
from gpuprof.readers.nsys_report.file import (
    CALLS,
    LAYOUT,
    MPI,
    OF_CALLS,
    OF_MPI,
    PROCESSES,
    PUSH_POP,
    START_END,
    Report,
)
from gpuprof.readers.nsys_report.survey import Flags, Survey, bits

_CUDA_TRACE: Final = 123  # among what was to be recorded
_UTC_TO_TARGET: Final = (11, 7)  # kinds of clocks
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_FIRST_WITH_USES: Final = "2025"
_Rows = list[dict[str, Any]]
# The layout's table of rows that an export has in several, and what tells these apart.
_SOURCES: Final = {**dict.fromkeys(OF_CALLS, CALLS), OF_MPI: NVTX}
_TELLING: Final = {CALLS: ("eventClass",), NVTX: ("eventType", "domainId", "globalTid")}
# What is checked and means nothing to an export.
_CHECKED: Final = {"isInNs", "eventClass"}
# Columns of rows that follow one another: small numbers and what they are distances from, or words.
_Numbers = tuple[npt.NDArray[Any], Int64s | None]
_Part = dict[str, dict[str, Any]]


class ReportTables(Export):
    """The tables of a report.

    Args:
        report: The file.
        survey: What its events say together.
        before: The stamp of the file when it was opened.
    """

    def __init__(self, report: Report, survey: Survey, before: Stamp) -> None:
        self.path, self.reader, self.recorder_version = report.path, "nsys-rep", report.version
        self._report, self._survey, self._before = report, survey, before
        self._small = small_tables(report, survey)
        self._mpi = [(process, domain) for process, domain, name in survey.domains if name == MPI]
        self._kinds = {table: kinds for table in _TABLES if (kinds := self._kinds_of(table))}
        self.columns = {
            **{table: frozenset(rows[0]) for table, rows in self._small.items()},
            **{table: frozenset(kinds) for table, kinds in self._kinds.items()},
            export_schema.STRINGS: frozenset({"id", "value"}),
        }
        events = {*export_schema.EVENTS} & self._kinds.keys()
        self.most_rows = {table: survey.counts[table] for table in events}
        self._kept: WeakValueDictionary[str, KeptColumns] = WeakValueDictionary()
        self._decoding = threading.Lock()

    def _kinds_of(self, table: str) -> Kinds:
        """The columns that a table has."""
        source = _SOURCES.get(table, table)
        if not (self._mpi if table == OF_MPI else self._survey.counts[table]):
            return {}
        lacking, rows = self._survey.lacking, self._survey.counts[source]
        needed = export_schema.NEEDED.get(table, ("start", "end"))
        return {
            name: pa.string() if name in LAYOUT[source].texts else pa.int64()
            for name in LAYOUT[source].columns
            if name not in _CHECKED and (name in needed or lacking[source, name] < rows)
        }

    def stored(self, table: str) -> Stored:
        """What a table holds."""
        if table in self._small:
            columns = {
                name: [row[name] for row in self._small[table]] for name in self.columns[table]
            }
            return InMemory(
                pa.table({n: arrow(np.array(of, np.int64)) for n, of in columns.items()})
            )
        kept_columns = self._kept.get(table)
        if kept_columns is None:
            rows = self._survey.counts[_SOURCES.get(table, table)]
            kept_columns = KeptColumns(self._kinds[table], partial(self._read, table), lambda: rows)
            self._kept[table] = kept_columns
        return kept_columns

    def has_rows(self, table: str) -> bool:
        """Whether a table has any row."""
        return table in self.columns

    def untimed(self, table: str) -> int:
        """How many rows of a table have no times."""
        return self._survey.untimed[table]

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a small table, None where there is no value."""
        if table == export_schema.STRINGS:
            return [*enumerate(self._report.strings)]
        return [tuple(row[name] for name in columns) for row in self._small[table]]

    @cached_property
    def texts(self) -> Names:
        """The texts of the report by their numbers."""
        texts: list[str | None] = [*self._report.strings]
        return Names(range(len(texts)), {"name": texts})

    def _read(self, table: str, kinds: Kinds) -> dict[str, spilling.InMemory]:
        """Columns of a table, and with them those of others that are expected.

        Raises:
            InputError: The file is no longer what it was.
        """
        with self._decoding:
            kept_by_table = {name: self._kept.get(name) for name in self._kinds if name != table}
            incomplete_tables = {
                name: of for name, of in kept_by_table.items() if of is not None and of.missing
            }
            kinds_by_table = {
                table: kinds,
                **{name: of.missing for name, of in incomplete_tables.items()},
            }
            check_unchanged(self.path, self._before)
            try:
                columns = self._decoded(kinds_by_table)
            except (OSError, ReportError) as error:
                raise changed(self.path) from error
            for name, of in incomplete_tables.items():
                of.keep(columns[name])
        return columns[table]

    def _decoded(
        self, names_by_table: Mapping[str, Collection[str]]
    ) -> dict[str, dict[str, spilling.InMemory]]:
        """Columns by table, in the order of their start."""
        names: dict[str, set[str]] = {}
        for table, columns in names_by_table.items():
            source = _SOURCES.get(table, table)
            telling = _TELLING[source] if source == CALLS or (source == NVTX and self._mpi) else ()
            starts = ["start"] if self._survey.disorder[source] else []
            names.setdefault(source, set()).update(columns, telling, starts)
        fields = {
            source: LAYOUT[source]._replace(
                columns={n: path for n, path in LAYOUT[source].columns.items() if n in of},
                texts=LAYOUT[source].texts & of,
            )
            for source, of in names.items()
        }
        parts = [
            *self._report.of_blocks(partial(self._part, fields, Layout(fields), names_by_table))
        ]
        decoded = {}
        for table, columns in names_by_table.items():
            pieces = [part.pop(table) for part in parts if table in part]
            order = None
            if pieces and self._survey.disorder[_SOURCES.get(table, table)]:
                start = np.concatenate([_unpacked(*piece["start"]) for piece in pieces])
                order = np.argsort(start, kind="stable")
            # Column by column, so that none but one is there twice.
            decoded[table] = {
                name: _words_in_order([piece.pop(name) for piece in pieces], order)
                if name in LAYOUT[_SOURCES.get(table, table)].texts
                else _numbers_in_order([piece.pop(name) for piece in pieces], order)
                for name in columns
            }
        return decoded

    def _part(
        self,
        fields: Mapping[str, Fields],
        layout: Layout,
        names_by_table: Mapping[str, Collection[str]],
        data: bytes,
    ) -> _Part:
        """Columns of some blocks, by those tables that have rows in them."""
        events, part = nsys_reports.events(data, layout), _Part()
        words = [*(text.decode("utf-8", "replace") for text in events.texts), None]
        null = len(words) - 1
        for table, columns in names_by_table.items():
            source = _SOURCES.get(table, table)
            of = dict(zip(fields[source].columns, events.columns[source], strict=True))
            names = {*columns, *(["start"] if self._survey.disorder[source] else [])}
            # Which rows of its source are the table's; None for all.
            is_row: Flags | None = None
            if table in OF_CALLS:
                is_row = np.isin(of["eventClass"], OF_CALLS[table])
            elif source == NVTX and self._mpi:
                process, domain = bits(of["globalTid"]), of["domainId"]
                is_mpi = np.logical_or.reduce(
                    [(process == p) & (domain == n) for p, n in self._mpi]
                )
                is_mpi &= np.isin(of["eventType"], (PUSH_POP, START_END))
                is_row = is_mpi if table == OF_MPI else ~is_mpi
            rows = {n: of[n] if is_row is None or is_row.all() else of[n][is_row] for n in names}
            if next(iter(rows.values())).size:
                part[table] = {
                    name: Values(narrowed(np.where(of_row == NO_VALUE, null, of_row)), None, words)
                    if name in LAYOUT[source].texts
                    else _packed(of_row)
                    for name, of_row in rows.items()
                }
        return part


_TABLES: Final = (*(name for name in LAYOUT if name in export_schema.NEEDED), *_SOURCES)


def _packed(values: Int64s) -> _Numbers:
    """Distances from the least number, of as few bytes as they need; null is the least of these."""
    has_nulls = values.min() == NO_VALUE
    is_null = values == NO_VALUE if has_nulls else np.False_
    present_values = values[~is_null] if has_nulls else values
    least, most = (
        (int(present_values.min()), int(present_values.max())) if present_values.size else (0, 0)
    )
    for kind in (np.int8, np.int16, np.int32):
        if most - least <= np.iinfo(kind).max:
            distances = (values - least).astype(kind)
            if has_nulls:
                distances[is_null] = np.iinfo(kind).min
            return distances, np.array([least])
    return values.copy(), None  # not a view, which would keep all other columns


def _unpacked(distances: npt.NDArray[Any], least: Int64s | None) -> Int64s:
    if least is None:
        return distances
    return np.where(distances < 0, NO_VALUE, distances + least)


def _numbers_in_order(pieces: list[_Numbers], order: npt.NDArray[np.intp] | None) -> Packed:
    if order is not None:
        values = np.concatenate([_unpacked(*piece) for piece in pieces])[order]
        lows = range(0, len(values), spilling.BATCH_ROWS)
        pieces = [_packed(values[low : low + spilling.BATCH_ROWS]) for low in lows]
    pieces = pieces or [(np.zeros(0, np.int8), None)]
    has_nulls = any(n.size and n.min() == np.iinfo(n.dtype).min for n, _ in pieces)
    return Packed(*map(list, zip(*pieces, strict=True)), has_nulls=has_nulls)


def _words_in_order(pieces: list[Values], order: npt.NDArray[np.intp] | None) -> Packed:
    words = Words()
    parts = [words.numbers(piece) for piece in pieces]
    if order is not None:
        parts = [np.concatenate(parts)[order]]
    return Packed([*map(narrowed, parts)], words=words.words)


def small_tables(report: Report, survey: Survey) -> dict[str, _Rows]:
    """What a report says of the machine and the recording: an export's small tables with rows."""
    uses, gpu = export_schema.GPUS[0], export_schema.GPUS[-1]
    streams, contexts = export_schema.PROCESSES
    users = report.tail.messages(15) or report.tail.messages(14)
    by_process = [{"processId": m.integer(4), "deviceId": m.integer(5)} for m in users]
    host = report.about.text(5)
    gpus = {gpu.integer(1) for gpu in report.tail.messages(1, 2, 7)}
    called = [
        {"gpuId": m.integer(1), "cudaId": m.integer(2), "pid": m.integer(3)}
        for m in report.tail.messages(1, 2, 9)
        if m.integer(1) in gpus
    ]
    # nsys exports since 2025 which process calls which GPU by which number; before it matters where
    # a process has other numbers.
    is_told = (report.version or "") >= _FIRST_WITH_USES
    is_told = is_told or any(use["cudaId"] != use["gpuId"] for use in called)
    tables: dict[str, _Rows] = {
        SETTINGS: [{"name": name, "value": value} for name, value in _settings(report)],
        SYSTEM: [{"name": "Hostname", "value": host}] if host else [],
        "TARGET_INFO_SESSION_START_TIME": _start(report),
        export_schema.DIAGNOSTICS: [
            {"severity": level, "text": text} for level, text in survey.diagnoses
        ],
        PROCESSES: [{"pid": process, "name": name} for process, name in survey.processes],
        gpu: _gpus(report),
        uses: called if is_told else [],
        # Where it is not known which GPU a process calls by which number, its contexts tell.
        streams if report.tail.messages(1, 2, 9) else contexts: by_process,
    }
    return {name: rows for name, rows in tables.items() if rows}


def _settings(report: Report) -> list[tuple[str, str]]:
    """The settings that are read; the others may hold secrets."""
    programs = report.settings.messages(26)
    if not programs:
        return []
    program = programs[0]
    kinds = [number for of in report.settings.messages(2) for number in of.integers(1)]
    is_traced = bool(program.integer(21)) or _CUDA_TRACE in kinds
    return [
        ("COLLECT_CUDA_TRACE", f"{is_traced}".lower()),
        ("COLLECT_NVTX_TRACE", f"{bool(program.integer(20))}".lower()),
        ("PROCESS_0:COMMAND", program.text(10) or ""),
        *((f"PROCESS_0:ARGUMENT_{n}", text) for n, text in enumerate(program.texts(11))),
    ]


def _start(report: Report) -> _Rows:
    """The Unix time that times count from."""
    edges = {
        (edge.integer(1), edge.integer(2)): int(edge.text(5) or 0)
        for edge in report.head.messages(16, 1)
        if edge.text(6) == "Offset" and _NUMBER.fullmatch(edge.text(5) or "0")
    }
    epoch_ns = -1
    if {(3, 9), (1, 3), (7, 1)} <= edges.keys():  # to 2025
        epoch_ns = (-edges[3, 9] - edges[1, 3] - edges[7, 1]) % (1 << 64)
    clocks = {clock.text(1): clock.integer(2) for clock in report.clocks.messages(1, 1)}
    for edge in report.clocks.messages(2, 1):  # in 2026
        ends = tuple(clocks.get(edge.text(number)) for number in (1, 2))
        for pair in edge.messages(3, 1)[:1]:
            if ends in {_UTC_TO_TARGET, _UTC_TO_TARGET[::-1]}:
                places = (1, 2) if ends == _UTC_TO_TARGET else (2, 1)
                utc_ns, target_ns = map(pair.integer, places)
                epoch_ns = utc_ns - target_ns + report.head.integer(17)
    if not 0 <= epoch_ns <= schema.LARGEST:
        return []
    start = datetime.fromtimestamp(epoch_ns // 10**9, UTC)
    return [{"utcEpochNs": epoch_ns, "utcTime": f"{start:%Y-%m-%dT%H:%M:%S}"}]


def _gpus(report: Report) -> _Rows:
    gpus = {gpu.integer(1): gpu for gpu in report.tail.messages(1, 2, 7)}
    return [
        {
            "id": number,
            "name": gpu.text(2),
            "busLocation": gpu.text(3),
            "totalMemory": gpu.integer(11) or None,
            "memoryBandwidth": gpu.integer(12) or None,
            "clockRate": gpu.integer(13) or None,
            "smCount": gpu.integer(14) or None,
            "computeMajor": gpu.integer(41) or None,
            "computeMinor": gpu.integer(42),
        }
        for number, gpu in gpus.items()
    ]
