import pytest

from gpuprof import native
from gpuprof.readers.sqlite import table_columns as sqlite_table

WAYS = {"pages": 0, "adbc": 1, "rows": 2}


@pytest.fixture(params=WAYS)
def engine(request, monkeypatch):
    """Every way into a SQLite file."""
    if request.param == "pages" and native.library() is None:
        pytest.skip("nothing was compiled here")
    monkeypatch.setattr(sqlite_table, "WAYS", sqlite_table.WAYS[WAYS[request.param] :])
