"""The compiled sweeps give what their definitions say, for drawn arrays of every width."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof import native
from gpuprof.model import intervals
from gpuprof.native import arrays

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing was compiled here")

WIDTHS = st.sampled_from([np.int8, np.int16, np.int32, np.int64])
ROWS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 20), st.integers(0, 3)), max_size=40)


def columns(rows, width):
    """Starts, durations and keys, by ascending start."""
    return np.array(sorted(rows), width).reshape(-1, 3).T


def instants(starts, ends):
    return {t for pair in zip(starts.tolist(), ends.tolist(), strict=True) for t in range(*pair)}


@given(rows=ROWS, width=WIDTHS)
def test_a_union_covers_what_any_interval_of_its_key_does(rows, width):
    start, duration, key = columns(rows, width)

    bounds, starts, ends = arrays.unions_by_key(start, duration, key, 4)

    for place in range(4):
        part = slice(*bounds[place : place + 2])
        expected = [(s, s + d) for s, d, k in rows if k == place]
        assert instants(starts[part], ends[part]) == {t for pair in expected for t in range(*pair)}
        assert (starts[part][1:] > ends[part][:-1]).all()


@pytest.mark.parametrize("count", [63, 64, 65, 128, 1000])
def test_how_much_of_many_intervals_lies_before_times_in_any_order(count):
    random = np.random.default_rng(count)
    borders = np.cumsum(random.integers(1, 9, 2 * count))
    start, end = borders[::2].copy(), borders[1::2].copy()
    times = random.integers(-5, int(end[-1]) + 5, 300)
    expected = np.clip(times[:, np.newaxis] - start, 0, end - start).sum(axis=1)

    drawn = intervals.Intervals(start, end)
    for order in (np.arange(len(times)), np.argsort(times), np.argsort(-times)):
        since, until = times[order[::-1]], times[order]
        covered = arrays.covered_within(drawn.placed, drawn.before, since, until)
        assert covered.tolist() == (expected[order] - expected[order[::-1]]).tolist()


def test_intervals_out_of_order_are_left_to_another_way():
    start = np.array([2, 1])

    assert arrays.union(arrays.placed(start, start + 2)) is None
    union = intervals.union(start, start + 2)
    assert instants(union.start, union.end) == {1, 2, 3}


def test_a_length_is_right_though_the_sum_of_the_ends_takes_more_than_64_bits():
    start = np.arange(9) + 2**62

    assert intervals.Intervals(start, start + 1).length == 9


def test_starts_that_do_not_ascend_are_left_to_another_way():
    start, ones = np.array([5, 4]), np.array([1, 1])

    assert arrays.unions_by_key(start, ones, ones, 2) is None
    made = dict(intervals.unions_by_key(start, start + 1, ones))
    assert [made[1].start.tolist(), made[1].end.tolist()] == [[4], [6]]


@pytest.mark.parametrize(("key", "duration"), [(-1, 1), (2, 1), (0, 2**62)])
def test_keys_and_ends_that_do_not_fit_are_refused(key, duration):
    start = np.array([2**62])

    assert arrays.unions_by_key(start, np.array([duration]), np.array([key]), 2) is None


def test_sets_that_overlap_themselves_are_refused_where_the_result_has_no_room():
    many, one = np.zeros(40, np.int64), np.array([1, 3, 5])

    sets = arrays.placed(many, many + 9), arrays.placed(one, one + 1)
    assert arrays.difference(*sets) is None


PAIRS = st.lists(st.tuples(st.integers(-2, 9), st.integers(-(2**62), 2**62)), max_size=30)


@given(known=PAIRS, more=PAIRS, width=WIDTHS)
def test_a_pair_has_its_place_among_those_that_are_known(known, more, width):
    pairs = sorted(set(known))
    wanted = [*known, *more, *((a, b + 1) for a, b in known)]

    places = arrays.pair_places(
        np.array([a for a, _ in wanted], width),
        np.array([b for _, b in wanted], np.int64),
        np.array(pairs, np.int64).reshape(-1, 2).T,
    )

    assert places.tolist() == [pairs.index(one) if one in pairs else -1 for one in wanted]


SPANS = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)), max_size=4)


@given(spans=SPANS, rows=st.lists(st.tuples(st.integers(-1, 3), st.integers(-3, 12)), max_size=20))
def test_an_id_has_its_place_in_its_span(spans, rows):
    rows = [(span, offset) for span, offset in rows if span < len(spans)]
    ids = [spans[span][0] + offset if span >= 0 else 0 for span, offset in rows]
    fitting = [(row, at) for row, at in zip(rows, ids, strict=True) if abs(at) < 2**63]
    table = np.array([(low, size, 100 * i) for i, (low, size) in enumerate(spans)], np.int64)

    places = arrays.id_places(
        np.array([span for (span, _), _ in fitting], np.int8),
        np.array([at for _, at in fitting], np.int64),
        table.reshape(-1, 3),
    )

    assert places.tolist() == [
        100 * span + offset if span >= 0 and 0 <= offset < spans[span][1] else -1
        for (span, offset), _ in fitting
    ]


CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 12), st.integers(0, 50)), max_size=30)
OF_ROWS = st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 9)), max_size=20)


@given(rows=OF_ROWS, calls=CALLS, cut=st.integers(0, 30))
def test_the_first_call_of_an_id_takes_its_rows_in_their_order(rows, calls, cut):
    spans = np.array([(0, 5, 0), (2, 6, 5), (0, 0, 11)], np.int64)
    span, ids = np.array(rows, np.int64).reshape(-1, 2).T
    chains = arrays.Chains(span.astype(np.int8), ids, spans, 11)
    assert chains.are_made
    taken = []
    for part in (calls[:cut], calls[cut:]):
        lane, wanted, start = np.array(part, np.int64).reshape(-1, 3).T
        columns = chains.take(lane.astype(np.int8), wanted, start, spans)
        taken += zip(*map(np.ndarray.tolist, columns), strict=True)

    def has(span, number):
        low, size, _ = spans[span].tolist()
        return low <= number < low + size

    left, expected = [row for row in enumerate(rows) if row[1][0] >= 0 and has(*row[1])], []
    for lane, number, start in calls:
        expected += [(place, start, lane) for place, row in left if row == (lane, number)]
        left = [(place, row) for place, row in left if row != (lane, number)]
    assert taken == expected


def test_a_call_of_a_thread_without_a_span_is_refused():
    one, spans = np.array([1]), np.zeros((1, 3), np.int64)
    assert not arrays.Chains(one, one, spans, 1).are_made
    with pytest.raises(IndexError):
        arrays.Chains(one - 1, one, spans, 1).take(one, one, one, spans)


def test_places_beyond_the_room_are_refused():
    zero, spans = np.array([0]), np.array([(0, 5, 7)], np.int64)
    assert not arrays.Chains(zero, zero, spans, 7).are_made


def test_an_id_of_a_span_that_is_not_there_is_refused():
    assert arrays.id_places(np.array([1]), np.array([0]), np.zeros((1, 3), np.int64)) is None


@pytest.mark.parametrize("first", [-1, 2, 3])
def test_rows_that_are_not_there_have_no_extent(first):
    rows = np.array([0, 1, 2, 5])

    assert arrays.extents(np.array([first]), np.array([first + 2]), rows, rows, rows[:3]) is None


def test_without_the_compiled_functions_the_sets_are_the_same(monkeypatch):
    numbers = np.random.default_rng(0)
    start = np.sort(numbers.integers(0, 10_000, 2_000))
    end, key = start + numbers.integers(0, 9, 2_000), numbers.integers(0, 5, 2_000)

    def results():
        sets = [*intervals.unions_by_key(start, end, key)]
        left = intervals.difference(sets[0][1], sets[1][1])
        longer = intervals.difference(sets[0][1], sets[1][1], 3)
        both = intervals.intersection(sets[0][1], sets[1][1])
        sets += [(9, left), (10, longer), (11, both)]
        assert instants(longer.start, longer.end) < instants(left.start, left.end)
        return [(k, s.start.tolist(), s.end.tolist()) for k, s in sets]

    compiled = results()
    monkeypatch.setattr(arrays, "library", lambda: None)

    assert results() == compiled
