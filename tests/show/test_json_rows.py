"""Rows of tables as JSON, equal to what Python's own encoder makes of them."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest

from gpuprof.analyses.reports import Report
from gpuprof.model.origin import Origin
from gpuprof.show import Page
from gpuprof.show import json as as_json


def _rows(table, name):
    origin = Origin(Path(name), "nsys-sqlite", "nsys")
    shown = as_json.report(Report(origin, {"t": table, "u": None}, ()), Page())
    document = json.loads(shown)
    assert document["tables"]["u"] is None
    assert document["origin"]["source"] == name
    return document["tables"]["t"], shown


@pytest.mark.parametrize("pieces", [0, 1, 3], ids=["no rows", "one piece", "pieces, one empty"])
@pytest.mark.parametrize("name", ["a.sqlite", "a\udc80.sqlite"], ids=["UTF-8", "no UTF-8"])
def test_rows_are_those_of_the_table(pieces, name, monkeypatch):
    monkeypatch.setattr(as_json, "_ROWS_AT_ONCE", 2)
    table = pa.table(
        {
            "median_ns": pa.array([3.0, 2.5, None], pa.float64()),
            "percent": pa.array([3.0, math.nan, math.inf], pa.float64()),
            "calls": [2**62, None, -1],
            "name": ["a\u2028\x7fb", None, "\N{GREEK SMALL LETTER MU}s"],
            "is_peer": [True, None, False],
        }
    )
    table = pa.concat_tables([table.slice(0, 0), *[table, table.slice(1, 0)] * pieces])
    rows, shown = _rows(table, name)
    expected = [
        row | ({} if math.isfinite(row["percent"]) else {"percent": None})
        for row in table.to_pylist()
    ]
    assert rows == expected
    assert [type(row["median_ns"]) for row in rows] == [int, float, type(None)] * pieces
    assert not {"\u2028", "\x7f"} & {*shown}
