"""A typical step as recorded and as replayed: its operations, and the critical path."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.model.derived import known
from gpuprof.model.intervals import Int64s
from gpuprof.model.schema import FLAG, INT, TEXT, Column, Schema
from gpuprof.predict.graph import DURATION, GONE, TRANSFER, Graph
from gpuprof.predict.paths import OF_OPERATIONS, Path, PathPart
from gpuprof.predict.replay import Replay

STEP_TIMELINE: Final = Schema(
    "step_timeline",
    "an operation of a typical step, or what its critical path spends elsewhere",
    {
        "path": Column(TEXT, "", "before or after.", required=True),
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown or of no device."),
        "stream_id": Column(INT, "", "Stream; null where unknown."),
        "kind": Column(TEXT, "", "As in critical_path.", required=True),
        "name": Column(TEXT, "", "As in critical_path.", required=True),
        "start_ns": Column(INT, "ns", "Start, since the recording's origin.", required=True),
        "end_ns": Column(INT, "ns", "End.", required=True),
        "operation": Column(INT, "", "The same number before and after; null for no operation."),
        "is_on_path": Column(FLAG, "", "Whether it is on the critical path.", required=True),
    },
)
STRETCHES: Final = Schema(
    "stretches",
    "one stretch of a critical path within one step",
    {
        "path": Column(TEXT, "", "before or after.", required=True),
        "kind": Column(TEXT, "", "As in critical_path.", required=True),
        "name": Column(TEXT, "", "As in critical_path.", required=True),
        "start_ns": Column(INT, "ns", "Since the step began.", required=True),
        "end_ns": Column(INT, "ns", "Since the step began.", required=True),
    },
)
# A path, the number of the part that each of its stretches is of, and the parts (`paths.named`).
PathInStep = tuple[Path, Int64s, list[PathPart]]
# A step of more is not looked at operation by operation.
_MOST: Final = 20_000


class StepTimes(NamedTuple):
    """When the operations of a step run in one replay.

    Args:
        rows: Places of the operations that it does not remove.
        start_ns: When each starts.
        end_ns: When each ends.
    """

    rows: Int64s
    start_ns: Int64s
    end_ns: Int64s


def step_times(
    replayed: Replay, devices: tuple[int, ...], first_ns: int, last_ns: int
) -> StepTimes:
    """The operations that some devices began between two measured times; none of too many."""
    graph, o = replayed.graph, replayed.graph.operations
    is_its = (o.start_ns >= first_ns) & (o.start_ns < last_ns)
    rows = np.flatnonzero(is_its)
    rows = rows[np.isin(o.device_of(rows), devices) & (replayed.weights.kind[rows] != GONE)]
    rows = rows[: len(rows) if len(rows) <= _MOST else 0]
    starts = graph.starts.start + 2 * rows
    return StepTimes(rows, replayed.at(starts), replayed.at(starts + 1))


def stretches(name: str, in_step: PathInStep, step_ns: int) -> Iterator[dict[str, Any]]:
    """The rows of `STRETCHES`: a path within a typical step, scaled to what a step takes."""
    along, numbers, parts = in_step
    ends = np.cumsum(along.until_ns - along.since_ns)
    ends = np.rint(ends * (step_ns / max(ends[-1:].sum(), 1))).astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    columns = (column.tolist() for column in (numbers, starts[: len(ends)], ends))
    for number, start_ns, end_ns in zip(*columns, strict=True):
        kind, text = parts[number]
        yield {"path": name, "kind": kind, "name": text, "start_ns": start_ns, "end_ns": end_ns}


def steps_rows(
    graph: Graph,
    in_step: Mapping[str, PathInStep],
    before: tuple[Path, StepTimes],
    after: tuple[Path, StepTimes] | None,
) -> Iterator[dict[str, Any]]:
    """The rows of `STEP_TIMELINE`: the step as recorded, and as predicted where that differs."""
    yield from _rows(graph, "before", before[1], in_step["before"])
    if after is not None and after is not before:
        yield from _rows(graph, "after", after[1], in_step["after"])


def _rows(
    graph: Graph, name: str, times: StepTimes, in_step: PathInStep
) -> Iterator[dict[str, Any]]:
    """Rows of `STEP_TIMELINE`: operations, then what else a path goes through.

    Args:
        graph: The recording.
        name: Which path it is.
        times: When the operations of the step run.
        in_step: The critical path within the step.

    Returns:
        None for a step of too many operations.
    """
    along, numbers, parts = in_step
    if not len(times.rows):
        return
    o, is_operation = graph.operations, np.isin(along.kinds, (DURATION, TRANSFER))
    on_path = {*(along.instants[is_operation] // 2 - len(graph.calls)).tolist()}
    for row, start, end in zip(*(column.tolist() for column in times), strict=True):
        stream, operation = o.streams[int(o.stream[row])], o.labels[int(o.label[row])]
        yield {
            "path": name, "device_id": known(stream.device), "stream_id": known(stream.stream_id),
            "kind": OF_OPERATIONS[operation.kind], "name": operation.text,
            "start_ns": start, "end_ns": end, "operation": row, "is_on_path": row in on_path,
        }  # fmt: skip
    elsewhere = np.flatnonzero(~is_operation & (along.until_ns > along.since_ns))
    for place in elsewhere.tolist():
        kind, text = parts[int(numbers[place])]
        yield {
            "path": name, "kind": kind, "name": text, "start_ns": int(along.since_ns[place]),
            "end_ns": int(along.until_ns[place]), "is_on_path": True,
        }  # fmt: skip
