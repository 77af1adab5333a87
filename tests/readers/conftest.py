import duckdb
import pytest

from gpuprof import engine as duckdb_engine


@pytest.fixture(params=["scanner", "sqlite3"])
def engine(request, monkeypatch):
    """Both ways into a SQLite file."""
    if request.param == "sqlite3":
        monkeypatch.setattr(duckdb_engine, "scanner", lambda _: None)
    elif duckdb_engine.scanner(duckdb.__version__) is None:
        pytest.skip("duckdb-extension-sqlite-scanner is not installed")
