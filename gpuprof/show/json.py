"""JSON in base units: integer nanoseconds, bytes, fractions; null where unknown.

Keys are stable; ``format_version`` grows when one changes its meaning or goes. The columns of
the tables, their units and meanings are documented where the tables are declared.
"""

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from gpuprof.analyses.reports import FORMAT_VERSION, Report
from gpuprof.show import Page
from gpuprof.show.cells import CONTROL

if TYPE_CHECKING:
    from gpuprof.comparisons import Comparison

_INTEGERS: Final = ("_ns", "bytes", "calls")
_NEVER_WHOLE: Final = {"percent", "p_value", "is_beyond_noise"}
# Rows as Python objects take ten times the memory of their text.
_ROWS_AT_ONCE: Final = 10_000


def report(result: Report, _: Page) -> str:
    """``format_version``, ``origin``, ``tables`` (name to list of rows or null), ``notes``."""
    return document_text(
        {
            "format_version": FORMAT_VERSION,
            "origin": result.origin.shown(),
            "tables": result.tables,
            "notes": result.notes,
        }
    )


def _encodable(value: Any) -> Any:
    """The rows of a table as a JSON list; a text of what else JSON does not know."""
    if not isinstance(value, pa.Table):
        return str(value)
    names, texts = value.column_names, []
    for piece in value.to_batches(max_chunksize=_ROWS_AT_ONCE):
        rows = zip(*map(_values, names, piece.columns), strict=True)
        text = msgspec.json.encode([dict(zip(names, row, strict=True)) for row in rows])
        texts.append(text[1:-1])
    return msgspec.Raw(b"[%b]" % b",".join(filter(None, texts)))


def _values(name: str, column: pa.Array) -> list[Any]:
    """The values of a column, whole ones as integers where its name has their unit."""
    values = column.to_pylist()
    is_mean = name.endswith(_INTEGERS) and pa.types.is_floating(column.type)
    return [*map(_integer, values)] if is_mean else values


def comparison(result: "Comparison", _: Page) -> str:
    """``variants``, ``figures`` and ``differences`` by label; the other tables as rows.

    ``other_phases`` has the same of each phase but the one whose differences come to most.
    """
    other_phases = [_compared(phase) for phase in result.other_phases]
    return document_text(
        {"format_version": FORMAT_VERSION} | _compared(result) | {"other_phases": other_phases}
    )


def _compared(result: "Comparison") -> dict[str, Any]:
    return {
        "baseline": result.baseline,
        "unit": result.unit,
        "phase": result.phase,
        "variants": _by_label(result.variants),
        "runs": result.runs.to_pylist(),
        "figures": _by_metric(result, result.figures),
        "differences": _by_metric(result, result.differences),
        "split": result.split.to_pylist(),
        "kernels": result.kernels.to_pylist(),
        "comparability": result.comparability.to_pylist(),
        "outcomes": _by_label(result.outcomes),
        "uncompared": result.uncompared.to_pylist(),
        "verdict": result.verdict,
        "headline": result.headline,
        "notes": result.notes,
    }


def _by_label(variants: pa.Table) -> dict[str, dict[str, Any]]:
    rows = variants.to_pylist()
    return {row.pop("variant"): row for row in rows}


def _by_metric(result: "Comparison", table: pa.Table) -> dict[str, dict[str, dict[str, Any]]]:
    """Variant -> metric -> the other columns; whole numbers where the metric has them."""
    by_variant: dict[str, dict[str, dict[str, Any]]] = {}
    for row in table.to_pylist():
        metric, variant = row.pop("metric"), row.pop("variant")
        if pa.types.is_integer(result.variants.schema.field(metric).type):
            whole_columns = {n for n in row.keys() - _NEVER_WHOLE if row[n] == int(row[n] or 0)}
            row |= {name: int(row[name]) for name in whole_columns}
        by_variant.setdefault(variant, {})[metric] = row
    return by_variant


def versioned_text(document: dict[str, Any]) -> str:
    """A document as JSON under the version of its format."""
    return document_text({"format_version": FORMAT_VERSION} | document)


def document_text(document: dict[str, Any]) -> str:
    """A document as JSON; what is no number becomes null, what steers a terminal is escaped."""
    plain = _plain(document)
    try:
        text = msgspec.json.encode(plain, enc_hook=_encodable).decode()
    except UnicodeEncodeError:  # a path that is no UTF-8, which Python's encoder spells out
        return f"{json.dumps(plain, indent=2, default=_decoded, allow_nan=False)}\n"
    if not text.isprintable():  # looks at 20 characters in the time of one of the pattern
        text = CONTROL.sub(lambda of: "".join(f"\\u{ord(c):04x}" for c in of[0]), text)
    return f"{msgspec.json.format(text)}\n"


def _decoded(value: Any) -> Any:
    return _plain(value.to_pylist()) if isinstance(value, pa.Table) else str(value)


def _plain(value: Any) -> Any:
    """JSON has no NaN or infinity; whole times, sizes and counts are integers.

    They are so also where their column has medians or means.
    """
    if isinstance(value, Mapping):
        return {
            key: _integer(item) if str(key).endswith(_INTEGERS) else _plain(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _integer(value: Any) -> Any:
    """A time, size or count: an integer also where it is a median or mean, if it is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else _plain(value)
