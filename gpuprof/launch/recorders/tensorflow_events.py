"""What the windows of TensorFlow's profiler show: which function ran when, with which operations.

The profiler names threads and operations, no logical device. But every operation's event lies,
on its thread, within an ``ExecutorState::Process`` event that names its executor, and the
``FunctionRun`` event of that executor lies within ``EagerLocalExecute: <function>``, or, where
one function called another, within an event of the caller's executor. An event is kept only if
it began and ended within the window, so a function's event says that the whole execution was
seen.

TensorFlow stops tracing an operation once it has estimated, after some 1,400 runs, that it takes
less than about 3 us: a ``_Send`` mostly does. The ``_Recv`` at its other end is asynchronous and
always traced, and names its execution: what is received is counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gpuprof.native.xspace import PS_PER_NS, Event, EventMetadata, Plane, Stat

_FUNCTION: Final = "EagerLocalExecute: "
_FUNCTION_RUN: Final = "FunctionRun"
_PROCESS: Final = "ExecutorState::Process"
_RECEIVED: Final = "ExecutorState::ProcessAsync::Done"
_EAGER_COPY: Final = "_Send input "
_ELEMENT: Final = "IteratorGetNextOp::DoCompute"
_SENDS: Final = ("_Send", "_HostSend")
_RECVS: Final = ("_Recv", "_HostRecv")


@dataclass(frozen=True)
class Sent:
    """The attributes of a ``_Send``, which suffice where its graph was not kept."""

    node: str
    source: str
    taker: str
    src_device: str
    dst_device: str


@dataclass
class Execution:
    """One run of one function on one device, as far as its window shows it.

    Args:
        function: The name; None where the window cut it, or another function called it.
        caller: Executor of the function that called it; None where none did.
        step_id: Same for all executors of one execution.
        calls: Operation name to how often it was traced.
        total_ns: Operation name to host time of the traced runs.
        sends: What was sent, and how often it was traced.
    """

    function: str | None = None
    caller: int | None = None
    step_id: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    total_ns: Counter[str] = field(default_factory=Counter)
    sends: Counter[Sent] = field(default_factory=Counter)


@dataclass
class ProfilerWindow:
    """One window.

    Args:
        executions: By executor.
        received: By the step id of an execution: name of the ``_Recv`` to how often it ran.
        eager_copies: Source, destination and operation of copies outside functions.
        element_bytes: By the step id of an execution: sizes of the elements of datasets it took.
    """

    executions: dict[int, Execution] = field(default_factory=dict)
    received: dict[int, Counter[str]] = field(default_factory=dict)
    eager_copies: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    element_bytes: dict[int, set[int]] = field(default_factory=dict)

    def root(self, execution: Execution) -> Execution | None:
        """The execution that the script itself asked for; None where the window cut it."""
        callers: set[int] = set()
        while execution.function is None:
            if execution.caller not in self.executions or execution.caller in callers:
                return None
            callers.add(execution.caller)
            execution = self.executions[execution.caller]
        return execution

    def add(self, plane: Plane, event: Event, around: list[Event]) -> None:
        """Take an event of a plane, with those around it, the innermost last."""
        name = event.metadata.name
        if name == _FUNCTION_RUN:
            self._add_run(plane, event, around)
        elif name == _RECEIVED:
            stats = plane.stats_of(event)
            if stats.get("kernel_type") in _RECVS:
                received = self.received.setdefault(_number(stats.get("step_id")), Counter())
                received[str(stats.get("name", ""))] += 1
        elif name == _ELEMENT:
            stats = plane.stats_of(event)
            sizes = self.element_bytes.setdefault(_number(stats.get("id")), set())
            sizes.update(_number(size) for size in [stats.get("element_size")] if size is not None)
        elif name.startswith(_EAGER_COPY):
            # ``_Send input 0 from <device> to <device>``: an eager operation's input is elsewhere.
            source, target = name.split()[4:7:2]
            names = (outer.metadata.name for outer in reversed(around))
            function = next((name for name in names if name.startswith(_FUNCTION)), "")
            if source != target:
                self.eager_copies[source, target, function.removeprefix(_FUNCTION)] += 1
        elif is_operation(event.metadata):
            self._add_operation(plane, event, around)

    def _add_run(self, plane: Plane, run: Event, around: list[Event]) -> None:
        stats = plane.stats_of(run)
        execution = self._execution(stats.get("_p"))
        execution.step_id = _number(stats.get("id"))
        for event in reversed(around):
            if event.metadata.name.startswith(_FUNCTION):
                execution.function = event.metadata.name.removeprefix(_FUNCTION)
                return
            if event.metadata.name == _PROCESS:
                execution.caller = _number(plane.stats_of(event).get("_c"))
                return

    def _add_operation(self, plane: Plane, event: Event, around: list[Event]) -> None:
        process = next((e for e in reversed(around) if e.metadata.name == _PROCESS), None)
        if process is None:
            return
        execution = self._execution(plane.stats_of(process).get("_c"))
        kind = event.metadata.display_name
        name = event.metadata.name.removesuffix(f":{kind}")
        if kind not in _SENDS:
            execution.calls[name] += 1
            execution.total_ns[name] += event.duration_ps // PS_PER_NS
            return
        stats = plane.stats_of(event)
        # Source, its incarnation, destination, ...; empty where the event does not say.
        source, _, target, *_ = [*str(stats.get("key", "")).split(";"), "", ""]
        if target not in {"", source}:
            sent = Sent(name, str(stats.get("from", "")), str(stats.get("to", "")), source, target)
            execution.sends[sent] += 1

    def _execution(self, executor: Stat | None) -> Execution:
        return self.executions.setdefault(_number(executor), Execution())


def read_window(planes: Iterable[Plane]) -> ProfilerWindow:
    """What one profiler window shows of TensorFlow's executors on the host."""
    window = ProfilerWindow()
    for plane in planes:
        if plane.name.startswith("/host:"):
            names_read = {
                kind
                for kind, metadata in plane.event_metadata.items()
                if metadata.name in (_FUNCTION_RUN, _PROCESS, _RECEIVED, _ELEMENT)
                or metadata.name.startswith((_FUNCTION, _EAGER_COPY))
                or is_operation(metadata)
            }
            for line in plane.lines:
                for event, around in nested(plane.events(line, names_read)):
                    window.add(plane, event, around)
    return window


def is_operation(metadata: EventMetadata) -> bool:
    """Whether events of this kind are runs of an operation: ``name:Type``, shown as ``Type``.

    TensorFlow's constant folding at compile time emits events without a name to show.
    """
    shown = metadata.display_name
    return bool(shown) and metadata.name.endswith(f":{shown}")


def nested(events: Iterator[Event]) -> Iterator[tuple[Event, list[Event]]]:
    """Each event of a thread with those around it, the innermost last."""
    around: list[Event] = []
    for event in sorted(events, key=lambda e: (e.start_ns, -e.duration_ps)):
        # What begins with another and is no longer is within it, even if that ends at once.
        while around and around[-1].start_ns < event.start_ns >= around[-1].end_ns:
            around.pop()
        yield event, around
        around.append(event)


def _number(value: Stat | None) -> int:
    return value if isinstance(value, int) else 0
