"""The connections to DuckDB, and those that the command line makes ahead."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuprof import engine

ROOT = Path(__file__).parent.parent
# Runs the command line and says how many connections were made ahead, and how many were left.
COUNTED = """
import sys
from gpuprof import cli, engine
made, ahead = [], engine.connect_ahead
engine.connect_ahead = lambda number: (made.append(number), ahead(number))
sys.argv[0] = "gpuprof"
try:
    cli.main()
finally:
    print("ahead:", *made, "left:", len(engine._ahead), file=sys.stderr)
"""


@pytest.fixture
def recording(tmp_path):
    """The least that is a SQLite file."""
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(84))
    return path


def counted(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    return done.stderr.splitlines()[-1]


def test_a_connection_made_ahead_is_handed_out_once():
    engine.connect_ahead(1)

    first, second = engine.connect(), engine.connect()

    settings = "SELECT current_setting('enable_progress_bar'), current_setting('memory_limit')"
    assert first.execute(settings).fetchall() == second.execute(settings).fetchall()
    first.execute("CREATE TABLE seen (number INTEGER)")
    assert second.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_connections_are_made_ahead_for_the_sqlite_files_that_a_command_reads(recording):
    assert counted("report", recording).startswith("ahead: 1 ")
    assert counted("compare", f"one={recording}", recording).startswith("ahead: 2 ")


@pytest.mark.parametrize("command", ["record", "sweep"])
def test_none_is_made_for_what_a_program_is_handed(command, recording):
    assert counted(command, "--", "no-such-program", recording) == "ahead: left: 0"


def test_none_is_made_for_a_text_or_a_folder(tmp_path):
    log = ROOT / "sample_logs" / "nvprof" / "published" / "dual.txt"

    assert counted("report", log, tmp_path, tmp_path / "missing").startswith("ahead: 0 left: 0")
