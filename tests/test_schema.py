import pyarrow as pa
import pytest

from gpuprof import schema


def test_an_empty_table_has_all_columns():
    assert schema.KERNELS.empty().column_names == list(schema.KERNELS.columns)
    assert schema.KERNELS.empty().num_rows == 0


def test_conforming_orders_columns_and_leaves_absent_ones_null():
    given = pa.table({"name": ["k"], "end_ns": [20], "start_ns": [10], "extra": [1]})

    table = schema.KERNELS.conform(given)

    assert table.schema == schema.KERNELS.arrow
    assert table.to_pylist()[0]["device_id"] is None
    assert table.to_pylist()[0]["end_ns"] == 20


def test_a_required_column_may_not_be_absent_or_null():
    with pytest.raises(ValueError, match="kernels: required column end_ns is absent"):
        schema.KERNELS.conform(pa.table({"start_ns": [1], "name": ["k"]}))
    with pytest.raises(ValueError, match="kernels: required column name holds 1 nulls"):
        schema.KERNELS.conform(
            pa.table({"start_ns": [1], "end_ns": [2], "name": pa.array([None], pa.string())})
        )


def test_nanoseconds_of_the_unix_epoch_stay_exact():
    big = 1_570_000_000_123_456_789

    table = schema.KERNELS.table([{"start_ns": big, "end_ns": big + 1, "name": "k"}])

    assert table.column("start_ns").to_pylist() == [big]


MIXED = schema.Schema(
    "mixed",
    "a row",
    {
        "number": schema.Column(schema.INT, "1", "Any."),
        "ratio": schema.Column(schema.FLOAT, "1", "Any."),
        "text": schema.Column(schema.TEXT, "", "Any."),
        "flag": schema.Column(schema.FLAG, "", "Any."),
    },
)


def test_rows_become_columns_with_nulls_where_nothing_is_known():
    rows = [
        {"number": -(2**63), "ratio": 1, "text": "größer", "flag": True},
        {},
        {"number": 2**63 - 1, "ratio": float("nan"), "text": "", "flag": False},
    ]

    table = MIXED.table(rows)

    table.validate(full=True)
    assert str(table) == str(pa.Table.from_pylist(rows, schema=MIXED.arrow))
    assert MIXED.table([]) == MIXED.empty()


@pytest.mark.parametrize(
    "row", [{"number": 1.5}, {"number": 2**63}, {"ratio": "1"}, {"text": 1}, {"flag": 1}], ids=str
)
def test_values_of_another_type_are_no_part_of_a_table(row):
    with pytest.raises(TypeError):
        MIXED.table([row])


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_every_column_says_its_unit_and_meaning(table):
    for name, column in table.columns.items():
        assert column.meaning.endswith("."), name
        unit = {"_ns": "ns", "bytes": "B", "_bytes_per_s": "B/s"}
        for suffix, expected in unit.items():
            if name.endswith(suffix):
                assert column.unit == expected, name
