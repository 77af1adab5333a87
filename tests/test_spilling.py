"""What does not fit into memory goes to a private temporary folder, which never stays."""

import tempfile
from pathlib import Path

import duckdb
import pytest

from gpuprof import sql
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

ORIGIN = Origin(source=Path("train.txt"), reader="nvprof-text", tool="nvprof")


def test_a_query_that_spills_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    connect, spilled = sql.connect, []

    def little_memory(settings):
        return connect(settings | {"memory_limit": "96MB"})

    monkeypatch.setattr(sql, "connect", little_memory)
    monkeypatch.setattr(sql, "reads", lambda *_: spilled.extend(tmp_path.iterdir()) or {})
    asked = "SELECT i, 2 * i AS j FROM range(5_000_000) t(i) ORDER BY hash(i)"

    assert Profile(ORIGIN, {}).query(asked).num_rows == 5_000_000
    assert [folder.name.startswith("gpuprof-") for folder in spilled] == [True]
    assert list(tmp_path.iterdir()) == []


def test_queries_leave_memory_for_what_they_hand_over():
    setting = "SELECT current_setting('memory_limit') AS text"

    ours = Profile(ORIGIN, {}).query(setting).to_pylist()[0]["text"].split()
    usual = duckdb.execute(setting).fetchall()[0][0].split()

    assert ours[1] == usual[1]
    assert float(ours[0]) == pytest.approx(float(usual[0]) * 50 / 80, abs=0.2)
