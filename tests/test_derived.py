"""What is derived from the data model can be queried as it is documented."""

import copies_in_sql
import pyarrow as pa
import pytest
from recordings import trace

from gpuprof.facts.derived_tables import COLUMNS, TABLES
from gpuprof.model.derived import HOST
from gpuprof.sql import query_table

STAGED = {"path": "staged", "process_id": 9, "correlation_id": 4}
PROFILE = trace(
    kernels=[
        {"start_ns": n, "end_ns": n + 1, "name": name}
        for n, name in enumerate(("gemm", "ncclDevKernel_AllReduce"))
    ],
    api_calls=[
        {"start_ns": n, "end_ns": n + 1, "name": name}
        for n, name in enumerate(("cudaMemcpyAsync", "cudaStreamSynchronize"))
    ],
    memcpys=[
        {"start_ns": 0, "end_ns": 2, "memcpy_kind": "HtoD", "bytes": 10, "device_id": 1},
        {"start_ns": 3, "end_ns": 4, "memcpy_kind": "DtoD", "bytes": 20, "device_id": 0},
        {"start_ns": 5, "end_ns": 7, "memcpy_kind": "DtoH", "bytes": 30, "device_id": 0}
        | {"src_device_id": 0, "dst_device_id": 1}
        | STAGED,
        {"start_ns": 8, "end_ns": 9, "memcpy_kind": "HtoD", "bytes": 30, "device_id": 1}
        | {"src_device_id": 0, "dst_device_id": 1}
        | STAGED,
        {"start_ns": 9, "end_ns": 12, "memcpy_kind": "PtoP", "bytes": 40, "device_id": 0}
        | {"src_device_id": 0, "dst_device_id": 1},
        {"start_ns": 9, "end_ns": 10, "memcpy_kind": "UVM_DtoH", "bytes": 50, "device_id": 1},
    ],
)


def _asked(columns, table):
    return PROFILE.query(f"SELECT {columns} FROM {table} ORDER BY start_ns, end_ns").to_pylist()


def test_a_copy_tells_what_it_is_and_between_which_memories():
    rows = _asked("movement, is_transfer, is_peer, is_counted, src, dst, route", "memcpys")

    assert [tuple(row.values()) for row in rows] == [
        ("HtoD", True, False, True, HOST, 1, "direct"),
        ("DtoD", False, False, True, None, None, "direct"),
        ("PtoP_staged", True, True, True, 0, 1, "staged"),
        ("PtoP_staged", True, True, False, 0, 1, "staged"),
        ("UVM_DtoH", True, False, True, 1, HOST, "uvm"),
        ("PtoP", True, True, True, 0, 1, "direct"),
    ]


def test_the_halves_of_a_staged_copy_are_one_of_the_copies():
    rows = _asked("memcpy_kind, path, bytes, duration_ns, end_ns, is_counted", "copies")

    assert [tuple(row.values()) for row in rows] == [
        ("HtoD", "direct", 10, 2, 2, True),
        ("PtoP", "staged", 30, 3, 9, True),
        ("UVM_DtoH", "uvm", 50, 1, 10, True),
        ("PtoP", "direct", 40, 3, 12, True),
    ]


def test_names_tell_what_kernels_and_calls_are():
    assert _asked("is_communication", "kernels") == [
        {"is_communication": False},
        {"is_communication": True},
    ]
    assert _asked("is_async, is_waiting", "api_calls") == [
        {"is_async": True, "is_waiting": False},
        {"is_async": False, "is_waiting": True},
    ]


@pytest.mark.parametrize("name", TABLES)
def test_a_derived_table_has_the_columns_that_are_documented(name):
    assert PROFILE.query(f"SELECT * FROM {name}").column_names == [*TABLES[name][0].columns]


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table in PROFILE.sources for column in COLUMNS.get(table, ())],
)
def test_every_fact_can_be_asked_for_alone(table, column):
    rows = PROFILE.query(f"SELECT {column} FROM {table}").column(0)

    assert rows.null_count < len(rows) == PROFILE.table(table).num_rows


@pytest.mark.parametrize("name", ["memcpys", *TABLES])
def test_copies_are_those_that_sql_derives_of_the_recorded_columns(name):
    # A staged copy ran on two devices, and has one of them.
    columns = "* EXCLUDE (device_id)" if name == "copies" else "*"
    everything = f"SELECT {columns} FROM {name} ORDER BY ALL"

    assert query_table(PROFILE, everything).to_pylist() == copies_in_sql.answer(PROFILE, everything)


def test_without_copies_there_are_columns_all_the_same():
    empty = trace(memcpys=[], kernels=[])

    for name in ("memcpys", "kernels", *TABLES):
        asked = query_table(empty, f"SELECT * FROM {name}")
        assert asked.num_rows == 0
        assert pa.types.is_int64(asked.schema.field("start_ns").type)
