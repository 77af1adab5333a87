"""Databases that no tool writes: columns declared as something else, views, triggers, doublets."""

import sqlite3
from contextlib import closing
from functools import partial

import nvprof_database
import pytest
from nsys_export import HTOD, KERNEL, MEMCPY, STRINGS, kernel, memcpy, write
from recording_checks import refusal

from gpuprof.base.errors import CorruptFileError
from gpuprof.readers import read_profile
from gpuprof.readers.nvprof import activities as nvprof_activities
from gpuprof.readers.sqlite import source as sqlite_source

DECLARED = ["TEXT", "BLOB", "REAL", "", "NUMERIC", "BOOLEAN", "DATE", "DECIMAL(20,5)"]
TABLES = {KERNEL: [kernel(0, 9), kernel(10, 12)], MEMCPY: [memcpy(3, 5, HTOD)]}

# Every test here must hold for every way into a file.
pytestmark = pytest.mark.usefixtures("engine")


def altered(path, *statements):
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def declared_otherwise(path, table, column, kind, value=None):
    """The same table with another type of a column, and perhaps another value in its last row."""
    with closing(sqlite3.connect(path)) as database:
        columns = database.execute(f"PRAGMA table_info({table})").fetchall()
        kinds = ", ".join(f'"{c[1]}" {kind if c[1] == column else c[2]}' for c in columns)
        rows = [list(row) for row in database.execute(f"SELECT * FROM {table}")]
        if value is not None:
            rows[-1][[c[1] for c in columns].index(column)] = value
        database.execute(f"DROP TABLE {table}")
        database.execute(f"CREATE TABLE {table} ({kinds})")
        marks = ", ".join("?" for _ in columns)
        database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        database.commit()
    return path


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("column", ["start", "end", "deviceId", "globalPid", "demangledName"])
def test_numbers_in_a_column_of_another_type_are_read(tmp_path, column, kind):
    plain = read_profile(write(tmp_path / "plain.sqlite", TABLES)).table("kernels")
    path = write(tmp_path / "x.sqlite", TABLES)

    profile = read_profile(declared_otherwise(path, KERNEL, column, kind))

    assert profile.table("kernels") == plain


@pytest.mark.parametrize("value", ["soon", 1.5, b"\xff", "1.5", ""], ids=repr)
def test_what_is_no_number_there_is_named_with_its_place(tmp_path, value):
    path = write(tmp_path / "x.sqlite", TABLES)
    declared_otherwise(path, KERNEL, "deviceId", "BLOB", value)

    with pytest.raises(CorruptFileError) as caught:
        read_profile(path).table("kernels")

    expected = f"{path}, table {KERNEL}: column deviceId holds {value!r} in row 2"
    assert caught.value.message == expected


@pytest.mark.parametrize("value", [1.5, 2.0**63, float("inf"), "soon"])
def test_what_is_no_time_in_nvprofs_database_is_named(tmp_path, value):
    rows = [nvprof_database.at(0, 9, name=2), nvprof_database.at(10, 12, name=2) | {"end": value}]
    path = nvprof_database.write(tmp_path / "x.nvvp", ["saxpy"], concurrent_kernel=rows)

    with pytest.raises(CorruptFileError) as caught:
        read_profile(path)

    expected = f"{path}, table {nvprof_activities.KERNELS[0]}: column end holds {value!r} in row 2"
    assert caught.value.message == expected


@pytest.mark.parametrize("name", [None, 5, 1.5, b"\xff\xfe"], ids=repr)
def test_a_name_of_another_type_is_unknown_or_read_as_text(tmp_path, name):
    path = write(tmp_path / "x.sqlite", TABLES)
    declared_otherwise(path, STRINGS, "value", "BLOB", name)

    names = read_profile(path).table("kernels")["name"].to_pylist()

    expected = {None: "saxpy(float*)", 5: "5", 1.5: "1.5", b"\xff\xfe": r"\xFF\xFE"}
    assert names == [expected[name]] * 2


ROWS_OF_VERSIONS = [
    {"name": "EXPORT_PRODUCT_VERSION", "value": "2023.4"},
    {"name": "EXPORT_SCHEMA_VERSION", "value": "3.11"},
]


@pytest.mark.parametrize("column", ["name", "value"])
@pytest.mark.parametrize("value", ["5", "1.5", "X'00ff'", "NULL"])
def test_rows_of_versions_that_are_no_text_say_nothing(tmp_path, column, value):
    tables = {**TABLES, "META_DATA_EXPORT": ROWS_OF_VERSIONS}
    path = write(tmp_path / "x.sqlite", tables)
    declared_otherwise(path, "META_DATA_EXPORT", column, "BLOB")
    altered(path, f"UPDATE META_DATA_EXPORT SET {column} = {value} WHERE value = '2023.4'")

    origin = read_profile(path).origin

    assert (origin.tool_version, origin.schema_version) == (None, "3.11")


def test_names_that_stand_twice_are_refused_since_their_kernels_would_count_twice(tmp_path):
    strings = [{"id": 1, "value": "a"}, {"id": 1, "value": "b"}, {"id": 2, "value": "c"}]
    path = write(tmp_path / "x.sqlite", {**TABLES, STRINGS: strings})

    assert refusal(path) == f"{path}, table {STRINGS}: 1 rows repeat the id of another row"


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"
KERNELS = ENDLESS.format('x AS start, x + 1 AS "end", 1 AS demangledName, 0 AS deviceId')


@pytest.mark.parametrize("view", ["kernels", "names"])
def test_a_view_that_never_ends_is_refused(tmp_path, monkeypatch, view):
    monkeypatch.setattr(sqlite_source, "_FEW_STEPS", 1_000_000)
    table, sql = {
        "kernels": (KERNEL, KERNELS),
        "names": (STRINGS, ENDLESS.format("x AS id, 'name' AS value")),
    }[view]
    path = write(tmp_path / "x.sqlite", TABLES)
    altered(path, f"DROP TABLE {table}", f"CREATE VIEW {table} AS {sql}")

    assert refusal(path) == (
        f"{path}: a query takes more work than a recording of its size: one of its views may"
        " never end"
    )


def test_a_view_that_makes_many_rows_of_few_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_source, "_FEW_ROWS", 0)
    path = write(tmp_path / "x.sqlite", {**TABLES, "K": [kernel(t, t + 1) for t in range(400)]})
    altered(path, f"DROP TABLE {KERNEL}", f"CREATE VIEW {KERNEL} AS SELECT a.* FROM K a, K b")

    with pytest.raises(CorruptFileError, match="one of its views may never end"):
        read_profile(path).table("kernels")


def test_a_view_that_makes_long_texts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_source, "_LONGEST_VALUE", 1_000_000)
    path = write(tmp_path / "x.sqlite", TABLES)
    altered(
        path,
        f"DROP TABLE {STRINGS}",
        f"CREATE VIEW {STRINGS} AS SELECT 1 AS id, hex(zeroblob(900000000)) AS value",
    )

    with pytest.raises(CorruptFileError, match="string or blob too big"):
        read_profile(path).table("kernels")


def test_triggers_of_a_database_do_nothing(tmp_path):
    path = write(tmp_path / "x.sqlite", TABLES)
    altered(
        path,
        *(
            f"CREATE TRIGGER {event}_{table} AFTER {event} ON {table}"
            f" BEGIN DELETE FROM {table}; END"
            for event in ("INSERT", "UPDATE", "DELETE")
            for table in (KERNEL, MEMCPY)
        ),
    )
    before = path.read_bytes()

    assert read_profile(path).table("kernels").num_rows == 2
    assert path.read_bytes() == before


def test_ctrl_c_while_damage_is_looked_for_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "long.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE NUMBERS (i INTEGER)")
        rows = ((number,) for number in range(200_000))
        database.executemany("INSERT INTO NUMBERS VALUES (?)", rows)
        database.commit()
    file = sqlite_source.open_sqlite(path)

    def pressed():
        raise KeyboardInterrupt

    class Pressed(sqlite3.Connection):
        """Ctrl-C comes while SQLite's steps are counted."""

        def set_progress_handler(self, _, steps):
            super().set_progress_handler(pressed, steps)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Pressed))
    with pytest.raises(KeyboardInterrupt):
        file.failure(sqlite3.DatabaseError("database disk image is malformed"))
