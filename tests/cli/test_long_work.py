"""A real process on a terminal: how far it has come, and that Ctrl-C ends it."""

import fcntl
import os
import pty
import select
import signal
import sqlite3
import struct
import sys
import termios
import time
from contextlib import closing

import pytest
from commands import DUAL, python, started

from gpuprof.analyses import reports
from gpuprof.cli import main, terminal

# Long beside what Ctrl-C takes, short beside the work that it ends.
_PATIENCE_S = 30


def interrupted(*arguments, columns=200):
    """Exit status and output of a command on a terminal, with Ctrl-C once it says that it works."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = started(*arguments, stdout=terminal, stderr=terminal, TERM="xterm")
    os.close(terminal)
    output, end, is_told = b"", time.monotonic() + _PATIENCE_S, False
    try:
        while process.poll() is None and time.monotonic() < end:
            output += _shown(screen)
            if b"Reading" in output and not is_told:
                process.send_signal(signal.SIGINT)
                is_told = True
        status = process.wait(1)
        while last := _shown(screen):
            output += last
        return status, output.decode().replace("\r\n", "\n")
    finally:
        process.kill()
        os.close(screen)


def _shown(screen):
    try:
        return os.read(screen, 65_536) if select.select([screen], [], [], 1)[0] else b""
    except OSError:  # nobody writes any more
        return b""


@pytest.fixture
def endless(tmp_path):
    """An export whose kernels take longer than anybody waits."""
    path = tmp_path / "endless.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm');
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
                (start INTEGER, end INTEGER, bytes INTEGER, copyKind INTEGER);
            CREATE TABLE ONE (start INTEGER, end INTEGER, demangledName INTEGER);
            INSERT INTO ONE VALUES (5, 9, 1);
            CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS
                WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)
                SELECT ONE.* FROM n CROSS JOIN ONE; -- n row by row
            -- A small file would be refused before.
            CREATE TABLE BALLAST AS SELECT zeroblob(1 << 26) AS bytes;
        """)
    return path


@pytest.mark.parametrize(
    "options", [("--table", "kernel_summary"), ()], ids=["query", "overview-of-streamed-rows"]
)
def test_ctrl_c_ends_a_report_and_a_terminal_shows_how_far_it_came(endless, options):
    status, output = interrupted("report", endless, *options)

    assert status == 130, output
    assert f"Reading {endless} [" in output
    assert output.count("Error:") == 1
    assert output.endswith("\x1b[KError: stopped by Ctrl-C\n")


def test_progress_is_one_line_of_the_terminal(endless):
    status, output = interrupted("report", endless, "--table", "kernel_summary", columns=40)

    drawn = [line for line in output.split("\r\x1b[K")[1:-1] if line]
    assert status == 130, output
    assert drawn
    assert all(line.startswith("Reading ") and len(line) < 40 for line in drawn)
    assert all("\n" not in line for line in drawn)


@pytest.mark.parametrize(
    ("read", "columns", "line"),
    [
        (25_000, 80, "Reading x.sqlite [#####               ] 25.0 KB of 100 KB, 0 s"),
        (325_000, 80, "Reading x.sqlite [#####               ] 25.0 KB of 100 KB, pass 4, 0 s"),
        (325_000, 60, "Reading x.sqlite 25.0 KB of 100 KB, pass 4, 0 s"),
        (325_000, 40, "Reading x.sqlite 25.0 KB of 100 KB, pa.."),
    ],
)
def test_progress_says_which_pass_over_the_files_it_is(monkeypatch, read, columns, line):
    monkeypatch.setattr(terminal, "_bytes_read", iter((0, read)).__next__)
    work = terminal.Progress("Reading x.sqlite", [])
    monkeypatch.setattr(work, "_size", 100_000)

    assert work.line(columns) == line


def test_progress_keeps_both_ends_of_a_long_name(monkeypatch):
    monkeypatch.setattr(terminal, "_bytes_read", lambda: 0)
    name = f"/data/{'long/' * 40}train.sqlite"

    line = terminal.Progress(f"Reading {name}", []).line(60)

    assert line.startswith("Reading /data/long/")
    assert line.endswith("train.sqlite 0 s")
    assert len(line) <= 60


@pytest.mark.parametrize(("name", "is_drawn"), [("xterm", True), ("dumb", False)])
def test_a_terminal_that_clears_no_line_shows_no_progress(monkeypatch, capsys, name, is_drawn):
    monkeypatch.setenv("TERM", name)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0)
    monkeypatch.setattr(terminal, "_PAUSE_S", 0.01)

    with terminal.watched("Reading"):
        time.sleep(0.5)

    assert bool(capsys.readouterr().err) == is_drawn


def test_ctrl_c_leaves_nothing_of_an_output(endless, tmp_path):
    folder = tmp_path / "outputs"
    folder.mkdir()

    status, output = interrupted("convert", endless, "-o", folder / "x.gpuprof")

    assert status == 130, output
    assert list(folder.iterdir()) == []


def test_ctrl_c_ends_the_parsing_of_a_text(tmp_path):
    path = tmp_path / "long.json"
    event = (
        '{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": %d, "dur": 9,'
        ' "args": {"device": 0, "stream": 7, "correlation": %d}},\n'
    )
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        file.writelines(event % (20 * number, number) for number in range(1_000_000))
        file.write('{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "x"}}]}')

    status, output = interrupted("report", path)

    assert status == 130, output
    assert output.endswith("\x1b[KError: stopped by Ctrl-C\n")


def test_ctrl_c_while_a_recording_is_opened_is_told_as_any_other(monkeypatch, capsys):
    def opened(*_):
        message = "Query interrupted"
        raise RuntimeError(message) from KeyboardInterrupt()

    monkeypatch.setattr(reports, "report", opened)
    with pytest.raises(SystemExit) as ended:
        main(["report", DUAL])

    assert ended.value.code == 130
    assert capsys.readouterr().err == "Error: stopped by Ctrl-C\n"


def test_ctrl_c_while_the_command_line_is_loaded_is_told_as_any_other():
    code = """
import sys
class Interrupted:
    @staticmethod
    def find_spec(name, *_):
        if name == "click":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted)
from gpuprof.__main__ import run
run()
"""
    done = python("-c", code, check=False)

    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Error: stopped by Ctrl-C\n"
