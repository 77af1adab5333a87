"""Columns that hold their different values once."""

import pyarrow as pa
import pytest

from gpuprof.readers.common.compact_columns import listed

TEXTS = ["b", None, "a", "b"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(TEXTS).dictionary_encode("encode"),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
    ],
    ids=["plain", "coded", "coded-null", "chunked"],
)
def test_a_column_is_listed_whatever_holds_it(column):
    assert listed(column) == TEXTS


def test_an_empty_column_is_an_empty_list():
    assert listed(pa.array([], pa.string()).dictionary_encode()) == []
