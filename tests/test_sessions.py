"""Files that are read one after another share what was planned for the first."""

import gc

import pyarrow as pa
import pytest

from gpuprof.model import columns, engine, schema, sessions
from gpuprof.model.profile import Origin, Profile
from gpuprof.model.views import Select, StoredRows, View

KINDS = {"start": pa.int64(), "end": pa.int64(), "kind": pa.string()}


@pytest.fixture
def opened(monkeypatch):
    """The connections that were opened."""
    connections = []

    def connect(open_one=engine.connect):
        connections.append(open_one())
        return connections[-1]

    monkeypatch.setattr(engine, "connect", connect)
    return connections


def file(starts, ranks=(), *, is_costly=False, end="t.end"):
    """A recording whose copies lie in a file, and its devices in memory."""
    selected = {"start_ns": "t.start", "end_ns": end, "memcpy_kind": "t.kind", "bytes": "7"}
    view = View((Select(selected, StoredRows("copies")),), is_costly=is_costly)

    def read(kinds):
        values = {"start": starts, "end": [start + 5 for start in starts], "kind": starts}
        return {name: pa.array(values[name]).cast(kind) for name, kind in kinds.items()}

    tables = {"copies": columns.Columns(KINDS, read, lambda: len(starts))}
    devices = schema.DEVICES.table([{"device_id": n, "rank": n} for n in ranks])
    sources = {"memcpys": view, "devices": devices}
    return Profile(Origin("a", "r", "t"), sources, columns.Tables(lambda: tables))


def answers(profile):
    """What some queries say, which name more and more columns."""
    queries = (
        "SELECT sum(start_ns) AS value FROM memcpys",
        "SELECT max(memcpy_kind) AS value FROM memcpys",
        "SELECT max(end_ns) + sum(bytes) AS value FROM unrestricted.memcpys",
        "SELECT sum(rank) AS value FROM devices",
    )
    return [profile.query(sql)["value"][0].as_py() for sql in queries]


@pytest.mark.parametrize("is_costly", [False, True])
def test_files_that_are_alike_share_a_connection_and_nothing_else(opened, is_costly):
    files = [((1, 2), (5,)), ((30, 40, 50), (6, 7)), ((7,), (8,))]
    with sessions.passed_on():
        said = []
        for starts, ranks in files:
            said.append(answers(file(starts, ranks, is_costly=is_costly)))
            gc.collect()

    assert len(opened) == 1
    assert said == [[3, "2", 21, 5], [120, "50", 76, 13], [7, "7", 19, 8]]
    assert said == [answers(file(*of, is_costly=is_costly)) for of in files]


def test_a_file_that_is_not_done_shares_nothing(opened):
    with sessions.passed_on():
        first, second = file((1, 2)), file((3, 4))
        sums = [p.query("SELECT sum(start_ns) AS s FROM memcpys")["s"][0] for p in (first, second)]

    assert (len(opened), [value.as_py() for value in sums]) == (2, [3, 7])


def test_files_with_other_columns_share_nothing(opened):
    with sessions.passed_on():
        for other in ({}, {"end": "t.end + 1"}):
            profile = file((1, 2), **other)
            profile.query("SELECT max(end_ns) FROM memcpys")
            del profile
            gc.collect()

    assert len(opened) == 2


def test_elsewhere_each_file_has_its_own_connection(opened):
    for _ in range(2):
        file((1, 2)).query("SELECT max(end_ns) FROM memcpys")
        gc.collect()

    assert len(opened) == 2


def test_the_content_of_a_file_goes_with_it(opened):
    with sessions.passed_on():
        profile = file((1, 2), (5,), is_costly=True)
        answers(profile)
        del profile
        gc.collect()
        tables = opened[0].execute("SELECT count(*) FROM duckdb_tables()").fetchone()
        with pytest.raises(Exception, match="does not exist"):
            opened[0].execute('FROM "columns of copies"')

    assert tables == (0,)
