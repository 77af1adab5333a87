"""What `convert` writes is always readable again, and holds what it was made from."""

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.model import data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

# Halves of characters are in names of files and in words of commands that are no UTF-8.
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(["", "\udce9t\udce9"])
TIMES = st.integers(1 - schema.LARGEST, schema.LARGEST - schema.LONGEST_NS)


def values(column):
    """Any value that a recording may hold in a column."""
    if column.words is not None:
        some = st.sampled_from(sorted(column.words))
    elif column.dtype == schema.TEXT:
        some = st.text(st.characters(codec="utf-8"))
    elif column.dtype == schema.FLAG:
        some = st.booleans()
    elif column.dtype == schema.FLOAT:
        ends = (
            None if end is None else math.nextafter(end, 0) for end in (column.least, column.most)
        )
        some = st.floats(*ends, allow_nan=False, allow_infinity=False)
    else:
        ends = column.least, column.most
        least, most = (-(2**63), 2**63 - 1) if None in ends else ends
        some = st.integers(least, most)
    return some if column.required else some | st.none()


@st.composite
def rows(draw, table):
    """Rows of a table, whose times and sizes go together."""
    columns = st.fixed_dictionaries({name: values(c) for name, c in table.columns.items()})
    drawn = draw(st.lists(columns, max_size=4))
    if "start_ns" not in table.columns:
        return drawn
    for row in drawn:
        row["start_ns"] = draw(TIMES)
        row["end_ns"] = row["start_ns"] + draw(st.integers(0, schema.LONGEST_NS - 1024))
        if row.get("bytes"):
            row["bytes"] = draw(st.integers(0, 10**9))
    return drawn


ORIGINS = st.builds(
    Origin,
    source=st.just(Path("run.sqlite")),
    reader=ANY_TEXT,
    tool=ANY_TEXT,
    tool_version=st.none() | ANY_TEXT,
    command=st.none() | ANY_TEXT,
    epoch_ns=st.none() | st.integers(0, schema.LARGEST),
    start_resolution_ns=st.integers(1, schema.LARGEST),
    warnings=st.lists(ANY_TEXT, max_size=2).map(tuple),
)


@pytest.mark.parametrize("table", data_model.TABLES, ids=lambda table: table.name)
@settings(max_examples=12)
@given(data=st.data())
def test_a_drawn_table_comes_back(table, data):
    origin = data.draw(ORIGINS)
    profile = Profile(origin, {table.name: table.table(data.draw(rows(table)))})

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.gpuprof")
        write(profile, path)
        again = read_profile(path)
        found = again.table(table.name)

    order = [(name, "ascending") for name in table.columns]
    assert found.sort_by(order).equals(profile.table(table.name).sort_by(order))
    assert again.origin.epoch_ns == origin.epoch_ns
    assert len(again.origin.warnings) == len(origin.warnings)
