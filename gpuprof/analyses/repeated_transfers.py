"""Copies that every training step makes again: of constants, or of the same size and place."""

import re
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.steps import in_part
from gpuprof.analyses.tensor_transfers import copied_in_every_step
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import UVM, Copies, end_name
from gpuprof.facts.moves import moves, origins
from gpuprof.facts.numbers import columns_of, groups, names_by_number
from gpuprof.facts.step_windows import (
    STEP_READS,
    StepWindows,
    by_period,
    step_windows,
)
from gpuprof.facts.timeline import TIMELINE_READS, timeline_of
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s, covered_within
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column, Kind, Schema, process_column

REPEATED_TRANSFERS: Final = Schema(
    "repeated_transfers",
    "all copies of one size from one memory to another that one place makes in every step",
    {
        "process_id": process_column("Process; null where unknown."),
        "src": Column(TEXT, "", "Memory copied from: host, device N, CPU:0, ...", required=True),
        "dst": Column(TEXT, "", "Memory copied to.", required=True),
        "copy_bytes": Column(INT, "B", "Size of each copy; null where unknown."),
        "steps": Column(INT, "1", "Steps that copy it.", required=True),
        "step_source": Column(
            TEXT, "", "What tells steps: ranges, a detected pattern, or a function.", required=True
        ),
        "calls_per_step": Column(FLOAT, "1", "Copies per step.", required=True, kind=Kind.MEAN),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where unknown."),
        "total_ns": Column(INT, "ns", "Time of all of them; null where no times were recorded."),
        "exposed_ns": Column(
            INT, "ns", "The part of total_ns at which no kernel runs on the destination."
        ),
        "is_constant": Column(
            FLAG, "", "Whether it is known to be the same bytes; null where only the size is."
        ),
        "range": Column(TEXT, "", "NVTX range or operation that launched it; null where unknown."),
        "src_operation": Column(
            TEXT, "", "What made it: the operation, or the kernel that ended last on the source."
        ),
        "dst_operation": Column(
            TEXT, "", "What takes it: the operation, or the kernel that starts next."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

_LEAST_STEPS: Final = 3
_ROWS: Final = 20
# How far before or after a copy what makes or takes it is looked for.
_NEAR_NS: Final = NS_PER_S
# What makes a constant, and what reads a variable.
_CONSTANT, _VARIABLE = "Const", "ReadVariableOp"
_DIGITS: Final = re.compile(r"\d+")

Row = dict[str, Any]


def repeated_transfers(profile: Profile) -> pa.Table:
    """Find what every step copies to a device again.

    The contents of copies are not recorded: copies of the same size between the same memories,
    launched in the same NVTX range or operation, in every one of at least three steps, may be the
    same bytes (a table, a mask, weights that do not change), or the next batch. Only where
    TensorFlow says that a constant is copied, it is certain. Copies to the host are left out: they
    are results.

    Args:
        profile: Needs ``memcpys`` and ``kernels``, with steps that can be told (see `steps`); or
            ``tensor_copies``, ``functions`` and ``operations`` of TensorFlow, of which constants
            and variables that another device reads are named.

    Returns:
        At most twenty rows, the longest exposed and the largest first, columns as in
        `REPEATED_TRANSFERS`; none where nothing tells steps.
    """
    rows = _tensors(profile) if profile.has("tensor_copies", "functions", "operations") else []
    if profile.has("memcpys", "kernels"):
        rows += _with_kernels(profile, copied_again(profile)[:_ROWS])
    rows.sort(key=_cost)
    return REPEATED_TRANSFERS.table(rows[:_ROWS])


def _cost(row: Row) -> tuple[int, int, float, str]:
    return (
        -(row.get("exposed_ns") or 0),
        -(row.get("total_ns") or 0),
        -(row["bytes_per_step"] or 0),
        row["src"] + row["dst"],
    )


@once_per_profile
def copied_again(profile: Profile) -> list[tuple[Copies, Row]]:
    """The copies that every step makes again, with their row in the table; the worst first."""
    all_copies = moves(profile)
    # What is copied back to the host are results, which differ from step to step.
    all_copies = all_copies.take(
        (all_copies.dst != HOST) & (all_copies.path != UVM) & (all_copies.bytes > 0)
    )
    if not len(all_copies):
        return []
    repeated = [
        copies_and_row
        for series in map(by_period, step_windows(profile))
        for copies_and_row in _of_series(profile, series, all_copies)
    ]
    return sorted(repeated, key=lambda copies_and_row: _cost(copies_and_row[1]))


def _of_series(
    profile: Profile, series: StepWindows, all_copies: Copies
) -> list[tuple[Copies, Row]]:
    steps = in_part(series, profile)
    if len(series.between):
        steps = steps[steps < len(series.start_ns) - 1]  # the last one's period is not known
    if len(steps) < _LEAST_STEPS:
        return []
    start, end = series.start_ns[steps], series.end_ns[steps]
    step = np.searchsorted(start, all_copies.start_ns, side="right") - 1
    is_ours = (step >= 0) & (all_copies.start_ns < end[np.maximum(step, 0)])
    is_ours &= (
        np.isin(all_copies.dst, series.devices)
        if series.process_id is None
        else all_copies.process == series.process_id
    )
    chosen, step = all_copies.take(is_ours), step[is_ours]
    places, names = _places(profile, series, chosen)
    again = [
        (chosen.take(rows), names[places[rows[0]]])
        for rows in groups(chosen.src, chosen.dst, chosen.bytes, places)
        if len(np.unique(step[rows])) == len(steps)
    ]
    return [
        (copies, _row(profile, series, copies, len(steps)) | {"range": name})
        for copies, name in again
    ]


def _places(
    profile: Profile, series: StepWindows, copies: Copies
) -> tuple[Int64s, list[str | None]]:
    """A number for what launched each copy, and names by number.

    Ranges that differ in digits alone are one place: they often number the step.
    """
    if not profile.unrestricted.has("nvtx_ranges", "api_calls"):
        return np.zeros(len(copies), np.int64), [None]
    number, texts = origins(profile, copies)
    alike = [_DIGITS.sub("#", text) for text in texts]
    names = [None, *sorted({*alike} - {series.text})]
    # A copy in no range has the number -1, which is that of the last one here.
    place = [0 if text == series.text else names.index(text) for text in alike]
    return np.array([*place, 0])[number], names


def _row(profile: Profile, series: StepWindows, copies: Copies, steps: int) -> Row:
    src, dst, size = int(copies.src[0]), int(copies.dst[0]), int(copies.bytes[0])
    kernels = timeline_of(profile.unrestricted, dst).kernels
    hidden = covered_within(kernels, copies.start_ns, copies.end_ns)
    calls = len(copies.src)
    return {
        "process_id": series.process_id,
        "src": end_name(src),
        "dst": end_name(dst),
        "copy_bytes": size,
        "steps": steps,
        "step_source": series.source,
        "calls_per_step": calls / steps,
        "bytes_per_step": calls * size / steps,
        "total_ns": int(copies.duration_ns.sum()),
        "exposed_ns": int(np.maximum(copies.duration_ns - hidden, 0).sum()),
        "suggestion": _suggestion(end_name(src), end_name(dst)),
    }


def _suggestion(src: str, dst: str) -> str:
    return f"if it is the same data in every step, copy it from {src} to {dst} once and keep it"


def _with_kernels(profile: Profile, repeated: list[tuple[Copies, Row]]) -> list[Row]:
    """The rows, with the kernels before and after each one's first copy."""
    if not repeated:
        return []
    firsts = [
        tuple(int(column[0]) for column in (some.src, some.dst, some.start_ns, some.end_ns))
        for some, _ in repeated
    ]
    low = min(start for _, _, start, _ in firsts) - _NEAR_NS
    high = max(end for _, _, _, end in firsts) + _NEAR_NS
    recorded = profile.unrestricted
    parts = recorded.integers("kernels", "device_id", "start_ns", "end_ns", "name_id")
    near = ([c[(part[1] >= low) & (part[1] <= high)] for c in part] for part in parts)
    device, start_ns, end_ns, number = columns_of(near, 4)
    name = dict(zip(*names_by_number(recorded, "kernels"), strict=True))
    rows = []
    for (src, dst, start, end), (_, row) in zip(firsts, repeated, strict=True):
        before = np.flatnonzero((device == src) & (end_ns <= start))
        after = np.flatnonzero((device == dst) & (start_ns >= end))
        kernels = {}
        if len(before):
            kernels["src_operation"] = name.get(int(number[before[end_ns[before].argmax()]]))
        if len(after):
            kernels["dst_operation"] = name.get(int(number[after[start_ns[after].argmin()]]))
        rows.append(row | kernels)
    return rows


def _tensors(profile: Profile) -> list[Row]:
    """Constants and variables that every step copies to another device."""
    kinds = {
        (row["function"], row["operation"]): row["operation_type"]
        for row in profile.table("operations").to_pylist()
    }
    rows = []
    for copied, steps in copied_in_every_step(profile):
        kind = kinds.get((copied["function"], copied["src_operation"]))
        if kind not in {_CONSTANT, _VARIABLE}:
            continue
        row = {
            "src": copied["src_device"],
            "dst": copied["dst_device"],
            "copy_bytes": copied["bytes_per_call"],
            "steps": steps,
            "step_source": "function",
            "calls_per_step": copied["calls"] / steps,
            "bytes_per_step": None if copied["bytes"] is None else copied["bytes"] / steps,
            "src_operation": copied["src_operation"],
            "dst_operation": copied["dst_operation"],
            "is_constant": True if kind == _CONSTANT else None,
        }
        rows.append(row | {"suggestion": _tensor_suggestion(row)})
    return rows


def _tensor_suggestion(row: Row) -> str:
    if row["is_constant"]:
        return f"make the constant under tf.device({row['dst']!r}), where it is taken"
    return f"place the variable on {row['dst']}, where it is read, or read it once per step there"


ANALYSIS: Final = Analysis(
    "Copies that every step makes again",
    REPEATED_TRANSFERS,
    (),
    repeated_transfers,
    reads(STEP_READS, TIMELINE_READS),
    needs_any_of=("memcpys", "tensor_copies"),
)
