"""What a typical step runs on each stream, and which operations take another time elsewhere.

An operation is the n-th call of a kernel, or copy of a kind, within a step. It differs where its
times over the steps of one recording lie apart from those over the steps of the other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.base.kernel_names import family
from gpuprof.comparisons.measure.compared_steps import ComparedSteps
from gpuprof.comparisons.measure.matching import plain_name, shared_by
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.step_times import typical_steps
from gpuprof.facts.step_windows import StepWindows
from gpuprof.model.derived import TRANSFER_MOVEMENTS
from gpuprof.model.intervals import Int64s, union
from gpuprof.model.profile import Profile

UNCHANGED, LONGER, SHORTER, ALONE = range(4)
_PLACE: Final = ("start_ns", "end_ns", "device_id", "stream_id")
_NAMES_OF_TABLES: Final = {"memsets": "memset", "graph_launches": "CUDA graph"}
# An operation without length, so that the pause before it is known.
STEP_END: Final = "end of the step"
# Steps whose times are looked at, evenly over all: their spread is what more would have.
_MOST_STEPS: Final = 32
# Of all these steps: a second of work.
_MOST_ROWS: Final = 300_000
# A step, or a recording without steps, of more kernels is not looked at one by one.
_MOST_CALLS: Final = 50_000
# The ends of the middle four fifths of an operation's times, and the median.
_QUANTILES: Final = (0.1, 0.5, 0.9)
# Fewer steps tell no spread: then what may be noise is the larger share of the time.
_LEAST_STEPS: Final = 3
_LEAST_SHARE, _LEAST_SHARE_OF_FEW = 0.02, 0.1
# Clocks of GPUs advance in steps of up to 1 us.
_LEAST_NS: Final = 1_000


class StepOperations(NamedTuple):
    """The operations of a typical step, by start: one element each.

    Args:
        length_ns: How long the step takes.
        origin_ns: When it starts, since the recording's origin.
        steps: Of how many steps the times are.
        device: The device; `UNKNOWN` for none.
        stream: The stream; `UNKNOWN` for none.
        name: Place in ``names``.
        start_ns: Start, since that of the step on its device.
        end_ns: End, on the same clock.
        times_ns: Three rows: what nine tenths of its times over the steps exceed, the median,
            and what one tenth exceeds.
        pauses_ns: The same of the time before it in which its device runs nothing.
        names: Of kernels as recorded; of copies their movement.
    """

    length_ns: int
    origin_ns: int
    steps: int
    device: Int64s
    stream: Int64s
    name: Int64s
    start_ns: Int64s
    end_ns: Int64s
    times_ns: Int64s
    pauses_ns: Int64s
    names: Sequence[str]

    @property
    def usual_ns(self) -> Int64s:
        """The median time of each."""
        usual: Int64s = self.times_ns[1]
        return usual


def operations(compared: ComparedSteps) -> StepOperations | None:
    """The operations of the step nearest to the median, each with its times over up to 32 steps.

    None where the recording has no times, or where a step has more than 50,000 kernels.
    """
    profile = compared.profile.unrestricted
    if not profile.has("kernels", "memcpys"):
        return None
    names: dict[str, int] = {}
    all_series = [series for series in compared.series if len(series.start_ns)]
    step_count = max((len(series.start_ns) for series in all_series), default=1)
    calls = profile.loaded("kernels").rows_known() // step_count + 1
    if calls > _MOST_CALLS:
        return None
    parts = _activities(profile, names)
    most = min(_MOST_STEPS, max(_MOST_ROWS // calls, _LEAST_STEPS))
    columns = columns_of(_looked_at(parts, all_series, most) if all_series else parts, 5)
    if not len(columns[0]):
        return None
    end_name = names.setdefault(STEP_END, len(names))
    if not all_series:
        start, end, device, *_ = columns
        times = np.array([start.min()]), np.array([end.max() + 1])
        all_series = [StepWindows(None, tuple(np.unique(device).tolist()), "", "", *times)]
    of_series = [_of_series(series, columns, end_name, most) for series in all_series]
    if not sum(len(part[3]) for part in of_series):
        return None
    lengths, origins, steps, *fields = zip(*of_series, strict=True)
    columns = [np.concatenate(field, axis=-1) for field in fields]
    order = np.argsort(columns[3], kind="stable")
    ordered = [column[..., order] for column in columns]
    return StepOperations._make([max(lengths), min(origins), max(steps), *ordered, [*names]])


def _chosen(series: StepWindows, most: int) -> tuple[int, Int64s]:
    """The step nearest to the median, and it among those whose times are looked at."""
    lengths = series.end_ns - series.start_ns
    chosen, count = int(typical_steps(lengths)[0]), len(lengths)
    evenly = np.linspace(0, count - 1, min(count, most)).astype(np.int64)
    return chosen, np.union1d(evenly, [chosen])


def _looked_at(
    parts: Iterator[Sequence[Any]], all_series: Sequence[StepWindows], most: int
) -> Iterator[Sequence[Any]]:
    """What starts in any of the steps that are looked at: of millions of rows, few."""
    chosen = [(series, _chosen(series, most)[1]) for series in all_series]
    covered = union(
        *(
            np.concatenate([getattr(series, end)[rows] for series, rows in chosen])
            for end in ("start_ns", "end_ns")
        )
    )
    for part in parts:
        place = np.searchsorted(covered.start, part[0], side="right") - 1
        rows = np.flatnonzero((place >= 0) & (part[0] < covered.end[place]))
        yield [column[rows] for column in part]


def _activities(profile: Profile, names: dict[str, int]) -> Iterator[Sequence[Any]]:
    """Start, end, device, stream and name of all operations, in pieces; names get numbers."""

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    of_kernels = profile.loaded("kernels").names.values(number, number("unnamed"))
    for *place, name_id in profile.columns("kernels", *_PLACE, "name_id"):
        yield *place, of_kernels.of(name_id).astype(np.int64)
    copies = copy_rows(profile)
    kinds = {kind: number(kind) for kind in sorted(TRANSFER_MOVEMENTS)}
    places = {kind: place for place, kind in enumerate(kinds)}
    # Of all others the last.
    kind = np.array([*kinds.values(), number("local copy")])[
        copies.movements(lambda movement: places.get(movement, -1))
    ]
    yield *columns_of(profile.columns("memcpys", *_PLACE), 4), kind
    for table, name in _NAMES_OF_TABLES.items():
        if profile.has(table):
            for place in profile.columns(table, *_PLACE):
                yield *place, np.full(len(place[0]), number(name))


def _of_series(
    series: StepWindows, columns: Sequence[Int64s], end_name: int, most: int
) -> tuple[Any, ...]:
    """The fields of `StepOperations` but names that the steps of one process or device have."""
    chosen, looked_at = _chosen(series, most)
    first, last = series.start_ns[looked_at], series.end_ns[looked_at]
    step = np.searchsorted(first, columns[0], side="right") - 1
    is_inside = (step >= 0) & (columns[0] < last[step]) & np.isin(columns[2], series.devices)
    step, rows = step[is_inside], [column[is_inside].astype(np.int64) for column in columns]
    for device in np.unique(rows[2]).tolist():
        streams, calls = np.unique(rows[3][rows[2] == device], return_counts=True)
        its_end = (
            last,
            last,
            *(np.full(len(last), v) for v in (device, streams[calls.argmax()], end_name)),
        )
        rows = [np.concatenate(pair) for pair in zip(rows, its_end, strict=True)]
        step = np.concatenate([step, np.arange(len(last))])
    order = np.lexsort((rows[0], rows[2], step))
    step, (start, end, device, stream, name) = step[order], (column[order] for column in rows)
    # How long nothing runs before each on its device within its step.
    of_device, begun, ended = _numbered(step, device), start - first[step], end - first[step]
    apart = of_device * (int(ended.max(initial=0)) + 1)
    reached = np.concatenate([[0], np.maximum.accumulate(ended + apart)[:-1]]) - apart
    pause_ns = np.maximum(begun - np.maximum(reached, 0), 0)
    # Which call of its name within its step each is.
    name_in_step = _numbered(of_device, name)
    by_name = np.argsort(name_in_step, kind="stable")
    call = np.empty(len(name_in_step), np.int64)
    call[by_name] = np.arange(len(name_in_step)) - np.searchsorted(
        name_in_step[by_name], name_in_step[by_name]
    )
    group = _numbered(_numbered(device, name), call)
    of_step = np.flatnonzero(looked_at[step] == chosen)
    origin = int(series.start_ns[chosen])
    return (
        *(int(series.end_ns[chosen]) - origin, origin, len(looked_at)),
        *(column[of_step] for column in (device, stream, name, start - origin, end - origin)),
        *(_spread(values, group)[:, group[of_step]] for values in (end - start, pause_ns)),
    )


def _numbered(first: Int64s, second: Int64s) -> Int64s:
    """A number for each pair, the same for equal ones, in their order."""
    pairs = first * (int(second.max(initial=0)) + 2) + second
    numbers: Int64s = np.unique(pairs, return_inverse=True)[1]
    return numbers


def _spread(values: Int64s, group: Int64s) -> Int64s:
    """Of each group the value at each of `_QUANTILES`, between two by their distance."""
    order = np.lexsort((values, group))
    firsts = np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 1))
    last = np.diff([*firsts, len(group)]) - 1
    place = firsts + np.outer(_QUANTILES, last)
    below, above = (values[order][of(place).astype(np.int64)] for of in (np.floor, np.ceil))
    return below + np.rint((place % 1) * (above - below)).astype(np.int64)


def partners(base: StepOperations, candidate: StepOperations) -> Int64s:
    """The operation of the baseline that each of another side's is; -1 for none.

    Calls of a kernel that both sides have as often are the same in their order. Of others, those
    between the same two of these are; then what is left on the same device, then anywhere.
    """
    partner = np.full(len(candidate.name), -1, np.int64)
    # Names are those that all tools write, or their families where only these are on both sides.
    sides = base, candidate
    plain = [[plain_name(name) for name in side.names] for side in sides]
    first, second = (
        {of_side[number] for number in np.unique(side.name).tolist()}
        for side, of_side in zip(sides, plain, strict=True)
    )
    families = shared_by(family, first, second)
    names = [[families.get(name, name) for name in of_side] for of_side in plain]
    for is_on_device, is_between in ((True, True), (True, False), (False, False)):
        unpaired = np.setdiff1d(np.arange(len(base.name)), partner), np.flatnonzero(partner < 0)
        keys = [
            [
                (places[device] if is_on_device else None, of_names[name])
                for device, name in zip(
                    side.device[rows].tolist(), side.name[rows].tolist(), strict=True
                )
            ]
            for side, of_names, rows in zip(sides, names, unpaired, strict=True)
            for places in [{d: place for place, d in enumerate(np.unique(side.device).tolist())}]
        ]
        counts = [*map(Counter, keys)]
        common = {key for key, count in counts[0].items() if counts[1][key] == count}
        calls = [_calls(of_side, common if is_between else set()) for of_side in keys]
        on_both = calls[0].keys() & calls[1].keys()
        pairs = np.array([(calls[1][call], calls[0][call]) for call in on_both], np.int64)
        of_other, of_base = pairs.reshape(-1, 2).T
        partner[unpaired[1][of_other]] = unpaired[0][of_base]
    return partner


def _calls(keys: Sequence[tuple[int | None, str]], common: set[Any]) -> dict[Any, int]:
    """The place of each operation by its key and which of those between two common ones it is."""
    section, count = Counter[int | None](), Counter[Any]()
    places = {}
    for place, key in enumerate(keys):
        section[key[0]] += key in common
        of = key, 0 if key in common else section[key[0]]
        count[of] += 1
        places[*of, count[of]] = place
    return places


def marks(
    base: StepOperations, candidate: StepOperations, partner: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """How each operation of the baseline, and each of another side, differs from its partner.

    Returns:
        `UNCHANGED`, or of both of two `LONGER` or `SHORTER` where the other side's takes longer or
        shorter, or `ALONE`. And how pauses before operations of the other side differ.
    """
    of_base, of_other = np.full(len(base.name), ALONE), np.full(len(candidate.name), ALONE)
    rows, few = np.flatnonzero(partner >= 0), min(base.steps, candidate.steps) < _LEAST_STEPS
    share = _LEAST_SHARE_OF_FEW if few else _LEAST_SHARE
    changes = []
    for before, after in (
        (base.times_ns, candidate.times_ns),
        (base.pauses_ns, candidate.pauses_ns),
    ):
        (low, usual, high), (its_low, its_usual, its_high) = (
            before[:, partner[rows]],
            after[:, rows],
        )
        least_ns = np.maximum(share * np.maximum(usual, its_usual), _LEAST_NS)
        differs = ((its_low > high) | (its_high < low)) & (np.abs(its_usual - usual) >= least_ns)
        change = np.where(its_usual > usual, LONGER, SHORTER)
        changes.append(np.where(differs, change, UNCHANGED))
    of_other[rows] = of_base[partner[rows]] = changes[0]
    pauses = np.full(len(candidate.name), UNCHANGED)
    pauses[rows] = changes[1]
    return of_base, of_other, pauses
