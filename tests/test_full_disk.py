"""A disk that fills up, or a limit on the size of files: told in one line, nothing half is left."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import duckdb
import pytest
from commands import DUAL, ROOT, SINGLE

from gpuprof import sql
from gpuprof.base.errors import InputError
from gpuprof.base.manifest import Manifest, finish_manifest
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.nsys import nsys_tool as nsys_rep
from gpuprof.readers.sqlite import source as sqlite_source

TRACE = ROOT / "sample_logs/nsys/2023.4.4/synthetic-two-gpus-trace.csv"
RUN = Manifest("nvprof", "one", ("./a",), "2026-01-01", recordings=("log.txt",))


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(SINGLE, folder / "log.txt")
    finish_manifest(folder, RUN)
    return folder


def limited(*words, cwd, kilobytes=1):
    """The command, whose files may not be larger."""
    command = f"ulimit -f {kilobytes}; exec {sys.executable} -m gpuprof " + " ".join(
        map(str, words)
    )
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1",
             "GPUPROF_CACHE": str(cwd / "cache")},
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "run", "-o", "out"],
        ["report", "run", "--all", "-o", "out"],
        ["report", "run", "--all", "--format", "json", "-o", "out"],
        ["pack", "run", "-o", "out"],
        ["plot", "matrix", TRACE, "-o", "out.svg"],
        ["report", DUAL, "--html", "out.html"],
        ["compare", SINGLE, DUAL, "--html", "out.html"],
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_an_output_that_does_not_fit_is_told_and_nothing_of_it_is_left(run, words):
    done = limited(*words, cwd=run.parent)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert "File too large" in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2
    assert sorted(path.name for path in run.parent.iterdir()) == ["run"]


def test_a_report_needs_no_room(run):
    done = limited("report", "run", cwd=run.parent, kilobytes=0)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_copy_of_a_database_that_does_not_fit_is_told(tmp_path, monkeypatch):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    path.with_name("x.sqlite-wal").write_bytes(b"waits")

    def copy(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sqlite_source.shutil, "copy2", copy)
    with pytest.raises(InputError) as caught:
        sqlite_source.open_sqlite(path)

    assert caught.value.message.startswith(f"{path} and its -wal cannot be copied to ")
    assert caught.value.hint == "Set TMPDIR to a folder with more room."


@pytest.mark.parametrize(
    "error",
    [
        duckdb.IOException('IO Error: Could not write file "x": No space left on device'),
        duckdb.OutOfMemoryException("Out of Memory Error: failed to pin block"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_query_without_room_is_told(tmp_path, monkeypatch, error):
    profile = Profile(Origin(tmp_path / "x.sqlite", "nsys-sqlite", "nsys"), {})

    def fail(*_):
        raise error

    monkeypatch.setattr(sql, "reads", fail)
    with pytest.raises(InputError) as caught:
        profile.query("SELECT 1")

    # The text of the query engine says nothing to users.
    said = f"{tmp_path / 'x.sqlite'} needs more memory, or more room for temporary files"
    assert (caught.value.message, caught.value.hint) == (
        said, "Set TMPDIR to a folder with more room.",
    )  # fmt: skip


def test_an_export_that_a_full_disk_left_empty_is_told(tmp_path, monkeypatch):
    made = tmp_path / "settings.sqlite"
    done = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(nsys_rep.subprocess, "run", lambda *_, **__: made.touch() or done)
    monkeypatch.setattr(
        nsys_rep.shutil,
        "disk_usage",
        lambda _: shutil._ntuple_diskusage(9, 9, 0),  # noqa: SLF001
    )

    with pytest.raises(OSError, match="No space left on device"):
        nsys_rep._run(["nsys", "export"], tmp_path / "x.nsys-rep", made, tmp_path / "x.nsys-rep")  # noqa: SLF001
