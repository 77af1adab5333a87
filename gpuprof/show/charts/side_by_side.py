"""A typical step of the baseline above one of a candidate, on one axis, with what differs."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import itemgetter
from typing import Final

import numpy as np

from gpuprof.base.kernel_names import short_names
from gpuprof.base.labels import label
from gpuprof.base.short_texts import cut
from gpuprof.base.units import counted, say_ns
from gpuprof.comparisons import Comparison
from gpuprof.comparisons.measure.matching import plain_name
from gpuprof.comparisons.measure.step_operations import (
    ALONE,
    LONGER,
    SHORTER,
    UNCHANGED,
    StepOperations,
    marks,
    operations,
    partners,
)
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import Int64s
from gpuprof.show import Row
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import LARGEST, LONGEST_NAME, MOST_LANES

# Of the candidates those that differ most, so that a page stays small.
_MOST_CANDIDATES: Final = 8
_MOST_OPERATIONS: Final = 3_000


class _Names:
    """Places of the names that operations have on both sides, as people know them."""

    def __init__(self, sides: list[StepOperations], *, has_full_names: bool) -> None:
        self._first: dict[str, str] = {}
        for name in (name for side in sides for name in side.names):
            self._first.setdefault(plain_name(name), name)
        names = self._first.values()
        self._called = {n: n for n in names} if has_full_names else short_names(names)
        self.places: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The place of a name as recorded."""
        called = self._called[self._first[plain_name(name)]]
        return self.places.setdefault(cut(clean(label(called)), LONGEST_NAME), len(self.places))


def side_by_side(
    result: Comparison, labels: Mapping[str, str], *, has_full_names: bool = False
) -> Row | None:
    """The operations of both steps by lane, and the largest differences, for the page's script.

    A lane has its operations as one flat list of three whole numbers: the time since the last
    one's start, the length, and the place of the name in ``names``; ``usual`` is the median time
    of each over the steps. All times are in ns. For each lane of the baseline, and of a candidate,
    ``marks`` of the candidate has two numbers per operation: how it differs, as
    `step_operations.marks` numbers it, and the usual time of its partner.

    Args:
        result: The comparison.
        labels: How each variant is called.
        has_full_names: Whether kernels have their full names.

    Returns:
        None where the baseline, or every candidate, has no step of known times.
    """
    known_steps = {variant: operations(part) for variant, part in result.compared.items()}
    sides = {variant: side for variant, side in known_steps.items() if side is not None}
    if (base := sides.pop(result.baseline, None)) is None or not sides:
        return None
    largest = sorted(sides, key=lambda variant: -abs(sides[variant].length_ns - base.length_ns))
    shown_variants = [variant for variant in sides if variant in largest[:_MOST_CANDIDATES]]
    names = _Names([base, *sides.values()], has_full_names=has_full_names)
    of_pairs = {variant: partners(base, sides[variant]) for variant in shown_variants}
    of_marks = {
        variant: marks(base, sides[variant], of_pairs[variant]) for variant in shown_variants
    }
    differs = np.any([of_base != UNCHANGED for of_base, *_ in of_marks.values()], axis=0)

    def shown_side(variant: str, side: StepOperations, lanes: list[Int64s]) -> Row:
        devices = names_of(result.compared[variant].profile.unrestricted)
        return {"label": labels[variant]} | _side(side, lanes, names, devices)

    base_lanes = _lanes(base, differs)
    candidates = []
    for variant in shown_variants:
        side, partner = sides[variant], of_pairs[variant]
        of_base, of_side, _ = of_marks[variant]
        lanes, its_usual = _lanes(side, of_side != UNCHANGED), np.zeros(len(base.name), np.int64)
        has_partner = partner >= 0
        its_usual[partner[has_partner]] = side.usual_ns[has_partner]
        usual = np.where(has_partner, base.usual_ns[partner], 0)
        shown = shown_side(variant, side, lanes)
        shown["marks"] = [
            np.stack([mark[rows], other_ns[rows]], axis=1).ravel().tolist()
            for of_lanes, mark, other_ns in (
                (base_lanes, of_base, its_usual),
                (lanes, of_side, usual),
            )
            for rows in of_lanes
        ]
        two_labels = labels[result.baseline], labels[variant]
        shown["largest"] = _largest((base, side), partner, of_marks[variant], two_labels, names)
        candidates.append(shown)
    return {
        "baseline": shown_side(result.baseline, base, base_lanes),
        "candidates": candidates,
        "names": [*names.places],
        "left_out": len(sides) - len(shown_variants),
        "marked": "differences",
    }


def _lanes(side: StepOperations, differs: np.typing.NDArray[np.bool_]) -> list[Int64s]:
    """The operations of each lane that is shown: those that differ, and the longest."""
    duration = side.end_ns - side.start_ns
    weight = duration + np.where(differs, duration.max(initial=0), 0)
    drawn_rows = np.sort(np.argsort(-weight, kind="stable")[:_MOST_OPERATIONS])
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in drawn_rows.tolist():
        rows[int(side.device[row]), int(side.stream[row])].append(row)
    lanes = {place: np.array(of_lane) for place, of_lane in rows.items()}
    busiest = sorted(lanes, key=lambda place: -int(duration[lanes[place]].sum()))
    return [lanes[place] for place in sorted(busiest[:MOST_LANES])]


def _side(side: StepOperations, lanes: list[Int64s], names: _Names, devices: DeviceNames) -> Row:
    """One variant's step for the script."""
    streams = Counter(int(side.device[rows[0]]) for rows in lanes)
    shown = []
    for rows in lanes:
        device, stream = if_known(int(side.device[rows[0]])), int(side.stream[rows[0]])
        start, end = side.start_ns[rows], side.end_ns[rows]
        of_names = [names.of(side.names[name]) for name in side.name[rows].tolist()]
        flat = np.stack([np.diff(start, prepend=0), end - start, of_names], axis=1)
        is_only = streams[int(side.device[rows[0]])] == 1
        on_stream = "" if is_only or stream == UNKNOWN else f", stream {stream}"
        shown.append(
            {
                "name": f"{devices.called(device)}{on_stream}",
                "operations": flat.ravel().tolist(),
                "usual": side.usual_ns[rows].tolist(),
            }
        )
    left_out = len(side.name) - sum(map(len, lanes))
    times = {"length": side.length_ns, "origin": side.origin_ns}
    return times | {"lanes": shown, "left_out": left_out}


def _largest(
    sides: tuple[StepOperations, StepOperations],
    partner: Int64s,
    of_marks: tuple[Int64s, Int64s, Int64s],
    labels: tuple[str, str],
    names: _Names,
) -> list[Row]:
    """What differs most by name, each with the place of its largest difference."""
    base, side = sides
    changes_by_key: dict[tuple[int, str], list[tuple[int, int, int, int]]] = defaultdict(list)

    def add(of: StepOperations, row: int, how: str, more_ns: int, before_ns: int = 0) -> None:
        start, end = int(of.start_ns[row]), int(of.end_ns[row])
        times = (start - before_ns, start) if before_ns else (start, end)
        changes_by_key[names.of(of.names[of.name[row]]), how].append(
            (more_ns, *times, int(of is side))
        )

    for number, of, sign in ((0, base, -1), (1, side, 1)):
        for row in np.flatnonzero(of_marks[number] == ALONE).tolist():
            add(of, row, f"only in {labels[number]}", sign * int(of.usual_ns[row]))
    more_ns = side.usual_ns - base.usual_ns[partner]
    for row in np.flatnonzero((of_marks[1] == LONGER) | (of_marks[1] == SHORTER)).tolist():
        add(side, row, "longer" if more_ns[row] > 0 else "shorter", int(more_ns[row]))
    pause_ns = side.pauses_ns[1]
    more_ns = pause_ns - base.pauses_ns[1][partner]
    for row in np.flatnonzero(of_marks[2] != UNCHANGED).tolist():
        how = "longer pause before it" if more_ns[row] > 0 else "shorter pause before it"
        add(side, row, how, int(more_ns[row]), max(int(pause_ns[row]), 1))
    sums = {key: sum(map(itemgetter(0), of_key)) for key, of_key in changes_by_key.items()}
    rows, called = [], [*names.places]
    for key in sorted(sums, key=lambda key: -abs(sums[key]))[:LARGEST]:
        (place, how), of_key, sum_ns = key, changes_by_key[key], sums[key]
        _, *there = max(of_key, key=lambda change: abs(change[0]))
        plus = "+" if sum_ns > 0 else "-"
        words = f"{how}: {plus}{say_ns(abs(sum_ns))} in {counted(len(of_key), 'call', 'calls')}"
        where = dict(zip(("start", "end", "side"), there, strict=True))
        rows.append({"name": called[place], "words": words} | where)
    return rows
