"""Reports of Nsight Systems, ``.nsys-rep`` and the older ``.qdrep``, read without nsys.

The layout was worked out from real reports of nsys 2019.5 to 2026.2, from what ``nsys export``
prints of them (``--type text``, ``json`` and ``sqlite`` name fields and values), and from SQLite
exports that people keep beside their reports; no program was taken apart. A report is

    "NVIDIA Tegra Profiler Report ", a byte, sections, a footer, 8 bytes: where the footer begins,
    "U3w[END]"

and its footer names the sections. "Raw Sampling Data" holds a head (settings, clocks), an index
(declared counts), events in LZ4 blocks in the order of time, all texts by their numbers, names of
threads, and a tail (devices, contexts, streams); "UI Data" says who recorded. Messages are
protocol buffers: `LAYOUT` says which fields of an event are which columns, by the names that the
exporter gives them.

It was compared row by row with what nsys 2023.4 exports, and on seven newer reports with what their
own nsys exported. Unproven are graphs recorded as a whole, nodes of graphs, calls of UCX, and
records without times, which no report at hand had. The exporter leaves out what is read here: calls
that record CUDA events (as Parquet), warnings of nsys before 2024, and which process calls which
GPU by which number before 2025.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from io import BufferedReader
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base import machine
from gpuprof.base.cuda import UNKNOWN
from gpuprof.base.units import counted
from gpuprof.model.schema import arrow
from gpuprof.model.words import narrowed
from gpuprof.native import reports
from gpuprof.native.reports import NO_VALUE, Fields, Layout, Message, Path, ReportError
from gpuprof.readers.common.compact_columns import Coded, Flags, Integers, Lexicon, coded
from gpuprof.readers.nsys import export_schema

HEAD: Final = b"NVIDIA Tegra Profiler Report "
_END: Final = b"U3w[END]"
_EVENTS, _OFFSETS, _UI, _CLOCKS = (
    "Raw Sampling Data", "Sampling Data Offsets", "UI Data", "Time Conversion Data",
)  # fmt: skip
_EVENTS_HEAD: Final = b"QDTEXT00"
_CODEC: Final = "lz4"

_ACTIVITY: Final[Mapping[str, Path]] = {
    "start": (107, 1), "end": (107, 2), "correlationId": (107, 3), "deviceId": (107, 4),
    "contextId": (107, 5), "streamId": (107, 6), "globalPid": (107, 8),
}  # fmt: skip
_LAUNCH: Final = {
    "demangledName": 1, "shortName": 2, "gridX": 10, "gridY": 11, "gridZ": 12, "blockX": 13,
    "blockY": 14, "blockZ": 15, "staticSharedMemory": 16, "dynamicSharedMemory": 17,
    "registersPerThread": 21, "graphNodeId": 27,
}  # fmt: skip
_COPY: Final = {
    "bytes": 1, "copyKind": 2, "srcKind": 4, "dstKind": 5, "srcDeviceId": 6, "dstDeviceId": 8,
}  # fmt: skip


def _activity(message: int, columns: Mapping[str, int]) -> Fields:
    inner = {name: (107, message, number) for name, number in columns.items()}
    return Fields((107, message), {**_ACTIVITY, **inner})


CALLS, PROCESSES, DIAGNOSTICS = "CALLS", "PROCESSES", "DIAGNOSTIC_EVENT"
# Field 1 of an event is its type, and one message in it says what it is. Beside what
# stands here: 104 samples, 106 scheduling, 109 mapped files; of 107, 7 its class and 9 a green
# context; of kernels, 3 the mangled name, 18 and 19 local memory, 20 the grid's number, 22 shared
# memory as executed, 23 the cache's configuration, 24 how it was launched; of calls, 8 what they
# returned, 15 and 20 their stacks; of ranges, 4 their number, 6 a colour, 8 a category.
LAYOUT: Final = {
    export_schema.KERNEL: _activity(101, _LAUNCH),
    export_schema.MEMCPY: _activity(102, _COPY),
    export_schema.MEMSET: _activity(103, {"bytes": 1, "memKind": 4}),
    export_schema.SYNCHRONIZATION: _activity(
        105, {"eventId": 1, "deprecatedSyncType": 2, "syncType": 4}
    ),
    export_schema.CUDA_EVENT: _activity(106, {"eventId": 1}),
    export_schema.GRAPH_TRACE: _activity(107, {}),
    CALLS: Fields(
        (108,),
        {
            "start": (108, 1), "end": (108, 2), "correlationId": (108, 3), "eventClass": (108, 6),
            "nameId": (108, 7), "returnValue": (108, 8), "globalTid": (108, 13),
        },
    ),
    export_schema.NVTX: Fields(
        (102,),
        {
            "eventType": (102, 1), "start": (102, 2), "text": (102, 7), "globalTid": (102, 9),
            "end": (102, 10), "textId": (102, 12), "domainId": (102, 13), "isInNs": (102, 14),
        },
        frozenset({"text"}),
    ),
    DIAGNOSTICS: Fields(
        (110,), {"severity": (110, 3), "text": (110, 4)}, frozenset({"text"})
    ),
    PROCESSES: Fields(
        (113,), {"globalPid": (113, 2), "command": (113, 5), "name": (113, 6)},
        frozenset({"command", "name"}),
    ),
}  # fmt: skip
# Calls are told apart by their class (``ENUM_NSYS_EVENT_CLASS`` of an export).
CUDA: Final = (0, 1)  # runtime, driver
OVERHEAD: Final = (3,)
OS: Final = (27, 31, 32)  # calls, start and end of their tracing
# Domains whose ranges are calls of a library, for which the exporter has tables of their own. That
# of UCX was in no report at hand.
LIBRARIES: Final = {"MPI": "mpi"}

_BATCH_BYTES: Final = 1 << 20
_THREADS: Final = 2
# Events may lie so far outside of the recording. In reports of 2019.5 to 2026.2 some began 138 s
# before it, and none ended after it.
_BEFORE_NS, _AFTER_NS = 3_600 * 10**9, 10**9
# What some events lack; each of the others stood in all of 600,000 events of 52 reports.
_OPTIONAL: Final = frozenset({
    "graphNodeId", "srcDeviceId", "dstDeviceId", "memKind", "deprecatedSyncType", "syncType",
    "text", "textId", "command", "name", (CALLS, "correlationId"), (export_schema.NVTX, "end"),
})  # fmt: skip
# Other copies and waits may have contexts that no report lists.
_OF_CONTEXTS: Final = (export_schema.KERNEL, export_schema.MEMSET)

Column = tuple[Integers, Flags | None]


class _Stream:
    """A section of a file, read from its beginning to its end."""

    def __init__(self, file: BufferedReader, place: tuple[int, int]) -> None:
        self.file, (self.at, size) = file, place
        self.end = self.at + size

    def take(self, size: int, part_name: str) -> bytes:
        """So many bytes."""
        if size > self.end - self.at:
            msg = f"{part_name} goes beyond the end of its section"
            raise ReportError(msg)
        self.file.seek(self.at)
        data = self.file.read(size)
        if len(data) < size:
            msg = f"the file ends within {part_name}"
            raise ReportError(msg)
        self.at += size
        return data

    def number(self, part_name: str) -> tuple[int, bytes]:
        """A number of seven bits a byte, and its bytes."""
        data = self.take(min(reports.LONGEST_VARINT, self.end - self.at), part_name)
        number, size = reports.varint(data, 0)
        self.at -= len(data) - size
        return number, data[:size]

    def remaining(self, part_name: str) -> Message:
        """All bytes that are left as a message."""
        return Message(self.take(self.end - self.at, part_name))

    def message(self, part_name: str) -> Message:
        """A message after its length."""
        return Message(self.take(self.number(part_name)[0], part_name))

    def block(self, part_name: str) -> bytes:
        """A packed block with its sizes."""
        (packed, first), (_, second) = self.number(part_name), self.number(part_name)
        return first + second + self.take(packed, part_name)


def _sections(file: BufferedReader) -> dict[str, _Stream]:
    """The sections that the footer names."""
    size = file.seek(0, 2)
    file.seek(max(size - 16, 0))
    end = file.read()
    if size < len(HEAD) + 17 or end[8:] != _END:
        msg = "it does not end as a complete report does"
        raise ReportError(msg)
    footer = int.from_bytes(end[:8], "little")
    if not len(HEAD) < footer <= size - 16:
        msg = "its footer lies outside of the file"
        raise ReportError(msg)
    sections, after = {}, len(HEAD) + 1
    entries = _Stream(file, (footer, size - 16 - footer)).remaining("its footer").messages(1)
    for entry in sorted(entries, key=lambda entry: entry.integer(2)):
        name, start, length = entry.text(1) or "", entry.integer(2), entry.integer(3)
        if name in sections:
            msg = f'its section "{name}" is there twice'
            raise ReportError(msg)
        if length and not after <= start <= footer - length:
            msg = f'its section "{name}" overlaps another one, or lies outside of the file'
            raise ReportError(msg)
        sections[name] = _Stream(file, (start, length))
        after = start + length if length else after
    for name in (_EVENTS, _UI):
        if name not in sections:
            msg = f'it has no section "{name}"'
            raise ReportError(msg)
    return sections


class _Part(NamedTuple):
    """Some events: by table how many, and its columns without those that are null throughout."""

    tables: dict[str, tuple[int, dict[str, Column]]]
    texts: list[str]
    types: Integers


_LAYOUT: Final = Layout(LAYOUT)


def _part(data: bytes) -> _Part:
    events = reports.events(data, _LAYOUT)
    tables = {}
    for name, of_table in events.columns.items():
        columns: dict[str, Column] = {}
        for column, values in zip(LAYOUT[name].columns, of_table, strict=True):
            least = values.min(initial=np.iinfo(np.int64).max)
            if not values.size or least == values.max():
                if values.size and least != NO_VALUE:
                    first = narrowed(values[:1].copy())
                    columns[column] = np.broadcast_to(first, len(values)), None
            elif least != NO_VALUE:
                # A copy, or else the column would keep all others in memory.
                columns[column] = narrowed(values.copy()), None
            else:
                is_null = values == NO_VALUE
                columns[column] = narrowed(np.where(is_null, 0, values)), is_null
        tables[name] = of_table.shape[1], columns
    texts = [text.decode("utf-8", "replace") for text in events.texts]
    return _Part(tables, texts, events.types)


def _parts(stream: _Stream, declared: int, end: int | None) -> list[_Part]:
    """All events, decoded by two threads where there are two."""
    part_name, parts = "a block of events", list[_Part]()
    if end is None:  # of nsys 2019, where they end is known by their number
        while (decoded := sum(int(part.types.sum()) for part in parts)) < declared:
            parts.append(_part(stream.block(part_name)))
        _agree("events", declared, decoded)
        return parts
    stream = _Stream(stream.file, (stream.at, end - stream.at))
    threads = machine.thread_count(_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Part]] = deque()
        while stream.at < stream.end:
            blocks, first = [], stream.at
            while stream.at < min(stream.end, first + _BATCH_BYTES):
                blocks.append(stream.block(part_name))
            waiting.append(pool.submit(_part, b"".join(blocks)))
            # No more lies in memory than what is being decoded.
            if len(waiting) > threads:
                parts.append(waiting.popleft().result())
        parts += [part.result() for part in waiting]
    _agree("events", declared, sum(int(part.types.sum()) for part in parts))
    return parts


def _texts(stream: _Stream, declared: int) -> list[bytes]:
    """All texts by their numbers, each once."""
    texts: list[bytes] = []
    while len(texts) < declared:
        texts += reports.texts(stream.block("a block of texts"))
    _agree("texts", declared, len(texts))
    _agree("different texts", len(texts), len({*texts}))
    return texts


def _agree(part_name: str, declared: int, decoded: int) -> None:
    if declared != decoded:
        msg = f"it declares {declared:,} {part_name} and has {decoded:,}"
        raise ReportError(msg)


class Report:
    """What lies in one file.

    Raises:
        ReportError: Something in it does not agree with what else is there.
    """

    def __init__(self, file: BufferedReader) -> None:
        sections = _sections(file)
        nothing = _Stream(file, (0, 0))
        self.about, self.clocks, offsets = (
            sections.get(name, nothing).remaining(f'its section "{name}"')
            for name in (_UI, _CLOCKS, _OFFSETS)
        )
        stream = sections[_EVENTS]
        start = stream.at + len(_EVENTS_HEAD)
        if stream.take(len(_EVENTS_HEAD), "the mark of events") != _EVENTS_HEAD:
            msg = "its events are of an unknown form"
            raise ReportError(msg)
        self.head, index = stream.message("its head"), stream.message("its index")
        if (codec := index.text(9)) not in {None, _CODEC}:
            msg = f"its events are packed as {codec}"
            raise ReportError(msg)
        end = start + offsets.integer(2) if offsets.integer(2) else None
        if end is not None and not stream.at <= end <= stream.end:
            msg = "its events end outside of their section"
            raise ReportError(msg)
        self._parts = _parts(stream, index.integer(1), end)
        stream.at = end or stream.at
        self.types = sum((part.types for part in self._parts), np.zeros(256, np.int64))
        # How many rows start before the one before; calls and ranges have times that none can
        # have; calls of CUDA have the number of another.
        self.disorder = self.impossible = self.repeated = 0
        self.counts = {name: sum(p.tables[name][0] for p in self._parts) for name in LAYOUT}
        self.strings = _texts(stream, index.integer(3))
        if index.integer(5):
            threads = stream.message("its names of threads").messages(1)
            _agree("threads", index.integer(5), len(threads))
        self.tail = stream.message("its tail")
        self.settings = next(iter(self.head.messages(2)), Message(b""))

    @property
    def version(self) -> str | None:
        """The version of nsys that recorded."""
        texts = (self.about.text(number) for number in (6, 7))
        return next((text.partition("-")[0] for text in texts if text), None)

    def rows(self, name: str) -> "Rows":
        """The rows of one table of `LAYOUT` in the order of their start; its parts are given up.

        Raises:
            ReportError: A time lies outside of the recording, or a device is not listed.
        """
        lexicon, columns, order = Lexicon(), dict[str, Column](), None
        pieces = [(*part.tables.pop(name), part.texts) for part in self._parts]
        # By the start first, so that no more than a column is there twice.
        for column in sorted(LAYOUT[name].columns, key=lambda column: column != "start"):
            values, nulls = [], []
            for rows, part, texts in pieces:
                numbers, is_null = part.pop(column, (np.zeros(rows, np.int8), np.True_))
                if column in LAYOUT[name].texts and texts and is_null is not np.True_:
                    numbers = narrowed(lexicon.codes(texts, len(texts)))[numbers]
                values.append(numbers)
                nulls.append(is_null)
            if all(is_null is np.True_ for is_null in nulls):
                continue
            joined, are_null = _concatenated(values), _joined(nulls, values)
            if column == "start" and (disorder := int((joined[1:] < joined[:-1]).sum())):
                self.disorder += disorder
                order = np.argsort(joined, kind="stable")
            if order is not None:
                joined = _taken(joined, order)
                are_null = are_null if are_null is None else are_null[order]
            columns[column] = joined, are_null
        table_rows = Rows(columns, sum(rows for rows, *_ in pieces), lexicon.texts)
        self._check(name, table_rows)
        self._check_places(name, table_rows)
        return table_rows

    def _check(self, name: str, rows: "Rows") -> None:
        for column in LAYOUT[name].columns:
            lacking = rows.nulls(column)
            if lacking.any() and not {column, (name, column)} & _OPTIONAL:
                events = counted(
                    int(lacking.sum()), f"event of {name} has", f"events of {name} have"
                )
                msg = f"{events} no {column}"
                raise ReportError(msg)
        last = max(self.head.integer(18), self.head.integer(19)) - self.head.integer(17)
        for column in ("start", "end"):
            times = rows.numbers(column, 0)
            if times.size and not -_BEFORE_NS <= times.min() <= times.max() <= last + _AFTER_NS:
                msg = f"a time of {name} lies outside of the recording"
                raise ReportError(msg)
        if (rows.numbers("isInNs", 1) != 1).any():
            msg = f"times of {name} are of another unit"
            raise ReportError(msg)

    def _check_places(self, name: str, rows: "Rows") -> None:
        places = {m.integer(5) for m in self.tail.messages(14)}
        places |= {m.integer(number) for number in (7, 1) for m in self.tail.messages(1, 2, number)}
        used = rows.numbers("deviceId")
        if places and used.size and not _among(used, [-1, *places]).all():
            msg = f"{name} has a device that the report does not list"
            raise ReportError(msg)
        contexts = {m.integer(4) << 24 | m.integer(6) for m in self.tail.messages(14)}
        if name in _OF_CONTEXTS and contexts:
            process, context = rows.bits("globalPid", 24), rows.numbers("contextId")
            if not _among(process.astype(np.int64) << 24 | context, contexts).all():
                msg = f"{name} has a context that the report does not list"
                raise ReportError(msg)

    def named(self, numbers: Integers, shown: Callable[[str], str] = str) -> Coded:
        """Texts by their numbers, as they are to be shown; -1 for none."""
        if numbers.size and not -1 <= numbers.min() <= numbers.max() < len(self.strings):
            msg = f"a text has a number beyond {len(self.strings) - 1:,}"
            raise ReportError(msg)
        is_used = np.zeros(len(self.strings) + 1, np.bool_)
        is_used[numbers] = True
        used, lexicon = np.flatnonzero(is_used[:-1]), Lexicon()
        texts = (shown(self.strings[n].decode("utf-8", "replace")) for n in used.tolist())
        codes = np.full(len(is_used), -1, np.int64)
        codes[used] = lexicon.codes(texts, len(used))
        return coded(lexicon.texts, narrowed(codes)[numbers])

    def names(self, numbers: Integers, shown: Callable[[str], str] = str) -> Coded:
        """Names of kernels or calls by their numbers, as they are to be shown; -1 for none."""
        names = self.named(numbers, shown)
        if not all(map(str.isprintable, names.values)):
            msg = "a name has characters that no name has"
            raise ReportError(msg)
        return names


def _joined(nulls: list[Any], values: list[Integers]) -> Flags | None:
    """Which rows have no value, of parts where none, all or some have none."""
    if all(is_null is None for is_null in nulls):
        return None
    pairs = zip(nulls, map(len, values), strict=True)
    return np.concatenate([
        np.zeros(count, np.bool_) if is_null is None else np.broadcast_to(is_null, count)
        for is_null, count in pairs
    ])  # fmt: skip


def _is_of_one(values: Integers) -> bool:
    """Whether all rows share one value that is held once."""
    return values.strides == (0,)


def _concatenated(parts: list[Integers]) -> Integers:
    parts = [part for part in parts if part.size] or parts[:1]
    if all(map(_is_of_one, parts)) and len({int(part[0]) for part in parts}) == 1:
        return np.broadcast_to(parts[0][:1], sum(map(len, parts)))
    return np.concatenate(parts)


def _taken(values: Integers, rows: npt.NDArray[np.intp]) -> Integers:
    return np.broadcast_to(values[:1], len(rows)) if _is_of_one(values) else values[rows]


def _among(values: Integers, few: Iterable[int]) -> Flags:
    """Which values are some of a few."""
    is_any: Flags = np.logical_or.reduce([values == number for number in few])
    return is_any


class Rows:
    """Rows of one table by columns; one that no row has is null throughout."""

    def __init__(self, columns: Mapping[str, Column], count: int, texts: list[str]) -> None:
        self._columns, self.count, self.texts = columns, count, texts

    def numbers(self, name: str, missing: int = -1) -> Integers:
        """A column as integers, with one that stands for a null."""
        if name not in self._columns:
            return np.full(self.count, missing, np.int8)
        values, is_null = self._columns[name]
        return values if is_null is None else np.where(is_null, values.dtype.type(missing), values)

    def nulls(self, name: str) -> Flags:
        """Which rows have no value."""
        if name not in self._columns:
            return np.ones(self.count, np.bool_)
        is_null = self._columns[name][1]
        return np.zeros(self.count, np.bool_) if is_null is None else is_null

    def where(self, chosen: Flags) -> "Rows":
        """Some of the rows."""
        return self if chosen.all() else self.taken(np.flatnonzero(chosen))

    def taken(self, rows: npt.NDArray[np.intp]) -> "Rows":
        """Some of the rows, by their places."""
        columns = {
            name: (_taken(values, rows), is_null if is_null is None else is_null[rows])
            for name, (values, is_null) in self._columns.items()
        }
        return Rows(columns, len(rows), self.texts)

    def timed(self, *, are_ordered: bool = False) -> "Rows":
        """The rows that have times; of 0 and 0, these could not be collected."""
        start, end = self.numbers("start", 0), self.numbers("end", 0)
        is_untimed = self.nulls("start") | self.nulls("end") | ((start == 0) & (end == 0))
        return self.where(~(is_untimed | (end < start) if are_ordered else is_untimed))

    def impossible(self) -> int:
        """How many end before they start, or after the one of their thread that they began in.

        The rows are in the order of their start. Calls and nested ranges of a thread do neither,
        but for ranges of two domains.
        """
        names = ("start", "end", "globalTid", "domainId")
        start, end, thread, domain = (self.numbers(name, 0) for name in names)
        count = int((end < start).sum())
        if np.any(thread[1:] != thread[:-1]):
            order = np.argsort(thread, kind="stable")
            start, end, thread, domain = (v[order] for v in (start, end, thread, domain))
        is_crossing = (start[:-1] < start[1:]) & (start[1:] < end[:-1]) & (end[:-1] < end[1:])
        is_crossing &= (thread[1:] == thread[:-1]) & (domain[1:] == domain[:-1])
        return count + int(is_crossing.sum())

    def of_class(self, classes: tuple[int, ...]) -> "Rows":
        """Calls of some classes."""
        return self.where(_among(self.numbers("eventClass"), classes))

    def distinct(self, *names: str) -> "Rows":
        """The rows without those that are like an earlier one in some columns."""
        keys = [self.numbers(name) for name in names]
        order = np.lexsort(keys)
        is_new = np.ones(self.count, np.bool_)
        is_new[order[1:]] = np.logical_or.reduce([k[order][1:] != k[order][:-1] for k in keys])
        return self.where(is_new)

    def renumbered(self, numbers: Mapping[tuple[int, int], int]) -> "Rows":
        """The rows with devices by the numbers of the machine instead of those of processes."""
        process, columns = self.bits("globalPid", 24), dict(self._columns)
        for name in {"deviceId", "srcDeviceId", "dstDeviceId"} & columns.keys():
            values, is_null = columns[name]
            machine_numbers = values.astype(np.int64)
            for (of_process, ordinal), number in numbers.items():
                machine_numbers[(process == of_process) & (values == ordinal)] = number
            columns[name] = machine_numbers, is_null
        return Rows(columns, self.count, self.texts)

    def array(self, name: str, none: int | None = None) -> pa.Array:
        """A column as Arrow data; one more number may stand for null."""
        is_null, values = self.nulls(name), self.numbers(name, 0)
        return arrow(narrowed(values), is_null if none is None else is_null | (values == none))

    def bits(self, name: str, shift: int) -> Integers:
        """24 bits of a global id: of the process from 24 on, of the thread from 0 on."""
        values = self.numbers(name, 0)
        if _is_of_one(values):
            first = narrowed(values[:1].astype(np.int64) >> shift & 0xFFFFFF)
            return np.broadcast_to(first, self.count)
        return narrowed(values.astype(np.int64) >> shift & 0xFFFFFF)

    def words(self, name: str, meanings: Mapping[int, str]) -> Coded:
        """A tool's numbers as words; unknown for others."""
        texts = [*dict.fromkeys((*meanings.values(), UNKNOWN))]
        values, codes = self.numbers(name), np.full(self.count, texts.index(UNKNOWN), np.int8)
        for number, word in meanings.items():
            codes[values == number] = texts.index(word)
        codes[self.nulls(name)] = -1
        return coded([*texts], codes)
