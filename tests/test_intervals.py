"""Interval arithmetic against sets of instants, which are too slow to be wrong."""

import itertools
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.model import intervals
from gpuprof.model.intervals import (
    NOTHING,
    Intervals,
    attribute,
    covered_within,
    difference,
    intersection,
    meeting,
    overlapping,
    single,
    together,
    union,
)

PAIRS = st.lists(
    st.tuples(st.integers(-30, 60), st.integers(0, 15)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def made(pairs):
    return union([s for s, _ in pairs], [e for _, e in pairs])


def instants(pairs):
    return {i for s, e in pairs for i in range(s, e)}


def listed(intervals):
    return list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


def is_canonical(intervals):
    pairs = listed(intervals)
    return all(s < e for s, e in pairs) and all(a[1] < b[0] for a, b in itertools.pairwise(pairs))


def test_nanoseconds_of_the_unix_epoch_stay_exact():
    late = 1_570_000_000_000_000_001

    assert listed(single(late, late + 31)) == [(late, late + 31)]
    assert single(late, late + 31).length == 31


@given(PAIRS)
def test_union_covers_exactly_the_instants(pairs):
    result = made(pairs)

    assert instants(listed(result)) == instants(pairs)
    assert is_canonical(result)
    assert result.length == len(instants(pairs))


@given(PAIRS, PAIRS)
def test_two_sets_combine_as_sets_of_instants_do(first, second):
    a, b = made(first), made(second)

    for result, expected in (
        (together([a, b]), instants(first) | instants(second)),
        (intersection(a, b), instants(first) & instants(second)),
        (difference(a, b), instants(first) - instants(second)),
    ):
        assert instants(listed(result)) == expected
        assert is_canonical(result)


@given(
    st.lists(st.tuples(st.integers(-5, 330), st.integers(0, 200)).map(sorted), max_size=4),
    st.integers(1, 5),
)
def test_few_windows_cut_many_intervals_as_sets_of_instants_do(windows, apart):
    many = [(start, start + 2) for start in range(0, 320, 2 + apart)] + [(400, 700)]
    a, b = made(windows), made(many)

    with patch.object(intervals, "_FEW", 0):  # as if they were thousands
        result = intersection(a, b)

    assert instants(listed(result)) == instants(windows) & instants(many)
    assert is_canonical(result)
    assert listed(b) == many  # is not changed where the result is a part of it


@given(st.lists(PAIRS, min_size=1, max_size=5))
def test_each_instant_goes_to_the_first_layer_that_covers_it(layers):
    given_to = [instants(listed(one)) for one in attribute([made(pairs) for pairs in layers])]

    seen = set()
    for pairs, got in zip(layers, given_to, strict=True):
        assert got == instants(pairs) - seen
        seen |= instants(pairs)


@given(PAIRS, st.lists(st.tuples(st.integers(-40, 90), st.integers(0, 50)), max_size=5))
def test_covered_within_counts_the_instants_of_windows(pairs, windows):
    start = [s for s, _ in windows]
    end = [s + n for s, n in windows]
    expected = [len(instants(pairs) & set(range(s, e))) for s, e in zip(start, end, strict=True)]

    assert covered_within(made(pairs), start, end).tolist() == expected


def test_nothing_combines_with_nothing():
    assert listed(together([])) == []
    assert listed(intersection(NOTHING, single(0, 5))) == []
    assert listed(difference(single(0, 5), NOTHING)) == [(0, 5)]
    assert attribute([NOTHING, single(0, 5)])[1].length == 5


def test_intervals_that_meet_rare_instants_are_those_that_overlap_any() -> None:
    rng = np.random.default_rng(5)
    start = rng.permutation(np.arange(2_000)) * 10
    calls = Intervals(start, start + rng.integers(0, 40, len(start)))
    rare = union(np.array([95, 7_003, 19_990]), np.array([120, 7_004, 25_000]))

    rows = meeting(calls, rare)

    _, count = overlapping(calls, rare)
    assert rows.tolist() == np.flatnonzero(count).tolist()
    assert 0 < len(rows) < len(start)
    assert not len(meeting(calls, NOTHING))
    assert not len(meeting(NOTHING, rare))
