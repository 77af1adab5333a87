"""What is read of a PyTorch trace's events: the fields by name, and their exact times."""

from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from gpuprof import schema
from gpuprof.readers.json_events import Integers

KERNELS, MEMCPYS, MEMSETS = schema.KERNELS.name, schema.MEMCPYS.name, schema.MEMSETS.name
RUNTIME, DRIVER = "runtime", "driver"
ANNOTATIONS, SYNCHRONIZATIONS = "annotations", schema.SYNCHRONIZATIONS.name


class Arguments(msgspec.Struct, gc=False):
    """What Kineto says of one event; each kind of event has only some of it."""

    device: int | None = None
    context: int | None = None
    stream: int | None = None
    correlation: int | None = None
    bytes: int | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = msgspec.field(default=None, name="registers per thread")
    graph_node: int | None = msgspec.field(default=None, name="graph node id")
    from_device: int | None = msgspec.field(default=None, name="fromDevice")
    in_device: int | None = msgspec.field(default=None, name="inDevice")
    to_device: int | None = msgspec.field(default=None, name="toDevice")
    in_context: int | None = msgspec.field(default=None, name="inContext")
    collective: str | None = msgspec.field(default=None, name="Collective name")
    elements_in: int | None = msgspec.field(default=None, name="In msg nelems")
    elements_out: int | None = msgspec.field(default=None, name="Out msg nelems")
    group_size: int | None = msgspec.field(default=None, name="Group size")
    group: str | None = msgspec.field(default=None, name="Process Group Name")
    dtype: str | None = None


class Device(msgspec.Struct, rename="camel"):
    """One GPU of the machine, whether it was used or not."""

    id: int
    name: str | None = None
    total_global_mem: int | None = None
    compute_major: int | None = None
    compute_minor: int | None = None


class Event(msgspec.Struct, gc=False):
    """One event; ``ts`` and ``dur`` are microseconds, kept as text for exact conversion."""

    name: str = ""
    ph: str = "X"
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"0")
    args: Arguments = msgspec.field(default_factory=Arguments)


@dataclass(frozen=True)
class Timed:
    """Events of one kind with their exact times."""

    events: list[Event]
    start_ns: Integers
    duration_ns: Integers

    def rows(self, keep: npt.NDArray[np.bool_]) -> "Timed":
        """Those that are to be kept."""
        events = [event for event, kept in zip(self.events, keep, strict=True) if kept]
        return Timed(events, self.start_ns[keep], self.duration_ns[keep])

    def since(self, origin_ns: int) -> "Timed":
        """The same with starts that count from an origin."""
        return replace(self, start_ns=self.start_ns - origin_ns)


NOTHING: Final = Timed([], np.array([], np.int64), np.array([], np.int64))
