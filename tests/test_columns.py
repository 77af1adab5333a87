import pyarrow as pa
import pytest

from gpuprof import engine
from gpuprof.columns import Shown

ROWS = pa.table({"start_ns": range(10), "device_id": [0, 1] * 5, "name": [*"abcdefgh'("]})


class Spied:
    """A table that keeps what it is asked for."""

    def __init__(self):
        self.kinds = dict(zip(ROWS.column_names, ROWS.schema.types, strict=True))
        self.labels = {name: f"kernels.{name}." for name in self.kinds}
        self.columns = self.kinds

    def load(self, names, bounds):
        self.asked = names, bounds

    def __arrow_c_schema__(self):
        return self._labelled().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._labelled().__arrow_c_stream__(requested_schema)

    def _labelled(self):
        return ROWS.rename_columns([*self.labels.values()])


def bounds_of(sql):
    table, connection = Spied(), engine.connect()
    shown = Shown({"kernels": table}, connection)
    shown.show("raw.kernels")
    shown.load(sql)
    connection.execute(sql).fetchall()
    return table.asked[1].get("start_ns")


LEAST, MOST = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("start_ns >= 2 AND start_ns < 5", (2, 5)),
        ("start_ns >= 2 AND start_ns < 5 AND device_id IN (1, 3)", (2, 5)),
        ("device_id + 1 > 0 AND start_ns > 3", (3, MOST)),
        ("start_ns <= -3", (LEAST, -3)),
        ("start_ns = 3", (3, 3)),
    ],
)
def test_a_query_tells_which_window_it_reads(condition, bounds):
    assert bounds_of(f"SELECT sum(device_id) FROM raw.kernels WHERE {condition}") == bounds


@pytest.mark.parametrize(
    "condition",
    [
        "start_ns < 2 OR start_ns > 5",
        "(start_ns < 2 AND device_id = 1) OR device_id = 0",
        "start_ns <> 5",
        "NOT (start_ns >= 2 AND start_ns < 5)",
        "(start_ns < 2) IS DISTINCT FROM (device_id = 0)",
        "CASE WHEN device_id = 0 THEN start_ns < 2 ELSE start_ns > 5 END",
        "name = ') AND (start_ns < 5) AND ('",
        "start_ns + device_id < 5",
        "coalesce(start_ns < 2, device_id = 0)",
        "(device_id = 0 AND start_ns < 2) = (device_id = 1 AND start_ns > 5)",
        "device_id > 0 AND CASE WHEN device_id = 1 THEN start_ns < 2 ELSE start_ns > 5 END",
    ],
)
def test_what_is_no_window_bounds_nothing(condition):
    assert bounds_of(f"SELECT sum(device_id) FROM raw.kernels WHERE {condition}") is None


def test_a_table_that_is_read_twice_is_bounded_by_both_reads():
    windowed = "SELECT count(*) FROM raw.kernels WHERE start_ns >= {} AND start_ns < {}"

    bounds = bounds_of(f"SELECT ({windowed.format(2, 3)}) + ({windowed.format(6, 8)})")
    bounds_of_all = bounds_of(
        f"SELECT ({windowed.format(2, 3)}) + (SELECT count(*) FROM raw.kernels)"
    )

    assert (bounds, bounds_of_all) == ((2, 8), None)
