"""Columns that come without a query are those that a query gives."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import recordings
from hypothesis import given, settings
from hypothesis import strategies as st
from nsys_export import GRAPH_TRACE, KERNEL, MEMSET, RUNTIME, kernel, pid, write

from gpuprof.base.errors import CorruptFileError
from gpuprof.model.database import Database
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.schema import LARGEST, LONGEST_NS
from gpuprof.model.selection import Selection
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write as write_gpuprof_file

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "nsys-sqlite"
PLACE = ("start_ns", "end_ns", "device_id", "stream_id", "process_id", "correlation_id")
COLUMNS = {
    "kernels": (*PLACE, "name_id", "grid_x", "graph_node_id"),
    "memsets": PLACE,
    "graph_launches": (*PLACE, "graph_id"),
    "api_calls": ("start_ns", "end_ns", "process_id", "thread_id", "correlation_id", "name_id"),
}


class QueryError(Exception):
    """A query was asked."""


@contextmanager
def refused_queries():
    def refuse(*_):
        raise QueryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "batches", refuse)
        yield


def without_a_query(profile, table, names):
    """The columns, of a recording that can run no query."""
    with refused_queries():
        parts = [*profile.integers(table, *names)]
    if not parts:
        return [[] for _ in names]
    return [np.concatenate(values).tolist() for values in zip(*parts, strict=True)]


def takes_a_query(profile, table, name):
    with refused_queries():
        try:
            next(profile.integers(table, name), None)
        except QueryError:
            return True
    return False


def by_query(profile, table, names):
    known = ", ".join(f"coalesce({name}, {UNKNOWN}) AS {name}" for name in names)
    rows = profile.query(f"SELECT {known} FROM {table}")
    return [rows[name].to_pylist() for name in names]


def stored(profile):
    """By table, the columns that come without a query; times always do."""
    tables = {
        table: [name for name in names if name != "name_id" or profile.sources[table].names]
        for table, names in COLUMNS.items()
        if profile.has(table) and profile.table(table).num_rows
    }
    stored = {
        table: [name for name in names if not takes_a_query(profile, table, name)]
        for table, names in tables.items()
    }
    assert all({"start_ns", "end_ns"} <= {*names} for names in stored.values())
    return stored


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus holds the recordings")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.sqlite")), ids=lambda path: path.stem[:60])
def test_real_files_give_the_same_both_ways(path, tmp_path):
    try:
        profile = read_profile(path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no recording of nsys
        pytest.skip(f"not read: {error}")
    if profile.origin.reader != "nsys-sqlite":
        pytest.skip(f"read as {profile.origin.reader}")
    write_gpuprof_file(profile, tmp_path / "x.gpuprof")

    for either in (profile, read_profile(tmp_path / "x.gpuprof")):
        for table, names in stored(either).items():
            rows = zip(*without_a_query(either, table, names), strict=True)
            assert sorted(rows) == sorted(zip(*by_query(either, table, names), strict=True))


numbers = st.none() | st.integers(-3, 1 << 31) | st.integers(-(1 << 62), 1 << 62)
times = st.none() | st.just(0) | st.integers(-LARGEST, LARGEST)
places = st.fixed_dictionaries({
    "deviceId": st.none() | st.integers(0, 300),
    "streamId": numbers,
    "correlationId": numbers,
    "graphNodeId": st.just(0) | numbers,  # 0 is none
})  # fmt: skip


@st.composite
def activities(draw):
    start = draw(times)
    end = None if start is None else min(start + draw(st.integers(0, LONGEST_NS)), LARGEST)
    if start == 0:
        end = draw(st.sampled_from([0, 5, None]))
    return {"start": start, "end": end} | draw(places)


calls = st.builds(
    lambda one, number, thread: one | {"eventClass": number, "globalTid": thread, "nameId": 1},
    activities(),
    st.sampled_from([0, 67, None]),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
)


@settings(max_examples=60, deadline=None)
@given(
    kernels=st.lists(activities(), min_size=1, max_size=30),
    api=st.lists(calls, min_size=1, max_size=30),
    process=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_drawn_rows_are_the_same_both_ways(tmp_path_factory, kernels, api, process):
    rows = [row | {"globalPid": process, "demangledName": 1, "shortName": 1} for row in kernels]
    tables = {KERNEL: rows, MEMSET: rows, GRAPH_TRACE: rows, RUNTIME: api}
    profile = read_profile(write(tmp_path_factory.mktemp("drawn") / "x.sqlite", tables))

    for table, names in stored(profile).items():
        # The name is the first of two columns that is not null.
        assert {*COLUMNS[table]} - {*names} <= {"name_id"}
        assert without_a_query(profile, table, names) == by_query(profile, table, names)


@pytest.mark.parametrize(
    ("start", "end", "device"),
    [(0, LONGEST_NS + 1, 0), (LARGEST + 1, LARGEST + 2, 0), (5, 6, 1 << 15)],
    ids=["too long", "too late", "no device"],
)
def test_what_no_recording_holds_is_refused_as_by_a_query(tmp_path, start, end, device):
    rows = [kernel(1, 2), kernel(start, end, deviceId=device), kernel(3, 4)]
    profile = read_profile(write(tmp_path / "x.sqlite", {KERNEL: rows}))
    names = ["start_ns", "end_ns", "device_id"]

    with pytest.raises(CorruptFileError) as refused:
        [*profile.integers("kernels", *names)]
    with pytest.raises(CorruptFileError) as refused_by_query:
        by_query(profile, "kernels", names)

    assert str(refused.value) == str(refused_by_query.value)


def test_a_part_of_a_recording_gives_its_rows_only(tmp_path):
    rows = [kernel(start, start + 5, deviceId=start % 2) for start in range(10, 60, 5)]
    profile = read_profile(write(tmp_path / "x.sqlite", {KERNEL: rows}))
    part = profile.restricted(Selection(((20, 40),), 1))

    ((starts,),) = part.integers("kernels", "start_ns")
    assert starts.tolist() == [25, 35]


def test_a_column_that_was_not_recorded_is_unknown(tmp_path):
    row = kernel(1, 2) | {"globalPid": pid(7)}
    profile = read_profile(
        write(tmp_path / "x.sqlite", {KERNEL: [row]}, drop=("streamId", "correlationId"))
    )

    ((stream,), (process,)) = next(profile.integers("kernels", "stream_id", "process_id"))

    assert (stream, process) == (UNKNOWN, 7)


def test_tables_in_memory_are_asked_by_query():
    profile = recordings.trace(
        kernels=[recordings.kernel("gemm", 1, 4), recordings.kernel("relu", 5, 6)]
    )

    assert [part.tolist() for part in next(profile.integers("kernels", "start_ns", "end_ns"))] == [
        [1, 5],
        [4, 6],
    ]
