"""PyTorch's traces of ROCm: what HIP's tracers name otherwise, and what only the calls tell.

Until 2022 copies and memsets were kernels named ``CopyHostToDevice`` and ``FillBuffer``, without
a size; where no engine copies, they still are, named ``__amd_rocclr_copyBuffer``. To roctracer a
copy of pinned memory is ``Memcpy DtoD``, and so is one between two devices.
Source: https://github.com/pytorch/kineto, libkineto/src/RoctracerActivity_inl.h and
RocprofActivity_inl.h; https://github.com/ROCm/roctracer/issues/45.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec.structs import replace as changed

from gpuprof.base import cuda
from gpuprof.base.json_input import integer
from gpuprof.readers.common import vague_copies
from gpuprof.readers.kineto.event_tables import device_id, memcpy_kind
from gpuprof.readers.kineto.events import NOTHING, EventKind, TimedEvents, different_events

Groups = Mapping[str, TimedEvents]

# What a copy of pinned memory may be called.
_VAGUE: Final = frozenset({"DtoD", cuda.UNKNOWN})
_LABELS: Final = {
    "HtoD": "Memcpy HtoD (Host -> Device)",
    "DtoH": "Memcpy DtoH (Device -> Host)",
    "DtoD": "Memcpy DtoD (Device -> Device)",
    "PtoP": "Memcpy PtoP (Device -> Device)",
}
_NO_NUMBER: Final = ""

# What a call asks for: the kind of its copy and its bytes; None where it does not say.
_Request = tuple[str | None, int | None]


def is_rocm(groups: Groups) -> bool:
    """Whether events are of HIP: by the names of the calls, or of GPU events where none are."""
    calls = [event.label for event in different_events(groups, EventKind.CALLS)]
    if calls:
        return any(map(cuda.is_hip_call, calls))
    names = [e.label for e in different_events(groups, (EventKind.KERNELS, EventKind.MEMCPYS))]
    return any(cuda.hip_memcpy_kind(name) or cuda.is_hip_memset(name) for name in names)


def regrouped(groups: Groups) -> dict[str, TimedEvents]:
    """The events of a trace of ROCm: copies and memsets apart from kernels, copies as asked for."""
    kernels = groups.get(EventKind.KERNELS, NOTHING)
    kinds = []
    for event in kernels.events:
        if cuda.hip_memcpy_kind(event.label) is not None:
            kinds.append(EventKind.MEMCPYS)
        elif cuda.is_hip_memset(event.label):
            kinds.append(EventKind.MEMSETS)
        else:  # what does no work is nothing
            kinds.append("" if cuda.is_hip_order(event.label) else EventKind.KERNELS)
    of_rows = np.array(kinds, np.object_)[kernels.codes]
    regrouped = {**groups, EventKind.KERNELS: kernels.rows(of_rows == EventKind.KERNELS)}
    for kind in (EventKind.MEMCPYS, EventKind.MEMSETS):
        events = kernels.rows(of_rows == kind)
        if events.codes.size:
            regrouped[kind] = regrouped.get(kind, NOTHING).followed_by(events)
    if EventKind.MEMCPYS in regrouped:
        requests = _requests(regrouped.get(EventKind.RUNTIME, NOTHING))
        copies = _as_requested(regrouped[EventKind.MEMCPYS], requests)
        if len(_devices(regrouped)) > 1:  # a local copy may be between two of them
            ended = [
                changed(e, args=changed(e.args, from_device=_NO_NUMBER, to_device=_NO_NUMBER))
                if memcpy_kind(e.label) == "DtoD"
                else e
                for e in copies.events
            ]
            copies = replace(copies, events=ended)
        regrouped[EventKind.MEMCPYS] = copies
    return regrouped


def notes(groups: Groups) -> Iterator[str]:
    """What a trace of ROCm, regrouped, leaves open about its copies."""
    copies = groups.get(EventKind.MEMCPYS, NOTHING)
    is_local = np.array([memcpy_kind(e.label) == "DtoD" for e in copies.events], np.bool_)
    ids = copies.correlation_id[is_local[copies.codes]].tolist()
    requests = _requests(groups.get(EventKind.RUNTIME, NOTHING))
    directed = {number for number, (kind, _) in requests.items() if kind is not None}
    return vague_copies.notes(ids, directed, len(_devices(groups)))


def _devices(groups: Groups) -> set[int | None]:
    return {device_id(event) for event in different_events(groups, EventKind.WORK)}


def _requests(calls: TimedEvents) -> dict[int, _Request]:
    """What the calls that copy ask for, by their correlation id."""
    requests = {}
    for code, call in enumerate(calls.events):
        if call.label.startswith("hipMemcpy"):
            size = call.args.size if call.args.bytes is None else call.args.bytes
            kind = cuda.hip_call_kind(call.label, integer(call.args.kind))
            requests[code] = (kind, integer(size))
    rows = calls.rows(np.isin(calls.codes, [*requests]))
    pairs = zip(rows.correlation_id.tolist(), rows.codes.tolist(), strict=True)
    return {number: requests[code] for number, code in pairs if number >= 0}


def _as_requested(copies: TimedEvents, requests: Mapping[int, _Request]) -> TimedEvents:
    """Copies with the kind and the bytes that their calls tell and they do not."""
    ids = copies.correlation_id.tolist()
    parts = Counter(ids)
    codes: dict[tuple[int, str | None, int | None], int] = {}
    numbers = []
    for code, number in zip(copies.codes.tolist(), ids, strict=True):
        kind, size = requests.get(number, (None, None))
        # The bytes of a call are those of all its parts.
        key = code, kind, size if parts[number] == 1 else None
        numbers.append(codes.setdefault(key, len(codes)))
    events = []
    for code, asked_kind, asked_bytes in codes:
        copy = copies.events[code]
        arguments, kind = copy.args, memcpy_kind(copy.label)
        if kind in _VAGUE and asked_kind not in (None, kind):
            copy = changed(copy, name=_LABELS.get(asked_kind, f"Memcpy {asked_kind}"))
        if integer(arguments.bytes) is None and asked_bytes is not None:
            copy = changed(copy, args=changed(arguments, bytes=asked_bytes))
        events.append(copy)
    return replace(copies, events=events, codes=np.array(numbers, np.int64))
