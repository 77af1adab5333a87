"""What is derived from the data model can be queried as it is documented."""

import pytest
from recordings import trace

from gpuprof.model import derived

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
        ("HtoD", True, False, True, derived.HOST, 1, "direct"),
        ("DtoD", False, False, True, None, None, "direct"),
        ("PtoP_staged", True, True, True, 0, 1, "staged"),
        ("PtoP_staged", True, True, False, 0, 1, "staged"),
        ("UVM_DtoH", True, False, True, 1, derived.HOST, "uvm"),
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


@pytest.mark.parametrize("name", derived.RELATIONS)
def test_a_derived_table_has_the_columns_that_are_documented(name):
    assert PROFILE.query(f"SELECT * FROM {name}").column_names == [*derived.RELATIONS[name].columns]


@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table in PROFILE.sources for column in derived.facts(table)],
)
def test_every_fact_can_be_asked_for_alone(table, column):
    rows = PROFILE.query(f"SELECT {column} FROM {table}").column(0)

    assert rows.null_count < len(rows) == PROFILE.table(table).num_rows
