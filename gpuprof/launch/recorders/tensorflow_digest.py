"""From what the recorder left in a process's folder to one small file: ``tensorflow-<pid>.json``.

Format ``gpuprof-tensorflow``, version 1, one JSON object:

- ``process``: id, command, versions, ``devices`` (logical ones, such as CPU:0) and start;
- ``windows``: how many, their seconds and the seconds from the first's start to the last's end,
  whether the program came to its end in order, and how many executions a window's edge cut;
- ``functions``: each tf.function: ``function``, ``executions`` that a window saw whole,
  ``is_step`` (the training step: it has gradients and updates variables);
- ``operations``: ``function``, ``operation``, ``operation_type``, ``requested_device`` (null:
  none), ``device`` it ran on, ``calls`` (null: not known), ``traced_calls`` and ``total_ns``, the
  host time of these (TensorFlow stops tracing the cheapest operations after some 1,400 runs),
  ``flops`` of one call (null: no matrix product or convolution, or not known);
- ``tensor_copies``: ``function`` (null: an eager operation's input), ``src_device``,
  ``dst_device``, ``tensor``, ``src_operation``, ``dst_operation``, ``is_gradient``,
  ``is_control``, ``calls``, ``bytes_per_call`` (null: unknown; control edges carry no data);
- ``graphs``: of each graph of a function ``function``, ``calls``, ``names`` and ``devices`` of its
  operations and arguments, ``inputs``, what operations take from their own or another device
  (numbers of both ends in ``names``, the output in between, bytes, null: unknown), and
  ``variables`` (number of the handle in ``names``, bytes, null: unknown; it is taken as an input
  whose bytes are null);
- ``notes``: what a reader of the numbers must know, a sentence each.

All calls belong to executions that were seen whole, so a sum over a function's rows divided by
its ``executions`` is exact per execution; a loop sends once more than it iterates. A copy's time
is not known: what TensorFlow traces of ``_Send`` is handing a pointer over.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpuprof.base import json_input
from gpuprof.base.secrets import masked_text, masked_words
from gpuprof.launch.recorders.tensorflow_events import Execution, ProfilerWindow, Sent, read_window
from gpuprof.native.xspace import WireError, space

FORMAT: Final = "gpuprof-tensorflow"
FORMAT_VERSION: Final = 1
FOLDERS: Final = "tensorflow-*"

_TRACE_NUMBER: Final = re.compile(r"^__(?:inference|forward|backward)_(.*?)_\d+$")
# Operations that were traced no more often than this were traced whenever they ran.
_TRACED_FOR_SURE: Final = 900
# Batches of more lengths have sizes that are unknown.
_MOST_LENGTHS: Final = 8
# What is taken of a graph's copy as it is, and a row of ``tensor_copies``.
_KEPT_COLUMNS: Final = (
    *("src_device", "dst_device", "tensor", "src_operation", "is_gradient", "is_control"),
    "bytes_per_call",
)
_COPY: Final = (
    *("src_device", "dst_device", "tensor", "src_operation", "dst_operation", "is_gradient"),
    *("is_control", "calls", "bytes_per_call"),
)
_LOCAL: Final = "/job:localhost/replica:0/task:0/device:"

Row = dict[str, Any]


# A graph that ran: the function that the script called, the graph's number in the recorder's file
# (None where it was not kept), and whether it is that of a function that this one called.
_GraphRun = tuple[str, int | None, bool]


@dataclass
class _GraphTotals:
    """What all windows show of one graph, with the function and ``is_called`` of its run.

    Args:
        graph: The graph; None where it was not kept.
        ran: Operations that were traced in any execution of the graph, whatever its batches.
    """

    function: str
    graph: Row | None
    is_called: bool
    ran: set[str]
    step_ids: set[tuple[int, int]] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    total_ns: Counter[str] = field(default_factory=Counter)
    sends: Counter[Sent] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)

    def add(
        self, step: tuple[int, int], executions: list[Execution], received: Counter[str]
    ) -> None:
        """Add the executions of a step, which its window and its own number tell."""
        self.step_ids.add(step)
        self.received += received
        for execution in executions:
            self.ran.update(execution.calls)
            self.calls += execution.calls
            self.total_ns += execution.total_ns
            self.sends += execution.sends


class _Totals:
    """What all windows show.

    Attributes:
        graphs: By graph, by the length of the batches that it took from a dataset (None where that
            does not matter, or is unknown), and by what each of its executions received, where all
            receive the same.
        ran: Operations that were traced, by graph.
        rows: Lengths of batches, by graph.
        eager_copies: As in `Window`.
        cut: Executions that the edge of a window cut.
        unreadable: Windows that could not be read.
    """

    def __init__(self) -> None:
        self.graphs: dict[tuple[_GraphRun, int | None, frozenset[str]], _GraphTotals] = {}
        self.ran: dict[_GraphRun, set[str]] = {}
        self.rows: dict[_GraphRun, set[int]] = {}
        self.eager_copies: Counter[tuple[str, str, str]] = Counter()
        self.cut = self.unreadable = 0

    def add(self, number: int, window: ProfilerWindow | None, graphs: list[Row]) -> None:
        """Add a window; None for one that could not be read."""
        if window is None:
            self.unreadable += 1
            return
        self.eager_copies += window.eager_copies
        executions_of: dict[tuple[str, int, bool], list[Execution]] = {}
        for execution in window.executions.values():
            root = window.root(execution)
            if root is None or root.function is None:
                self.cut += 1
            else:
                key = (root.function, execution.step_id, execution is not root)
                executions_of.setdefault(key, []).append(execution)
        for (function, step_id, is_called), executions in executions_of.items():
            received = window.received.get(step_id, Counter())
            graph_number = _graph_of(None if is_called else function, executions, received, graphs)
            graph = None if graph_number is None else graphs[graph_number]
            run = function, graph_number, is_called
            rows = _rows_of(graph, window.element_bytes.get(step_id, set()))
            lengths = self.rows.setdefault(run, set())
            if rows is not None and (rows in lengths or len(lengths) < _MOST_LENGTHS):
                lengths.add(rows)
            else:
                rows = None
            ran = self.ran.setdefault(run, set())
            graph = graph and _with_sizes(graph, rows)
            # Every execution of a graph without control flow receives the same.
            is_straight = graph and not graph["has_control_flow"]
            always = frozenset(received.keys() & _recvs(graph) if graph and is_straight else ())
            new = _GraphTotals(function, graph, is_called, ran)
            totals = self.graphs.setdefault((run, rows, always), new)
            totals.add((number, step_id), executions, received)

    def complete(self) -> Iterator[_GraphTotals]:
        """The graphs, without executions that a window cut while threads still received.

        A function may return, and its window end, before a thread has closed the event of the last
        tensor that it received.
        """
        most: dict[tuple[_GraphRun, int | None], frozenset[str]] = {}
        for run, rows, received in self.graphs:
            most[run, rows] = most.get((run, rows), frozenset()) | received
        for (run, rows, received), graph_totals in self.graphs.items():
            if received == most[run, rows]:
                yield graph_totals
            elif not graph_totals.is_called:
                self.cut += len(graph_totals.step_ids)


def digest(folder: Path) -> Row:
    """The document for one process's folder, as the module says."""
    graphs = list(_rows(folder / "graphs.jsonl"))
    windows = list(_rows(folder / "windows.jsonl"))
    totals = _Totals()
    for number, window in enumerate(windows):
        totals.add(number, _window(folder / str(window["folder"])), graphs)
    complete = list(totals.complete())
    # They compute gradients and update variables.
    steps = {run.function for run in complete if run.graph and run.graph["is_training"]}
    names = {run.function: label(run.function) for run in complete}
    # Keras calls both training and evaluation by the same name.
    training = {label(function) for function in steps}
    for function, name in names.items():
        if function not in steps and name in training:
            names[function] = f"{name} (no training)"
    executions: Counter[tuple[str, bool]] = Counter()
    for run in complete:
        if not run.is_called:
            executions[names[run.function], run.function in steps] += len(run.step_ids)
    process = next(_rows(folder / "process.json"), {})
    if "command" in process:
        process["command"] = list(masked_words(process["command"]))
    spans = [(window["start_unix_ns"], window["stop_unix_ns"]) for window in windows]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "process": process,
        "windows": {
            "count": len(windows),
            "recorded_ns": sum(stop_ns - start_ns for start_ns, stop_ns in spans),
            "span_ns": spans[-1][1] - spans[0][0] if spans else 0,
            "ended_in_order": (folder / "end.json").exists(),
            "cut_executions": totals.cut,
        },
        "functions": [
            {"function": name, "executions": count, "is_step": is_step}
            for (name, is_step), count in sorted(executions.items())
        ],
        "operations": [
            {"function": names[run.function], **row} for run in complete for row in _operations(run)
        ],
        "tensor_copies": [*_tensor_copies(complete, names, totals.eager_copies)],
        "graphs": [
            {"function": names[run.function], "calls": len(run.step_ids), **_numbered(run.graph)}
            for run in complete
            if run.graph
        ],
        "notes": [masked_text(note) for note in _notes(folder, complete, totals, windows)],
    }


def _rows(path: Path) -> Iterator[Row]:
    return (row for row in json_input.lines(path) if isinstance(row, dict))


def _window(folder: Path) -> ProfilerWindow | None:
    files = sorted(folder.rglob("*.xplane.pb"))
    window = ProfilerWindow()
    for path in files:
        try:
            window = read_window(space(path.read_bytes()).planes)
        except (WireError, OSError):
            return None
    return window if files else None


def _rows_of(graph: Row | None, element_bytes: set[int]) -> int | None:
    """How many rows the batch of an execution had; None where that is unknown, or may change."""
    if graph is None or graph["has_control_flow"] or not graph.get("batch"):
        return None
    if len(element_bytes) != 1:
        return None
    without_rows, per_row = graph["batch"]
    rows, left_over = divmod(min(element_bytes) - without_rows, per_row)
    return None if left_over or rows < 1 else rows


def _with_sizes(graph: Row, rows: int | None) -> Row:
    """A graph whose sizes and FLOPs are those for batches of so many rows."""

    def amount(value: int | list[int] | None) -> int | None:
        if not isinstance(value, list):
            return value
        return None if rows is None else value[0] + value[1] * rows

    copies = [row | {"bytes_per_call": amount(row["bytes_per_call"])} for row in graph["copies"]]
    return graph | {
        "operations": [[*row[:-1], amount(row[-1])] for row in graph["operations"]],
        "copies": copies,
        "inputs": [[*row[:5], amount(row[5]), *row[6:]] for row in graph["inputs"]],
    }


def _recvs(graph: Row) -> set[str]:
    return {row["recv"] for row in graph["copies"]}


def _graph_of(
    name: str | None, executions: list[Execution], received: Counter[str], graphs: list[Row]
) -> int | None:
    """The graph of a function: by its name, else the only one with all that was sent and ran."""
    ran = {name for execution in executions for name in execution.calls}
    sent = {sent.node for execution in executions for sent in execution.sends}
    fitting = [
        i
        for i in [i for i, g in enumerate(graphs) if name in g["functions"]] or range(len(graphs))
        if ran <= {row[0] for row in graphs[i]["operations"]}
        and sent <= {row["send"] for row in graphs[i]["copies"]}
        and received.keys() <= _recvs(graphs[i])
    ]
    sizes = {json.dumps(graphs[i]["copies"], sort_keys=True) for i in fitting}
    return fitting[-1] if len(sizes) == 1 else None


def label(function: str) -> str:
    """``step`` for ``__inference_step_464``: the number differs from run to run."""
    match = _TRACE_NUMBER.match(function)
    return match[1] if match else function


def _short(device: str) -> str:
    """``CPU:0`` for a device of this process; a job's full name for one of another."""
    return device.removeprefix(_LOCAL)


def _operations(run: _GraphTotals) -> Iterator[Row]:
    if run.graph is None:
        return
    # Where nothing branches, what runs at all runs once in each execution.
    calls = None if run.graph["has_control_flow"] else len(run.step_ids)
    are_all_traced = max(run.calls.values(), default=0) <= _TRACED_FOR_SURE
    for name, kind, requested, device, flops in run.graph["operations"]:
        traced = run.calls.get(name)
        yield {
            "operation": name,
            "operation_type": kind,
            "requested_device": requested,
            "device": device,
            "calls": (calls or (traced if are_all_traced else None)) if name in run.ran else None,
            "traced_calls": traced,
            "total_ns": None if traced is None else run.total_ns[name],
            "flops": flops,
        }


def _numbered(graph: Row) -> Row:
    """What operations take, each name and device once; ends are numbers of these."""
    inputs, variables = graph["inputs"], graph["variables"]
    ends = [end for m, _, near, t, far, *_ in inputs for end in ((m, near), (t, far))]
    device_of = dict([*ends, *((name, device) for name, device, _ in variables)])
    number = {name: place for place, name in enumerate(device_of)}
    return {
        "names": list(device_of),
        "devices": list(device_of.values()),
        "inputs": [[number[m], output, number[t], size] for m, output, _, t, _, size, _ in inputs],
        "variables": [[number[name], size] for name, _, size in variables],
    }


def _tensor_copies(
    runs: list[_GraphTotals],
    names: dict[str, str],
    eager_copies: Counter[tuple[str, str, str]],
) -> Iterator[Row]:
    """The copies of kept graphs, else what the traced ``_Send`` operations tell; then eager ones.

    Null for what is not known.
    """
    blank = dict.fromkeys(("function", *_COPY)) | {"is_control": False}
    for run in runs:
        of_function = blank | {"function": names[run.function]}
        for row in run.graph["copies"] if run.graph else ():
            if calls := run.received[row["recv"]]:
                kept_columns = {name: row[name] for name in _KEPT_COLUMNS if name in row}
                taker = next(iter(row["dst_operations"]), None)
                yield of_function | kept_columns | {"dst_operation": taker, "calls": calls}
        sends = {} if run.graph else run.sends
        for sent, calls in sorted(sends.items(), key=lambda item: item[0].node):
            yield of_function | {
                "src_device": _short(sent.src_device),
                "dst_device": _short(sent.dst_device),
                "tensor": sent.source,
                "src_operation": sent.source,
                "dst_operation": sent.taker,
                "is_control": "/ctrl/_" in sent.source,
                "calls": calls,
            }
    for (source, target, operation), calls in sorted(eager_copies.items()):
        yield blank | {
            "src_device": _short(source),
            "dst_device": _short(target),
            "tensor": f"input of {operation}" if operation else "input",
            "dst_operation": operation or None,
            "calls": calls,
        }


def _notes(
    folder: Path, runs: list[_GraphTotals], totals: _Totals, windows: list[Row]
) -> Iterator[str]:
    yield from (str(row["note"]) for row in _rows(folder / "notes.jsonl"))
    if not (folder / "end.json").exists():
        yield "the program was killed or exited abruptly, so the events of its last window are lost"
    if not windows:
        yield "no window of TensorFlow's profiler was kept, so it is unknown what ran"
    if totals.unreadable:
        yield f"{totals.unreadable} of {len(windows)} profiler windows are unreadable"
    without = sorted({label(run.function) for run in runs if run.graph is None and run.sends})
    if without:
        names = ", ".join(without)
        yield f"no graph was kept of {names} or of what it calls: sizes of its copies are unknown"
    lost = sum(run.received.total() - run.sends.total() for run in runs if run.graph is None)
    if lost:
        yield f"copies in functions without a graph were not traced: {lost}"
    if any(run.graph and run.graph["collectives"] for run in runs):
        yield "collective operations ran; what they move between devices is not counted"
    # Soft placement silently puts operations on other devices than the script asked for.
    moved = [
        row
        for run in runs
        for row in _operations(run)
        if row["requested_device"] is not None
        and row["calls"] is not None
        and not row["device"].endswith(row["requested_device"])
    ]
    if moved:
        first = moved[0]
        yield (
            f"operations that ran on another device than asked for: {len(moved)}, the first"
            f" {first['operation']}: asked for {first['requested_device']}, ran on"
            f" {first['device']}"
        )
