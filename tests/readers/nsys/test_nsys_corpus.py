"""Real exports of Nsight Systems, recorded by other people."""

from pathlib import Path

import pytest

from gpuprof.base.errors import EmptyRecordingError
from gpuprof.readers import read_profile
from gpuprof.readers.sqlite import table_columns as sqlite_table

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
EXPORTS = sorted((CORPUS / "nsys-sqlite").glob("*.sqlite"))
needs_corpus = pytest.mark.skipif(not EXPORTS, reason="the recordings are not on this machine")


@needs_corpus
@pytest.mark.parametrize("path", EXPORTS, ids=[p.stem for p in EXPORTS])
def test_both_ways_into_a_file_give_equal_tables(path, monkeypatch):
    try:
        fast = read_profile(path)
    except EmptyRecordingError:
        pytest.skip("nothing was recorded")
    tables = {name: fast.table(name) for name in fast.sources}
    monkeypatch.setattr(sqlite_table, "from_pages", sqlite_table.by_rows)
    slow = read_profile(path)

    for name, table in tables.items():
        order = [(column, "ascending") for column in table.column_names]
        assert slow.table(name).sort_by(order) == table.sort_by(order), name
