import duckdb
import pytest

from gpuprof.readers import sqlite_source


@pytest.fixture(params=["scanner", "sqlite3"])
def engine(request, monkeypatch):
    """Both ways into a SQLite file."""
    if request.param == "sqlite3":
        monkeypatch.setattr(sqlite_source, "scanner", lambda _: None)
    elif sqlite_source.scanner(duckdb.__version__) is None:
        pytest.skip("duckdb-extension-sqlite-scanner is not installed")
