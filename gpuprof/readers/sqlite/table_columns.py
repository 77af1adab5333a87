"""Columns of a table of a SQLite file: from its pages where that is certain, else row by row.

The compiled functions know plain tables of integers and texts. What they do not know (texts in
UTF-16, REAL, a column that was added later with a default, views, which may be any query, and
columns that hold other types than their tool writes) comes through Python's sqlite3, which casts
each value and bounds the work. Both give the same values.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from gpuprof.base.errors import ROOM, CorruptFileError, InputError, excerpt
from gpuprof.model.spilling import InMemory, Packed
from gpuprof.native import pages

if TYPE_CHECKING:
    from gpuprof.readers.sqlite.source import SqliteFile

_ROWID: Final = -1
# Bytes that are shown as they are of a text that is no UTF-8.
_PLAIN: Final = frozenset(range(32, 127)) - frozenset(b"\\'\"")
_HINT: Final = "Export the file again; was it edited?"
Kinds = Mapping[str, pa.DataType]
Columns = dict[str, InMemory]


def quoted(name: str) -> str:
    """SQL: a name."""
    return '"' + name.replace('"', '""') + '"'


class Declared(NamedTuple):
    """A column as the file declares it.

    Args:
        root: The root page of its table.
        name: Its name.
        place: Its place in the table.
        kind: Its type, in capitals.
        key: Its place in the primary key, from 1; 0 where it is outside the key.
        default: SQL of its default.
        hidden: Not 0 where rows do not hold it.
        is_required: 1 where SQLite wrote no NULL into it.
    """

    root: int
    name: str
    place: int
    kind: str
    key: int
    default: str | None
    hidden: int
    is_required: int


def read(file: "SqliteFile", table: str, kinds: Kinds) -> Columns:
    """Columns of a table in the order of its rows, numbers in the fewest bytes that hold them.

    Args:
        file: The database.
        table: A table or a view.
        kinds: The wanted columns, with the type of what each holds: int64, float64, string or
            binary, which is given as the text of its hexadecimal digits.

    Raises:
        CorruptFileError: The file breaks while it is read, or a column has another type.
        InputError: Another program writes the file, or memory does not suffice.
    """
    if (fields := decoded_fields(file, table, kinds)) is None:
        return by_rows(file, table, kinds)
    try:
        with file.connected() as connection, file.locked(connection) as descriptor:
            try:
                decoded = pages.decode(descriptor, file.declared[table][0].root, fields)
            except MemoryError as error:
                msg = f"{file.path} needs more memory than is available"
                raise InputError(msg, ROOM) from error
    except pages.NotDecodedError:
        return by_rows(file, table, kinds)
    by_name = zip(kinds.items(), decoded, strict=True)
    return {name: _of_pages(values, kind) for (name, kind), values in by_name}


def decoded_fields(file: "SqliteFile", table: str, kinds: Kinds) -> list[pages.Field] | None:
    """How the compiled functions decode these columns; None where SQLite itself must read them."""
    columns = file.declared.get(table, [])
    # Rows may wait in a file beside it; a view, or rows without ids; or values that no row holds.
    if file.keep is not None or not columns or any(column.hidden for column in columns):
        return None
    declared = {column.name: column for column in columns}
    keys, fields = sum(column.key > 0 for column in columns), []
    for name, kind in kinds.items():
        column = declared[name]
        if column.default not in {None, "NULL"} or pa.types.is_floating(kind):
            return None
        if pa.types.is_string(kind) and not file.is_utf_8:
            return None
        # SQLite stores a key of this very type as the row's id, and NULL in its place.
        is_id = column.key == keys == 1 and column.kind == "INTEGER"
        holds = {pa.string(): pages.TEXTS, pa.binary(): pages.BYTES}.get(kind, pages.INTEGERS)
        fields.append(pages.Field(_ROWID if is_id else column.place, holds))
    return fields


def _of_pages(decoded: pages.Decoded, kind: pa.DataType) -> Packed:
    parts, meanings, nulls, texts = decoded
    if texts is None:
        return Packed(parts, meanings, has_nulls=nulls > 0)
    words: list[str | None] = []
    if pa.types.is_binary(kind):
        words += map(bytes.hex, texts)
    else:
        with suppress(UnicodeDecodeError):  # all at once where none holds what stands between them
            words += b"\0".join(texts).decode().split("\0")
        if len(words) != len(texts):
            words = [*map(readable, texts)]
    return Packed(parts, words=[*words, None] if nulls else words)


def by_rows(file: "SqliteFile", table: str, kinds: Kinds) -> Columns:
    """The same through Python's sqlite3, whatever the file holds.

    Raises:
        CorruptFileError: The file breaks while it is read, or a column has another type.
        InputError: Another program writes the file.
    """
    where, before = f"{file.path}, table {table}", 0
    as_text = {pa.string(): "CAST({} AS TEXT)", pa.binary(): "CAST(lower(hex({})) AS TEXT)"}
    columns = (as_text.get(kind, "{}").format(quoted(name)) for name, kind in kinds.items())
    types = {n: pa.string() if pa.types.is_binary(kind) else kind for n, kind in kinds.items()}
    parts: dict[str, list[pa.Array]] = {name: [pa.array([], kind)] for name, kind in types.items()}
    for rows in file.bounded_rows(f"SELECT {', '.join(columns)} FROM {quoted(table)}"):
        for (name, kind), values in zip(types.items(), zip(*rows, strict=True), strict=True):
            try:
                # Told a type, Arrow would cut 1.5 to 1.
                parts[name].append(pa.array(values).cast(kind))
            except (pa.ArrowException, OverflowError):
                for row, value in enumerate(values, before + 1):
                    try:
                        parts[name].append(pa.array([value]).cast(kind))
                    except (pa.ArrowException, OverflowError) as error:
                        msg = f"{where}: column {name} holds {excerpt(value)} in row {row:,}"
                        raise CorruptFileError(msg, _HINT) from error
        before += len(rows)
    return {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}


def readable(text: bytes) -> str:
    r"""A text whose bytes need not be UTF-8: then the others as ``\xE4``.

    A name cut in the middle of a character is a name still, and two such names stay two.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if b in _PLAIN else f"\\x{b:02X}" for b in text)
