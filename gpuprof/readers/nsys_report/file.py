"""Reports of Nsight Systems, ``.nsys-rep`` and the older ``.qdrep``, as files.

The layout was worked out from real reports of nsys 2019.5 to 2026.2, from what ``nsys export``
prints of them (``--type text``, ``json`` and ``sqlite`` name fields and values), and from SQLite
exports that people keep beside their reports; no program was taken apart. A report is

    "NVIDIA Tegra Profiler Report ", a byte, sections, a footer, 8 bytes: where the footer begins,
    "U3w[END]"

and its footer names the sections. "Raw Sampling Data" holds a head (settings, clocks), an index
(declared counts), events in LZ4 blocks in the order of time, all texts by their numbers, names of
threads, and a tail (devices, contexts, streams); "UI Data" says who recorded. Messages are
protocol buffers.

`LAYOUT` says which fields of events are read, by the names that an export gives them. Field 1 of an
event is its type, and one message in it says what it is. Beside what stands there: 104 samples, 106
scheduling, 109 mapped files; of 107, 7 its class and 9 a green context; of kernels, 3 the mangled
name, 18 and 19 local memory, 20 the grid's number, 22 shared memory as executed, 23 the cache's
configuration, 24 how it was launched; of calls, 15 and 20 their stacks; of ranges, 4 their number,
6 a colour, 8 a category.
"""

from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeVar

from gpuprof.base.machine import in_turn
from gpuprof.native import nsys_reports
from gpuprof.native.nsys_reports import Fields, Layout, Message, ReportError
from gpuprof.readers.nsys.export_schema import (
    CUDA_EVENT,
    DIAGNOSTICS,
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    RUNTIME,
    SYNCHRONIZATION,
)

CALLS, PROCESSES = "CALLS", "PROCESSES"
_ACTIVITY: Final[Mapping[str, nsys_reports.Path]] = {
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


LAYOUT: Final = {
    KERNEL: _activity(101, _LAUNCH),
    MEMCPY: _activity(102, _COPY),
    MEMSET: _activity(103, {"bytes": 1, "memKind": 4}),
    SYNCHRONIZATION: _activity(105, {"eventId": 1, "syncType": 4})._replace(
        older={"syncType": (107, 105, 2)}
    ),
    CUDA_EVENT: _activity(106, {"eventId": 1}),
    GRAPH_TRACE: _activity(107, {}),
    CALLS: Fields(
        (108,),
        {
            "start": (108, 1), "end": (108, 2), "correlationId": (108, 3), "eventClass": (108, 6),
            "nameId": (108, 7), "returnValue": (108, 8), "globalTid": (108, 13),
        },
    ),
    NVTX: Fields(
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
OS: Final = (27, 31, 32)  # calls, start and end of their tracing
OF_CALLS: Final = {RUNTIME: CUDA, "PROFILER_OVERHEAD": (3,), "OSRT_API": OS}
# Ranges of this domain are calls, for which the exporter has tables. That of UCX was in no report
# at hand.
MPI: Final = "MPI"
OF_MPI: Final = "MPI_OTHER_EVENTS"
PUSH_POP, START_END, DOMAIN_CREATED = 59, 60, 75
# What some events lack; each of the others stood in all of 600,000 events of 52 reports.
OPTIONAL: Final = frozenset({
    "graphNodeId", "srcDeviceId", "dstDeviceId", "memKind", "syncType", "text", "textId",
    "command", "name", (CALLS, "correlationId"), (NVTX, "end"),
})  # fmt: skip
HEAD: Final = b"NVIDIA Tegra Profiler Report "
_END: Final = b"U3w[END]"
_EVENTS, _OFFSETS, _UI, _CLOCKS = (
    "Raw Sampling Data", "Sampling Data Offsets", "UI Data", "Time Conversion Data",
)  # fmt: skip
_EVENTS_HEAD: Final = b"QDTEXT00"
_CODEC: Final = "lz4"
_BATCH_BYTES: Final = 1 << 20
# Two blocks that begin with so many equal bytes are one: events have times.
_TELLING_BYTES: Final = 64
_Result = TypeVar("_Result")


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

    def number(self, part_name: str) -> int:
        """A number of seven bits a byte."""
        data = self.take(min(nsys_reports.LONGEST_VARINT, self.end - self.at), part_name)
        number, size = nsys_reports.varint(data, 0)
        self.at -= len(data) - size
        return number

    def remaining(self, part_name: str) -> Message:
        """All bytes that are left as a message."""
        return Message(self.take(self.end - self.at, part_name))

    def message(self, part_name: str) -> Message:
        """A message after its length."""
        return Message(self.take(self.number(part_name), part_name))

    def block(self, part_name: str) -> bytes:
        """A packed block with its sizes."""
        first, packed, _ = self.at, self.number(part_name), self.number(part_name)
        size, self.at = self.at - first + packed, first
        return self.take(size, part_name)


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


def agree(part_name: str, declared: int, decoded: int) -> None:
    """Check that there is as much of something as a report declares.

    Raises:
        ReportError: There is not.
    """
    if declared != decoded:
        msg = f"it declares {declared:,} {part_name} and has {decoded:,}"
        raise ReportError(msg)


class Report:
    """What lies in one file, its events as blocks.

    Attributes:
        about: Who recorded.
        head: Settings and clocks of the recording.
        tail: Devices, contexts, streams.
        clocks: Those of nsys 2026.
        settings: Of the recording.
        declared_events: How many events the file says it has.
        strings: All texts by their numbers.
        last: The end of the recording, in ns.
        devices: The numbers that activities may have for their device.
        contexts: Process << 24 | context, as far as they are listed.

    Raises:
        ReportError: Something in it does not agree with what else is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            sections, nothing = _sections(file), _Stream(file, (0, 0))
            self.about, self.clocks, offsets = (
                sections.get(name, nothing).remaining(f'its section "{name}"')
                for name in (_UI, _CLOCKS, _OFFSETS)
            )
            stream = sections[_EVENTS]
            if stream.take(len(_EVENTS_HEAD), "the mark of events") != _EVENTS_HEAD:
                msg = "its events are of an unknown form"
                raise ReportError(msg)
            end = stream.at + offsets.integer(2) if offsets.integer(2) else None
            self.head, index = stream.message("its head"), stream.message("its index")
            if (codec := index.text(9)) not in {None, _CODEC}:
                msg = f"its events are packed as {codec}"
                raise ReportError(msg)
            if end is not None and not stream.at <= end <= stream.end:
                msg = "its events end outside of their section"
                raise ReportError(msg)
            self.declared_events = index.integer(1)
            self._batches = self._batches_in(stream, end)
            # All texts by their numbers, each once.
            texts: list[bytes] = []
            while len(texts) < index.integer(3):
                texts += nsys_reports.texts(stream.block("a block of texts"))
            agree("texts", index.integer(3), len(texts))
            agree("different texts", index.integer(3), len({*texts}))
            self.strings = [text.decode("utf-8", "replace") for text in texts]
            if index.integer(5):
                threads = stream.message("its names of threads").messages(1)
                agree("threads", index.integer(5), len(threads))
            self.tail = stream.message("its tail")
            self.settings = next(iter(self.head.messages(2)), Message(b""))
            self._check_tail()

    def _check_tail(self) -> None:
        """What events are to agree with."""
        self.last = max(self.head.integer(18), self.head.integer(19)) - self.head.integer(17)
        gpus, contexts = self.tail.messages(1, 2), self.tail.messages(14)
        self.devices = {m.integer(5) for m in contexts}
        self.devices |= {m.integer(1) for gpu in gpus for m in gpu.messages(7)}
        self.devices |= {m.integer(2) for gpu in gpus for m in gpu.messages(9)}
        self.contexts = {m.integer(4) << 24 | m.integer(6) for m in contexts}
        users = {m.integer(4) for m in self.tail.messages(15)}
        if contexts and not users <= {m.integer(4) for m in contexts}:
            msg = "a stream is of a process that has no context"
            raise ReportError(msg)

    def _batches_in(self, stream: _Stream, end: int | None) -> list[tuple[int, int]]:
        """Where about a megabyte of blocks begins and how long it is, until there are no more.

        In reports of nsys 2019 it is their number that tells where events end.
        """
        part_name, batches, offsets_seen, first = "a block of events", [], set(), stream.at
        events, no_tables = 0, Layout({})
        inner = _Stream(stream.file, (stream.at, (end or stream.end) - stream.at))
        while inner.at < inner.end if end is not None else events < self.declared_events:
            block = inner.block(part_name)
            if (telling := (len(block), block[:_TELLING_BYTES])) in offsets_seen:
                msg = "a block of events is there twice"
                raise ReportError(msg)
            offsets_seen.add(telling)
            if end is None:
                events += int(nsys_reports.events(block, no_tables).without_table.sum())
            if inner.at - first >= _BATCH_BYTES:
                batches.append((first, inner.at - first))
                first = inner.at
        stream.at = inner.at
        return [*batches, (first, inner.at - first)] if inner.at > first else batches

    def of_blocks(self, function: Callable[[bytes], _Result]) -> Iterator[_Result]:
        """What a function makes of the blocks, batch by batch, by several threads.

        Raises:
            ReportError: A block breaks the rules of its format.
        """
        part_name = "a block of events"
        with self.path.open("rb") as file:
            blocks = (_Stream(file, place).take(place[1], part_name) for place in self._batches)
            yield from in_turn(function, blocks)

    @property
    def version(self) -> str | None:
        """The version of nsys that recorded."""
        texts = (self.about.text(number) for number in (6, 7))
        return next((text.partition("-")[0] for text in texts if text), None)
