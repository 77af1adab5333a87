import pytest

from gpuprof import native
from gpuprof.readers.sqlite import table_columns as sqlite_table


@pytest.fixture(params=["pages", "rows"])
def engine(request, monkeypatch):
    """Every way into a SQLite file."""
    if request.param == "pages" and native.library() is None:
        pytest.skip("nothing was compiled here")
    if request.param == "rows":
        monkeypatch.setattr(sqlite_table, "decoded_fields", lambda *_: None)
