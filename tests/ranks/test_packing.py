"""Partial results as bytes."""

import pyarrow as pa
import pytest

from gpuprof.ranks.work import pack, unpack

TABLES = {
    "sums": pa.table({"total_ns": pa.array([2**62, None], pa.int64()), "name": ["gemm", None]}),
    "coded": pa.table({"kind": pa.array(["HtoD", "DtoH"]).dictionary_encode()}),
    "empty": pa.table({"x": pa.array([], pa.list_(pa.int8()))}),
    "noted": pa.table({}).replace_schema_metadata({"tool": "nsys"}),
}


def test_tables_arrive_as_they_were():
    unpacked = unpack(pack(TABLES))

    assert unpacked.keys() == TABLES.keys()
    for name, table in TABLES.items():
        assert unpacked[name].equals(table, check_metadata=True), name


def test_no_tables_arrive_as_none():
    assert unpack(pack({})) == {}


def test_other_bytes_are_refused():
    with pytest.raises(pa.ArrowInvalid):
        unpack(b"something else")


def test_only_the_rows_of_a_slice_travel():
    rows = pa.table({"x": pa.array(range(1_000_000))})

    assert len(pack({"x": rows.slice(10, 5)})) < 2_000
