"""Histograms: exact for few values, close for many, and the same in whatever order they add up."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.facts.histograms import MOST_VALUES, combined, histogram_table, histograms, rounded

VALUES = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=60)


def _of(*parts):
    table = pa.concat_tables(
        [histogram_table(["name"], [(("k",), np.array(part))]) for part in parts]
    )
    return combined(table, ["name"])


@given(st.lists(VALUES, min_size=1, max_size=4), st.sampled_from([0, 0.1, 0.5, 0.95, 1]))
def test_quantiles_of_few_values_are_those_of_all_of_them(parts, share):
    everything = [value for part in parts for value in part]

    ((name,), histogram) = next(histograms(_of(*parts), ["name"]))

    assert name == "k"
    assert histogram.quantile(share) == pytest.approx(np.quantile(everything, share), rel=1e-12)


@given(st.lists(st.integers(0, 1 << 50), min_size=1))
def test_rounding_is_close_and_done_once(values):
    near = rounded(np.array(values))

    assert (rounded(near) == near).all()
    assert (np.abs(near - values) <= np.array(values) / 512).all()


def test_many_values_are_rounded_the_same_in_any_order():
    dice = np.random.default_rng(1)
    sizes = [MOST_VALUES // 2 + 10] * 3 + [5]
    parts = [dice.integers(10**5, 10**6, size) for size in sizes]
    first, second, third, fourth = (_of(part) for part in parts)

    at_once = _of(*parts)
    in_pairs = combined(
        pa.concat_tables([_merged(fourth, second), _merged(third, first)]), ["name"]
    )
    one_by_one = _merged(_merged(_merged(first, second), third), fourth)

    assert at_once["is_rounded"].to_pylist() == [True] * at_once.num_rows
    assert _rows(at_once) == _rows(in_pairs) == _rows(one_by_one)
    assert sum(at_once["calls"].to_pylist()) == sum(map(len, parts))


def _merged(first, second):
    return combined(pa.concat_tables([first, second]), ["name"])


def _rows(table):
    return sorted(zip(table["value"].to_pylist(), table["calls"].to_pylist(), strict=True))


def test_groups_do_not_mix():
    names = [(("a",), np.array([1, 1, 2])), (("b",), np.array([1]))]
    table = histogram_table(["name"], names)

    groups = {name: of for (name,), of in histograms(_merged(table, table), ["name"])}

    assert {name: of.calls.tolist() for name, of in groups.items()} == {"a": [4, 2], "b": [2]}


def test_nothing_has_no_quantile():
    assert [*histograms(histogram_table(["name"], ()), ["name"])] == []
