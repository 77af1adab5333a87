"""Columns of a table of a SQLite file: from its pages where that is certain, else by other ways.

The compiled functions know plain tables of integers and texts. What they do not know (texts in
UTF-16, REAL, a column that was added later with a default) Apache Arrow's driver for SQLite reads.
Views, which may be any query, and columns that hold other types than their tool writes come row
by row through Python's sqlite3, which casts each value and bounds the work. All give the same
values.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.base.errors import ROOM, CorruptFileError, InputError, excerpt
from gpuprof.model import schema
from gpuprof.model.schema import arrow
from gpuprof.model.spilling import InMemory, Packed
from gpuprof.model.words import narrowed
from gpuprof.native import pages
from gpuprof.readers.common.compact_columns import Integers

if TYPE_CHECKING:
    from gpuprof.readers.sqlite.source import SqliteFile

_ROWID: Final = -1
# Of more different texts, few recur.
_MANY_TEXTS: Final = 1 << 12
# Bytes that are shown as they are of a text that is no UTF-8.
_PLAIN: Final = frozenset(range(32, 127)) - frozenset(b"\\'\"")
_HINT: Final = "Export the file again; was it edited?"
Kinds = Mapping[str, pa.DataType]
# Integers of any width, texts as a dictionary where they recur.
Columns = dict[str, InMemory]


def quoted(name: str) -> str:
    """SQL: a name."""
    return '"' + name.replace('"', '""') + '"'


class NotReadError(Exception):
    """A way of reading does not know what a table holds."""


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
    """

    root: int
    name: str
    place: int
    kind: str
    key: int
    default: str | None
    hidden: int


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
    *ways, last = WAYS
    for way in ways:
        try:
            return way(file, table, kinds)
        except (NotReadError, pages.NotDecodedError):
            continue
    return last(file, table, kinds)


def from_pages(file: "SqliteFile", table: str, kinds: Kinds) -> dict[str, InMemory]:
    """The same by compiled functions alone, all columns in the same pieces.

    Raises:
        CorruptFileError: The file is damaged.
        InputError: Another program writes the file, or memory does not suffice.
        NotReadError: It is no plain table, or some of its rows wait in another file.
        NotDecodedError: The functions are not there, or do not know the layout.
    """
    if file.keep is not None:
        raise NotReadError  # some of its rows wait in a file beside it
    columns = file.declared.get(table, [])
    if not columns or any(column.hidden for column in columns):
        raise NotReadError  # a view, or rows without ids, or values that no row holds
    declared = {column.name: column for column in columns}
    keys, fields = sum(column.key > 0 for column in columns), []
    for name, kind in kinds.items():
        column = declared[name]
        if column.default not in {None, "NULL"} or pa.types.is_floating(kind):
            raise NotReadError
        if pa.types.is_string(kind) and not file.is_utf_8:
            raise NotReadError
        # SQLite stores a key of this very type as the row's id, and NULL in its place.
        is_id = column.key == keys == 1 and column.kind == "INTEGER"
        holds = {pa.string(): pages.TEXTS, pa.binary(): pages.BYTES}.get(kind, pages.INTEGERS)
        fields.append(pages.Field(_ROWID if is_id else column.place, holds))
    with file.locked() as descriptor:
        try:
            decoded = pages.decode(descriptor, columns[0].root, fields)
        except MemoryError as error:
            msg = f"{file.path} needs more memory than is available"
            raise InputError(msg, ROOM) from error
    by_name = zip(kinds.items(), decoded, strict=True)
    return {name: _of_pages(values, kind) for (name, kind), values in by_name}


def _of_pages(decoded: pages.Decoded, kind: pa.DataType) -> InMemory:
    if decoded.meanings is not None:
        return Packed(decoded.parts, decoded.meanings, has_nulls=decoded.nulls > 0)
    if decoded.texts is not None:
        if pa.types.is_binary(kind):
            return _dictionary(decoded.parts, [text.hex() for text in decoded.texts])
        texts: list[str] = []
        with suppress(UnicodeDecodeError):  # all at once where none holds what stands between them
            texts = b"\0".join(decoded.texts).decode().split("\0")
        if len(texts) != len(decoded.texts):
            texts = [*map(readable, decoded.texts)]
        return _dictionary(decoded.parts, texts)
    parts = [
        arrow(values, values == np.iinfo(values.dtype).min if decoded.nulls else None)
        for values in decoded.parts
    ]
    return pa.chunked_array(parts, parts[0].type if parts else pa.int8())


def _by_adbc(file: "SqliteFile", table: str, kinds: Kinds) -> Columns:
    columns = file.declared.get(table, [])
    if not columns or any(column.hidden for column in columns) or not file.is_utf_8:
        raise NotReadError
    batches = [*file.batches(_select(table, kinds, "BLOB"))]
    return {
        name: _of_batches([batch.column(place) for batch in batches], kind)
        for place, (name, kind) in enumerate(kinds.items())
    }


def _select(table: str, kinds: Kinds, text: str) -> str:
    """SQLite's SQL for columns, all values of those with texts as this type."""
    as_text = {
        pa.string(): f"CAST({{}} AS {text})",
        pa.binary(): f"CAST(lower(hex({{}})) AS {text})",
    }
    columns = (as_text.get(kind, "{}").format(quoted(name)) for name, kind in kinds.items())
    return f"SELECT {', '.join(columns)} FROM {quoted(table)}"


def _of_batches(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(parts)
    if any(part.type != kind and part.null_count < len(part) for part in parts):
        raise NotReadError
    if pa.types.is_floating(kind):
        return pa.concat_arrays([p if p.type == kind else pa.nulls(len(p), kind) for p in parts])
    numbers, are_null = [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
    for part in parts:
        is_null = part.is_null().to_numpy(zero_copy_only=False)
        is_unknown = part.null_count == len(part)  # then it is of any type
        values = (
            np.zeros(len(part), np.int64)
            if is_unknown
            else np.frombuffer(part.buffers()[1], np.int64)[part.offset :][: len(part)]
        )
        numbers.append(np.where(is_null, 0, values))
        are_null.append(is_null)
    return arrow(narrowed(np.concatenate(numbers)), np.concatenate(are_null))


def _texts(parts: Iterable[pa.Array]) -> pa.Array:
    places: dict[str, int] = {}
    codes = [np.empty(0, np.int64)]
    for part in parts:
        is_unknown = part.null_count == len(part)  # then it is of any type
        encoded = (pa.nulls(len(part), pa.binary()) if is_unknown else part).dictionary_encode()
        texts = [
            places.setdefault(readable(t), len(places)) for t in encoded.dictionary.to_pylist()
        ]
        indices = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        codes.append(np.array([*texts, pages.NULL_TEXT])[indices])
    return _dictionary([narrowed(np.concatenate(codes))], [*places])


def _dictionary(codes: Sequence[Integers], texts: Sequence[str]) -> pa.ChunkedArray:
    different = schema.texts([*texts])
    indices = [arrow(part, part == pages.NULL_TEXT) for part in codes or [np.empty(0, np.int8)]]
    parts = [pa.DictionaryArray.from_arrays(part, different) for part in indices]
    # What hardly recurs is handed over as it is: readers take a dictionary anew with each part.
    return pa.chunked_array(
        [p.dictionary_decode() if len(texts) > _MANY_TEXTS else p for p in parts]
    )


def _by_rows(file: "SqliteFile", table: str, kinds: Kinds) -> Columns:
    where, before = f"{file.path}, table {table}", 0
    types = {n: pa.string() if pa.types.is_binary(kind) else kind for n, kind in kinds.items()}
    parts: dict[str, list[pa.Array]] = {name: [pa.array([], kind)] for name, kind in types.items()}
    for rows in file.bounded_rows(_select(table, kinds, "TEXT")):
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


# From the fastest to the one that reads everything.
WAYS: Final = (from_pages, _by_adbc, _by_rows)


def readable(text: bytes) -> str:
    r"""A text whose bytes need not be UTF-8: then the others as ``\xE4``.

    A name cut in the middle of a character is a name still, and two such names stay two.
    """
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if b in _PLAIN else f"\\x{b:02X}" for b in text)
