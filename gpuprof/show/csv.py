"""CSV in base units: integer nanoseconds, bytes, fractions; an empty cell where unknown.

A text that a spreadsheet would take for a formula, as it begins with =, +, - or @, has an
apostrophe before it, which spreadsheets take for the sign of a text. Numbers are never changed.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gpuprof.analyses.reports import Report
from gpuprof.show import Page
from gpuprof.show.cells import clean

if TYPE_CHECKING:
    from gpuprof.comparisons import Comparison

# Spreadsheets pass over what is blank before it.
_FORMULA: Final = re.compile(r"\s*[=+\-@]")


def report(result: Report, page: Page) -> str:
    """One table: the totals, or the one that was asked for; several with a column that tells."""
    names = page.tables or ("totals",)
    tables = {name: result.tables[name] for name in names}
    rows = [
        ({"table": name} if len(tables) > 1 else {}) | row
        for name, table in tables.items()
        if table is not None
        for row in table.to_pylist()
    ]
    columns = [c for t in tables.values() if t is not None for c in t.column_names]
    return rows_text((["table"] if len(tables) > 1 else []) + list(dict.fromkeys(columns)), rows)


def comparison(result: "Comparison", page: Page) -> str:
    """One row per variant, one column per metric; or every kernel of every candidate.

    Of recordings with several phases there is a row per phase, of one that is not compared with
    its steps alone.
    """
    if page.tables is not None:
        return rows_text(result.kernels.column_names, result.kernels.to_pylist())
    columns = result.variants.column_names
    if result.phase is None:
        return rows_text(columns, result.variants.to_pylist())
    compared = [
        row | {"phase": of_phase.phase}
        for of_phase in (result, *result.other_phases)
        for row in of_phase.variants.to_pylist()
    ]
    return rows_text(["phase", *columns], [*compared, *result.uncompared.to_pylist()])


def rows_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows under their columns' names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: text_cell(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows
    )
    return text.getvalue()


def text_cell(text: str) -> str:
    """A text without what steers a terminal or is computed."""
    text = clean(text)
    return f"'{text}" if _FORMULA.match(text) else text
