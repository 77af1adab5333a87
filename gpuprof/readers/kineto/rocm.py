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
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace as changed

from gpuprof.base import cuda
from gpuprof.base.json_values import integer
from gpuprof.readers.common import rocm
from gpuprof.readers.kineto.events import NOTHING, Event, Kind, Timed, different_events
from gpuprof.readers.kineto.tables import device_id, memcpy_kind

Groups = Mapping[str, Timed]

# What a copy of pinned memory may be called.
_VAGUE: Final = frozenset({"DtoD", cuda.UNKNOWN})
_LABELS: Final = {
    "HtoD": "Memcpy HtoD (Host -> Device)",
    "DtoH": "Memcpy DtoH (Device -> Host)",
    "DtoD": "Memcpy DtoD (Device -> Device)",
    "PtoP": "Memcpy PtoP (Device -> Device)",
}
_NO_NUMBER: Final = ""


class _Request(NamedTuple):
    """What a call asks for: the kind of its copy and its bytes; None where it does not say."""

    kind: str | None = None
    bytes: int | None = None


def is_rocm(groups: Groups) -> bool:
    """Whether events are of HIP: by the names of the calls, or of GPU events where none are."""
    calls = [event.label for event in different_events(groups, Kind.CALLS)]
    if calls:
        return any(map(cuda.is_hip_call, calls))
    names = [e.label for e in different_events(groups, (Kind.KERNELS, Kind.MEMCPYS))]
    return any(cuda.hip_memcpy_kind(name) or cuda.is_hip_memset(name) for name in names)


def regrouped(groups: Groups) -> dict[str, Timed]:
    """The events of a trace of ROCm: copies and memsets apart from kernels, copies as asked for."""
    kernels = groups.get(Kind.KERNELS, NOTHING)
    tables = np.array([_table(event) for event in kernels.events], np.object_)[kernels.codes]
    moved = {table: kernels.rows(tables == table) for table in Kind.WORK}
    regrouped = {**groups, Kind.KERNELS: moved.pop(Kind.KERNELS)}
    for table, events in moved.items():
        if events.codes.size:
            regrouped[table] = regrouped.get(table, NOTHING).followed_by(events)
    if Kind.MEMCPYS in regrouped:
        requests = _requests(regrouped.get(Kind.RUNTIME, NOTHING))
        copies = _as_requested(regrouped[Kind.MEMCPYS], requests)
        if len(_devices(regrouped)) > 1:  # a local copy may be between two of them
            copies = replace(copies, events=[*map(_without_end, copies.events)])
        regrouped[Kind.MEMCPYS] = copies
    return regrouped


def notes(groups: Groups) -> Iterator[str]:
    """What a trace of ROCm, regrouped, leaves open about its copies."""
    copies = groups.get(Kind.MEMCPYS, NOTHING)
    is_local = np.array([memcpy_kind(e.label) == "DtoD" for e in copies.events], np.bool_)
    ids = copies.correlation_id[is_local[copies.codes]].tolist()
    requests = _requests(groups.get(Kind.RUNTIME, NOTHING))
    directed = {number for number, request in requests.items() if request.kind is not None}
    return rocm.notes(ids, directed, len(_devices(groups)))


def _table(event: Event) -> str | None:
    """What an event among the kernels is; None for what does no work."""
    name = event.label
    if cuda.hip_memcpy_kind(name) is not None:
        return Kind.MEMCPYS
    if cuda.is_hip_memset(name):
        return Kind.MEMSETS
    return None if cuda.is_hip_order(name) else Kind.KERNELS


def _devices(groups: Groups) -> set[int | None]:
    return {device_id(event) for event in different_events(groups, Kind.WORK)}


def _requests(calls: Timed) -> dict[int, _Request]:
    """What the calls that copy ask for, by their correlation id."""
    requests = [_request(event) for event in calls.events]
    is_copy = np.array([request is not None for request in requests], np.bool_)
    rows = calls.rows(is_copy[calls.codes])
    pairs = zip(rows.correlation_id.tolist(), rows.codes.tolist(), strict=True)
    return {number: requests[code] or _Request() for number, code in pairs if number >= 0}


def _request(call: Event) -> _Request | None:
    if not call.label.startswith("hipMemcpy"):
        return None
    arguments = call.args
    kind = cuda.hip_call_kind(call.label, integer(arguments.kind))
    size = arguments.size if arguments.bytes is None else arguments.bytes
    return _Request(kind, integer(size))


def _as_requested(copies: Timed, requests: Mapping[int, _Request]) -> Timed:
    """Copies with the kind and the bytes that their calls tell and they do not."""
    ids = copies.correlation_id.tolist()
    parts = Counter(ids)
    # The bytes of a call are those of all its parts.
    requested = (
        request if parts[number] == 1 else request._replace(bytes=None)
        for number, request in ((number, requests.get(number, _Request())) for number in ids)
    )
    codes: dict[tuple[int, _Request], int] = {}
    numbers = [
        codes.setdefault(key, len(codes))
        for key in zip(copies.codes.tolist(), requested, strict=True)
    ]
    events = [_completed(copies.events[code], request) for code, request in codes]
    return replace(copies, events=events, codes=np.array(numbers, np.int64))


def _completed(copy: Event, request: _Request) -> Event:
    arguments, kind = copy.args, memcpy_kind(copy.label)
    if kind in _VAGUE and request.kind not in (None, kind):
        copy = changed(copy, name=_LABELS.get(request.kind, f"Memcpy {request.kind}"))
    if integer(arguments.bytes) is None and request.bytes is not None:
        copy = changed(copy, args=changed(arguments, bytes=request.bytes))
    return copy


def _without_end(copy: Event) -> Event:
    if memcpy_kind(copy.label) != "DtoD":
        return copy
    arguments = changed(copy.args, from_device=_NO_NUMBER, to_device=_NO_NUMBER)
    return changed(copy, args=arguments)
