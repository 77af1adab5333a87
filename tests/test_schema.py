import numpy as np
import pyarrow as pa
import pytest

from gpuprof.model import borders, data_model, schema


def test_an_empty_table_has_all_columns():
    assert data_model.KERNELS.empty().column_names == list(data_model.KERNELS.columns)
    assert data_model.KERNELS.empty().num_rows == 0


def test_conforming_orders_columns_and_leaves_absent_ones_null():
    given = pa.table({"name": ["k"], "end_ns": [20], "start_ns": [10], "extra": [1]})

    table = data_model.KERNELS.conform(given)

    assert table.schema == data_model.KERNELS.arrow
    assert table.to_pylist()[0]["device_id"] is None
    assert table.to_pylist()[0]["end_ns"] == 20


def test_a_required_column_may_not_be_absent_or_null():
    with pytest.raises(ValueError, match="kernels: required column end_ns is absent"):
        data_model.KERNELS.conform(pa.table({"start_ns": [1], "name": ["k"]}))
    with pytest.raises(ValueError, match="kernels: required column name holds 1 nulls"):
        data_model.KERNELS.conform(
            pa.table({"start_ns": [1], "end_ns": [2], "name": pa.array([None], pa.string())})
        )


def test_nanoseconds_of_the_unix_epoch_stay_exact():
    big = 1_570_000_000_123_456_789

    table = data_model.KERNELS.table([{"start_ns": big, "end_ns": big + 1, "name": "k"}])

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


WIDTHS = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("name", [*WIDTHS, "float16", "float32", "float64"])
def test_a_type_of_numbers_has_the_dtype_that_arrow_gives_it(name):
    dtype = np.dtype(name)

    assert schema.numpy_dtype(schema.arrow(np.zeros(3, dtype)).type) == dtype


@pytest.mark.parametrize("kind", [pa.string(), pa.timestamp("ns"), pa.list_(pa.int64())])
def test_what_holds_no_numbers_has_no_dtype(kind):
    with pytest.raises(KeyError):
        schema.numpy_dtype(kind)


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
    "row", [{"number": 1.5}, {"ratio": "1"}, {"text": 1}, {"flag": 1}], ids=str
)
def test_values_of_another_type_are_no_part_of_a_table(row):
    with pytest.raises(TypeError):
        MIXED.table([row])


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**24])
def test_an_integer_of_more_than_64_bits_is_told_from_another_type(number):
    with pytest.raises(OverflowError, match="an integer needs more than 64 bits"):
        MIXED.table([{"number": -1}, {"number": number}])


BOUNDED = schema.Schema(
    "bounded",
    "a row",
    {
        "start_ns": schema.Column(schema.INT, "ns", "Any.", least=-9, most=9),
        "end_ns": schema.Column(schema.INT, "ns", "Any.", least=-9, most=9),
        "size": schema.Column(schema.INT, "B", "Any.", least=0, most=100),
        "mean": schema.Column(schema.FLOAT, "1", "Any.", least=0, most=100),
        "name": schema.Column(schema.TEXT, "", "Any.", required=True),
        "kind": schema.Column(schema.TEXT, "", "Any.", words=frozenset({"a", "b"})),
    },
)
SOUND = {"start_ns": -1, "end_ns": 2, "size": 5, "mean": 0.5, "name": "x", "kind": "a"}


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ({}, None),
        ({"size": None, "mean": None, "kind": None}, None),
        ({"size": -1}, "column size holds -1 in row 3"),
        ({"size": 101}, "column size holds 101 in row 3"),
        ({"mean": float("nan")}, "column mean holds nan in row 3"),
        ({"mean": float("inf")}, "column mean holds inf in row 3"),
        ({"start_ns": -10}, "column start_ns holds -10 in row 3"),
        ({"name": None}, "column name holds no value in row 3"),
        ({"kind": "c" * 50}, f"column kind holds '{'c' * 39} in row 3"),
        ({"end_ns": -2}, "row 3 ends before it starts"),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["plain", "chunks", "small", "dictionaries"])
def test_the_first_cell_that_cannot_be_is_named(cells, fault, form):
    table = BOUNDED.table([SOUND, SOUND, SOUND | cells, SOUND | cells])

    assert borders.fault(BOUNDED, _as(form, table)) == fault


def _as(form, table):
    if form == "chunks":
        return pa.concat_tables([table.slice(0, 1), table.slice(1, 2), table.slice(3, 1)])
    if form == "small":
        return table.set_column(2, "size", table["size"].cast(pa.int8()))
    if form == "dictionaries":
        for place, name in [(2, "size"), (3, "mean")]:
            table = table.set_column(place, name, table[name].dictionary_encode())
    return table


def test_what_lasts_longer_than_any_activity_is_named():
    rows = [{"start_ns": 0, "end_ns": end, "name": "k"} for end in (1 << 50, (1 << 50) + 1)]

    assert (
        borders.fault(data_model.KERNELS, data_model.KERNELS.table(rows))
        == "row 2 lasts more than 13 days"
    )


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_named_but_not_one_that_is_unknown(seconds):
    rows = [{"epoch": 0, "seconds": None}, {"epoch": 1, "seconds": seconds}]

    fault = borders.fault(data_model.EPOCHS, data_model.EPOCHS.table(rows))
    assert fault == f"column seconds holds {seconds} in row 2"


def test_rows_are_counted_on_from_those_before():
    table = BOUNDED.table([SOUND | {"size": -1}])

    assert borders.fault(BOUNDED, table, 1000) == "column size holds -1 in row 1,001"


def test_what_stands_in_the_place_of_a_missing_value_is_not_looked_at():
    sizes = pa.array([5, -1], mask=np.array([False, True]))

    assert borders.fault(BOUNDED, pa.table({"size": sizes})) is None


@pytest.mark.parametrize("table", data_model.TABLES, ids=lambda table: table.name)
def test_every_column_says_its_unit_and_meaning(table):
    for name, column in table.columns.items():
        assert column.meaning.endswith("."), name
        unit = {"_ns": "ns", "bytes": "B", "_bytes_per_s": "B/s"}
        for suffix, expected in unit.items():
            if name.endswith(suffix):
                assert column.unit == expected, name


@pytest.mark.parametrize(
    ("name", "column", "heading"),
    [
        ("total_ns", schema.Column(schema.INT, "ns", "Any."), "Total"),
        ("bus_bytes_per_s", schema.Column(schema.FLOAT, "B/s", "Any."), "Bus"),
        ("power_w", schema.Column(schema.FLOAT, "W", "Any."), "Power"),
        ("latency_ns", schema.Column(schema.FLOAT, "", "In no unit."), "Latency ns"),
        ("htod_ns", schema.Column(schema.INT, "ns", "Any.", label="HtoD"), "HtoD"),
    ],
)
def test_a_heading_is_the_label_or_the_name_without_the_unit_of_its_cells(name, column, heading):
    assert column.heading(name) == heading
