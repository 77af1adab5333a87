"""Sums, deviations and quantiles of durations or sizes over the files of a job.

Sums and sums of squares are exact. Of quantiles, up to 1,024 different values of a group are kept
as they are; of more, each is rounded to nine significant bits, that is by 0.2 % at most. The result
is the same in whatever order files are added up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.facts.durations import Figures, deviation, square_sums, total
from gpuprof.facts.numbers import different_codes, first_of, order_of
from gpuprof.model.analysis import PerFile, per_file, summed
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import changes
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Column, Count, Flag, Id, Schema

MOST_VALUES: Final = 1_024
SIGNIFICANT_BITS: Final = 9
# What a reader must know of some figures of a job, before what they are of.
ROUNDING: Final = f"of {MOST_VALUES:,} different values or more are good to 0.2 %"
# Squares take more than 64 bits.
_LOW_BITS: Final = 45
_WORD_BITS: Final = 63
# So many values are counted at a time.
_BATCH: Final = 1_000_000
# Groups of so many values, in the mean, are sorted one by one.
_MANY_OF_ONE: Final = 64
Bools = npt.NDArray[np.bool_]
Rows = tuple[Int64s, Int64s, Int64s, Bools]

HISTOGRAM: Final = {
    "value": Id("The value, in ns or bytes.", required=True),
    "calls": Count("How often.", required=True),
    "is_rounded": Flag(
        "Whether the values of its group are rounded by up to 0.2 %.", required=True
    ),
}
SQUARES: Final = {
    "squares_high": Id("The sum of their squares, without its 45 low bits."),
    "squares_low": Id("These."),
}
_SUMS: Final = {
    "values": Count("How many.", required=True),
    "total": Id("Their sum, in ns or bytes.", required=True),
    "least": Id("The least of them."),
    "most": Id("The greatest of them."),
    **SQUARES,
}
Words = tuple[str | None, ...]


class Distribution(NamedTuple):
    """Values of some groups, as durations by name, computed of each file of a job.

    Args:
        sums: How many values each group has, their sum, extremes and sum of squares.
        histograms: How often each value occurs.
    """

    sums: PerFile
    histograms: PerFile

    def of(self, profile: Profile) -> "Mapping[Words, tuple[Figures, Histogram]]":
        """The figures of each group of a job that has values."""
        table = profile.once(self.sums)
        keys = [name for name in table.column_names if name not in _SUMS]
        rows = {tuple(row[key] for key in keys): row for row in table.to_pylist()}
        of_groups = {}
        for words, histogram in histograms(profile.once(self.histograms), keys):
            row = rows[words]
            count, total_of_all = row["values"], row["total"]
            stddev = deviation(count, total_of_all, squares_of(row))
            mean, median = total_of_all / count, histogram.quantile(0.5)
            figures = Figures(count, total_of_all, row["least"], row["most"], mean, median, stddev)
            of_groups[words] = figures, histogram
        return of_groups


def distribution(
    name: str,
    keys: Mapping[str, Column],
    groups: Callable[[Profile], Iterable[tuple[Words, npt.NDArray[Any]]]],
) -> Distribution:
    """Values of some groups of activities.

    Args:
        name: What the values are: ``durations_of_kernels``.
        keys: What tells groups apart.
        groups: Gives the words of each group of a file, and its values.
    """
    names = [*keys]

    def gathered(profile: Profile) -> list[tuple[Words, npt.NDArray[Any]]]:
        return [*groups(profile)]

    def sums(profile: Profile) -> pa.Table:
        groups = profile.once(gathered)
        batches = [*map(_sums_of, _batches(values for _, values in groups))]
        labels = {name: [words[place] for words, _ in groups] for place, name in enumerate(names)}
        columns = {name: [n for batch in batches for n in batch[name]] for name in _SUMS}
        return sums_schema.of_columns({**labels, **columns})

    def histogram(profile: Profile) -> pa.Table:
        return histogram_table(names, profile.once(gathered))

    def added(rows: pa.Table) -> pa.Table:
        sizes = [column for column in _SUMS if column not in ("least", "most")]
        return summed(rows, names, sizes, ["least"], ["most"])

    sums_schema = Schema(f"sums_of_{name}", "one group", {**keys, **_SUMS})
    schema = Schema(name, "one value of one group", {**keys, **HISTOGRAM})
    return Distribution(
        per_file(sums_schema, added)(sums),
        per_file(schema, lambda rows: combined(rows, names))(histogram),
    )


def _sums_of(groups: Sequence[npt.NDArray[Any]]) -> dict[str, list[int | None]]:
    """The columns `_SUMS` of groups; those without values have no extremes."""
    group, value = _in_one(groups)
    counts = np.bincount(group, minlength=len(groups))
    filled = np.flatnonzero(counts)
    first = (np.cumsum(counts) - counts)[filled]
    columns: dict[str, list[int | None]] = {"values": counts.tolist()}
    for name, function in (("total", np.add), ("least", np.minimum), ("most", np.maximum)):
        column = np.zeros(len(groups), np.int64)
        column[filled] = function.reduceat(value, first)
        columns[name] = [*column.tolist()]
    for place in np.flatnonzero(counts == 0).tolist():
        columns["least"][place] = columns["most"][place] = None
    if int(value.max(initial=0)) * len(value) >= 1 << _WORD_BITS:  # a sum may have wrapped around
        columns["total"] = [*map(total, groups)]
    squares = [*map(square_columns, square_sums(value, group, len(groups)))]
    return columns | {name: [square[name] for square in squares] for name in SQUARES}


def _batches(groups: Iterable[npt.NDArray[Any]]) -> Iterator[list[npt.NDArray[Any]]]:
    """Groups of not many more than `_BATCH` values together."""
    waiting, count = list[npt.NDArray[Any]](), 0
    for values in groups:
        waiting.append(values)
        count += len(values)
        if count > _BATCH:
            yield waiting
            waiting, count = [], 0
    yield waiting


def _in_one(groups: Sequence[npt.NDArray[Any]]) -> tuple[Int64s, Int64s]:
    """The number of the group of each value, and the values of all groups."""
    group = np.repeat(np.arange(len(groups)), [len(values) for values in groups])
    return group, np.concatenate([np.empty(0, np.int64), *groups])


def square_columns(squares: int) -> dict[str, int]:
    """A sum of squares in the columns `SQUARES`."""
    return dict(zip(SQUARES, divmod(squares, 1 << _LOW_BITS), strict=True))


def squares_of(row: Mapping[str, Any]) -> int:
    """A sum of squares from the columns `SQUARES`."""
    return int((row["squares_high"] << _LOW_BITS) + row["squares_low"])


class Histogram:
    """How often each value of one group occurs.

    Args:
        values: The values, none twice.
        calls: How often each occurs.
    """

    def __init__(self, values: Int64s, calls: Int64s) -> None:
        order = np.argsort(values)
        self.values, self.calls = values[order], calls[order]
        self._ends = np.cumsum(self.calls)

    def quantile(self, share: float) -> float:
        """The quantile with linear interpolation, as of all values."""
        place = share * (int(self._ends[-1]) - 1)
        low, high = (
            int(self.values[np.searchsorted(self._ends, number, side="right")])
            for number in (int(place), min(int(place) + 1, int(self._ends[-1]) - 1))
        )
        return low + (place - int(place)) * (high - low)


def histogram_table(
    keys: Sequence[str], groups: Iterable[tuple[Sequence[str | None], npt.NDArray[Any]]]
) -> pa.Table:
    """Histograms of some values by words, in columns ``keys`` and those of `HISTOGRAM`."""
    words, values = [*zip(*groups, strict=True)] or [(), ()]
    parts, first = [], 0
    for batch in _batches(values):
        parts.append(_counted(batch, first))
        first += len(batch)
    group, *columns = map(np.concatenate, zip(*parts, strict=True))
    codes = pa.array(group)
    labels = {
        key: pa.array(column, pa.string()).dictionary_encode().take(codes)
        for key, column in zip(keys, [*zip(*words, strict=True)] or [()] * len(keys), strict=True)
    }
    return pa.table(labels | dict(zip(HISTOGRAM, map(pa.array, columns), strict=True)))


def _counted(groups: Sequence[npt.NDArray[Any]], first: int) -> Rows:
    """The rows of a histogram of some groups, the first of which has this number."""
    if sum(map(len, groups)) >= _MANY_OF_ONE * len(groups):
        # To sort each by itself takes a third of the time of all at once, which are wider.
        groups = [np.sort(values) for values in groups]
    group, value = _in_one(groups)
    rows = _limited(group, value, None, np.zeros(len(groups), bool))
    return rows[0] + first, *rows[1:]


def combined(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """One histogram for each group of several ones.

    ``keys`` are the columns that tell groups apart, beside those of `HISTOGRAM`.
    """
    group, labels = _grouped(table, keys)
    value, calls = (table[name].to_numpy() for name in ("value", "calls"))
    is_wide = np.zeros(labels.num_rows, bool)
    is_wide[group[table["is_rounded"].to_numpy()]] = True
    group, *columns = _limited(group, value, calls, is_wide)
    rows = labels.take(pa.array(group))
    for name, values in zip(HISTOGRAM, columns, strict=True):
        rows = rows.append_column(name, pa.array(values))
    return rows


def _limited(group: Int64s, value: Int64s, calls: Int64s | None, is_rounded: Bools) -> Rows:
    """How often each value of each group occurs, with few values for each.

    Args:
        group: The number of each value's group.
        value: The values.
        calls: How often each occurs there; None for once.
        is_rounded: Of each group whether some of its values are rounded already: all will be.

    Returns:
        The group of each row, and the columns of `HISTOGRAM`.
    """
    if is_rounded.any():
        value = np.where(is_rounded[group], rounded(value), value)
    group, value, calls = _added(group, value, calls)
    is_wide = is_rounded | (np.bincount(group, minlength=len(is_rounded)) > MOST_VALUES)
    if (is_wide & ~is_rounded).any():
        group, value, calls = _added(group, np.where(is_wide[group], rounded(value), value), calls)
    return group, value, calls, is_wide[group]


def _grouped(table: pa.Table, keys: Sequence[str]) -> tuple[Int64s, pa.Table]:
    """The number of each row's group, and what the groups are called, by their numbers."""
    labels = table.select(keys).unify_dictionaries().combine_chunks()
    code = np.zeros(labels.num_rows, np.int64)
    for values in labels.columns:
        coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        for part in coded.chunks:
            of_null = len(part.dictionary)
            code = code * (of_null + 1) + part.indices.fill_null(of_null).to_numpy()
    codes, place = different_codes(code)
    first, group, rows = np.empty(len(codes), np.int64), place.astype(np.int64), changes(code)
    first[group[rows[::-1]]] = rows[::-1]  # what is written last remains
    return group, labels.take(pa.array(first))


def _added(group: Int64s, value: Int64s, calls: Int64s | None) -> tuple[Int64s, Int64s, Int64s]:
    """The calls of each value of each group, added up; each is one call where none are given."""
    rows, bits = len(value), int(value.max(initial=0)).bit_length()
    if bits + int(group.max(initial=0)).bit_length() < _WORD_BITS:
        # One sort takes a third of the time of two, and without its order a fifth of that.
        code = (group << bits) | value
        if calls is not None:
            order = order_of(code)
            code, calls = code[order], calls[order]
        elif (code[1:] < code[:-1]).any():
            code.sort()
        first = changes(code)
        group, value = code[first] >> bits, code[first] & ((1 << bits) - 1)
    else:
        order = np.lexsort((value, group))
        first = first_of(order, group, value)
        group, value = group[order[first]], value[order[first]]
        calls = None if calls is None else calls[order]
    if calls is None or not rows:
        return group, value, np.diff(first, append=rows)
    return group, value, np.add.reduceat(calls, first)


def rounded(values: Int64s) -> Int64s:
    """Values to so many significant bits; what was rounded stays as it is."""
    bits = np.frexp(np.maximum(values, 1).astype(float))[1]
    shift = np.maximum(bits - SIGNIFICANT_BITS, 0).astype(np.int64)
    halves = (np.int64(1) << shift) >> 1
    near: Int64s = ((values + halves) >> shift) << shift
    return near


def histograms(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Histogram]]:
    """Each group of a table of histograms: its values of ``keys``, and its histogram."""
    group, labels = _grouped(table, keys)
    names = list(zip(*(labels[key].to_pylist() for key in keys), strict=True))
    order = np.argsort(group, kind="stable")
    value, calls = (table[name].to_numpy()[order] for name in ("value", "calls"))
    ends = np.cumsum(np.bincount(group, minlength=len(names))).tolist()
    for name, low, high in zip(names, [0, *ends], ends, strict=False):
        yield name, Histogram(value[low:high], calls[low:high])
