"""MLCommons Chakra execution traces: the dependency graph of a recording, a file per rank.

A file is a sequence of protocol buffers, each after its length: a GlobalMetadata, then Nodes. A
node starts when all its data_deps have ended, which are in the same file: a rank waits for another
one through messages (COMM_SEND_NODE and COMM_RECV_NODE with the same tag) and collectives.
Source: schema/protobuf/et_def.proto and src/feeder of https://github.com/mlcommons/chakra; what
attributes must be: astra-sim/workload/Workload.cc of https://github.com/astra-sim/astra-sim.
"""

import json
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final

from gpuprof.base.units import encodable
from gpuprof.facts.collective_parts import collective_parts
from gpuprof.facts.communication import collective_of
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.rank_matching import NO_CALL
from gpuprof.model.data_model import RECORDED_STEPS
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.native.xspace import encoded
from gpuprof.predict.build import graph_of
from gpuprof.predict.graph import Graph
from gpuprof.predict.nodes import OPERATION, WAIT, WORK, Ranks, ranks_of
from gpuprof.predict.recorded import COLLECTIVE, COPY
from gpuprof.show.cells import clean

NEEDS: Final = ()
EXAMPLE: Final = "trace.et"
_SUFFIX: Final = ".et"
_VERSION: Final = "0.0.4"
# Values of NodeType.
_METADATA, _LOAD, _STORE, _COMP, _SEND, _RECEIVE, _COLLECTIVE = range(1, 8)
# Values of CollectiveCommType, by what is in a name; the first that fits counts.
_TYPES: Final = (
    ("allreduce", 0), ("reducescatter", 7), ("allgather", 2), ("alltoall", 6), ("broadcast", 5),
    ("barrier", 9), ("gather", 3), ("scatter", 4), ("reduce", 1),
)  # fmt: skip
_ALL_RANKS: Final = "0"
# Fields of attributes in GlobalMetadata and Node; fields of AttributeProto.
_OF_METADATA, _OF_NODE = 2, 10
_INT32, _INT64, _UINT64, _BOOL, _TEXT = 7, 9, 13, 27, 29
_US: Final = 1000
# Tags of fields of Node.
_ID, _WAITS_FOR, _START, _DURATION = (encoded(tag) for tag in (1 << 3, 5 << 3 | 2, 6 << 3, 7 << 3))
_MESSAGES: Final = (
    "start_ns", "end_ns", "device_id", "collective", "bytes_in", "group_size", "process_group"
)  # fmt: skip


def named(path: Path, rank: int) -> Path:
    """The file of a rank: ``trace.0.et``."""
    return path.with_name(f"{path.name.removesuffix(_SUFFIX)}.{rank}{_SUFFIX}")


def parts(profile: Profile) -> tuple[list[Callable[[IO[bytes]], None]], tuple[str, ...]]:
    """A file for each device that operations run on, or are copied to.

    Raises:
        MissingTableError: The recording has no times, or no operations.
    """
    recording = profile.unrestricted
    if profile.has(RECORDED_STEPS.name):  # a slice, without what its figures take of the rest
        recording = Profile(profile.origin, {name: profile.table(name) for name in profile.sources})
    trace = _Trace(recording)
    writers = [partial(trace.write, rank) for rank in range(len(trace.ranks.devices))]
    return [*writers], tuple(trace.notes())


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return encoded(number << 3) + encoded(value)
    octets = value if isinstance(value, bytes) else encodable(clean(value)).encode()
    return encoded(number << 3 | 2) + encoded(len(octets)) + octets


def _attribute(name: str, field: int, value: int | str | None, of: int = _OF_NODE) -> bytes:
    """An attribute; none where its value is unknown: None, or below zero."""
    if value is None or (isinstance(value, int) and value < 0):
        return b""
    return _field(of, _field(1, name) + _field(field, value))


def _delimited(message: bytes) -> bytes:
    return encoded(len(message)) + message


class _Trace:
    """The nodes of a recording as messages."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._graph: Graph = graph_of(profile)
        self.ranks: Ranks = ranks_of(self._graph)
        self._bytes = self._graph.operations.bytes
        calls = self._graph.calls
        threads = [of.thread_id for of in calls.threads for _ in range(of.low, of.high)]
        self._calls = list(zip(calls.label.tolist(), threads, strict=True))
        # Bodies of nodes that look alike.
        self._hosts: dict[tuple[int, int, int], bytes] = {}
        self._of_devices: dict[tuple[int, int, int], bytes] = {}

    def notes(self) -> Iterator[str]:
        """What the files do not say."""
        graph, ranks = self._graph, self.ranks
        if note := host_clock(self._profile).note():
            yield note
        for doubt, count in graph.doubts.items():
            yield f"{doubt}: {count:,}; edges that do not fit are left out."
        if ranks.left_out:
            yield (
                f"{ranks.left_out:,} dependencies between devices are left out: neither copies nor"
                " collectives express them."
            )
        collectives = graph.collectives.tolist()
        if incomplete := sum(not self._collective(row)[1] for row in collectives):
            yield (
                f"{incomplete:,} of {len(collectives):,} communication kernels have no bytes, no"
                " type or no peer in the recording: a simulator can only replay their times."
            )

    def write(self, rank: int, file: IO[bytes]) -> None:
        """Write the file of a rank."""
        device, nodes = self.ranks.devices[rank], self.ranks.nodes[rank]
        metadata = (
            _field(1, _VERSION),
            _attribute("schema", _TEXT, "gpuprof", _OF_METADATA),
            _attribute("rank", _INT64, rank, _OF_METADATA),
            _attribute("device_id", _INT64, device, _OF_METADATA),
        )
        file.write(_delimited(b"".join(metadata)))
        if group_ranks := self._groups[1]:
            groups = [{"pg_name": name, "ranks": ranks} for name, ranks in group_ranks.items()]
            # As in PyTorch's traces.
            inputs = _field(8, _field(1, f"['{json.dumps(groups)}']"))
            head = _field(1, 0) + _field(2, "## process_group:init ##") + _field(3, _METADATA)
            file.write(_delimited(head + inputs))
        first_id = int(bool(group_ranks))
        start = (nodes.start_ns + _US // 2) // _US
        # Rounded so that nodes that follow one another add up to their time.
        took = (nodes.start_ns + nodes.duration_ns + _US // 2) // _US - start
        low, high = nodes.bounds[:-1], nodes.bounds[1:]
        waits_for = [encoded(node) for node in (nodes.waits_for + first_id).tolist()]
        columns = (c.tolist() for c in (nodes.kind, nodes.item, start, took, low, high))
        for number, (kind, item, begin, lasts, a, b) in enumerate(
            zip(*columns, strict=True), first_id
        ):
            awaited = b"".join(waits_for[a:b])
            parts = [_ID, encoded(number), self._body(kind, item, rank)]
            parts += [_WAITS_FOR, encoded(len(awaited)), awaited] if awaited else []
            parts += [_START, encoded(begin), _DURATION, encoded(lasts)]
            file.write(_delimited(b"".join(parts)))

    def _body(self, kind: int, item: int, rank: int) -> bytes:
        """Name, type and attributes of a node."""
        if kind != OPERATION:
            label, thread = self._calls[item]
            key = kind, -1 if kind == WORK else label, thread
            if key not in self._hosts:
                name = "host work" if kind == WORK else self._graph.calls.labels[label]
                self._hosts[key] = (
                    _field(2, f"{name} (wait)" if kind == WAIT else name)
                    + _field(3, _COMP)
                    + _attribute("is_cpu_op", _BOOL, 1)
                    + _attribute("tid", _INT64, thread)
                )
            return self._hosts[key]
        o, row = self._graph.operations, item - len(self._graph.calls)
        if self.ranks.message[row] != NOT_FOUND:
            ranks = self.ranks
            sender, receiver = int(ranks.sender[row]), int(ranks.receiver[row])
            return (
                self._on_device(row, _SEND if rank == sender else _RECEIVE)
                + _attribute("comm_src", _INT32, sender)
                + _attribute("comm_dst", _INT32, receiver)
                + _attribute("comm_tag", _INT32, int(ranks.message[row]))
                + _attribute("comm_size", _INT64, int(self._bytes[row]))
            )
        label = o.labels[o.label[row]]
        if label.kind == COLLECTIVE:
            return self._collective(row)[0]
        is_load, is_store = (label.kind == COPY and end == HOST for end in (label.src, label.dst))
        node_type = _COMP if is_load == is_store else _LOAD if is_load else _STORE
        size = int(self._bytes[row]) if label.kind == COPY else UNKNOWN
        return self._on_device(row, node_type) + _attribute("tensor_size", _UINT64, size)

    def _on_device(self, row: int, node_type: int) -> bytes:
        o = self._graph.operations
        key = node_type, int(o.label[row]), o.streams[o.stream[row]].stream_id
        if key not in self._of_devices:
            self._of_devices[key] = (
                _field(2, o.labels[key[1]].text)
                + _field(3, node_type)
                + _attribute("is_cpu_op", _BOOL, 0)
                + _attribute("stream", _INT64, key[2])
            )
        return self._of_devices[key]

    def _collective(self, row: int) -> tuple[bytes, bool]:
        """A communication kernel, and whether a simulator knows all of it."""
        o = self._graph.operations
        device = o.streams[o.stream[row]].device
        shift_ns = o.shifts_ns.get(device, 0)
        place = int(o.start_ns[row]) - shift_ns, int(o.end_ns[row]) - shift_ns, device
        message = self._messages.get(place, {})
        name = message.get("collective") or collective_of(o.labels[o.label[row]].text)[0]
        node_type = {"send": _SEND, "recv": _RECEIVE}.get(name.lower(), _COLLECTIVE)
        # As frameworks or NCCL write it.
        letters = name.lower().replace("_", "")
        comm_type = next((value for word, value in _TYPES if word in letters), None)
        size = message.get("bytes_in")
        body = (
            self._on_device(row, node_type)
            + _attribute("comm_type", _INT64, comm_type)
            + _attribute("comm_size", _INT64, size)
            + _attribute("pg_name", _TEXT, self._groups[0].get(place))
            + _attribute("process_group", _TEXT, message.get("process_group"))
            + _attribute("group_size", _INT64, message.get("group_size"))
        )
        return body, comm_type is not None and size is not None

    @cached_property
    def _messages(self) -> dict[tuple[int, int, int], dict[str, Any]]:
        """Messages of collectives as the framework recorded them, by start, end and device."""
        if not self._profile.has("collectives"):
            return {}
        rows = self._profile.arrow("collectives", _MESSAGES).to_pylist()
        return {
            (row["start_ns"], row["end_ns"], UNKNOWN if device is None else device): row
            for row in rows
            for device in [row["device_id"]]
        }

    @cached_property
    def _groups(self) -> tuple[dict[tuple[int, int, int], str], dict[str, list[int]]]:
        """The group of each collective, by start, end and device; and the ranks of each group."""
        if not len(self._graph.collectives):
            return {}, {}
        collectives, devices = collective_parts(self._profile), self.ranks.devices
        kernels = collectives.kernels
        group_of: dict[tuple[int, int, int], str] = {}
        members: dict[str, list[int]] = {}
        for number, communicator in enumerate(collectives.communicators, 1):
            ranks = [devices.index(device) for device in communicator.devices]
            group = _ALL_RANKS if len(ranks) == len(devices) else str(number)
            members[group] = ranks
            rows = communicator.rows[communicator.rows != NO_CALL]
            columns = (kernels.start_ns[rows], kernels.end_ns[rows], kernels.device[rows])
            group_of |= dict.fromkeys(zip(*(c.tolist() for c in columns), strict=True), group)
        members.pop(_ALL_RANKS, None)
        return group_of, members
