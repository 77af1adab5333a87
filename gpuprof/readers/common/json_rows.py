"""Objects of a JSON document as rows of a table: values of a column's type, from either type."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from gpuprof.base.json_values import integer, number, text
from gpuprof.model import schema

Row = dict[str, Any]


_READ: Final[Mapping[str, Callable[[object], Any]]] = {
    schema.INT: integer,
    schema.FLOAT: number,
    schema.TEXT: text,
    schema.FLAG: lambda value: value if isinstance(value, bool) else None,
}


def typed(table: schema.Schema, rows: object) -> list[Row]:
    """Rows with the columns of a table; null where a value is absent or of no such type.

    Raises:
        TypeError: They are no list of objects.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        msg = f"{table.name} is not a list of objects"
        raise TypeError(msg)
    return [
        {name: _READ[column.dtype](row.get(name)) for name, column in table.columns.items()}
        for row in rows
    ]
