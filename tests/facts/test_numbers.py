"""Columns of integers: gathered in pieces, numbered, looked up by number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.facts import numbers as facts_numbers
from gpuprof.facts.numbers import ByNumber, Growing, columns_of, order_of
from gpuprof.model.pairs import Pairs


def numbered(pairs, *values):
    array = np.array(values)
    return pairs.of(array, array).tolist()


def test_pairs_keep_their_numbers_whatever_is_met_after_them():
    pairs = Pairs()
    for value in (5, 3, 7, 1, 9):
        pairs.learn(np.array([value]), np.array([value]))

    assert numbered(pairs, 5, 3, 7, 1, 9) == [0, 1, 2, 3, 4]
    assert pairs.values[0].tolist() == [5, 3, 7, 1, 9]


numbers = st.integers(-(1 << 40), 1 << 40) | st.integers(0, 50)


@given(
    st.dictionaries(numbers, st.integers(-5, 70_000)),
    st.lists(numbers),
    st.integers(-1, 1),
)
def test_each_number_gives_the_value_of_its_name(values, asked, missing):
    by_number = ByNumber([*values], [*values.values()], missing)
    asked += [*values]

    given_values = by_number.of(np.array(asked, np.int64))

    assert given_values.tolist() == [values.get(number, missing) for number in asked]


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_numbers_may_be_as_narrow_as_their_column(kind):
    by_number = ByNumber([1, 2, 300], [10, 20, 30], 0)

    assert by_number.of(np.array([2, 1, -2, 127], kind)).tolist() == [20, 10, 0, 0]


KINDS = st.sampled_from([np.int8, np.int16, np.int32, np.int64])


@st.composite
def pieces(draw):
    kind = draw(KINDS)
    bounds = np.iinfo(kind)
    return np.array(draw(st.lists(st.integers(int(bounds.min), int(bounds.max)))), kind)


def grown(parts, *kind):
    growing = Growing(*kind)
    for part in parts:
        growing.add(part)
    return growing.values


@given(parts=st.lists(pieces(), max_size=12), kind=st.none() | KINDS)
def test_pieces_of_any_width_are_one_array_of_the_widest(parts, kind):
    values = grown(parts, kind)

    kinds = [part.dtype for part in parts] + ([np.dtype(kind)] if kind else [])
    assert values.tolist() == [value for part in parts for value in part.tolist()]
    assert values.dtype == (np.result_type(*kinds) if kinds else np.int64)


@given(parts=st.lists(st.tuples(pieces(), st.integers(0, 50)), max_size=8))
def test_what_is_expected_need_not_come(parts):
    growing = Growing()
    for part, expected in parts:
        growing.expect(expected)
        growing.add(part)

    assert growing.values.tolist() == [value for part, _ in parts for value in part.tolist()]


def test_what_a_damaged_file_claims_takes_no_room():
    growing = Growing()
    growing.expect(1 << 60)
    growing.add(np.array([1, 2], np.int16))

    assert growing.values.tolist() == [1, 2]
    assert len(growing.values.base) == 2


@pytest.mark.parametrize("expected", [0, 1, 150])
def test_more_than_is_expected_makes_room_for_as_many_more(expected):
    growing, sizes = Growing(), set()
    growing.expect(expected)
    for part in np.split(np.arange(1000), 100):
        growing.add(part)
        sizes.add(len(growing.values.base))

    assert growing.values.tolist() == [*range(1000)]
    assert len(sizes) <= 8


def test_a_piece_is_copied():
    part = np.array([1, 2], np.int16)

    values = grown([part])
    part[:] = 0

    assert values.tolist() == [1, 2]


def test_many_pieces_leave_no_spare_room():
    values = grown(np.full(7, place, np.int32) for place in range(1000))

    assert values.tolist() == [place for place in range(1000) for _ in range(7)]
    assert values.nbytes == 4 * 7000


def test_columns_of_no_piece_are_empty():
    assert [column.tolist() for column in columns_of([], 2)] == [[], []]


@pytest.mark.parametrize("long_run", [1, 1024])
@given(
    st.lists(st.lists(numbers | st.integers(-(1 << 62), 1 << 62)).map(sorted)),
)
def test_numbers_are_ordered_as_python_does_whether_few_or_many_runs_are_in_order(long_run, runs):
    values = [number for run in runs for number in run]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts_numbers, "_LONG_RUN", long_run)
        order = order_of(np.array(values, np.int64))

    assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)
