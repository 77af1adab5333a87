"""One file per fault and format under ``broken/``: what is said of it, where, and what to do.

``expectations/broken.tsv`` is written by ``pytest --update-expected`` with this file; its
difference is to be reviewed like code.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import nsys_export
import nvprof_database
import pytest

from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError
from gpuprof.readers import all_readers, read_profile
from gpuprof.readers.sqlite import source as sqlite_source

BROKEN = Path(__file__).parent / "broken"
EXPECTATIONS = Path(__file__).parent / "expectations" / "broken.tsv"
HEADINGS = ("file", "outcome", "message", "hint")
# Read as far as it goes, with a note that the rest is missing: what remains.
READ = {
    "nsys-stats-cut-in-row.csv": {"activity_summary": 1},
    "nvprof-csv-cut-in-row.csv": {"activity_summary": 1},
    "nvprof-text-cut-in-row.txt": {"activity_summary": 1},
    "nvprof-trace-cut-in-row.csv": {"kernels": 0, "memcpys": 1, "memsets": 0},
}
FAULTS = sorted(path.name for path in BROKEN.iterdir())
# Only nsys itself can say what is wrong with these.
MARKS = {"nsys-rep": [pytest.mark.profilers]}


def reader_of(name):
    """The format that a broken file was; None for faults that any file may have."""
    readers = (r.name for r in all_readers() if name.startswith(f"{r.name.removesuffix('-file')}-"))
    return max(readers, key=len, default=None)


def told(name):
    path = BROKEN / name
    try:
        profile = read_profile(path)
        for table in profile.sources:
            profile.table(table)
    except GpuprofError as error:
        said = (type(error).__name__, error.message, str(error.hint))
    else:
        said = ("read", " ".join(profile.origin.warnings), "-")
    return (name, *(text.replace(str(path), "FILE") for text in said))


def expectations():
    lines = EXPECTATIONS.read_text("utf-8").split("\n")[1:-1]
    return {row[0]: row for row in (tuple(line.split("\t")) for line in lines)}


def test_every_fault_has_an_expectation(update_expected):
    if update_expected:
        rows = [HEADINGS, *map(told, FAULTS)]
        EXPECTATIONS.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")

    assert sorted(expectations()) == FAULTS


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(reader_of(name), [])) for name in FAULTS]
)
def test_fault_says_what_where_and_what_to_do(name):
    if reader_of(name) == "nsys-rep" and shutil.which("nsys") is None:
        pytest.skip("nsys is not installed")

    _, outcome, message, hint = told(name)

    assert (name, outcome, message, hint) == expectations()[name]
    assert (outcome == "read") == (name in READ)
    assert message
    assert "\n" not in message + hint
    assert hint != "None"


@pytest.mark.parametrize("name", READ)
def test_rows_before_the_one_that_was_cut_are_read(name):
    profile = read_profile(BROKEN / name)

    counts = {table: profile.table(table).num_rows for table in profile.sources}
    assert counts == counts | READ[name]


def test_every_format_has_faults():
    # A data set is a folder of many files, whose faults are in gpuprof/test_data_set.py; what nsys
    # exports is chosen by name alone.
    formats = {r.name for r in all_readers()} - {"gpuprof-dataset", "nsys-export"}
    assert formats == {*map(reader_of, FAULTS)} - {None}


def an_export(folder):
    return nsys_export.write(folder / "x.sqlite", {nsys_export.KERNEL: [nsys_export.kernel(1, 9)]})


def a_database(folder):
    kernel = nvprof_database.at(0, 1, name=2)
    return nvprof_database.write(folder / "x.nvvp", ["f"], kernel=[kernel])


@pytest.fixture(params=[an_export, a_database])
def database(request, tmp_path):
    return request.param(tmp_path)


def test_locked_database_says_to_wait(database, monkeypatch):
    monkeypatch.setattr(sqlite_source, "_LOCK_WAIT_S", 0.01)
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); "
        "print(flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(database)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(InputError) as caught:
            read_profile(database)
        holder.communicate()

    assert caught.value.message == f"{database} is locked by another program"
    assert "Wait for that" in caught.value.hint


@pytest.mark.parametrize("error", [MemoryError, sqlite3.DatabaseError("malformed")])
def test_a_database_that_breaks_while_its_damage_is_looked_for_is_damaged(
    database, monkeypatch, error
):
    file = sqlite_source.open_sqlite(database)

    def breaks(*_):
        raise error

    monkeypatch.setattr(sqlite_source.SqliteFile, "_connection", breaks)
    with pytest.raises(CorruptFileError) as caught:
        file.rows("SELECT 1")

    assert "the database is damaged" in caught.value.message


def test_empty_wal_beside_a_database_changes_nothing(database):
    wal = database.with_name(f"{database.name}-wal")
    wal.touch()

    assert read_profile(database).table("kernels").num_rows == 1
    assert wal.stat().st_size == 0
    assert sorted(path.name for path in database.parent.iterdir()) == [database.name, wal.name]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@pytest.mark.parametrize("reader", all_readers(), ids=lambda reader: reader.name)
@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "empty-file"])
def test_nothing_to_read_is_refused_by_every_reader(tmp_path, reader, make):
    path = tmp_path / "run"
    make(path)

    with pytest.raises(GpuprofError) as caught:
        read_profile(path, reader.name)

    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
