from pathlib import Path

import pyarrow as pa
import pytest

from gpuprof import schema
from gpuprof.errors import MissingTableError
from gpuprof.profile import Origin, Profile, View

ORIGIN = Origin(source=Path("train.txt"), reader="nvprof-text", tool="nvprof")
TWO_KERNELS = schema.KERNELS.table(
    [
        {"start_ns": 10, "end_ns": 30, "name": "b", "device_id": 1},
        {"start_ns": 0, "end_ns": 5, "name": "a", "device_id": 0},
    ]
)


def test_missing_table_is_not_an_empty_table():
    profile = Profile(ORIGIN, {"memcpys": schema.MEMCPYS.empty()})

    assert profile.table("memcpys").num_rows == 0
    with pytest.raises(MissingTableError) as caught:
        profile.table("kernels")
    assert caught.value.message == "train.txt has no kernels table (read as nvprof-text)"
    assert caught.value.hint == "Record with `gpuprof record`, which keeps every activity."


def test_tables_in_memory_are_queried_by_name():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    result = profile.query("SELECT sum(end_ns - start_ns)::BIGINT AS total_ns FROM kernels")

    assert result.to_pylist() == [{"total_ns": 25}]


def test_a_view_gets_the_columns_of_the_schema_and_is_sorted_by_start():
    def prepare(connection):
        connection.register("raw", pa.table({"s": [7, 3], "e": [9, 4], "n": ["late", "early"]}))

    view = View("SELECT s AS start_ns, e AS end_ns, n AS name FROM raw")
    profile = Profile(ORIGIN, {"kernels": view}, prepare)

    table = profile.table("kernels")

    assert table.schema == schema.KERNELS.arrow
    assert table.column("name").to_pylist() == ["early", "late"]
    assert table.column("stream_id").null_count == 2


def test_frames_keep_integers_integers_beside_missing_values():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    frame = profile.tables["kernels"]

    assert str(frame["stream_id"].dtype) == "int64[pyarrow]"
    assert frame["stream_id"].isna().all()
    assert list(profile.tables) == ["kernels"]
    assert "memcpys" not in profile.tables


def test_results_come_piece_by_piece():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})

    pieces = list(profile.batches("SELECT end_ns FROM kernels ORDER BY end_ns"))

    assert [value for piece in pieces for value in piece.column(0).to_pylist()] == [5, 30]


def test_what_several_analyses_need_is_computed_once():
    profile = Profile(ORIGIN, {"kernels": TWO_KERNELS})
    asked = []

    def rows(given):
        asked.append(given)
        return given.table("kernels").num_rows

    assert [profile.once(rows), profile.once(rows)] == [2, 2]
    assert asked == [profile]
