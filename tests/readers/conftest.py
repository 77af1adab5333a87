import pytest

from gpuprof import native
from gpuprof.readers.sqlite.source import SqliteFile


@pytest.fixture(params=["pages", "rows"])
def engine(request, monkeypatch):
    """Every way into a SQLite file."""
    if request.param == "pages" and native.library() is None:
        pytest.skip("nothing was compiled here")
    if request.param == "rows":
        monkeypatch.setattr(SqliteFile, "decoded_fields", lambda *_: None)
