"""Tables of arrays: which rows they have, how words are numbered, and what is looked up."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.base.errors import CorruptFileError
from gpuprof.model import data_model
from gpuprof.model.arrow_values import values
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.origin import Origin
from gpuprof.model.pairs import pair_places
from gpuprof.model.profile import Profile
from gpuprof.model.stored import InMemory
from gpuprof.model.table import EVERYTHING, Choice, Computed, Part, Selection, Table, translated
from gpuprof.model.words import Values, Words
from gpuprof.readers.nsys.model_tables import EventRecords

ORIGIN = Origin(Path("x.sqlite"), "nsys-sqlite", "nsys")


def recording(columns, **made):
    part = Part(InMemory(pa.table(columns)), made)
    return Profile(ORIGIN, {"memsets": lambda: Table(data_model.MEMSETS, [part])})


def test_values_of_another_device_are_checked_once_they_are_looked_at():
    columns = {"s": [0, 5], "d": [0, 1], "b": [7, -5]}
    whole = recording(columns, start_ns="s", end_ns="s", device_id="d", bytes="b")
    of_0 = whole.restricted(Selection(device_id=0))

    assert [size.tolist() for (size,) in of_0.columns("memsets", "bytes")] == [[7]]
    with pytest.raises(CorruptFileError, match="column bytes holds -5 in row 2"):
        list(whole.columns("memsets", "bytes"))


def test_functions_that_look_at_other_rows_see_those_that_a_window_leaves_out():
    part = Part(
        InMemory(pa.table({"s": [0, 5, 9]})),
        {"start_ns": "s", "end_ns": "s", "bytes": Computed(("s",), lambda s: np.full(3, s.sum()))},
        is_whole=lambda: True,
    )
    whole = Profile(ORIGIN, {"memsets": lambda: Table(data_model.MEMSETS, [part])})

    ((size,),) = whole.restricted(Selection(((5, 6),))).columns("memsets", "bytes")

    assert size.tolist() == [14]


FIRST_OR_LAST = Choice(("start_ns",), lambda start: np.flatnonzero((start < 5) | (start > 5)))


def test_of_rows_that_are_chosen_checked_columns_are_made_alone():
    seen = []

    def doubled(size):
        seen.append(size.tolist())
        return 2 * size

    columns = {"s": [0, 5, 9], "b": [7, 8, 9], "d": [3, 4, 5]}
    made = {"start_ns": "s", "end_ns": "s", "device_id": "d", "bytes": Computed(("b",), doubled)}
    whole = recording(columns, **made)

    def chosen(*names):
        (piece,) = whole.columns("memsets", *names, choice=FIRST_OR_LAST)
        return [column.tolist() for column in piece]

    assert chosen("bytes", "end_ns") == [[14, 18], [0, 9]]
    assert chosen("device_id", "bytes") == [[3, 5], [14, 18]]
    assert seen == [[7, 8, 9], [7, 9]]


def test_values_of_rows_that_are_not_chosen_are_checked_all_the_same():
    whole = recording({"s": [0, 5], "b": [7, -5]}, start_ns="s", end_ns="s", bytes="b")

    with pytest.raises(CorruptFileError, match="column bytes holds -5 in row 2"):
        list(whole.columns("memsets", "bytes", choice=FIRST_OR_LAST))


def test_rows_are_chosen_among_those_of_a_part_and_of_a_device():
    columns = {"s": [0, 1, 5, 9, 12], "d": [0, 1, 0, 0, 0], "b": [7, 8, 9, 10, 11]}
    keep = Computed(("b",), lambda size: size != 10)
    stored = InMemory(pa.table(columns))
    part = Part(stored, {"start_ns": "s", "end_ns": "s", "device_id": "d", "bytes": "b"}, (keep,))
    whole = Profile(ORIGIN, {"memsets": lambda: Table(data_model.MEMSETS, [part])})
    of_0 = whole.restricted(Selection(device_id=0))

    for _ in range(2):  # unchecked, then checked
        ((size,),) = of_0.columns("memsets", "bytes", choice=FIRST_OR_LAST)
        assert size.tolist() == [7, 11]
        list(whole.columns("memsets", "bytes"))


def test_functions_that_look_at_other_rows_see_those_that_are_not_chosen():
    part = Part(
        InMemory(pa.table({"s": [0, 5, 9]})),
        {"start_ns": "s", "end_ns": "s", "bytes": Computed(("s",), lambda s: np.full(3, s.sum()))},
        is_whole=lambda: True,
    )
    whole = Profile(ORIGIN, {"memsets": lambda: Table(data_model.MEMSETS, [part])})

    for _ in range(2):  # unchecked, then checked
        ((size,),) = whole.columns("memsets", "bytes", choice=FIRST_OR_LAST)
        assert size.tolist() == [14, 14]


class Asked(InMemory):
    """Rows in memory that note which columns they are asked for, and which they keep."""

    def __init__(self, rows):
        super().__init__(rows)
        self.names, self.kept = [], None

    def release(self, but):
        self.kept = sorted(but)

    def pieces(self, names, _=None):
        self.names += names
        for low in range(0, self.rows_known(), 2):  # of two rows each
            yield [column.take(slice(low, low + 2)) for column in next(super().pieces(names))]


def held_memsets(*, starts=(0, 5, 9), keep=()):
    """Three memsets whose times are in arrays, too, once all rows were read."""
    rows = {"s": starts, "e": [2, 9, 11], "d": [0, 1, 0], "b": [7, 8, 9]}
    stored = Asked(pa.table(rows))
    columns = {"start_ns": "s", "end_ns": "e", "device_id": "d", "bytes": "b"}
    table = Table(data_model.MEMSETS, [Part(stored, columns, keep)])
    start = np.concatenate([start.numbers for (start,) in table.pieces(["start_ns"])])
    times = {"start_ns": start.__getitem__, "end_ns": lambda rows: start[rows] + 100}
    table.hold(len(start), times)
    stored.names.clear()
    return table, stored


def _numbers(table, *names, selection=EVERYTHING):
    return [[c.numbers.tolist() for c in piece] for piece in table.pieces(names, selection)]


def test_columns_that_are_held_as_arrays_are_not_asked_of_the_file():
    table, stored = held_memsets()

    assert _numbers(table, "end_ns", "start_ns") == [[[100, 105, 109], [0, 5, 9]]]
    assert stored.names == []
    assert _numbers(table, "bytes", "end_ns") == [[[7, 8], [100, 105]], [[9], [109]]]
    assert stored.names == ["b"]
    assert stored.kept == ["b", "d"]


def test_held_columns_are_those_of_the_rows_that_are_selected():
    table, _ = held_memsets()

    window, device = Selection(((4, 20),)), Selection(device_id=0)

    assert _numbers(table, "end_ns", "bytes", selection=window) == [[[105], [8]], [[109], [9]]]
    assert _numbers(table, "end_ns", "bytes", selection=device) == [[[100], [7]], [[109], [9]]]


def test_of_held_columns_those_of_pieces_outside_of_a_window_are_not_made():
    table, _ = held_memsets()
    made = []

    def end(rows):
        made.append((rows.start, rows.stop))
        return np.array([7, 8, 12])[rows]

    table.hold(3, {"start_ns": np.array([0, 5, 9]).__getitem__, "end_ns": end})
    list(table.pieces(["bytes"]))

    for window, expected in [((6, 20), [(2, 3)]), ((0, 6), [(0, 2)]), ((9, 10), [(2, 3)])]:
        made.clear()
        list(table.pieces(["end_ns", "bytes"], Selection((window,))))
        assert made == expected


def test_a_table_that_is_released_is_read_from_its_file_again():
    table, stored = held_memsets()

    table.release([*data_model.MEMSETS.columns])
    assert _numbers(table, "end_ns") == [[[100, 105, 109]]]
    table.release(["end_ns"])
    assert _numbers(table, "end_ns") == [[[2, 9]], [[11]]]
    assert stored.kept == ["e"]


def test_columns_of_a_table_that_leaves_rows_out_are_not_held():
    odd = Computed(("d",), lambda device: device == 0)

    table, stored = held_memsets(keep=(odd,))

    assert _numbers(table, "end_ns") == [[[2]], [[11]]]
    assert "e" in stored.names


def test_words_of_columns_get_one_numbering():
    words = Words(["a"])

    first = words.numbers(Values(np.array([1, 0, 1]), None, ["b", None]))
    second = words.numbers(Values(np.array([2, 0]), None, ["a", "not met", "b"]))

    assert (first.tolist(), second.tolist()) == ([2, 1, 2], [1, 0])
    assert words.words == ["a", "b", None]


def test_a_number_without_a_word_is_unknown_and_null_stays_null():
    made = translated("kind", {1: "HtoD", 2: "DtoH"})

    numbers = made.make(np.array([2, 1, 9, UNKNOWN]))

    assert [made.words()[n] for n in numbers] == ["DtoH", "HtoD", "unknown", None]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, 3], pa.uint8()), [1, None, 3]),
        (pa.array([2**63], pa.uint64()), [2**63]),
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array(["b", None, "a"]).dictionary_encode(), ["b", None, "a"]),
        (pa.array([5, None, 5]).dictionary_encode(), [5, None, 5]),
        (pa.nulls(2), [None, None]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_columns_of_files_keep_their_values(array, expected):
    assert values(array).listed == expected
    assert values(array.slice(len(array) - 1)).listed == expected[-1:]


NUMBERS = st.integers(0, 3)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 9)), max_size=12)


@given(records=ROWS, waits=ROWS)
def test_a_wait_is_for_the_latest_record_of_its_event_before_it(records, waits):
    process, event, call = np.array([*zip(*records, strict=True)] or [[]] * 3, np.int64)
    found = EventRecords(process, event, call, call).latest(
        0, *np.array([*zip(*waits, strict=True)] or [[]] * 3, np.int64)
    )

    assert found.tolist() == [
        max((c for p, e, c in records if (p, e) == wait[:2] and c < wait[2]), default=UNKNOWN)
        for wait in waits
    ]


@given(pairs=st.sets(st.tuples(NUMBERS, NUMBERS), min_size=1), asked=ROWS)
def test_pairs_have_their_places(pairs, asked):
    ordered = sorted(pairs)
    first, second, _ = np.array([*zip(*asked, strict=True)] or [[]] * 3, np.int64)

    found = pair_places(np.array(ordered, np.int64).T, first, second).tolist()

    assert found == [ordered.index(of[:2]) if of[:2] in pairs else -1 for of in asked]
