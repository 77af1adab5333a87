"""Lines of nvprof's traces taken apart side by side, where a piece of a log holds rows alone.

Rows of a trace are alike but for their times and their correlation id: what stands between is
parsed once for all rows that have it. A piece that holds anything else is left to be read line
by line, which also finds what is wrong in it and where.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base import units
from gpuprof.readers.common.compact_columns import Integers, Times
from gpuprof.readers.nvprof.trace import TIME_UNITS, TraceHead

_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TEXT: Final = (
    rf"^\s*(?P<start>{_NUMBER})(?P<start_unit>[num]?s)"
    rf"\s{{2,}}(?P<duration>{_NUMBER})(?P<duration_unit>[num]?s)"
    r"\s{2,}(?P<rest>.*?\S)(?:\s+\[(?P<id>[0-9]{1,18})\])?\s*$"
)
_CSV: Final = rf"^{_NUMBER},{_NUMBER},.*,[0-9]{{0,18}}$"
# Colours, lines written over, and what nvprof says beside its rows.
_ODD: Final = (b"\r", b"\x1b", b"==")


def rows(
    layout: TraceHead, block: bytes
) -> tuple[Times, Integers, dict[str, str], list[str]] | None:
    """The rows of a piece of a log; None where it holds anything else.

    Returns:
        When each row ran, and its correlation id; the number of what else it says; that by its
        number, with the first line that says it; a start of the fewest decimals of each unit.
    """
    has_units = len(layout.units) > 1 and TIME_UNITS.issuperset(layout.units[:2])
    is_known = not layout.is_csv or (has_units and layout.columns[-1] == "Correlation_ID")
    plain = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    if not is_known or any(odd in plain for odd in _ODD):
        return None
    try:
        lines = pa.array(plain.decode().removesuffix("\n").split("\n"))
    except UnicodeDecodeError:
        return None
    if (cells := _cells(layout, lines)) is None:
        return None
    start_ns, duration_ns = (_in_ns(cells[n], cells[f"{n}_unit"]) for n in ("start", "duration"))
    details = cells["rest"].dictionary_encode()
    alike = details.indices.to_numpy()
    ids = pc.if_else(pc.equal(cells["id"], ""), pa.scalar(None, pa.string()), cells["id"])
    _, first = np.unique(alike, return_index=True)
    # Of the starts of each unit, one of the fewest decimals.
    times, marks = cells["start"], cells["start_unit"]
    dot, length = pc.find_substring(times, ".").to_numpy(), pc.binary_length(times).to_numpy()
    decimals, starts = np.where(dot < 0, 0, length - dot), []
    for unit in pc.unique(marks).to_pylist():
        of_unit = np.flatnonzero(pc.equal(marks, unit))
        starts.append(f"{times[int(of_unit[decimals[of_unit].argmin()])]}{unit}")
    return (
        (start_ns, start_ns + duration_ns, pc.fill_null(ids.cast(pa.int64()), -1).to_numpy()),
        alike,
        dict(zip(details.dictionary.to_pylist(), lines.take(first).to_pylist(), strict=True)),
        starts,
    )


def _cells(layout: TraceHead, lines: pa.Array) -> Mapping[str, pa.Array] | None:
    """What the rows say, by the names of the patterns' groups; None where a line is no row."""
    if not layout.is_csv:
        groups = pc.extract_regex(lines, _TEXT)
        names = [field.name for field in groups.type]
        return None if groups.null_count else dict(zip(names, groups.flatten(), strict=True))
    # To match a line and to split it takes a third of the time of groups of a pattern.
    if not pc.all(pc.match_substring_regex(lines, _CSV)).as_py():
        return None
    head = pc.split_pattern(lines, ",", max_splits=2)
    tail = pc.split_pattern(pc.list_element(head, 2), ",", max_splits=1, reverse=True)
    start_unit, duration_unit = (pa.repeat(unit, len(lines)) for unit in layout.units[:2])
    return {
        "start": pc.list_element(head, 0),
        "start_unit": start_unit,
        "duration": pc.list_element(head, 1),
        "duration_unit": duration_unit,
        "rest": pc.list_element(tail, 0),
        "id": pc.list_element(tail, 1),
    }


def _in_ns(times: pa.Array, marks: pa.Array) -> Integers:
    """Times with the unit of each in nanoseconds, exact before the last rounding."""
    names = sorted(TIME_UNITS)
    factors = pa.array([Decimal(units.to_ns("1", name)) for name in names], pa.decimal128(10, 0))
    factor = factors.take(pc.index_in(marks, pa.array(names)))
    exact = pc.multiply(times.cast(pa.decimal128(18, 9)), factor)
    numbers: Integers = pc.round(exact, 0, "half_to_even").cast(pa.int64()).to_numpy()
    return numbers
