"""Waits of hosts and streams, and which stream an event was recorded on that they wait for."""

from functools import cache, partial
from typing import Final

import numpy as np

from gpuprof.base.cuda import SYNC_KINDS
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import pair_places
from gpuprof.model.table import Computed, Part, translated
from gpuprof.readers.nsys.columns import (
    TIMES,
    Export,
    Numbers,
    columns_at_once,
    in_machine,
    part,
    place,
    timed,
    without,
)
from gpuprof.readers.nsys.export_schema import CUDA_EVENT, SYNCHRONIZATION

# In place of the stream or event of what has none; before nsys 2024 of the stream of any wait.
_NONE: Final = 2**32 - 1


def synchronizations(of: Export) -> Part:
    """Waits of hosts and streams."""
    columns = place(of, SYNCHRONIZATION) | {
        "stream_id": without("streamId", _NONE),
        "sync_kind": translated("syncType", SYNC_KINDS),
        "event_id": without("eventId", _NONE),
    }
    keys = ("globalPid", "eventId", "correlationId")
    if all(of.has(table, *keys) for table in (SYNCHRONIZATION, CUDA_EVENT)):
        places = [of.pick(CUDA_EVENT, "deviceId"), of.pick(CUDA_EVENT, "streamId")]

        @cache
        def records() -> EventRecords:
            # An event may be recorded again and again.
            return EventRecords(*columns_at_once(of.stored(CUDA_EVENT), [*keys, *places]))

        def latest(column: int, *waits: Numbers) -> Numbers:
            return records().latest(column, *waits)

        device, stream = (Computed(keys, partial(latest, number)) for number in range(len(places)))
        columns["src_device_id"] = in_machine(of, SYNCHRONIZATION, device)
        columns["src_stream_id"] = stream
    return part(of, SYNCHRONIZATION, columns, *timed(of, SYNCHRONIZATION))


def cuda_events(of: Export) -> Part:
    """Records of events."""
    columns = {n: column for n, column in place(of, CUDA_EVENT).items() if n not in TIMES}
    return part(of, CUDA_EVENT, columns | {"event_id": "eventId"})


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
        process, event, correlation = (values[order] for values in (process, event, correlation))
        self._more = [column[order] for column in columns[3:]]
        is_first = np.ones(len(order), bool)
        is_first[1:] = (process[1:] != process[:-1]) | (event[1:] != event[:-1])
        self._pairs = np.stack([process[is_first], event[is_first]])
        self._calls = np.unique(correlation)
        group = np.cumsum(is_first) - 1
        self._rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, correlation)
        self._group = group

    def latest(self, column: int, process: Numbers, event: Numbers, call: Numbers) -> Numbers:
        """What is asked of the latest record before each call."""
        if not len(self._rank):
            return np.full(len(event), UNKNOWN)
        group = pair_places(self._pairs, process, event)
        rank = group * (len(self._calls) + 1) + np.searchsorted(self._calls, call)
        place = np.searchsorted(self._rank, rank) - 1
        is_there = (group >= 0) & (place >= 0) & (self._group[place] == group) & (call != UNKNOWN)
        return np.where(is_there, self._more[column][place], UNKNOWN)
