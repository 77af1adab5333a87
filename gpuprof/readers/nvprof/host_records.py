"""What threads did, of nvprof's databases: API calls, waits, events, NVTX ranges and overheads.

Source: CUPTI's activity records, https://docs.nvidia.com/cupti/api/structlist.html.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import SYNC_KINDS
from gpuprof.model import data_model, schema
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import NOT_FOUND, is_any_of
from gpuprof.model.table import Computed, Part, Table, constant, joined, translated
from gpuprof.model.words import ByNumber, Values, Words, narrowed
from gpuprof.readers.nsys.columns import Columns, part, without
from gpuprof.readers.nsys.model_tables import EventRecords
from gpuprof.readers.nvprof.activities import (
    CALLS,
    CUDA_EVENT,
    IS_TIMED,
    MARKER,
    NEEDED,
    Database,
    Numbers,
)

# CUPTI's CUpti_ActivityOverheadKind: which of both holds up the thread, and by what.
_OVERHEAD_KINDS: Final = {
    1: ("cuda", "Driver compiler"),
    1 << 16: ("profiler", "CUPTI buffer flush"),
    2 << 16: ("profiler", "CUPTI instrumentation"),
    3 << 16: ("profiler", "CUPTI resource"),
    4 << 16: ("cuda", "Runtime triggered module loading"),
    5 << 16: ("cuda", "Lazy function loading"),
    6 << 16: ("cuda", "Command buffer full"),
}
# In place of a stream or an event.
_NUMBER_BYTES: Final = 4
_NONE: Final = (-1, 4294967295)
# CUPTI's CUpti_ActivityFlag and CUpti_ActivityObjectKind; the others are of threads.
_OPENS, _CLOSES, PROCESS = 2, 4, 1


def calls(database: Database, table: str) -> Part:
    """Calls of the runtime or the driver, named by CUPTI's numbers: a file has only these."""
    api = next(api for api, of_api in CALLS.items() if of_api == table)
    names = _call_names()[api]
    words = Words([None, *names.values()])
    places = ByNumber([*names], [*map(words.place, names.values())], NOT_FOUND)

    def name_of(numbers: Numbers) -> Numbers:
        word_place = places.of(numbers).astype(np.int32)
        if (is_new := word_place == NOT_FOUND).any():
            distinct, number = np.unique(numbers[is_new], return_inverse=True)
            texts = (None if n == UNKNOWN else f"{api} call {n}" for n in distinct.tolist())
            word_place[is_new] = np.array([*map(words.place, texts)], np.int32)[number]
        return word_place

    columns: Columns = {
        **database.times,
        "api": constant(api),
        "name": Computed(("cbid",), name_of, lambda: words.words),
        "process_id": "processId",
        "thread_id": "threadId",
        "correlation_id": "correlationId",
    }
    return part(database.tables, table, columns, IS_TIMED)


@cache
def _call_names() -> dict[str, dict[int, str]]:
    text = Path(__file__).with_name("cupti_calls.txt").read_text("ascii")
    names: dict[str, dict[int, str]] = {api: {} for api in CALLS}
    for line in text.splitlines():
        api, number, name = line.split()
        names[api][int(number)] = name
    return names


def synchronizations(database: Database, table: str) -> Part:
    """Waits of threads and of streams, and where the event they wait for was recorded last."""
    columns = _on_stream(database, table) | database.times
    columns["sync_kind"] = translated("type", SYNC_KINDS)
    columns["event_id"] = without("cudaEventId", *_NONE)
    if CUDA_EVENT not in database.tables.columns:
        return part(database.tables, table, columns, IS_TIMED)

    @cache
    def records() -> EventRecords:
        of_events = Table(data_model.BY_NAME["cuda_events"], [cuda_events(database, CUDA_EVENT)])
        names = ("event_id", "correlation_id", "device_id", "stream_id")
        pieces = zip(*of_events.pieces(names, is_checked=False), strict=True)
        recorded = [joined(column).filled for column in pieces]
        recorded = recorded or [*np.empty((4, 0), np.int64)]
        return EventRecords(np.zeros(len(recorded[0]), np.int8), *recorded)

    # An event may be recorded again and again; ids grow in the order of calls.
    for number, name in enumerate(("src_device_id", "src_stream_id")):

        def latest(events: Numbers, calls: Numbers, number: int = number) -> Numbers:
            event_ids = np.where(is_any_of(events, _NONE), UNKNOWN, events)
            return records().latest(number, np.zeros(len(events), np.int8), event_ids, calls)

        columns[name] = Computed(("cudaEventId", "correlationId"), latest)
    return part(database.tables, table, columns, IS_TIMED)


def cuda_events(database: Database, table: str) -> Part:
    """Records of events."""
    return part(database.tables, table, _on_stream(database, table) | {"event_id": "eventId"})


def _on_stream(database: Database, table: str) -> Columns:
    """Where a call on a stream belongs to.

    CUPTI gives the context that was current in the call; its stream may be another one's.
    """
    reads = [name for name in ("contextId", "streamId") if database.tables.has(table, name)]

    def contexts(*columns: Numbers) -> Numbers:
        at = dict(zip(reads, columns, strict=True))
        current = at.get("contextId", np.full(len(columns[0]), UNKNOWN))
        if "streamId" not in at or database.stream_contexts is None:
            return current
        of_stream = database.stream_contexts.of(at["streamId"])
        return np.where(of_stream == UNKNOWN, current, of_stream)

    def devices(*columns: Numbers) -> Any:
        of_contexts = database.context_devices
        return UNKNOWN if of_contexts is None else of_contexts.of(contexts(*columns))

    return {
        "device_id": Computed((*reads,), devices) if reads else None,
        "context_id": Computed((*reads,), contexts) if reads else None,
        "stream_id": without("streamId", *_NONE),
        "process_id": database.process,
        "correlation_id": "correlationId",
    }


def overheads(database: Database, table: str) -> Part:
    """When the profiler or CUDA held up a thread, or all threads of the process."""
    sources, names = zip(("profiler", None), *_OVERHEAD_KINDS.values(), strict=True)
    place = ByNumber([*_OVERHEAD_KINDS], range(1, len(names)), 0).of
    columns: Columns = {
        **database.times,
        "source": Computed(("overheadKind",), place, lambda: sources),
        "name": Computed(("overheadKind",), place, lambda: names),
        "process_id": Computed(("objectId",), _process_of),
        "thread_id": Computed(("objectKind", "objectId"), _thread_of),
    }
    return part(database.tables, table, columns, IS_TIMED)


def _process_of(objects: Values) -> Numbers:
    return _number_of(objects, 0)


def _thread_of(kinds: Numbers, objects: Values) -> Numbers:
    return np.where(kinds == PROCESS, UNKNOWN, _number_of(objects, 4))


def _number_of(objects: Values, place: int) -> Numbers:
    """A 32-bit number within CUPTI's ids of objects, by the byte at which it begins."""
    numbers = [object_number(digits or "", place) for digits in objects.words or ()]
    filled = [UNKNOWN if number is None else number for number in numbers]
    of_rows: Numbers = np.array(filled, np.int64)[objects.numbers]
    return of_rows


def object_number(digits: str, place: int) -> int | None:
    """A 32-bit number within a CUPTI object id, of which these are the hexadecimal digits."""
    raw = bytes.fromhex(digits)[place : place + _NUMBER_BYTES]
    return int.from_bytes(raw, "little", signed=True) if len(raw) == _NUMBER_BYTES else None


def ranges(database: Database) -> pa.Table:
    """NVTX ranges: one record opens a range, the next one of the same id closes it."""
    of, optional = database.tables, ("domain", "objectKind", "objectId")
    names = [*NEEDED[MARKER], *filter(None, (of.pick(MARKER, name) for name in optional))]
    pieces = [*zip(*of.stored(MARKER).pieces(names), strict=True)]
    if not pieces:
        return data_model.NVTX_RANGES.empty()
    # What a column's pieces took makes room for what comes next.
    columns = {name: joined(pieces.pop(0)) for name in names}
    time = columns["timestamp"].filled.astype(np.int64, copy=False)
    flags, ids = (columns[name].filled for name in ("flags", "id"))
    opens, closes = _paired(time, flags, ids)
    rows = {name: column.take(opens) for name, column in columns.items()}
    none = Values(np.full(len(opens), UNKNOWN))
    kind, domain = (rows.get(name, none).filled for name in ("objectKind", "domain"))
    objects = rows.get("objectId", Values(np.zeros(len(opens), np.int8), None, (None,)))
    process, thread = _process_of(objects), _thread_of(kind, objects)
    range_kinds = schema.texts(["push_pop", "start_end"])
    is_of_process = schema.arrow((kind == PROCESS).astype(np.int8))
    return data_model.NVTX_RANGES.narrow(
        pa.table(
            {
                "start_ns": schema.arrow(time[opens] - database.origin_ns),
                "end_ns": schema.arrow(time[closes] - database.origin_ns),
                "text": database.texts(rows["name"].filled, None),
                "domain": database.texts(np.where(domain == 0, UNKNOWN, domain), ""),
                "range_kind": pa.DictionaryArray.from_arrays(is_of_process, range_kinds),
                "process_id": schema.arrow(narrowed(process), process == UNKNOWN),
                "thread_id": schema.arrow(narrowed(thread), thread == UNKNOWN),
            }
        )
    )


def _paired(time: Numbers, flags: Numbers, ids: Numbers) -> tuple[Numbers, Numbers]:
    """The rows that open ranges, by time, and for each the first one after it that closes it."""
    is_known = (flags != UNKNOWN) & (ids != UNKNOWN)
    kind = np.min_scalar_type(-len(time) - 1)  # of places: there are millions
    opens = np.flatnonzero(is_known & (flags & _OPENS > 0) & (time > 0)).astype(kind)
    closes = np.flatnonzero(is_known & (flags & _CLOSES > 0)).astype(kind)
    rows, first_close = np.concatenate([opens, closes]), len(opens)
    # By id, then by time; of marks at one time, those that open come first. Files are nearly in
    # these orders, which sorting them stably makes use of.
    order = np.argsort(time[rows], kind="stable").astype(kind)
    order = order[np.argsort(ids[rows[order]], kind="stable").astype(kind)]
    rows, is_close = rows[order], order >= first_close
    opened, closing = rows[~is_close], rows[is_close]
    following = np.cumsum(is_close, dtype=kind)[~is_close]
    is_closed = following < len(closing)
    opened, closing = opened[is_closed], closing[following[is_closed]]
    is_same = ids[opened] == ids[closing]
    opened, closing = opened[is_same], closing[is_same]
    order = np.argsort(time[opened], kind="stable").astype(kind)
    return opened[order], closing[order]
