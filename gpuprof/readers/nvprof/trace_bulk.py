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

from gpuprof.base import units
from gpuprof.readers.common.compact_columns import Integers, Times
from gpuprof.readers.nvprof.trace_rows import TIME_UNITS, TraceHead

_NUMBER: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TEXT: Final = (
    rf"^\s*(?P<start>{_NUMBER})(?P<start_unit>[num]?s)"
    rf"\s{{2,}}(?P<duration>{_NUMBER})(?P<duration_unit>[num]?s)"
    r"\s{2,}(?P<rest>.*?\S)(?:\s+\[(?P<id>[0-9]{1,18})\])?\s*$"
)
_CSV: Final = rf"^(?P<start>{_NUMBER}),(?P<duration>{_NUMBER}),(?P<rest>.*),(?P<id>[0-9]{{0,18}})$"
# Colours, lines written over, and what nvprof says beside its rows.
_ODD: Final = (b"\r", b"\x1b", b"==")


def rows(
    layout: TraceHead, block: bytes
) -> tuple[Times, Integers, dict[str, str], list[str]] | None:
    """The rows of a piece of a log; None where it holds anything else.

    Returns:
        When each row ran, and its correlation id; the number of what else it says; that by its
        number, with the first line that says it; one start of each precision, with its unit.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that recognising a file does not need

    has_units = len(layout.units) > 1 and TIME_UNITS.issuperset(layout.units[:2])
    is_known = not layout.is_csv or (has_units and layout.columns[-1] == "Correlation_ID")
    plain = block.replace(b"\r\n", b"\n")
    if not is_known or any(odd in plain for odd in _ODD):
        return None
    try:
        lines = pa.array(plain.decode().removesuffix("\n").split("\n"))
    except UnicodeDecodeError:
        return None
    groups = pc.extract_regex(lines, _CSV if layout.is_csv else _TEXT)
    if groups.null_count:
        return None
    cells = dict(zip((field.name for field in groups.type), groups.flatten(), strict=True))
    start_marks, start_ns = _in_ns(layout, cells, "start")
    _, duration_ns = _in_ns(layout, cells, "duration")
    details = cells["rest"].dictionary_encode()
    alike = details.indices.to_numpy()
    shown = pc.binary_join_element_wise(cells["start"], start_marks, "")
    ids = pc.if_else(pc.equal(cells["id"], ""), pa.scalar(None, pa.string()), cells["id"])
    _, first = np.unique(alike, return_index=True)
    return (
        (start_ns, start_ns + duration_ns, pc.fill_null(ids.cast(pa.int64()), -1).to_numpy()),
        alike,
        dict(zip(details.dictionary.to_pylist(), lines.take(first).to_pylist(), strict=True)),
        pc.unique(pc.replace_substring_regex(shown, "[0-9]", "0")).to_pylist(),
    )


def _in_ns(
    layout: TraceHead, cells: Mapping[str, pa.Array], name: str
) -> tuple[pa.Array, Integers]:
    """The unit of each row's time, and the time in nanoseconds, exact before the last rounding."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if layout.is_csv:
        unit = layout.units[layout.columns.index(name.capitalize())]
        marks = pa.repeat(unit, len(cells[name]))
    else:
        marks = cells[f"{name}_unit"]
    names = sorted(TIME_UNITS)
    factors = pa.array([Decimal(units.to_ns("1", name)) for name in names], pa.decimal128(10, 0))
    factor = factors.take(pc.index_in(marks, pa.array(names)))
    exact = pc.multiply(cells[name].cast(pa.decimal128(18, 9)), factor)
    return marks, pc.round(exact, 0, "half_to_even").cast(pa.int64()).to_numpy()
