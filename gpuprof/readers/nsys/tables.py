"""The tables of Nsight Systems as those of the data model.

The same tables come as SQLite, Parquet and Arrow files. They appear only with data, and
their columns grow with versions (2019.5 to 2026.2): every optional table and column is asked for by
name and may be absent.
Source: https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference".
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.schema import BY_NAME
from gpuprof.model.table import (
    Flags,
    Made,
    NumberedNames,
    Part,
    Stored,
    Table,
    constant,
    translated,
)
from gpuprof.model.words import ByNumber, Values, Words

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT: Final = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
GRAPH_TRACE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX: Final = "NVTX_EVENTS"
OVERHEADS: Final = {"PROFILER_OVERHEAD": "profiler", "CUPTI_ACTIVITY_KIND_OVERHEAD": "cuda"}
# Table -> the library whose calls it holds.
HOST_CALLS: Final = {
    **dict.fromkeys((f"MPI_{kind}_EVENTS" for kind in ("P2P", "COLLECTIVES", "OTHER")), "mpi"),
    "MPI_START_WAIT_EVENTS": "mpi",
    **dict.fromkeys(("UCP_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS"), "ucx"),
    "OSRT_API": "os",
}
# Table -> what touched the pages.
PAGE_FAULTS: Final = {f"CUDA_UM_{p.upper()}_PAGE_FAULT_EVENTS": p for p in ("gpu", "cpu")}
STRINGS: Final = "StringIds"
EVENT_CLASSES: Final = "ENUM_NSYS_EVENT_CLASS"
GPUS: Final = ("TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_GPU", "TARGET_INFO_GPU")
PROCESSES: Final = ("TARGET_INFO_CUDA_STREAM", "TARGET_INFO_CUDA_CONTEXT_INFO")

# Activities of the GPU, whose times CUPTI may fail to collect.
TIMED: Final = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
EVENTS: Final = (*TIMED, RUNTIME, NVTX)
# The columns without which a table says nothing.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    KERNEL: ("start", "end"),
    MEMCPY: ("start", "end", "bytes", "copyKind"),
    MEMSET: ("start", "end"),
    RUNTIME: ("start", "end", "nameId"),
    SYNCHRONIZATION: ("start", "end"),
    CUDA_EVENT: ("eventId", "correlationId"),
    GRAPH_TRACE: ("start", "end"),
    NVTX: ("start", "end", "eventType"),
    STRINGS: ("id", "value"),
}
# Names of all tables that a profile is made from, as patterns of `nsys export --tables`.
USED: Final = (
    *NEEDED,
    *GPUS,
    *PROCESSES,
    *OVERHEADS,
    *HOST_CALLS,
    *PAGE_FAULTS,
    "PROCESSES",
    "DIAGNOSTIC_EVENT",
    "META_DATA_EXPORT",
    "META_DATA_CAPTURE",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
    "ENUM_CUDA_MEMCPY_OPER",
    "ENUM_CUDA_MEM_KIND",
    EVENT_CLASSES,
)

# With --cudabacktrace, rows of this class repeat calls of others to carry their stacks.
BACKTRACE: Final = "TRACE_PROCESS_EVENT_CUDABACKTRACE"
BACKTRACE_CLASS: Final = 67
# The types of the columns that are read, by their names; a MEMSET's "value" is another one.
_TEXTS: Final = ("value", "name", "text", "busLocation", "pciBusId", "utcTime")
_NUMBERS: Final = (
    "start", "end", "id", "bytes", "copyKind", "nameId", "eventType", "demangledName", "shortName",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId", "graphExecId",
    "deviceId", "contextId", "streamId", "correlationId", "globalPid", "globalTid", "srcKind",
    "dstKind", "memKind", "srcDeviceId", "dstDeviceId", "syncType", "domainId", "textId", "cudaId",
    "pid", "processId", "gpuId", "totalMemory", "globalMemorySize", "memoryBandwidth",
    "globalMemoryBandwidth", "clockRate", "computeMajor", "computeMinor", "smMajor", "smMinor",
    "computeCapabilityMajor", "computeCapabilityMinor", "smCount", "numMultiprocessors", "severity",
    "utcEpochNs",
    "eventClass", "returnValue", "eventId", "numberOfPageFaults",
)  # fmt: skip
_OF_ACTIVITIES: Final = dict.fromkeys(_NUMBERS, pa.int64()) | {"text": pa.string()}
KINDS: Final = dict.fromkeys(USED, _OF_ACTIVITIES | dict.fromkeys(_TEXTS, pa.string())) | (
    dict.fromkeys(
        (*EVENTS, SYNCHRONIZATION, CUDA_EVENT, *OVERHEADS, *HOST_CALLS, *PAGE_FAULTS),
        _OF_ACTIVITIES,
    )
)

_SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
# In place of the stream or event of what has none; before nsys 2024 of the stream of any wait.
_NONE: Final = 2**32 - 1
_RANGE_KINDS: Final = {59: "push_pop", 60: "start_end"}
_DOMAIN_CREATED: Final = 75
_LOW_24_BITS: Final = 0xFFFFFF
# Names of API calls end in the version that introduced the call (cudaLaunchKernel_v7000), which
# nsys itself leaves out.
_VERSION: Final = re.compile(r"_v[0-9]{4}\Z")
_TIMES: Final[dict[str, Made | str]] = {"start_ns": "start", "end_ns": "end"}
# How exports of nsys and databases of nvprof name what a kernel was launched with.
KERNEL_COLUMNS: Final = {
    **{f"{size}_{axis.lower()}": f"{size}{axis}" for size in ("grid", "block") for axis in "XYZ"},
    "registers_per_thread": "registersPerThread",
    "static_shared_memory_bytes": "staticSharedMemory",
    "dynamic_shared_memory_bytes": "dynamicSharedMemory",
}
DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")

Numbers = npt.NDArray[Any]
# Process and ordinal -> the GPU's number in the machine.
MachineNumbers = Mapping[tuple[int, int], int]
_Columns = dict[str, Made | str]


@dataclass(frozen=True, eq=False)
class Tables:
    """What lies in one export.

    Args:
        columns: Table name to the names of its columns.
        stored: What a table of the file holds.
        strings: The texts of the file by their numbers.
        memcpy_kinds: Numbers of ``copyKind`` to words; the file's own where it has an enum.
        memory_kinds: The same for ``srcKind``, ``dstKind`` and ``memKind``.
        backtrace_class: The ``eventClass`` of rows that repeat calls, from the file's enum, too.
        mistimed: Tables with rows that have no time or end before they start, all of them
            counted. Any other's rows that end before they start are the file's fault.
        machine_numbers: The numbers of devices where processes number them in their own ways.
    """

    columns: Mapping[str, Collection[str]]
    stored: Callable[[str], Stored]
    strings: "Strings"
    memcpy_kinds: Mapping[int, str]
    memory_kinds: Mapping[int, str]
    backtrace_class: int = BACKTRACE_CLASS
    mistimed: Collection[str] = ()
    machine_numbers: MachineNumbers = field(default_factory=dict)

    def pick(self, table: str, *names: str) -> str | None:
        """The first of these columns that the table has."""
        have = self.columns.get(table, ())
        return next((name for name in names if name in have), None)

    def has(self, table: str, *names: str) -> bool:
        """Whether the table is there with these columns."""
        return {*names} <= {*self.columns.get(table, ())} and table in self.columns


class Strings:
    """The texts of a file by their numbers, read when they are first asked for.

    Args:
        open_table: Opens the table, of which nothing else stays; None where there is none.
    """

    def __init__(self, open_table: Callable[[], Stored] | None) -> None:
        self._open_table = open_table

    @cached_property
    def numbered(self) -> NumberedNames:
        """Each number with its text."""
        numbers: list[int] = []
        texts: list[str | None] = []
        if self._open_table is not None:
            for number, text in self._open_table().pieces(["id", "value"]):
                numbers += number.filled.tolist()
                texts += text.listed
        return NumberedNames(numbers, {"name": texts})

    @cached_property
    def words(self) -> Words:
        """All texts, null first."""
        return Words([None, *self.numbered.columns["name"]])

    @cached_property
    def places(self) -> ByNumber:
        """The place among the words of each number's text."""
        numbers, columns = self.numbered
        return ByNumber(numbers, [self.words.place(text) for text in columns["name"]], 0)

    def _places_of(self, numbers: Numbers) -> Numbers:
        return self.places.of(numbers)

    def made(self, column: str | None, missing: str | None = None) -> Made | None:
        """The texts of a column of numbers.

        Args:
            column: The numbers; None for none.
            missing: What stands where there is no text.
        """
        if self._open_table is None or column is None:
            return None if missing is None else constant(missing)

        @cache
        def words() -> list[str | None]:
            return [missing, *self.words.listed[1:]]

        return Made((column,), self._places_of, words)


def tables(of: Tables) -> dict[str, Callable[[], Table]]:
    """Every table of the data model that the export's tables can fill."""
    makers: dict[str, tuple[str, Callable[[Tables], Part]]] = {
        "kernels": (KERNEL, _kernels),
        "memcpys": (MEMCPY, _memcpys),
        "memsets": (MEMSET, _memsets),
        "api_calls": (RUNTIME, _api_calls),
        "nvtx_ranges": (NVTX, _nvtx_ranges),
        "synchronizations": (SYNCHRONIZATION, _synchronizations),
        "cuda_events": (CUDA_EVENT, _cuda_events),
        "graph_launches": (GRAPH_TRACE, _graph_launches),
    }
    parts: dict[str, list[Callable[[], Part]]] = {
        name: [partial(make, of)] for name, (raw, make) in makers.items() if raw in of.columns
    }
    for raw, library in HOST_CALLS.items():
        if of.has(raw, "start", "end"):
            parts.setdefault("host_calls", []).append(partial(_host_calls, of, raw, library))
    for raw, processor in PAGE_FAULTS.items():
        if of.has(raw, "start"):
            parts.setdefault("page_faults", []).append(partial(_page_faults, of, raw, processor))
    for raw, source in OVERHEADS.items():
        if of.has(raw, "start", "end"):
            parts.setdefault("overheads", []).append(partial(_overheads, of, raw, source))
    names = {"kernels": _kernel_names, "api_calls": _call_names} if STRINGS in of.columns else {}

    def made(name: str) -> Table:
        of_names = names.get(name)
        return Table(
            BY_NAME[name],
            [part() for part in parts[name]],
            None if of_names is None else partial(of_names, of),
            {"name", "api"} if name == "api_calls" else {"name"},
        )

    return {name: partial(made, name) for name in parts}


def _kernel_names(of: Tables) -> NumberedNames:
    return of.strings.numbered


def _call_names(of: Tables) -> NumberedNames:
    numbers, columns = of.strings.numbered
    texts = columns["name"]
    names = [None if text is None else _VERSION.sub("", text) for text in texts]
    return NumberedNames(numbers, {"name": names, "api": [_api(text or "") for text in texts]})


def _api(name: str) -> str | None:
    if name.startswith("cuda"):
        return "runtime"
    return "driver" if name.startswith("cu") else None


def present(columns: Mapping[str, Made | str | None]) -> _Columns:
    """The columns that are there."""
    return {name: made for name, made in columns.items() if made is not None}


def _part(
    of: Tables,
    table: str,
    columns: Mapping[str, Made | str | None],
    *keep: Made,
    is_whole: Callable[[], bool] = lambda: False,
) -> Part:
    return Part(of.stored(table), present(columns), keep, is_whole)


def _kernels(of: Tables) -> Part:
    numbers = [name for name in ("demangledName", "shortName") if of.pick(KERNEL, name)]
    name: dict[str, Made | str | None] = {"name": constant("unknown")}
    if STRINGS in of.columns:
        name = {"name_id": first_known(*numbers) if numbers else None}
    launched = {column: of.pick(KERNEL, recorded) for column, recorded in KERNEL_COLUMNS.items()}
    columns = _place(of, KERNEL) | name | launched | _graph_node(of, KERNEL)
    return _part(of, KERNEL, columns, *_timed(of, KERNEL))


def first_known(*columns: str) -> Made | str:
    """The first of some columns that is not null."""

    def make(first: Numbers, *others: Numbers) -> Numbers:
        for other in others:
            if (is_unknown := first == UNKNOWN).any():
                first = np.where(is_unknown, other, first)
        return first

    return Made(columns, make) if len(columns) > 1 else columns[0]


def _timed(of: Tables, table: str) -> list[Made]:
    """Tools write both times as 0 where they could not be collected; a null is of no use either."""
    is_ordered = table in of.mistimed

    def are_timed(start: Numbers, end: Numbers) -> Flags:
        flags: Flags = (start != UNKNOWN) & (end != UNKNOWN)
        if not start.all():
            flags &= (start != 0) | (end != 0)
        return flags & (end >= start) if is_ordered else flags

    return [Made(("start", "end"), are_timed)]


def untimed_rows(start: Numbers, end: Numbers) -> int:
    """How many rows have no times: an end before the start would be taken off totals."""
    is_known = (start != UNKNOWN) & (end != UNKNOWN) & ((start != 0) | (end != 0))
    return int((~is_known | (end < start)).sum())


def _memcpys(of: Tables) -> Part:
    recorded = {n: of.pick(MEMCPY, column) for n, column in _RECORDED_ENDS.items()}
    columns: dict[str, Made | str | None] = {
        **_place(of, MEMCPY),
        "memcpy_kind": translated("copyKind", of.memcpy_kinds, "unknown"),
        "bytes": "bytes",
        "src_memory_kind": _words(of.pick(MEMCPY, "srcKind"), of.memory_kinds),
        "dst_memory_kind": _words(of.pick(MEMCPY, "dstKind"), of.memory_kinds),
        "src_device_id": copy_end(of, recorded["src_device_id"], 0),
        "dst_device_id": copy_end(of, recorded["dst_device_id"], -1),
        "path": _path(of, *recorded.values()),
        **_graph_node(of, MEMCPY),
    }
    is_whole = lambda: False  # noqa: E731 - see below
    if kinds := halves(of):
        is_whole = cache(lambda: may_be_staged(of.stored(MEMCPY), kinds))
        staged = Staged(of)
        columns["src_device_id"] = staged.over(columns["src_device_id"], 0)
        columns["dst_device_id"] = staged.over(columns["dst_device_id"], 1)
        columns["path"] = staged.path(columns["path"])
    for name in _RECORDED_ENDS:
        columns[name] = _in_machine(of, MEMCPY, columns[name])
    return _part(of, MEMCPY, columns, *_timed(of, MEMCPY), is_whole=is_whole)


_RECORDED_ENDS: Final = {"src_device_id": "srcDeviceId", "dst_device_id": "dstDeviceId"}
PATHS: Final = (None, "direct", "staged")


def _path(of: Tables, src: str | None, dst: str | None) -> Made:
    """Of peer copies: that they went directly."""
    peer, on_device = (_numbers(of.memcpy_kinds, word) for word in ("PtoP", "DtoD"))

    def make(kind: Numbers, *ends: Numbers) -> Numbers:
        is_direct = np.isin(kind, peer)
        if len(ends) == 2:  # noqa: PLR2004 - both of them
            read, written = ends
            is_known = (read != UNKNOWN) & (written != UNKNOWN)
            is_direct |= np.isin(kind, on_device) & is_known & (read != written)
        return is_direct.astype(np.int8)

    ends = (src, dst) if src is not None and dst is not None else ()
    return Made(("copyKind", *ends), make, lambda: PATHS)


def copy_end(of: Tables, recorded: str | None, letter: int) -> Made | str | None:
    """The device at one end of a copy: ``letter`` is 0 for the source, -1 for the destination.

    Of a peer copy ``deviceId`` is where it ran, the source when pushed and the destination
    when pulled: only the recorded ids tell. Other copies touch the one device they ran on.
    """
    kinds_on_device = [
        number
        for number, word in of.memcpy_kinds.items()
        if word not in {"unknown", "PtoP", "UVM_DtoD"}
        and word.removeprefix("UVM_")[letter] in "DA"  # an array lies on the device, too
    ]
    device = of.pick(MEMCPY, "deviceId")
    if device is None:
        return recorded

    def make(kind: Numbers, ran_on: Numbers, *ends: Numbers) -> Numbers:
        is_one_device = np.isin(kind, kinds_on_device)
        if not ends:
            return np.where(is_one_device, ran_on, UNKNOWN)
        return np.where((ends[0] == UNKNOWN) & is_one_device, ran_on, ends[0])

    return Made(("copyKind", device, *([] if recorded is None else [recorded])), make)


class Staged:
    """Peer copies that went through the host.

    Without a path between two devices, a peer copy is recorded as a copy to the host on the
    source and a copy from the host on the destination, of one correlation id, both from device
    memory to device memory, and neither naming the other device.

    Args:
        of: Its table of copies has all columns of `halves`.
    """

    def __init__(self, of: Tables, table: str = MEMCPY) -> None:
        self._halves = halves(of, table)
        self._to_host, self._from_host = (_numbers(of.memcpy_kinds, w) for w in ("DtoH", "HtoD"))
        process = of.pick(table, "globalPid")
        self._reads = (*_OF_HALVES, *([] if process is None else [process]))
        # Columns are made one after another of the same rows.
        self._last: tuple[Any, tuple[Numbers, Numbers]] | None = None

    def over(self, end: Made | str | None, place: int) -> Made:
        """The source (0) or destination (1) of halves; of others their own end."""

        def make(*columns: Numbers) -> Numbers:
            of_pair = self._ends(columns[: len(self._reads)])[place]
            own = of_end.make(*columns[len(self._reads) :]) if of_end.make else UNKNOWN
            return np.where(of_pair == UNKNOWN, own, of_pair)

        of_end = as_made(end)
        return Made((*self._reads, *of_end.reads), make)

    def path(self, path: Made | str | None) -> Made:
        """The path of halves; of others their own."""

        def make(*columns: Numbers) -> Numbers:
            src, _ = self._ends(columns[: len(self._reads)])
            own = of_path.make(*columns[len(self._reads) :]) if of_path.make else 0
            return np.where(src == UNKNOWN, own, PATHS.index("staged"))

        of_path = as_made(path)
        return Made((*self._reads, *of_path.reads), make, lambda: PATHS)

    def _ends(self, columns: tuple[Numbers, ...]) -> tuple[Numbers, Numbers]:
        """The devices of the pair that a copy is half of, `UNKNOWN` for others."""
        if self._last is None or self._last[0] is not columns[0]:
            self._last = columns[0], self._found(*columns)
        return self._last[1]

    def _found(self, *columns: Numbers) -> tuple[Numbers, Numbers]:
        kind, device, correlation, size, start, *_, src_kind, dst_kind = columns[:7]
        process = columns[7] if len(columns) > len(_OF_HALVES) else np.zeros(len(kind), np.int64)
        ends = np.full((2, len(kind)), UNKNOWN, np.int64)
        of = dict(zip(("copyKind", "srcKind", "dstKind"), (kind, src_kind, dst_kind), strict=True))
        is_half = np.logical_and.reduce([np.isin(of[c], n) for c, n in self._halves.items()])
        rows = np.flatnonzero(is_half & (correlation != UNKNOWN))
        if not len(rows):
            return ends[0], ends[1]
        keys = process[rows], correlation[rows]
        order = np.lexsort(keys)
        rows = rows[order]
        is_first = np.ones(len(rows), bool)
        is_first[1:] = np.logical_or.reduce([k[order][1:] != k[order][:-1] for k in keys])
        group, groups = np.cumsum(is_first) - 1, int(is_first.sum())
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        out, back = (np.isin(kind[rows], kinds) for kinds in (self._to_host, self._from_host))

        def of_group(side: Flags, values: Numbers, how: np.ufunc, start_with: int) -> Numbers:
            made = np.full(groups, start_with, np.int64)
            is_known = side & (values[rows] != UNKNOWN)
            how.at(made, group[is_known], values[rows][is_known])
            return made

        src, dst = (of_group(side, device, np.minimum, most) for side in (out, back))
        is_pair = (src != dst) & (src != most) & (dst != most)
        is_pair &= src == of_group(out, device, np.maximum, least)
        is_pair &= dst == of_group(back, device, np.maximum, least)
        is_pair &= of_group(out, size, np.add, 0) == of_group(back, size, np.add, 0)
        first_out, first_back = (of_group(side, start, np.minimum, most) for side in (out, back))
        is_pair &= first_out <= first_back
        ends[:, rows] = np.where(is_pair, [src, dst], UNKNOWN)[:, group]
        return ends[0], ends[1]


_OF_HALVES: Final = (
    "copyKind", "deviceId", "correlationId", "bytes", "start", "srcKind", "dstKind",
)  # fmt: skip


def as_made(column: Made | str | None) -> Made:
    """A column as one that is made, where it need not be there."""
    if isinstance(column, str):
        return Made((column,), lambda numbers: numbers)
    return Made(()) if column is None else column


def halves(of: Tables, table: str = MEMCPY) -> Mapping[str, list[int]]:
    """By column the numbers of copies that may be half of a staged one; empty where none can be."""
    if not of.has(table, "srcKind", "dstKind", "deviceId", "correlationId"):
        return {}
    device_memory = _numbers(of.memory_kinds, "device")
    copies = _numbers(of.memcpy_kinds, "DtoH") + _numbers(of.memcpy_kinds, "HtoD")
    return {"copyKind": copies, "srcKind": device_memory, "dstKind": device_memory}


def may_be_staged(stored: Stored, kinds: Mapping[str, Collection[int]]) -> bool:
    """Whether a copy may be half of a staged one: it is of the kinds that `halves` gives."""
    return any(
        np.logical_and.reduce([
            np.isin(column.filled, [*numbers])
            for column, numbers in zip(piece, kinds.values(), strict=True)
        ]).any()
        for piece in stored.pieces([*kinds])
    )  # fmt: skip


def _numbers(words: Mapping[int, str], word: str) -> list[int]:
    return [number for number, meaning in words.items() if meaning == word]


def _memsets(of: Tables) -> Part:
    columns = _place(of, MEMSET) | {
        "bytes": of.pick(MEMSET, "bytes"),
        "memory_kind": _words(of.pick(MEMSET, "memKind"), of.memory_kinds),
    }
    return _part(of, MEMSET, columns, *_timed(of, MEMSET))


def _api_calls(of: Tables) -> Part:
    keep = _timed(of, RUNTIME)
    if of.has(RUNTIME, "eventClass"):
        keep.append(Made(("eventClass",), lambda number: number != of.backtrace_class))
    name: _Columns = {"name": constant("unknown")}
    if STRINGS in of.columns:
        name = {"name_id": "nameId"}
    correlation = {"correlation_id": of.pick(RUNTIME, "correlationId")}
    return _part(of, RUNTIME, _TIMES | name | _thread(of, RUNTIME) | correlation, *keep)


def _nvtx_ranges(of: Tables) -> Part:
    texts = _RangeTexts(of)
    columns = _thread(of, NVTX) | {
        "text": texts.made(),
        "domain": texts.domain(),
        "range_kind": translated("eventType", _RANGE_KINDS),
    }
    is_range = Made(("eventType",), lambda kind: np.isin(kind, [*_RANGE_KINDS]))
    return _part(of, NVTX, _TIMES | columns, *_timed(of, NVTX), is_range)


class _RangeTexts:
    """The texts of ranges, which stand in the event or among the texts of the file."""

    def __init__(self, of: Tables) -> None:
        self._of, self._words = of, Words([None])
        columns = {"text": of.pick(NVTX, "text")}
        columns["textId"] = of.pick(NVTX, "textId") if STRINGS in of.columns else None
        self._reads = tuple(name for name in columns.values() if name is not None)

    def made(self) -> Made | None:
        """The text of each range."""
        return Made(self._reads, self._numbers, lambda: self._words.listed) if self._reads else None

    @cached_property
    def _places(self) -> ByNumber:
        numbers, columns = self._of.strings.numbered
        return ByNumber(numbers, [self._words.place(text) for text in columns["name"]], 0)

    def _numbers(self, *columns: Any) -> Numbers:
        places: Any = None
        for column in columns:
            if isinstance(column, Values):
                places = self._words.numbers(column)
            elif places is None or (is_null := places == 0).all():
                places = self._places.of(column)
            elif is_null.any():
                places = np.where(is_null, self._places.of(column), places)
        numbers: Numbers = places
        return numbers

    def domain(self) -> Made:
        """The name of each range's domain; empty for none."""
        number, thread = (self._of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        if number is None or not self._reads:
            return constant("")

        def make(numbers: Numbers, *threads: Numbers) -> Numbers:
            codes, _ = self._domains
            if codes is None:
                return np.zeros(len(numbers), np.int8)
            process = _low_bits(24)(threads[0]) if threads else np.full(len(numbers), UNKNOWN)
            return codes.of(process, numbers) + 1

        reads = (number,) if thread is None else (number, thread)
        return Made(reads, make, lambda: self._domains[1])

    @cached_property
    def _domains(self) -> "tuple[Pairs | None, list[str]]":
        """The places of processes and domains among those that have a name, and all names."""
        of = self._of
        number, thread = (of.pick(NVTX, name) for name in ("domainId", "globalTid"))
        reads = ["eventType", *filter(None, (number, thread)), *self._reads]
        names: dict[tuple[int, int], str] = {}
        for piece in of.stored(NVTX).pieces(reads):
            columns = dict(zip(reads, piece, strict=True))
            rows = np.flatnonzero(columns["eventType"].numbers == _DOMAIN_CREATED)
            if not len(rows):
                continue
            of_rows = [c.take(rows) if c.words else c.take(rows).filled for c in columns.values()]
            at: dict[str, Any] = dict(zip(reads, of_rows, strict=True))
            places = self._numbers(*(at[name] for name in self._reads)).tolist()
            none = np.full(len(rows), UNKNOWN)
            processes = none if thread is None else _low_bits(24)(at[thread])
            domains = at[number or ""].tolist()
            for process, domain, place in zip(processes.tolist(), domains, places, strict=True):
                name = self._words.listed[place]
                if name is not None and domain != UNKNOWN:
                    names.setdefault((process, domain), name)
        if not names:
            return None, [""]
        pairs = sorted(names)
        return Pairs(*np.array(pairs, np.int64).T), ["", *(names[pair] for pair in pairs)]


class Pairs:
    """Pairs of numbers and the place of each.

    Args:
        first: The first numbers of pairs in their order, none of them twice.
        second: The second ones.
    """

    def __init__(self, first: Numbers, second: Numbers) -> None:
        self._firsts, self._seconds = np.unique(first), np.unique(second)
        self._codes = self._code(first, second)

    def _code(self, first: Numbers, second: Numbers) -> Numbers:
        code = np.zeros(len(first), np.int64)
        is_known = np.ones(len(first), bool)
        for values, numbers in ((self._firsts, first), (self._seconds, second)):
            place = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
            is_known &= values[place] == numbers
            code = code * len(values) + place
        return np.where(is_known, code, -1)

    def of(self, first: Numbers, second: Numbers) -> Numbers:
        """The place of each pair; -1 for none."""
        code = self._code(first, second)
        place = np.minimum(np.searchsorted(self._codes, code), len(self._codes) - 1)
        return np.where(self._codes[place] == code, place, -1)


class EventRecords:
    """When events were recorded, again and again; ids of calls grow in their order.

    Args:
        columns: Process, event and correlation id of each record; then what is asked of it.
    """

    def __init__(self, *columns: Numbers) -> None:
        process, event, correlation = (c.astype(np.int64) for c in columns[:3])
        is_known = (process != UNKNOWN) & (event != UNKNOWN) & (correlation != UNKNOWN)
        order = np.lexsort((correlation, event, process))
        order = order[is_known[order]]
        self._process, self._event, correlation = (
            values[order] for values in (process, event, correlation)
        )
        self._more = [column[order] for column in columns[3:]]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (self._process[1:] != self._process[:-1]) | (
            self._event[1:] != self._event[:-1]
        )
        self._pairs = Pairs(self._process[is_first], self._event[is_first]) if len(order) else None
        self._calls = np.unique(correlation)
        group = np.cumsum(is_first) - 1
        self._rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, correlation)
        self._group = group

    def latest(self, column: int, process: Numbers, event: Numbers, call: Numbers) -> Numbers:
        """What is asked of the latest record before each call."""
        if self._pairs is None:
            return np.full(len(event), UNKNOWN)
        group = self._pairs.of(process, event)
        rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, call)
        place = np.searchsorted(self._rank, rank) - 1
        is_there = (group >= 0) & (place >= 0) & (self._group[place] == group) & (call != UNKNOWN)
        return np.where(is_there, self._more[column][place], UNKNOWN)


def columns_at_once(stored: Stored, names: Sequence[str | None]) -> list[Numbers]:
    """Columns of numbers of a table as one array each; None is one of unknown numbers."""
    there = [name for name in names if name is not None]
    parts = [[column.filled for column in piece] for piece in stored.pieces(there)]
    columns = dict(zip(there, map(np.concatenate, zip(*parts, strict=True)), strict=False))
    rows = len(next(iter(columns.values()), ()))
    none = np.full(rows, UNKNOWN)
    return [none if name is None else columns.get(name, none) for name in names]


def _synchronizations(of: Tables) -> Part:
    columns = _place(of, SYNCHRONIZATION)
    event, stream = (of.pick(SYNCHRONIZATION, name) for name in ("eventId", "streamId"))
    columns |= {
        "stream_id": without(stream, _NONE),
        "sync_kind": _words(of.pick(SYNCHRONIZATION, "syncType"), _SYNC_KINDS),
        "event_id": without(event, _NONE),
    }
    keys = ("globalPid", "eventId", "correlationId")
    if all(of.has(table, *keys) for table in (SYNCHRONIZATION, CUDA_EVENT)):
        places = [of.pick(CUDA_EVENT, "deviceId"), of.pick(CUDA_EVENT, "streamId")]

        @cache
        def records() -> EventRecords:
            # An event may be recorded again and again.
            return EventRecords(*columns_at_once(of.stored(CUDA_EVENT), [*keys, *places]))

        for number, name in enumerate(("src_device_id", "src_stream_id")):
            columns[name] = Made(keys, lambda *c, number=number: records().latest(number, *c))
        columns["src_device_id"] = _in_machine(of, SYNCHRONIZATION, columns["src_device_id"])
    return _part(of, SYNCHRONIZATION, columns, *_timed(of, SYNCHRONIZATION))


def without(column: str | None, absent: int) -> Made | None:
    """A column, null where it is a number that stands for none."""
    if column is None:
        return None
    return Made((column,), lambda numbers: np.where(numbers == absent, UNKNOWN, numbers))


def _cuda_events(of: Tables) -> Part:
    place = {name: made for name, made in _place(of, CUDA_EVENT).items() if name not in _TIMES}
    return _part(of, CUDA_EVENT, place | {"event_id": "eventId"})


def _graph_launches(of: Tables) -> Part:
    graph = {"graph_id": of.pick(GRAPH_TRACE, "graphId", "graphExecId")}
    return _part(of, GRAPH_TRACE, _place(of, GRAPH_TRACE) | graph, *_timed(of, GRAPH_TRACE))


def _page_faults(of: Tables, table: str, processor: str) -> Part:
    is_gpu = processor == "gpu"
    end = of.pick(table, "end")
    # The CPU's have no end, and each row is one.
    columns: dict[str, Made | str | None] = {
        "start_ns": "start",
        "end_ns": "start" if end is None else first_known(end, "start"),
        "processor": constant(processor),
        "process_id": _process(of.pick(table, "globalPid")),
        "device_id": of.pick(table, "deviceId") if is_gpu else None,
        "faults": of.pick(table, "numberOfPageFaults") if is_gpu else Made((), lambda: 1),
    }
    columns["device_id"] = _in_machine(of, table, columns["device_id"])
    return _part(of, table, columns)


def _overheads(of: Tables, table: str, source: str) -> Part:
    name = of.strings.made(of.pick(table, "nameId"))
    columns = _thread(of, table) | {"source": constant(source), "name": name}
    return _part(of, table, _TIMES | columns, *_timed(of, table))


def _host_calls(of: Tables, table: str, library: str) -> Part:
    name = of.strings.made(of.pick(table, "textId", "nameId"), "unknown")
    columns = _thread(of, table) | {"library": constant(library), "name": name}
    more = sorted({"globalTid", "textId", "nameId"} & {*of.columns[table]})
    in_order = Made(("start", "end"), lambda start, end: end >= start)
    # A wait for several requests has a row for each.
    first = Made(("start", "end", *more), _are_first)
    keep = (*_timed(of, table), in_order, first)
    return _part(of, table, _TIMES | columns, *keep, is_whole=lambda: True)


def _are_first(*columns: Numbers) -> Flags:
    """Which rows are the first that are as they are."""
    order = np.lexsort(columns)
    is_first = np.ones(len(order), bool)
    is_first[order[1:]] = np.logical_or.reduce([c[order[1:]] != c[order[:-1]] for c in columns])
    return is_first


def _place(of: Tables, table: str) -> dict[str, Made | str | None]:
    def pick(name: str) -> str | None:
        return of.pick(table, name)

    return {
        **_TIMES,
        "device_id": _in_machine(of, table, pick("deviceId")),
        "context_id": pick("contextId"),
        "stream_id": pick("streamId"),
        "process_id": _process(pick("globalPid")),
        "correlation_id": pick("correlationId"),
    }


def _in_machine(of: Tables, table: str, device: Made | str | None) -> Made | str | None:
    """A device by its number in the machine, where processes number them in their own ways."""
    process = of.pick(table, "globalPid")
    if not of.machine_numbers or process is None or device is None:
        return device
    pairs, made = sorted(of.machine_numbers), as_made(device)
    places = Pairs(*np.array(pairs, np.int64).T)
    gpus = np.array([of.machine_numbers[pair] for pair in pairs])

    def make(global_id: Numbers, *columns: Numbers) -> Numbers:
        ordinal: Numbers = made.make(*columns) if made.make else np.full_like(global_id, UNKNOWN)
        place = places.of(_low_bits(24)(global_id), ordinal)
        return np.where(place < 0, ordinal, gpus[place])

    return Made((process, *made.reads), make)


def _low_bits(shift: int) -> Callable[[Numbers], Numbers]:
    """24 bits of a global id, which holds machine, process and thread: 8 bits of each end."""

    def make(global_id: Numbers) -> Numbers:
        bits = global_id.astype(np.int64, copy=False) >> shift
        bits &= _LOW_24_BITS
        is_unknown = global_id == UNKNOWN
        return np.where(is_unknown, UNKNOWN, bits) if is_unknown.any() else bits

    return make


def _process(global_id: str | None) -> Made | None:
    return None if global_id is None else Made((global_id,), _low_bits(24))


def _thread(of: Tables, table: str) -> dict[str, Made | str | None]:
    global_id = of.pick(table, "globalTid")
    thread = None if global_id is None else Made((global_id,), _low_bits(0))
    return {"process_id": _process(global_id), "thread_id": thread}


def _graph_node(of: Tables, table: str) -> dict[str, Made | str | None]:
    return {"graph_node_id": without(of.pick(table, "graphNodeId"), 0)}


def _words(column: str | None, words: Mapping[int, str]) -> Made | None:
    """A tool's number as a word: null stays null, a number without a word is unknown."""
    return None if column is None else translated(column, words)


def owners(of: Tables) -> tuple[str, Made | str] | None:
    """A table of few rows, else one of activities, and its column of processes."""
    for table in PROCESSES:
        if of.has(table, "processId"):
            return table, "processId"
    for table in (RUNTIME, KERNEL):
        process = _process(of.pick(table, "globalPid", "globalTid"))
        if process is not None:
            return table, process
    return None
