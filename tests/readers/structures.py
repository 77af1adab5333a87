"""Changes that know formats: typed values, columns, members of archives, trees, records.

`changed` tells from the content which format it is of, and gives it back with another structure:
what remains is mostly still a file of its format, which a change of bytes seldom leaves.
"""

import gzip
import io
import json
import math
import re
import sqlite3
import tempfile
import warnings
import zipfile
import zlib
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from xspaces import number as varint

INTEGERS = (
    -1, -2, -(2**15), 0, 1, 2, 255, -(2**31), 2**31, 2**32 - 1, 2**53 + 1, 2**62, -(2**62),
    2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**24,
)  # fmt: skip
FLOATS = (0.5, -0.5, -0.0, 1.5e-320, 1e308, math.nan, math.inf, -math.inf, 2.0**63, 1e300)
TEXTS = (
    "", " ", "0", "-1", "1.5", "abc", "null", "nan", "true", "12 ns", "0x1f", "1,000", "99" * 12,
    "\0", "\x1b]0;title\x07", "\u202etxt", "|`*_", "</script><b>", "=1+1", "-1+1", "@x", "../../x",
    "/dev/zero", "x" * 5000, "\N{SNOWMAN}" * 40, "line\nline", "\ufeff", "'\"\\;--",
    "$x$", "https://example.org/x", "x" * 100_000,
)  # fmt: skip
EMPTY = (None, True, False)
TREES = ([], {}, [1], ["a"], {"a": 1}, [[]], [None], {"": {}}, [{}], [-1, "b", 0.5])
NESTING = 10_000

# Contents that stand for what is no file; `fuzz_structure` makes it.
LOOP, PIPE = b"a link to itself", b"a pipe that nobody writes into"
SQLITE = b"SQLite format 3\0"
_NUMBER = re.compile(rb"-?\d[\d.,]*(?:[eE][-+]?\d+)?")
_DECLARED = ("INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC", "", "BOOLEAN", "DATE", "DECIMAL(20,5)")
_KINDS = (
    pa.string(), pa.large_string(), pa.binary(), pa.float64(), pa.float32(), pa.int8(), pa.int32(),
    pa.int64(), pa.uint64(), pa.bool_(), pa.null(), pa.decimal128(38, 4), pa.list_(pa.int64()),
    pa.list_(pa.string()), pa.struct([("a", pa.int64())]), pa.timestamp("ns"), pa.date32(),
    pa.duration("ns"), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


def changed(content, rng):
    """The content of a file with one change of its structure."""
    for is_of, change in _FORMATS:
        if is_of(content):
            with suppress(*_UNREADABLE):
                return change(content, rng)
    return _text(content, rng)


def changed_files(files, rng):
    """The files of a recording, by their paths in its folder, with one change."""
    names = sorted(files)
    name = rng.choice(names)
    if rng.random() < 0.01:
        return {**files, name: rng.choice((LOOP, PIPE))}
    if len(names) > 1 and rng.random() < 0.1:
        without = {n: content for n, content in files.items() if n != name}
        source = rng.choice(sorted(without))
        return rng.choice((without, without | {name: b""}, without | {name: without[source]}))
    return {**files, name: changed(files[name], rng)}


def value(rng):
    """Any value that a cell may hold."""
    return rng.choice(rng.choice((INTEGERS, FLOATS, TEXTS, EMPTY, TREES)))


# Trees of JSON.


def tree(node, rng):
    """A value of JSON with one node changed, or all of one name."""
    places = list(_places(node))
    if not places:
        return value(rng)
    path = rng.choice(places)
    current, source = _at(node, path), rng.choice(places)
    (change,) = rng.choices(*zip(*_TREE_CHANGES, strict=True))
    changes = {
        "everywhere": lambda: _everywhere(node, path[-1], value(rng)),
        "without": lambda: _without(node, path),
        "elsewhere": lambda: _with(node, path, _at(node, source)),
        "repeated": lambda: _with(node, path, [current] * rng.randint(1, 3)),
        "nested": lambda: _with(node, path, _nested()),
        "retyped": lambda: _with(node, path, _retyped(current, rng)),
        "replaced": lambda: _with(node, path, value(rng)),
    }
    return changes[change]()


# With how often each is made, in percent.
_TREE_CHANGES = (
    ("everywhere", 15), ("without", 10), ("elsewhere", 7), ("repeated", 5), ("nested", 1),
    ("retyped", 12), ("replaced", 50),
)  # fmt: skip


def _nested():
    node = []
    for _ in range(NESTING):
        node = [node]
    return node


def _retyped(node, rng):
    forms = [str(node), [node], {"value": node}, bool(node)]
    if isinstance(node, (int, float)):
        forms += [-node, float(node) if abs(node) < 1e300 else 0.0, node * 10**6, f"{node}"]
    if isinstance(node, str):
        forms += [len(node), node * 300, node.encode().hex(), node[::-1]]
    if isinstance(node, list):
        forms += [dict(enumerate(map(str, node))), node[::-1], node[:1]]
    return rng.choice(forms)


def _places(node, path=()):
    items = enumerate(node) if isinstance(node, list) else ()
    for key, child in node.items() if isinstance(node, dict) else items:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _at(node, path):
    for key in path:
        node = node[key]
    return node


def _with(node, path, new):
    if not path:
        return new
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = _with(copy[path[0]], path[1:], new)
    return copy


def _without(node, path):
    copy = dict(node) if isinstance(node, dict) else list(node)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = _without(copy[path[0]], path[1:])
    return copy


def _everywhere(node, key, new):
    if isinstance(node, dict):
        return {k: new if k == key else _everywhere(v, key, new) for k, v in node.items()}
    return [_everywhere(child, key, new) for child in node] if isinstance(node, list) else node


def dumped(node):
    """A tree as text, whatever its depth."""
    try:
        return json.dumps(node).encode()
    except RecursionError:
        return json.dumps(None).encode() if not isinstance(node, (dict, list)) else _deep(node)


def _deep(node):
    marker = "a place that is nested deeply"
    shallow = _shallow(node, marker)
    nested = "[" * NESTING + "]" * NESTING
    return json.dumps(shallow).replace(json.dumps(marker), nested).encode()


def _shallow(node, marker, depth=0):
    if depth > 60:
        return marker
    if isinstance(node, dict):
        return {key: _shallow(child, marker, depth + 1) for key, child in node.items()}
    if isinstance(node, list):
        return [_shallow(child, marker, depth + 1) for child in node]
    return node


def _json(content, rng):
    return dumped(tree(json.loads(content), rng))


def _lines_of_json(content, rng):
    lines = content.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = dumped(tree(json.loads(lines[at]), rng))
    return b"\n".join(lines) + b"\n"


def _are_lines_of_json(content):
    head = content[:2000].splitlines()
    return len(head) > 1 and all(_is_json(line) for line in head[:2])


def _is_json(content):
    if content.lstrip()[:1] not in {b"{", b"["}:
        return False
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


# Tables of Arrow and Parquet.


def table(rows, rng):
    """A table of Arrow with a column or some rows changed."""
    if not rows.num_columns:
        return pa.table({"a": [rng.choice(EMPTY)]})
    at = rng.randrange(rows.num_columns)
    name, column = rows.column_names[at], rows.column(at)
    renamed = [f"{n}?" if n == name else n for n in rows.column_names]
    (change,) = rng.choices(*zip(*_TABLE_CHANGES, strict=True))
    changes = {
        "without": lambda: rows.remove_column(at),
        "renamed": lambda: rows.rename_columns(renamed),
        "twice": lambda: rows.append_column(rng.choice(rows.column_names), column),
        "longer": lambda: pa.concat_tables([rows, rows.slice(0, rng.randint(0, 3))]),
        "shorter": lambda: rows.slice(rng.randint(0, 2), rng.randint(0, 3)),
        "cast": lambda: rows.set_column(at, name, _cast(column, rng.choice(_KINDS))),
        "filled": lambda: rows.set_column(at, name, _filled(column, rng)),
    }
    return changes[change]()


_TABLE_CHANGES = (
    ("without", 10), ("renamed", 5), ("twice", 5), ("longer", 5), ("shorter", 5), ("cast", 30),
    ("filled", 40),
)  # fmt: skip


def _cast(column, kind):
    with suppress(pa.ArrowException):
        return column.cast(kind, safe=False)
    with suppress(pa.ArrowException):
        return column.cast(pa.string()).cast(kind)
    return pa.nulls(len(column), kind)


def _filled(column, rng):
    """One cell or all of them with another value, of its type where it can be, else of another."""
    new, values = value(rng), column.to_pylist()
    if rng.random() < 0.5 and values:
        values[rng.randrange(len(values))] = new
    else:
        values = [new] * len(values)
    for kind in (column.type, pa.int64(), pa.uint64(), pa.float64(), pa.string()):
        with suppress(pa.ArrowException, OverflowError):
            return pa.array(values, kind)
    with suppress(pa.ArrowException, OverflowError):
        return pa.array([new] * len(values))
    return pa.array([str(v) for v in values])


def _parquet(content, rng):
    """A file with another table, or with other bytes in a page or in what describes the pages."""
    if rng.random() < 0.25:
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] ^= rng.randrange(1, 256)
        return bytes(damaged)
    out = io.BytesIO()
    parquet.write_table(table(parquet.read_table(io.BytesIO(content)), rng), out)
    return out.getvalue()


def _arrow(content, rng):
    rows = table(pa.ipc.open_stream(content).read_all(), rng)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows)
    return out.getvalue()


# Databases of SQLite.


def database(content, rng):
    """A database with one table, column, cell or definition changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.sqlite"
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection:
            connection.text_factory = bytes
            _change(connection, rng)
            connection.commit()
        return path.read_bytes()


def _change(connection, rng):
    sql = "SELECT CAST(name AS BLOB) FROM sqlite_master WHERE type = 'table'"
    tables = [n.decode() for (n,) in connection.execute(sql) if not n.startswith(b"sqlite_")]
    filled = [t for t in tables if connection.execute(f'SELECT 1 FROM "{t}" LIMIT 1').fetchall()]
    name = rng.choice(filled or tables)
    declared = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = [(column[1].decode(), column[2].decode()) for column in declared]
    chosen, partner = rng.choice(columns)[0], rng.choice(columns)[0]
    retyped = [(c, rng.choice(_DECLARED) if c == chosen else kind) for c, kind in columns]
    without = [column for column in columns if column[0] != chosen]
    swap = f'UPDATE "{name}" SET "{chosen}" = "{partner}", "{partner}" = "{chosen}"'
    view = f'CREATE VIEW "{name}" AS SELECT * FROM "before"'
    (change,) = rng.choices(*zip(*_DATABASE_CHANGES, strict=True))
    if change in {"retyped", "retyped and set"}:
        _remake(connection, name, retyped)
    if change in {"set", "retyped and set"}:
        _set(connection, name, chosen, rng)
    if change in {"without", "swapped", "twice"}:
        _remake(connection, name, without if change == "without" else columns)
    statements = {
        "swapped": [swap],
        "twice": [f'INSERT INTO "{name}" SELECT * FROM "{name}"'],
        "dropped": [f'DROP TABLE "{name}"'],
        "view": [f'ALTER TABLE "{name}" RENAME TO "before"', view],
        "emptied": [f'DELETE FROM "{name}"'],
    }
    for statement in statements.get(change, ()):
        connection.execute(statement)


_DATABASE_CHANGES = (
    ("set", 45), ("retyped", 6), ("retyped and set", 14), ("without", 10), ("swapped", 5),
    ("dropped", 5), ("twice", 5), ("view", 5), ("emptied", 5),
)  # fmt: skip


def _set(connection, name, column, rng):
    new = value(rng)
    if isinstance(new, (list, dict)):
        new = rng.choice((b"", b"\xff\xfe", b"bytes", bytes(9)))
    if isinstance(new, int) and abs(new) >= 2**63:
        new = float(new)
    if isinstance(new, float) and math.isnan(new):
        new = None
    condition = (
        " WHERE rowid IN (SELECT rowid FROM {} LIMIT 1 OFFSET {})" if rng.random() < 0.5 else ""
    )
    where = condition.format(f'"{name}"', rng.randint(0, 3))
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(f'UPDATE OR REPLACE "{name}" SET "{column}" = ?{where}', [new])


def _remake(connection, name, columns):
    """The same rows in a table of these columns, without constraints."""
    if not columns:
        return
    declared = ", ".join(f'"{column}" {kind}' for column, kind in columns)
    listed = ", ".join(f'"{column}"' for column, _ in columns)
    connection.execute(f'ALTER TABLE "{name}" RENAME TO "before"')
    connection.execute(f'CREATE TABLE "{name}" ({declared})')
    connection.execute(f'INSERT INTO "{name}" SELECT {listed} FROM "before"')
    connection.execute('DROP TABLE "before"')


# Archives.


def _zip(content, rng):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at, source = rng.randrange(len(members)), rng.randrange(len(members))
    name, body = members[at]
    kind, packing = rng.random(), zipfile.ZIP_STORED
    if kind < 0.6:
        members[at] = name, changed(body, rng)
    elif kind < 0.67:
        members[at] = name, body[: rng.randint(0, len(body))]
    elif kind < 0.74:
        members[at], members[source] = (name, members[source][1]), (members[source][0], body)
    elif kind < 0.8:
        del members[at]
    elif kind < 0.86:
        members.append((name, members[source][1]))
    elif kind < 0.92:
        members[at] = rng.choice((members[source][0], "../x", "/x", name.upper(), "")), body
    else:
        packing = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    return _zipped(members, packing)


def _zipped(members, packing):
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", packing) as archive:
        warnings.simplefilter("ignore")  # of two members of one name
        for name, body in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = packing
            archive.writestr(info, body)
    return out.getvalue()


def _gzip(content, rng):
    return gzip.compress(changed(gzip.decompress(content), rng), 1)


# Records of protocol buffers.


def record(content, rng):
    """A message with one field changed, at any depth that the content can be read to."""
    fields = _fields(content)
    if not fields:
        return rng.choice((b"", b"\x08\x01", b"\xff" * 12))
    at = rng.randrange(len(fields))
    key, kind, body = fields[at]
    inner = _fields(body) if kind == 2 else None
    chance = rng.random()
    if inner and chance < 0.85:
        fields[at] = key, kind, record(body, rng)
    elif chance < 0.88:
        del fields[at]
    elif chance < 0.91:
        fields.insert(rng.randrange(len(fields)), fields[at])
    elif chance < 0.93:
        fields[at] = rng.randint(1, 12), kind, body
    else:
        fields[at] = (key, *_body(kind, rng))
    return b"".join(_written(*field) for field in fields)


def _body(kind, rng):
    if rng.random() < 0.3:
        kind = rng.choice((0, 1, 2, 5))
    if kind == 0:
        return kind, rng.choice(INTEGERS) % 2**64
    if kind == 2:
        return kind, rng.choice(TEXTS).encode()
    return kind, rng.randbytes(8 if kind == 1 else 4)


def _written(key, kind, body):
    head = varint(key << 3 | kind)
    if kind == 0:
        return head + varint(body)
    return head + (varint(len(body)) if kind == 2 else b"") + body


def _fields(content):
    """The fields of a message; None where it is none."""
    fields, at = [], 0
    while at < len(content):
        tag, at = _number(content, at)
        if tag is None or not tag >> 3 or tag & 7 not in {0, 1, 2, 5}:
            return None
        kind = tag & 7
        if kind == 0:
            body, at = _number(content, at)
            if body is None:
                return None
        else:
            size, at = _number(content, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            if size is None or at + size > len(content):
                return None
            body, at = content[at : at + size], at + size
        fields.append((tag >> 3, kind, body))
    return fields


def _number(content, at):
    number = shift = 0
    while at < len(content) and shift < 64:
        number |= (content[at] & 0x7F) << shift
        at += 1
        if content[at - 1] < 0x80:
            return number, at
        shift += 7
    return None, at


# Tables printed as text.


def _text(content, rng):
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.4:
        lines[at] = _number_replaced(lines[at], rng)
    elif kind < 0.6:
        place, new = rng.randrange(12), _printed(rng)
        lines = [_cell_replaced(line, place, new) for line in lines]
    elif kind < 0.7:
        place = rng.randrange(12)
        lines = [_cell_replaced(line, place, None) for line in lines]
    elif kind < 0.8:
        lines[at:at] = [lines[rng.randrange(len(lines))]] * rng.randint(1, 3)
    elif kind < 0.9:
        del lines[at]
    else:
        words = lines[at].split(b" ")
        words[rng.randrange(len(words))] = _printed(rng)
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


def _printed(rng):
    new = value(rng)
    return (new if isinstance(new, str) else json.dumps(new)).encode()


def _number_replaced(line, rng):
    numbers = list(_NUMBER.finditer(line))
    if not numbers:
        return line
    number = rng.choice(numbers)
    return line[: number.start()] + _printed(rng) + line[number.end() :]


def _cell_replaced(line, place, new):
    cells = line.split(b",")
    if place < len(cells) > 2:
        cells[place : place + 1] = [] if new is None else [new]
    return b",".join(cells)


def _is_space(content):
    """Whether it is an XSpace of XLA's profilers: a first plane, which has a name."""
    return content[:1] == b"\x0a" and bool(_fields(content))


_UNREADABLE = (
    ValueError, RecursionError, sqlite3.Error, pa.ArrowException, zipfile.BadZipFile, zlib.error,
    EOFError, NotImplementedError, IndexError, OSError, KeyError,
)  # fmt: skip
_FORMATS = (
    (lambda content: content.startswith(SQLITE), database),
    (lambda content: content.startswith(b"PK\x03\x04"), _zip),
    (lambda content: content.startswith(b"PAR1"), _parquet),
    (lambda content: content.startswith(b"\xff\xff\xff\xff"), _arrow),
    (lambda content: content.startswith(b"\x1f\x8b"), _gzip),
    (_are_lines_of_json, _lines_of_json),
    (_is_json, _json),
    (_is_space, record),
)
