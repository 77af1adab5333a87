"""From what the recorder left in a process's folder to one small file: ``tensorflow-<pid>.json``.

Format ``gpuprof-tensorflow``, version 1, one JSON object:

- ``process``: id, command, versions, ``devices`` (logical ones, such as CPU:0) and start;
- ``windows``: how many, their seconds and the seconds from the first's start to the last's end,
  whether the program came to its end in order, and how many executions a window's edge cut;
- ``functions``: each tf.function: ``function``, ``executions`` that a window saw whole,
  ``is_step`` (the training step: it has gradients and updates variables);
- ``operations``: ``function``, ``operation``, ``operation_type``, ``requested_device`` (null:
  none), ``device`` it ran on, ``calls`` (null: not known), ``traced_calls`` and ``total_ns``, the
  host time of these (TensorFlow stops tracing the cheapest operations after some 1,400 runs);
- ``tensor_copies``: ``function`` (null: an eager operation's input), ``src_device``,
  ``dst_device``, ``tensor``, ``src_operation``, ``dst_operation``, ``is_gradient``,
  ``is_control``, ``calls``, ``bytes_per_call`` (null: unknown; control edges carry no data);
- ``notes``: what a reader of the numbers must know, a sentence each.

All calls belong to executions that were seen whole, so a sum over a function's rows divided by
its ``executions`` is exact per execution; a loop sends once more than it iterates. A copy's time
is not known: what TensorFlow traces of ``_Send`` is handing a pointer over.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpuprof import json_input
from gpuprof.launch.recorders.tensorflow_events import Execution, Sent, Window, read_window
from gpuprof.secrets import masked_words
from gpuprof.xspace import WireError, space

FORMAT: Final = "gpuprof-tensorflow"
FORMAT_VERSION: Final = 1
FOLDERS: Final = "tensorflow-*"

_TRACE_NUMBER: Final = re.compile(r"^__(?:inference|forward|backward)_(.*?)_\d+$")
# Operations that were traced no more often than this were traced whenever they ran.
_TRACED_FOR_SURE: Final = 900
_LOCAL: Final = "/job:localhost/replica:0/task:0/device:"

Row = dict[str, Any]


@dataclass
class _Seen:
    """What all windows show of one graph that ran as part of one function.

    Args:
        function: The one that the script called.
        graph: Its own, or that of a function that it called; None where none was kept.
        is_called: Whether the graph is that of a function that it called.
    """

    function: str
    graph: Row | None
    is_called: bool
    step_ids: set[tuple[int, int]] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    total_ns: Counter[str] = field(default_factory=Counter)
    sends: Counter[Sent] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)


class _Graph(NamedTuple):
    """A graph that ran as part of a function, as in `_Seen`."""

    function: str
    number: int | None
    is_called: bool


@dataclass
class _Sum:
    """What all windows show.

    Args:
        seen: By graph and by what each of its executions received, where all receive the same.
        eager_copies: As in `Window`.
        cut: Executions that the edge of a window cut.
        unreadable: Windows that could not be read.
    """

    seen: dict[tuple[_Graph, frozenset[str]], _Seen] = field(default_factory=dict)
    eager_copies: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    cut: int = 0
    unreadable: int = 0


def digest(folder: Path) -> Row:
    """The document for one process's folder, as the module says."""
    graphs = list(_rows(folder / "graphs.jsonl"))
    windows = list(_rows(folder / "windows.jsonl"))
    total = _Sum()
    for number, window in enumerate(windows):
        _add(total, number, _window(folder / str(window["folder"])), graphs)
    seen = list(_whole(total))
    # They compute gradients and update variables.
    steps = {one.function for one in seen if one.graph and one.graph["is_training"]}
    names = _labels(seen, steps)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "process": _process(folder),
        "windows": _coverage(windows, total, ended=(folder / "end.json").exists()),
        "functions": list(_functions(seen, steps, names)),
        "operations": [
            {"function": names[one.function], **row} for one in seen for row in _operations(one)
        ],
        "tensor_copies": [
            {"function": names[one.function], **row} for one in seen for row in _copies(one)
        ]
        + _eager(total),
        "notes": list(_notes(folder, seen, total, windows)),
    }


def _process(folder: Path) -> Row:
    """What the process said of itself; it names its command as it was given."""
    found = next(_rows(folder / "process.json"), {})
    return (
        found | {"command": list(masked_words(found["command"]))} if "command" in found else found
    )


def _rows(path: Path) -> Iterator[Row]:
    """The lines of a file; the last may have broken off with its program."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            row = json_input.loads(line)
        except ValueError:
            return
        if isinstance(row, dict):
            yield row


def _window(folder: Path) -> Window | None:
    files = sorted(folder.rglob("*.xplane.pb"))
    window = Window()
    for path in files:
        try:
            window = read_window(space(path.read_bytes()).planes)
        except (WireError, OSError):
            return None
    return window if files else None


def _add(total: _Sum, number: int, window: Window | None, graphs: list[Row]) -> None:
    if window is None:
        total.unreadable += 1
        return
    total.eager_copies += window.eager_copies
    groups: dict[tuple[str, int, bool], list[Execution]] = {}
    for execution in window.executions.values():
        root = window.root(execution)
        if root is None or root.function is None:
            total.cut += 1
        else:
            key = (root.function, execution.step_id, execution is not root)
            groups.setdefault(key, []).append(execution)
    for (function, step_id, is_called), executions in groups.items():
        received = window.received.get(step_id, Counter())
        name = None if is_called else function
        found = _graph_of(name, executions, received, graphs)
        graph = None if found is None else graphs[found]
        seen = total.seen.setdefault(
            (_Graph(function, found, is_called), _always(received, graph)),
            _Seen(function, graph, is_called),
        )
        seen.step_ids.add((number, step_id))
        seen.received += received
        for execution in executions:
            seen.calls += execution.calls
            seen.total_ns += execution.total_ns
            seen.sends += execution.sends


def _always(received: Counter[str], graph: Row | None) -> frozenset[str]:
    """What an execution received, where every one of its graph receives the same."""
    if graph is None or graph["has_control_flow"]:
        return frozenset()
    return frozenset(received.keys() & _recvs(graph))


def _recvs(graph: Row) -> set[str]:
    return {row["recv"] for row in graph["copies"]}


def _whole(total: _Sum) -> Iterator[_Seen]:
    """Without executions that a window cut while the receiving threads were still at it.

    A function may return, and its window end, before a thread has closed the event of the last
    tensor that it received.
    """
    most: dict[_Graph, frozenset[str]] = {}
    for graph, received in total.seen:
        most[graph] = most.get(graph, frozenset()) | received
    for (graph, received), seen in total.seen.items():
        if received == most[graph]:
            yield seen
        elif not seen.is_called:
            total.cut += len(seen.step_ids)


def _graph_of(
    name: str | None, executions: list[Execution], received: Counter[str], graphs: list[Row]
) -> int | None:
    """The graph of a function: by its name, else the only one with all that was sent and ran."""
    named = [i for i, g in enumerate(graphs) if name in g["functions"]]
    fitting = [i for i in named or range(len(graphs)) if _fits(graphs[i], executions, received)]
    sizes = {json.dumps(graphs[i]["copies"], sort_keys=True) for i in fitting}
    return fitting[-1] if len(sizes) == 1 else None


def _fits(graph: Row, executions: list[Execution], received: Counter[str]) -> bool:
    operations = {row[0] for row in graph["operations"]}
    sends = {row["send"] for row in graph["copies"]}
    return _recvs(graph) >= received.keys() and all(
        operations >= e.calls.keys() and sends >= {s.node for s in e.sends} for e in executions
    )


def label(function: str) -> str:
    """``step`` for ``__inference_step_464``: the number differs from run to run."""
    match = _TRACE_NUMBER.match(function)
    return match[1] if match else function


def short(device: str) -> str:
    """``CPU:0`` for a device of this process; a job's full name for one of another."""
    return device.removeprefix(_LOCAL)


def _labels(seen: Iterable[_Seen], steps: set[str]) -> dict[str, str]:
    """A name for each function; Keras calls both training and evaluation by the same one."""
    training = {label(function) for function in steps}
    names = {one.function: label(one.function) for one in seen}
    return {
        function: f"{name} (no training)" if function not in steps and name in training else name
        for function, name in names.items()
    }


def _functions(seen: Iterable[_Seen], steps: set[str], names: dict[str, str]) -> Iterator[Row]:
    executions: Counter[tuple[str, bool]] = Counter()
    for one in seen:
        if not one.is_called:
            executions[names[one.function], one.function in steps] += len(one.step_ids)
    for (name, is_step), count in sorted(executions.items()):
        yield {"function": name, "executions": count, "is_step": is_step}


def _operations(seen: _Seen) -> Iterator[Row]:
    for name, kind, requested, device in seen.graph["operations"] if seen.graph else ():
        traced = seen.calls.get(name)
        yield {
            "operation": name,
            "operation_type": kind,
            "requested_device": requested,
            "device": device,
            "calls": None if traced is None else _calls(seen, traced),
            "traced_calls": traced,
            "total_ns": None if traced is None else seen.total_ns[name],
        }


def _calls(seen: _Seen, traced: int) -> int | None:
    """How often an operation ran that was traced so often."""
    if seen.graph and not seen.graph["has_control_flow"]:
        return len(seen.step_ids)  # one that runs at all runs once in each execution
    return traced if max(seen.calls.values()) <= _TRACED_FOR_SURE else None


def _copies(seen: _Seen) -> Iterator[Row]:
    rows = seen.graph["copies"] if seen.graph else _copies_without_graph(seen)
    for row in rows:
        calls = seen.received[row["recv"]] if seen.graph else row["calls"]
        if not calls:
            continue
        takers = row["dst_operations"]
        yield {
            "src_device": row["src_device"],
            "dst_device": row["dst_device"],
            "tensor": row["tensor"],
            "src_operation": row["src_operation"],
            "dst_operation": takers[0] if takers else None,
            "is_gradient": row["is_gradient"],
            "is_control": row["is_control"],
            "calls": calls,
            "bytes_per_call": row["bytes_per_call"],
        }


def _copies_without_graph(seen: _Seen) -> Iterator[Row]:
    """What the traced ``_Send`` operations say of themselves."""
    for sent, calls in sorted(seen.sends.items(), key=lambda item: item[0].node):
        yield {
            "src_device": short(sent.src_device),
            "dst_device": short(sent.dst_device),
            "tensor": sent.source,
            "src_operation": sent.source,
            "dst_operations": [sent.taker],
            "is_gradient": None,
            "is_control": "/ctrl/_" in sent.source,
            "calls": calls,
            "bytes_per_call": None,
        }


def _eager(total: _Sum) -> list[Row]:
    return [
        {
            "function": None,
            "src_device": short(source),
            "dst_device": short(target),
            "tensor": f"input of {operation}" if operation else "input",
            "src_operation": None,
            "dst_operation": operation or None,
            "is_gradient": None,
            "is_control": False,
            "calls": calls,
            "bytes_per_call": None,
        }
        for (source, target, operation), calls in sorted(total.eager_copies.items())
    ]


def _coverage(windows: list[Row], total: _Sum, *, ended: bool) -> Row:
    recorded_ns = sum(w["stop_unix_ns"] - w["start_unix_ns"] for w in windows)
    span_ns = windows[-1]["stop_unix_ns"] - windows[0]["start_unix_ns"] if windows else 0
    return {
        "count": len(windows),
        "recorded_ns": recorded_ns,
        "span_ns": span_ns,
        "ended_in_order": ended,
        "cut_executions": total.cut,
    }


def _notes(folder: Path, seen: list[_Seen], total: _Sum, windows: list[Row]) -> Iterator[str]:
    yield from (str(row["note"]) for row in _rows(folder / "notes.jsonl"))
    if not (folder / "end.json").exists():
        yield "the program was killed or left at once: what its last window saw is lost"
    if not windows:
        yield "no window of TensorFlow's profiler was kept: nothing is known of what ran"
    if total.unreadable:
        yield f"{total.unreadable} of {len(windows)} profiler windows are unreadable"
    without = sorted({label(one.function) for one in seen if one.graph is None and one.sends})
    if without:
        names = ", ".join(without)
        yield f"no graph was kept of {names} or of what it calls: sizes of its copies are unknown"
    lost = sum(one.received.total() - one.sends.total() for one in seen if one.graph is None)
    if lost:
        yield f"copies in functions without a graph were not traced: {lost}"
    if any(one.graph and one.graph["collectives"] for one in seen):
        yield "collective operations ran; what they move between devices is not counted"
    moved = fallbacks(row for one in seen for row in _operations(one))
    if moved:
        first = moved[0]
        yield (
            f"operations that ran on another device than asked for: {len(moved)}, the first"
            f" {first['operation']}: asked for {first['requested_device']}, ran on"
            f" {first['device']}"
        )


def fallbacks(operations: Iterable[Row]) -> list[Row]:
    """Operations that soft placement silently put on another device than the script asked for."""
    return [
        row
        for row in operations
        if row["requested_device"] is not None
        and row["calls"] is not None
        and not row["device"].endswith(row["requested_device"])
    ]
