"""Columns of SQLite tables are equal from the pages and row by row."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from itertools import chain
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from contract import corpus_files, few_of_each_writer, params
from hypothesis import given
from hypothesis import strategies as st

from gpuprof import native
from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.model import spilling
from gpuprof.model.spilling import Packed, Spilled
from gpuprof.native import pages
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nvprof import activities as nvprof_activities
from gpuprof.readers.sqlite import source as sqlite_source
from gpuprof.readers.sqlite.source import MAGIC, SqliteFile, open_sqlite, quoted

PAGE_SIZES = [512, 1024, 4096, 65_536]
compiled = pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")

INTEGERS = st.integers(1 - 2**63, 2**63 - 1) | st.integers(-300, 300) | st.sampled_from([0, 1])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
LONG_TEXTS = st.builds(lambda text, count: text * count, TEXTS, st.integers(1, 400))
VALUES = {"INTEGER": INTEGERS, "TEXT": TEXTS | LONG_TEXTS, "INT PRIMARY KEY": None}


# What few different numbers of 64 bits, many, and small ones come to.
BASES = st.sampled_from([0, 1, 2**40, 2**63 - 2**33, -(2**63) + 1, 1_700_000_000 * 10**9])
SPREADS = st.sampled_from([1, 126, 127, 128, 2**31, 2**32 - 2, 2**32 - 1, 2**33 - 1])


@st.composite
def databases(draw):
    """The statements that make a table ``t``, its columns' names and types, and its rows."""
    kinds = draw(st.lists(st.sampled_from(["INTEGER", "TEXT"]), min_size=1, max_size=5))
    columns = {f"column {place}": kind for place, kind in enumerate(kinds)}
    row = st.tuples(*(VALUES[kind] | st.none() for kind in kinds))
    rows = draw(st.lists(row, max_size=40)) * draw(st.sampled_from([1, 1, 1, 60]))
    key = draw(st.sampled_from(["", "id INTEGER PRIMARY KEY, "]))
    declared = key + ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    return {
        "page_size": draw(st.sampled_from(PAGE_SIZES)),
        "encoding": draw(st.sampled_from(["UTF-8", "UTF-8", "UTF-16le"])),
        "table": f"CREATE TABLE t ({declared})",
        "columns": columns | ({"id": "INTEGER"} if key else {}),
        "insert": f"INSERT INTO t ({', '.join(map(quoted, columns))})"
        f" VALUES ({', '.join('?' * len(columns))})",
        "rows": rows,
        "deleted": draw(st.sampled_from(["0", "rowid % 3 = 0", "rowid > 7", "1"])),
        "added": draw(st.booleans()),
    }


def write(path, drawn):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {drawn['page_size']}")
        connection.execute(f"PRAGMA encoding = '{drawn['encoding']}'")
        connection.execute(drawn["table"])
        connection.executemany(drawn["insert"], drawn["rows"])
        connection.execute(f"DELETE FROM t WHERE {drawn['deleted']}")
        if drawn["added"]:
            connection.execute("ALTER TABLE t ADD COLUMN later INTEGER")
            connection.executemany(drawn["insert"], drawn["rows"][:5])
        connection.commit()
    return path


def made(path, declared, rows, page_size=4096):
    """A database with a table ``t`` of these columns and rows."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}")
        connection.execute(f"CREATE TABLE t {declared}")
        marks = ", ".join("?" * (declared.split(")")[0].count(",") + 1))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        connection.commit()
    return open_sqlite(path)


def plain(columns):
    return {name: listed(values) for name, values in columns.items()}


def listed(values):
    if isinstance(values, Packed):
        return [value for part in values.slices(7) for value in part.listed]
    return values.to_pylist()


def from_pages(file, table, kinds):
    """Columns by the compiled functions alone."""
    with mock.patch.object(SqliteFile, "by_rows", side_effect=pages.NotDecodedError):
        return file.read(table, kinds)


def ways(file, table, kinds):
    """What each way makes of columns, for those that read them."""
    results = {}
    for way in (from_pages, SqliteFile.by_rows):
        try:
            results[way.__name__] = plain(way(file, table, kinds))
        except pages.NotDecodedError:
            continue
    return results


@given(drawn=databases())
def test_every_way_gives_what_was_written(drawn):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "drawn.sqlite", drawn)
        file = open_sqlite(path)
        with closing(sqlite3.connect(path)) as connection:
            names = [*file.columns["t"]]
            rows = connection.execute(f"SELECT {', '.join(map(quoted, names))} FROM t")
            expected = dict(zip(names, zip(*rows, strict=True), strict=False))

        results = ways(file, "t", file.columns["t"])

    expected = {name: [*expected.get(name, ())] for name in names}
    is_decoded = native.library() is not None and drawn["encoding"] == "UTF-8"
    assert is_decoded <= ("from_pages" in results)
    assert all(columns == expected for columns in results.values())
    assert "by_rows" in results


@compiled
@given(
    parts=st.lists(st.tuples(BASES, SPREADS, st.booleans()), min_size=1, max_size=4),
    step=st.sampled_from([1, 50, 65_536]),
)
def test_numbers_that_are_kept_in_fewer_bytes_are_read_as_they_are(parts, step):
    steps = np.linspace(0, 1, 150)
    numbers = [
        None if has_nulls and i % 7 == 0 else base + int(spread * float(share))
        for base, spread, has_nulls in parts
        for i, share in enumerate(steps)
    ]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        rows = ((number, place) for place, number in enumerate(numbers))
        file = made(Path(folder) / "numbers.sqlite", "(a INTEGER, b INTEGER)", rows, 512)
        patch.setattr(pages, "_PAGES_AT_ONCE", 3)
        patch.setattr(pages, "BLOCK", 4)
        patch.setattr(pages, "_MOST_APART", 8)
        column = from_pages(file, "t", file.columns["t"])["a"]
        read = [values.listed for values in spilling.slices(column)]
        spilled = [values.listed for values in spilling.slices(Spilled(column))]

        assert (listed(column), len(column)) == (numbers, len(numbers))
        assert [*chain(*read)] == numbers
        assert [*chain(*spilled)] == numbers
        assert [*map(len, spilled)] == [*map(len, read)]
        if isinstance(column, Packed):
            assert [v for part in column.slices(step) for v in part.listed] == numbers
            if None not in numbers:
                low, places = step % 100, np.arange(7 * len(numbers), 0, -7) % len(numbers)
                assert column[low:140].tolist() == numbers[low:140]
                assert column[places].tolist() == [numbers[place] for place in places]
                assert column[places[:0]].tolist() == column[5:5].tolist() == []


@compiled
@pytest.mark.parametrize(
    ("numbers", "width"),
    [
        ([2**50 + i % 120 * 2**24 for i in range(300)], 1),
        ([2**50 + i % 200 * 2**24 for i in range(300)], 8),
        ([2**60 + i * 7 for i in range(300)], 4),
        ([2**60 + i for i in range(299)] + [2**60 + 2**31 - 1], 4),
        ([2**60 + i for i in range(256)] + [2**61 + i for i in range(44)], 4),
        ([2**60 + i for i in range(255)] + [2**61 + i for i in range(45)], 8),
        ([-(2**63) + 1 + i for i in range(256)] + [2**63 - 1 - i for i in range(44)], 4),
        ([-(2**63) + 1 + i for i in range(255)] + [2**63 - 1 - i for i in range(45)], 8),
        ([2**60 + i for i in range(299)] + [None], 8),
        ([-(2**60) - i for i in range(300)], 4),
    ],
)
def test_few_different_numbers_take_one_byte_and_times_close_together_four(
    tmp_path, numbers, width
):
    file = made(tmp_path / "t.sqlite", "(a INTEGER)", ((number,) for number in numbers))

    column = file.read("t", file.columns["t"])["a"]

    assert listed(column) == numbers
    size = column.get_total_buffer_size()
    assert width * len(numbers) <= size < (width + 1) * len(numbers)


def numbered(path, count, page_size=512):
    """A table of so many rows ``a``, ``b`` in pages so small that they lie several levels deep."""
    rows = ((i, f"text {i % 1000} {'x' * (i % 200)}") for i in range(count))
    return made(path, "(a INTEGER, b TEXT)", rows, page_size)


@compiled
def test_a_tree_of_several_levels_is_read_in_order_of_its_rows(tmp_path):
    file = numbered(tmp_path / "deep.sqlite", 60_000)

    columns = file.read("t", file.columns["t"])

    assert columns["a"].type == pa.int32()
    assert listed(columns["a"]) == [*range(60_000)]
    assert listed(columns["b"])[-1] == f"text 999 {'x' * 199}"


def test_bytes_are_read_as_their_digits(tmp_path):
    rows = [(b"\x00\xb7A",), (b"",), (b"\xff" * 700,), (b"\x00\xb7A",)]
    path = made(tmp_path / "x.sqlite", "(id BLOB)", rows).path
    file = open_sqlite(path, {"t": {"id": pa.binary()}})

    results = ways(file, "t", file.columns["t"])

    assert {*results} >= {"by_rows"} | ({"from_pages"} if native.library() is not None else set())
    assert all(c == {"id": [row.hex() for (row,) in rows]} for c in results.values())


@compiled
def test_nulls_stay_nulls_where_later_pieces_need_more_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_PAGES_AT_ONCE", 64)
    count = 60_000
    numbers = [None if i % 3 else i % 100 if i < count // 2 else i * 2**33 for i in range(count)]
    rows = [(number, None if number is None else f"text {number % 7}") for number in numbers]
    file = made(tmp_path / "wider.sqlite", "(a INTEGER, b TEXT)", rows, 512)

    columns = from_pages(file, "t", file.columns["t"])

    assert columns["a"].get_total_buffer_size() < columns["a"].type.byte_width * count
    assert plain(columns) == {"a": numbers, "b": [text for _, text in rows]}


@compiled
@pytest.mark.parametrize("text_place", [0, 20])
def test_rows_of_many_different_types_are_read(tmp_path, text_place):
    """More kinds of rows than the compiled functions keep, texts of one byte of type and of two."""
    numbers = [None, 0, 1, -1, 300, -(2**20), 2**30, 2**40, 2**60]
    names = [f"c{place}" for place in range(24)]
    rows = [[numbers[(i * (place + 1) + i // 9) % 9] for place in range(24)] for i in range(4_000)]
    for i, row in enumerate(rows):
        row[text_place] = "x" * (i % 70) if i % 11 else None
    kinds = ["TEXT" if place == text_place else "INTEGER" for place in range(24)]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    # Ids that take from one byte to nine.
    ids = [i - 2_000 if i < 2_000 else i * 2**50 // 4_000 for i in range(4_000)]
    with_ids = [[row_id, *row] for row_id, row in zip(ids, rows, strict=True)]
    file = made(tmp_path / "mixed.sqlite", f"(id INTEGER PRIMARY KEY, {columns})", with_ids)

    columns = from_pages(file, "t", file.columns["t"])

    expected = dict(zip(["id", *names], map(list, zip(*with_ids, strict=True)), strict=True))
    assert plain(columns) == expected


@compiled
def test_texts_that_are_made_to_collide_are_read_by_other_ways(tmp_path):
    """The time to look them up would grow with their square."""
    first = np.array([int.from_bytes(b"%08d" % i) for i in range(300_000)], np.uint64)
    mixed = (first ^ np.uint64(16)) * np.uint64(0x9E3779B97F4A7C15)
    second = mixed ^ mixed >> np.uint64(32)  # for which the hash is 0
    plain_bytes = second.astype(">u8").view("u1").reshape(-1, 8)
    is_text = ((plain_bytes > 0) & (plain_bytes < 128)).all(axis=1)
    texts = [
        (int(a).to_bytes(8) + int(b).to_bytes(8)).decode()
        for a, b in zip(first[is_text], second[is_text], strict=True)
    ]
    file = made(tmp_path / "colliding.sqlite", "(a TEXT)", [(text,) for text in texts])

    with pytest.raises(pages.NotDecodedError):
        from_pages(file, "t", file.columns["t"])
    assert len(texts) > 600
    assert plain(file.read("t", file.columns["t"])) == {"a": texts}


@compiled
@pytest.mark.parametrize(
    ("table", "rows"),
    [
        pytest.param("(a INTEGER)", [(1.5,), (2,)], id="real-in-integers"),
        pytest.param("(a INTEGER)", [("x",), (2,)], id="text-in-integers"),
        pytest.param("(a TEXT)", [(b"\0",), ("x",)], id="blob-in-texts"),
        pytest.param("(a INTEGER)", [(-(2**63),)], id="the-number-of-null"),
        pytest.param("(a TEXT PRIMARY KEY) WITHOUT ROWID", [("x",)], id="no-rowid"),
    ],
)
def test_what_the_pages_do_not_say_for_certain_is_read_by_other_ways(tmp_path, table, rows):
    file = made(tmp_path / "odd.sqlite", table, rows)

    with pytest.raises(pages.NotDecodedError):
        from_pages(file, "t", file.columns["t"])


@pytest.mark.parametrize("value", ["x", 1.5, b"\1", 2.0**70])
def test_a_value_of_another_type_is_named_with_its_place(tmp_path, monkeypatch, value):
    monkeypatch.setattr(sqlite_source, "_BATCH_ROWS", 2)
    file = made(tmp_path / "odd.sqlite", "(a INTEGER)", [(1,), (None,), (value,)])

    with pytest.raises(CorruptFileError) as caught:
        file.read("t", {"a": pa.int64()})

    assert caught.value.message == f"{file.path}, table t: column a holds {value!r} in row 3"


def test_a_default_of_a_column_that_was_added_later_is_read(tmp_path):
    path = tmp_path / "later.sqlite"
    made(path, "(a INTEGER)", [(1,)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7")
        connection.commit()

    columns = open_sqlite(path).read("t", {"a": pa.int64(), "b": pa.int64()})

    assert plain(columns) == {"a": [1], "b": [7]}


def replaced(path, other):
    other.rename(path)


def overwritten(path, other):
    path.write_bytes(other.read_bytes())


def overwritten_with_its_time(path, other):
    before = path.stat()
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def moved_away_and_back(path, _):
    path.rename(path.with_suffix(".away"))
    path.with_suffix(".away").rename(path)


def removed(path, _):
    path.unlink()


@pytest.mark.parametrize("way", [from_pages, SqliteFile.by_rows])
@pytest.mark.parametrize(
    "change",
    [replaced, overwritten, overwritten_with_its_time, moved_away_and_back, removed],
)
def test_a_file_that_changes_between_two_passes_is_refused(tmp_path, way, change):
    path = tmp_path / "x.sqlite"
    file = numbered(path, 10)
    numbered(tmp_path / "other.sqlite", 10)
    assert file.rows("SELECT count(*) FROM t") == [(10,)]

    change(path, tmp_path / "other.sqlite")

    with pytest.raises(InputError, match="changed while it was read"):
        way(file, "t", {"a": pa.int64()})
    with pytest.raises(InputError, match="changed while it was read"):
        file.rows("SELECT count(*) FROM t")


def test_a_file_that_is_replaced_during_small_queries_is_refused(tmp_path):
    file = numbered(tmp_path / "x.sqlite", 10)
    numbered(tmp_path / "other.sqlite", 20)

    def counts():
        with file.session():
            replaced(file.path, tmp_path / "other.sqlite")
            return file.rows("SELECT count(*) FROM t")

    with pytest.raises(InputError, match="changed while it was read"):
        counts()


def test_what_a_change_breaks_is_told_as_the_change(tmp_path):
    path = tmp_path / "x.sqlite"
    file = numbered(path, 1000)
    path.write_bytes(path.read_bytes()[:600] + bytes(path.stat().st_size - 600))

    with pytest.raises(InputError, match="changed while it was read"):
        file.rows("SELECT sum(a) FROM t")


def test_a_database_that_changes_while_it_is_copied_with_its_wal_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.sqlite"
    numbered(path, 10)
    path.with_name("x.sqlite-wal").write_bytes(b"waits")
    copy = shutil.copy2

    def copied(file, folder):
        copy(file, folder)
        path.with_name("x.sqlite-wal").write_bytes(b"is longer")

    monkeypatch.setattr(shutil, "copy2", copied)

    with pytest.raises(InputError, match="changed while it was read"):
        open_sqlite(path)


@compiled
def test_a_file_that_another_program_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "changing.sqlite"
    file = numbered(path, 10)
    decode = pages.decode

    def decoded(*given):
        columns = decode(*given)
        with path.open("ab") as another:
            another.write(b"more")
        return columns

    monkeypatch.setattr(pages, "decode", decoded)

    with pytest.raises(InputError, match="changed while it was read"):
        file.read("t", file.columns["t"])


@compiled
def test_a_table_that_memory_does_not_suffice_for_is_no_damage(tmp_path, monkeypatch):
    file = numbered(tmp_path / "large.sqlite", 10)

    def decode(*_):
        raise MemoryError

    monkeypatch.setattr(pages, "decode", decode)

    with pytest.raises(InputError, match="needs more memory than is available"):
        file.read("t", file.columns["t"])


def test_the_search_for_damage_ends_where_a_view_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_source, "_FEW_STEPS", 1_000_000)
    path = tmp_path / "endless.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE t (a INTEGER);
            CREATE VIEW endless AS WITH RECURSIVE n(i) AS
                (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0;
        """)

    with pytest.raises(CorruptFileError, match="may never end"):
        open_sqlite(path).rows("SELECT * FROM endless")
    assert "table endless" in open_sqlite(path)._damage().message  # noqa: SLF001 - it ends


def test_a_file_that_another_program_holds_is_refused(tmp_path):
    path = tmp_path / "held.sqlite"
    file = numbered(path, 10)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="is locked by another program"):
            file.read("t", file.columns["t"])


@compiled
@pytest.mark.parametrize("count", [0, 100, 1000])
def test_a_header_that_claims_a_billion_pages_is_no_reason_to_take_memory(tmp_path, count):
    path = tmp_path / "claims.sqlite"
    numbered(path, count)
    content = bytearray(path.read_bytes())
    content[28:32] = (2**30).to_bytes(4, "big")
    content[24:28] = bytes(3) + b"\x09"  # as if another program had not kept the length up
    path.write_bytes(content)

    columns = open_sqlite(path).read("t", {"a": pa.int64()})

    assert len(columns["a"]) == count


DATABASES = [
    path for path in few_of_each_writer(corpus_files(), 2) if path.read_bytes().startswith(MAGIC)
]
real_files = pytest.mark.parametrize("path", params(DATABASES))


@real_files
def test_every_way_reads_real_files_alike(path):
    file = open_sqlite(path)

    for table, kinds in file.columns.items():
        results = [*ways(file, table, kinds).values()]
        assert results
        assert all(columns == results[-1] for columns in results), table


@compiled
@real_files
def test_the_pages_of_every_tools_database_are_known(path):
    is_nsys = export_schema.STRINGS in open_sqlite(path).columns
    kinds_of = export_schema.KINDS if is_nsys else nvprof_activities.KINDS
    file = open_sqlite(path, kinds_of)

    for table in kinds_of.keys() & file.columns:
        kinds = file.columns[table].items()
        integers = {name: kind for name, kind in kinds if pa.types.is_int64(kind)}
        columns = from_pages(file, table, integers)
        assert columns.keys() == integers.keys()
