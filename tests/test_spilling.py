"""What does not fit into memory goes to a private temporary folder, which never stays."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest
from commands import ROOT

from gpuprof.model.profile import Origin, Profile

ORIGIN = Origin(source=Path("train.txt"), reader="nvprof-text", tool="nvprof")
SORTED = "SELECT i, 2 * i AS j FROM range(5_000_000) t(i) ORDER BY hash(i)"
# Ends by Ctrl-C's brake while what was sorted still lies on the disk.
STOPPED = """
import os, tempfile
from tests.test_spilling import SORTED, spilling
from gpuprof.base import signals
rows = spilling().batches(SORTED)
next(rows)
print(*os.listdir(tempfile.gettempdir()), flush=True)
signals.end()
"""


def spilling():
    """A recording in whose queries little fits into memory."""

    def prepare(connection):
        connection.execute("SET memory_limit = '60MB'")

    return Profile(ORIGIN, {}, prepare)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_query_that_spilled_leaves_no_folder(folder):
    profile = spilling()
    rows = profile.batches(SORTED)
    found = next(rows).num_rows

    (spilled,) = folder.iterdir()
    found += sum(batch.num_rows for batch in rows)
    del profile, rows

    assert spilled.name.startswith("gpuprof-")
    assert found == 5_000_000
    assert list(folder.iterdir()) == []


def test_a_query_that_spilled_leaves_no_folder_after_ctrl_c(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED],
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 130, ended.stderr
    assert ended.stdout.startswith("gpuprof-")
    assert list(tmp_path.iterdir()) == []


def test_queries_leave_memory_for_what_they_hand_over():
    setting = "SELECT current_setting('memory_limit') AS text"

    ours = Profile(ORIGIN, {}).query(setting).to_pylist()[0]["text"].split()
    usual = duckdb.execute(setting).fetchall()[0][0].split()

    assert ours[1] == usual[1]
    assert float(ours[0]) == pytest.approx(float(usual[0]) * 50 / 80, abs=0.2)
