"""The answer of a query: its columns under their own names, its values as they are."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses import all_analyses
from gpuprof.base.units import counted
from gpuprof.facts import derived_tables
from gpuprof.model.data_model import TABLES
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Column
from gpuprof.show import Page, csv, json, renderer_named
from gpuprof.show.listing import unit_of
from gpuprof.show.overview import Grid

_SCHEMA: Final = ("table", "column", "type", "unit", "meaning")
_PLAIN: Final = (bool, int, float, str, type(None))


def answer_text(
    answer: tuple[Sequence[str], Sequence[tuple[Any, ...]]],
    notes: Sequence[str],
    origin: Origin | None,
    form: str,
    page: Page,
) -> str:
    """An answer, as `gpuprof.sql.query` gives it, in a format of ``--format``; csv has no notes.

    The origin is that of the recording; None where the answer is about none.
    """
    names, rows = answer
    plain = [tuple(map(_plain, row)) for row in rows]
    if form in {"csv", "json"}:
        records = [dict(zip(names, row, strict=True)) for row in plain]
        if form == "csv":
            return csv.rows_text(names, records)
        return json.versioned_text(
            {
                "origin": origin and origin.shown(),
                "columns": names,
                "rows": records,
                "notes": notes,
            }
        )
    cells = [tuple("n/a" if value is None else str(value) for value in row) for row in plain]
    texts = [place for place in range(len(names)) if any(isinstance(r[place], str) for r in plain)]
    grids = [Grid("", tuple(names), tuple(cells), tuple(texts))]
    head = f"{f'{origin.source}: ' if origin else ''}{counted(len(rows), 'row', 'rows')}"
    return renderer_named(form).grids_text(head, grids, notes, page)


def schema_table(profile: Profile | None) -> pa.Table:
    """The tables and columns that a query can name, with their types, units and meanings.

    Args:
        profile: The recording; None for what any recording may have.
    """
    recorded = [table for table in TABLES if profile is None or table.name in profile.sources]
    names = {table.name for table in recorded}
    answers = [a.schema for a in all_analyses() if profile is None or not a.missing(profile)]
    twice = names & {schema.name for schema in answers}
    rows: list[tuple[Any, ...]] = []
    for table in (*recorded, *answers):
        is_hidden = table in recorded and table.name in twice
        name = f"recorded.{table.name}" if is_hidden else table.name
        rows += [(name, n, c.dtype, unit_of(c), c.meaning) for n, c in table.columns.items()]
        if table in recorded:
            rows += _derived_rows(name, derived_tables.COLUMNS.get(table.name, {}))
    for name, (derived, _) in derived_tables.TABLES.items():
        if derived_tables.SOURCE in names:
            rows += _derived_rows(name, derived.columns)
    return pa.table(dict(zip(_SCHEMA, zip(*rows, strict=True), strict=True)))


def _derived_rows(table: str, columns: Mapping[str, Column]) -> list[tuple[Any, ...]]:
    return [
        (table, name, column.dtype, unit_of(column), f"Derived. {column.meaning}")
        for name, column in columns.items()
    ]


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
