"""How a figure is shown to people: by its column's unit, names shortened in the middle."""

import re
import textwrap
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from gpuprof import units
from gpuprof.analyses import ANALYSES, LONG
from gpuprof.metrics import VARIANTS
from gpuprof.schema import TABLES, Column

SCHEMAS: Final = {
    schema.name: schema for schema in (*TABLES, *(a.schema for a in (*ANALYSES, *LONG)), VARIANTS)
}
_FORMATS: Final = {
    "ns": units.format_ns,
    "B": units.format_bytes,
    "B/s": units.format_rate,
    "s": units.format_seconds,
    "Hz": units.format_clock,
    "%": units.format_change,
}
_RATIO: Final = re.compile(r"(_ratio|_per_step|p_value)$")
_PIECES: Final = re.compile(r"[^-_/. ]*[-_/. ]?")
# What steers a terminal, and what turns the direction of the text around it or ends its line.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
_UNIT_SUFFIX: Final = re.compile(r"_(ns|bytes_per_s)$")


def cell(column: str, spec: Column, value: Any) -> str:  # noqa: ANN401 - any cell
    """A value as people read it; ``n/a`` where unknown."""
    if spec.dtype == "string":
        return "" if value is None else clean(value)
    if spec.dtype == "bool":
        return {None: "n/a", True: "yes", False: "no"}[value]
    if spec.unit in _FORMATS:
        return _FORMATS[spec.unit](value)
    if _RATIO.search(column):
        return units.format_ratio(value)
    if spec.dtype == "float64" and "calls" not in column:
        return units.format_share(value)
    return str(value) if column.endswith("_id") and value is not None else _count(value)


def _count(value: float | None) -> str:
    """A count; of a step it may be a part of one."""
    is_part = value is not None and value != int(value)
    return (units.format_ratio if is_part else units.format_count)(value)


def signed_ns(value: float | None) -> str:
    """A difference in time with its sign: ``+1.550 us``; ``n/a`` where unknown."""
    shown = units.format_ns(value)
    return f"+{shown}" if value is not None and value > 0 else shown


def percent(share: float | None) -> str:
    """A signed share in percent: ``+40.6 %``; ``n/a`` where unknown."""
    return units.format_change(None if share is None else 100 * share)


def clean(text: str) -> str:
    """Text from a recording without what would steer a terminal or turn the text around it."""
    return _CONTROL.sub(" ", text)


def heading(column: str) -> str:
    """A column's name for people: ``total_ns`` is shown with units in its cells, as Total."""
    words = _UNIT_SUFFIX.sub("", column).replace("_", " ")
    return words[:1].upper() + words[1:]


def shortened(text: str, width: int) -> str:
    """Text cut in its middle to a width: kernels differ at both ends of their names."""
    if len(text) <= width:
        return text
    if width < 4:  # noqa: PLR2004 - room for no more than the dots
        return text[:width]
    left = (width - 2) // 2 + (width - 2) % 2
    return f"{text[:left]}..{text[len(text) - (width - 2 - left) :]}"


def folded(text: str, width: int) -> str:
    """Text in lines of at most a width, broken after ``_``, ``-``, ``/`` or a dot where it can."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width) or [""])


def schema_columns(name: str, table: pa.Table) -> Mapping[str, Column]:
    """The documented columns of a table, or plain text ones where it is not declared."""
    declared = SCHEMAS[name].columns if name in SCHEMAS else {}
    return {column: declared.get(column, Column("string", "", "")) for column in table.column_names}
