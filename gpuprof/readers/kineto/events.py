"""What is read of a PyTorch trace's events: the fields by name, and their exact times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from gpuprof.base.json_input import Scalar, integer, text
from gpuprof.model import data_model
from gpuprof.readers.common.json_events import Integers, check_length

_NO_TIME: Final = msgspec.Raw(b"null")
_ABSENT: Final = msgspec.Raw(b"null")
_RAW: Final = ("input_shapes", "input_shapes_old", "input_types")


class EventKind:
    """What an event is; of events that have a table of their own its name."""

    KERNELS, MEMCPYS, MEMSETS = (
        data_model.KERNELS.name,
        data_model.MEMCPYS.name,
        data_model.MEMSETS.name,
    )
    WORK = (KERNELS, MEMCPYS, MEMSETS)
    CALLS = RUNTIME, DRIVER = "runtime", "driver"
    ANNOTATIONS, SYNCHRONIZATIONS = "annotations", data_model.SYNCHRONIZATIONS.name
    # Since annotations have a category of their own, and before.
    OPERATIONS, OPERATORS = "operations", "operators"
    # As many as all other events, so they are read on demand.
    PYTHON = data_model.HOST_CALLS.name
    MEMORY = data_model.MEMORY_EVENTS.name


class Arguments(msgspec.Struct, gc=False):
    """The arguments of one event; each kind of event has only some of them.

    On ROCm many numbers are texts: ``"bytes": "9216"``, ``"stream": "0x0"``.
    """

    device: Scalar = None
    context: Scalar = None
    stream: Scalar = None
    bytes: Scalar = None
    grid: tuple[Scalar, Scalar, Scalar] | Scalar = None
    block: tuple[Scalar, Scalar, Scalar] | Scalar = None
    registers: Scalar = msgspec.field(default=None, name="registers per thread")
    graph_node: Scalar = msgspec.field(default=None, name="graph node id")
    from_device: Scalar = msgspec.field(default=None, name="fromDevice")
    in_device: Scalar = msgspec.field(default=None, name="inDevice")
    to_device: Scalar = msgspec.field(default=None, name="toDevice")
    in_context: Scalar = msgspec.field(default=None, name="inContext")
    collective: Scalar = msgspec.field(default=None, name="Collective name")
    elements_in: Scalar = msgspec.field(default=None, name="In msg nelems")
    elements_out: Scalar = msgspec.field(default=None, name="Out msg nelems")
    group_size: Scalar = msgspec.field(default=None, name="Group size")
    group: Scalar = msgspec.field(default=None, name="Process Group Name")
    dtype: Scalar = None
    event: Scalar = msgspec.field(default=None, name="wait_on_cuda_event_id")
    src_stream: Scalar = msgspec.field(default=None, name="wait_on_stream")
    # Of HIP's calls: hipMemcpyKind, and before 2023 the size of a copy.
    kind: Scalar = None
    size: Scalar = None
    # Of operations, where shapes were recorded; in 1.8 with another capital.
    input_shapes: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Dims")
    input_shapes_old: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input dims")
    input_types: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input type")
    input_values: msgspec.Raw = msgspec.field(default=_ABSENT, name="Concrete Inputs")
    # The last one: events are alike if all fields before it are equal.
    correlation: Scalar = None


# As a trace spells them.
ARGUMENTS: Final = tuple(field.encode_name for field in msgspec.structs.fields(Arguments))


class Device(msgspec.Struct, rename="camel"):
    """One GPU of the machine, whether it was used or not."""

    id: Scalar = None
    name: Scalar = None
    total_global_mem: Scalar = None
    compute_major: Scalar = None
    compute_minor: Scalar = None
    num_sms: Scalar = None


class EventTimes(msgspec.Struct, gc=False):
    """One event without its arguments, which of operations are most of the text.

    ``ts`` and ``dur`` are microseconds, kept as text for exact conversion.
    """

    name: Scalar = ""
    ph: Scalar = "X"
    pid: Scalar = None
    tid: Scalar = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"0")

    @property
    def label(self) -> str:
        """Its name as text; empty where it has none."""
        return text(self.name) or ""

    @property
    def correlation(self) -> int:
        """What links it to other events; -1 where nothing does."""
        return -1

    @property
    def attributes(self) -> tuple[Any, ...]:
        """All but its times and its correlation."""
        return (self.name, self.pid, self.tid)

    def timeless(self) -> "TraceEvent":
        """The same without its times: a raw time would keep the text that it is a part of."""
        return TraceEvent(self.name, self.ph, self.pid, self.tid, _NO_TIME, _NO_TIME)


class TraceEvent(EventTimes):
    """One event with its arguments."""

    args: Arguments = msgspec.field(default_factory=Arguments)

    @property
    def correlation(self) -> int:
        """What links it to other events; -1 where nothing does."""
        number = integer(self.args.correlation)
        return -1 if number is None else number

    @property
    def attributes(self) -> tuple[Any, ...]:
        """All but its times and its correlation."""
        *values, shapes, old_shapes, types, _, _ = msgspec.structs.astuple(self.args)
        of_inputs = (shapes, old_shapes, types, self._input_values)
        return (self.name, self.pid, self.tid, *values, *map(bytes, of_inputs))

    @property
    def _input_values(self) -> msgspec.Raw:
        """Those of a convolution; others, such as the index of a slice, differ call by call."""
        return self.args.input_values if "convolution" in self.label else _ABSENT

    def timeless(self) -> "TraceEvent":
        """The same without its times: raw values would keep the text that they are a part of."""
        raw = {name: getattr(self.args, name).copy() for name in _RAW}
        args = msgspec.structs.replace(self.args, input_values=self._input_values.copy(), **raw)
        return msgspec.structs.replace(self, ts=_NO_TIME, dur=_NO_TIME, args=args)


@dataclass(frozen=True)
class TimedEvents:
    """Events of one kind, those that are alike but for times and correlation held once.

    Args:
        events: The different ones, without their times.
        codes: Each event's place among them.
        start_ns: Each event's start.
        duration_ns: Each event's duration.
        correlation_id: Each event's correlation; -1 where it has none.
        has_fractions: Whether any start was printed with parts of a microsecond.
    """

    events: list[TraceEvent]
    codes: Integers
    start_ns: Integers
    duration_ns: Integers
    correlation_id: Integers
    has_fractions: bool = False

    def rows(self, keep: npt.NDArray[np.bool_]) -> "TimedEvents":
        """Those that are to be kept."""
        return self if keep.all() else self._taken(keep)

    def by_start(self) -> "TimedEvents":
        """All by their start, of equal ones the first one first."""
        if (self.start_ns[1:] >= self.start_ns[:-1]).all():
            return self
        # They are nearly in this order, which NumPy makes use of.
        return self._taken(np.argsort(self.start_ns, kind="stable"))

    def _taken(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "TimedEvents":
        return replace(
            self,
            codes=self.codes[rows],
            start_ns=self.start_ns[rows],
            duration_ns=self.duration_ns[rows],
            correlation_id=self.correlation_id[rows],
        )

    def since(self, origin_ns: int) -> "TimedEvents":
        """The same with starts that count from an origin."""
        return replace(self, start_ns=self.start_ns - origin_ns)

    def followed_by(self, after: "TimedEvents") -> "TimedEvents":
        """These events and then those of another kind."""
        if not (self.events and after.events):  # nothing is copied
            return self if self.events else after
        return TimedEvents(
            self.events + after.events,
            np.concatenate([self.codes, after.codes + len(self.events)]),
            np.concatenate([self.start_ns, after.start_ns]),
            np.concatenate([self.duration_ns, after.duration_ns]),
            np.concatenate([self.correlation_id, after.correlation_id]),
            self.has_fractions or after.has_fractions,
        )


_NONE: Final = np.array([], np.int64)
NOTHING: Final = TimedEvents([], _NONE, _NONE, _NONE, _NONE)


def different_events(groups: Mapping[str, TimedEvents], kinds: Iterable[str]) -> list[TraceEvent]:
    """The different events of some kinds."""
    return [event for kind in kinds for event in groups.get(kind, NOTHING).events]


class Alike:
    """The different events of one kind as they are met, each held once."""

    def __init__(self) -> None:
        self._codes: dict[tuple[Any, ...], int] = {}
        self.events: list[TraceEvent] = []

    def codes(self, events: Sequence[EventTimes]) -> Integers:
        """Each event's place among the different ones."""
        codes = []
        for event in events:
            code = self._codes.setdefault(event.attributes, len(self.events))
            if code == len(self.events):
                check_length(event.label)
                self.events.append(event.timeless())
            codes.append(code)
        return np.array(codes, np.int32)
