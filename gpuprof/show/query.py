"""The answer of a query: its columns under their own names, its values as they are."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from gpuprof.base.units import counted
from gpuprof.model.profile import Origin
from gpuprof.show import Page, csv, json, renderer_named
from gpuprof.show.overview import Grid

_PLAIN: Final = (bool, int, float, str, type(None))


def answer_text(
    answer: tuple[Sequence[str], Sequence[tuple[Any, ...]]],
    notes: Sequence[str],
    origin: Origin,
    form: str,
    page: Page,
) -> str:
    """An answer, as `gpuprof.sql.query` gives it, in a format of ``--format``; csv has no notes."""
    names, rows = answer
    plain = [tuple(map(_plain, row)) for row in rows]
    if form in {"csv", "json"}:
        records = [dict(zip(names, row, strict=True)) for row in plain]
        if form == "csv":
            return csv.rows_text(names, records)
        return json.versioned_text(
            {
                "origin": origin.shown(),
                "columns": names,
                "rows": records,
                "notes": notes,
            }
        )
    cells = [tuple("n/a" if value is None else str(value) for value in row) for row in plain]
    texts = [place for place in range(len(names)) if any(isinstance(r[place], str) for r in plain)]
    grids = [Grid("", tuple(names), tuple(cells), tuple(texts))]
    head = f"{origin.source}: {counted(len(rows), 'row', 'rows')}"
    return renderer_named(form).grids_text(head, grids, notes, page)


def _plain(value: Any) -> Any:
    """A value as JSON has it: decimals as numbers, lists and structs as such, all else as text."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
