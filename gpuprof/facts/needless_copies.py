"""Copies that need not be: there and straight back, in turns, and the same again in every step."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.base.units import counted, say_bytes
from gpuprof.facts.copies import UVM, Copies, end_name
from gpuprof.facts.moves import followers, kernel_ns, moves, origins, parts_around
from gpuprof.facts.numbers import groups
from gpuprof.facts.nvtx import NO_RANGE
from gpuprof.facts.step_windows import StepWindows, by_period, masked, step_windows
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s, Intervals, together, union
from gpuprof.model.profile import Profile, once_per_profile

# Steps and ranges of more events take longer than all else that a report says first.
_MOST_EVENTS: Final = 1_000_000
# So many of each kind are listed, the costliest.
WORST: Final = 20
# What occurs once repeats nothing.
_LEAST: Final = 2
# Smaller copies are loss values and flags, which the host must read.
_LEAST_BYTES: Final = 1024
_LEAST_STEPS: Final = 3

Row = dict[str, Any]
# The ways there and the ways back, in the same order.
Pairs = tuple[Copies, Copies]


class Avoidable(NamedTuple):
    """Copies that need not be.

    Args:
        running: When the copies run; all go to and fro between the same two memories.
        phrase: What a device waits for, for a finding.
        suggestion: What to try.
        table: The table that tells more.
    """

    running: Intervals
    phrase: str
    suggestion: str
    table: str


def not_sought(profile: Profile) -> str:
    """What is not looked for in a large recording, in a sentence; empty for a small one."""
    if profile.events <= _MOST_EVENTS:
        return ""
    return (
        f"The recording has more than {_MOST_EVENTS:,} events, so findings leave out repeated"
        " copies, alternation and the occupancy of kernels; see --table repeated_transfers,"
        " --table alternation and --table kernel_occupancy."
    )


@once_per_profile
def avoidable(profile: Profile) -> list[Avoidable]:
    """What goes there and back; of recordings that are not large, what is repeated, too."""
    (there, back), alike = repeated_pairs(profile)
    rows = np.concatenate([np.empty(0, np.int64), *alike])
    there, back = there.take(rows), back.take(rows)
    # Input that the host gives and results that it takes are as they should be. Devices that
    # exchange borders copy both ways, too: only what comes back after a kernel ran is meant.
    works = kernel_ns(profile, there.dst, there.end_ns, back.start_ns) > 0
    is_meant = (works | (there.dst == HOST)) & (there.src != HOST)
    is_meant &= ~_are_exchanged(profile, there, back)
    there, back = there.take(is_meant), back.take(is_meant)
    needless = []
    for rows in groups(there.src, there.dst):
        src, dst = int(there.src[rows[0]]), int(there.dst[rows[0]])
        phrase = (
            f"{counted(len(rows), 'copy', 'copies')} from {end_name(src)} to {end_name(dst)} that"
            f" {'comes' if len(rows) == 1 else 'come'} straight back in the same size"
        )
        instants = _running(there, back, rows=rows)
        needless.append(Avoidable(instants, phrase, suggestion(src, dst), "ping_pong"))
    if not_sought(profile):
        return needless
    for (out, home), row in turns(profile)[:WORST]:
        there_in, back_in = f'in "{row["there"]}"', f'in "{row["back"]}"'
        phrase = f"turns from {row['src']} to {row['dst']} {there_in} and back {back_in}"
        needless.append(Avoidable(_running(out, home), phrase, row["suggestion"], "alternation"))
    for copies, row in copied_again(profile):
        size = say_bytes(row["copy_bytes"])
        phrase = f"copies of {size} from {row['src']} to {row['dst']} that every step makes again"
        needless.append(
            Avoidable(_running(copies), phrase, row["suggestion"], "repeated_transfers")
        )
    return needless


def _running(*copies: Copies, rows: slice | Int64s = slice(None)) -> Intervals:
    return together([union(some.start_ns[rows], some.end_ns[rows]) for some in copies])


def _are_exchanged(profile: Profile, there: Copies, back: Copies) -> npt.NDArray[np.bool_]:
    """Whether two devices give one another what they have, and then both work.

    So neighbours do that exchange borders: the first copy of such a pair was sent before a kernel
    saw what the other device had sent last.
    """
    copies = moves(profile)
    exchanged = [np.empty((0, 3), np.int64)]
    for rows in groups(np.minimum(copies.src, copies.dst), np.maximum(copies.src, copies.dst)):
        if HOST in {copies.src[rows[0]], copies.dst[rows[0]]}:
            continue
        place, is_first_way = np.arange(len(rows)), copies.src[rows] == copies.src[rows[0]]
        # Of each copy, the last one before it in the other direction.
        one_way, other_way = (
            np.maximum.accumulate(np.where(is_way, place, -1))
            for is_way in (is_first_way, ~is_first_way)
        )
        opposite = np.where(is_first_way, other_way, one_way)
        has_one = opposite >= 0
        sent, later = rows[opposite[has_one]], rows[has_one]
        ends = copies.dst[sent], copies.end_ns[sent], copies.start_ns[later]
        exchanged.append(_keys(copies, later[kernel_ns(profile, *ends) == 0]))
    keys = np.concatenate([*exchanged, _keys(there, np.arange(len(there)))])
    _, number = np.unique(keys, axis=0, return_inverse=True)
    before, of_copies = np.split(number.reshape(-1), [len(keys) - len(there)])
    is_exchanged: npt.NDArray[np.bool_] = np.isin(of_copies, before)
    return is_exchanged & (kernel_ns(profile, there.src, there.end_ns, back.start_ns) > 0)


def _keys(copies: Copies, rows: Int64s) -> Int64s:
    columns = copies.start_ns, copies.src, copies.dst
    return np.stack([column[rows] for column in columns], axis=1).astype(np.int64)


@once_per_profile
def repeated_pairs(profile: Profile) -> tuple[Pairs, list[Int64s]]:
    """All pairs, and the indices of those of one way and one size that occur more than once.

    Each copy belongs to one pair at most; the costliest come first.
    """
    copies = moves(profile)
    some = copies.take((copies.bytes >= _LEAST_BYTES) & (copies.path != UVM))
    first, next_ = followers(some)
    is_turn = (some.src[next_] == some.dst[first]) & (some.bytes[next_] == some.bytes[first])
    is_turn &= some.start_ns[next_] >= some.end_ns[first]
    # In a run of turns, every second one opens a pair. A run ends where the next turn does
    # not begin with the copy that ended this one: between other memories.
    place = np.arange(len(first))
    is_new = np.ones(len(first), bool)
    is_new[1:] = first[1:] != next_[:-1]
    before = np.where(~is_turn, place, np.where(is_new, place - 1, -1))
    nth = place - np.maximum.accumulate(before)
    opening = np.flatnonzero(is_turn & (nth % 2 == 1))
    there, back = some.take(first[opening]), some.take(next_[opening])
    cost_ns = there.duration_ns + back.duration_ns
    alike = groups(there.src, there.dst, there.bytes)
    repeated = [rows for rows in alike if len(rows) >= _LEAST]
    return (there, back), sorted(repeated, key=lambda rows: -int(cost_ns[rows].sum()))


def suggestion(src: int, dst: int) -> str:
    """What to try against data that goes there and straight back."""
    if dst == HOST:
        return f"keep it on {end_name(src)}: do on the device what the host does with it"
    if src == HOST:
        return f"keep the result on {end_name(dst)} until the host needs it"
    return f"run what works on it on {end_name(dst)} where its input lives: {end_name(src)}"


@once_per_profile
def turns(profile: Profile) -> list[tuple[Pairs, Row]]:
    """The copies there and back of all turns between two ranges, with their row in `alternation`.

    None where calls or ranges were not recorded; the costliest first.
    """
    if not profile.unrestricted.has("nvtx_ranges", "api_calls"):
        return []
    copies = moves(profile)
    copies = copies.take((copies.src != HOST) & (copies.dst != HOST))
    first, second = followers(copies)
    is_turn = copies.src[second] == copies.dst[first]
    between = copies.end_ns[first], copies.start_ns[second]
    is_turn &= kernel_ns(profile, copies.dst[first], *between) > 0
    there, back = copies.take(first[is_turn]), copies.take(second[is_turn])
    # Operations are no parts that can be placed: what `aten::to` copies there, its node of the
    # backward pass copies back, as it must.
    (out, texts), (home, _) = (parts_around(profile, way) for way in (there, back))
    is_other = (out != NO_RANGE) & (home != NO_RANGE) & (out != home)
    there, back, out, home = (
        there.take(is_other), back.take(is_other), out[is_other], home[is_other],
    )  # fmt: skip
    alternations = []
    for rows in groups(there.src, there.dst, out, home):
        if len(rows) >= _LEAST:
            some, of_out, of_home = there.take(rows), texts[out[rows[0]]], texts[home[rows[0]]]
            row = {
                "src": end_name(int(some.src[0])),
                "dst": end_name(int(some.dst[0])),
                "there": of_out,
                "back": of_home,
                "turns": len(some),
                "total_ns": int(some.duration_ns.sum()),
                "bytes": int(some.bytes.sum()) if (some.bytes >= 0).all() else None,
                "suggestion": f'place "{of_out}" and "{of_home}" on one device',
            }
            alternations.append(((some, back.take(rows)), row))
    return sorted(alternations, key=lambda copies_and_row: -copies_and_row[1]["total_ns"])


@once_per_profile
def copied_again(profile: Profile) -> list[tuple[Copies, Row]]:
    """The copies that every step makes again, with their row in `repeated_transfers`.

    The longest exposed and the largest first, twenty at most.
    """
    all_copies = moves(profile)
    # What is copied back to the host are results, which differ from step to step.
    all_copies = all_copies.take(
        (all_copies.dst != HOST) & (all_copies.path != UVM) & (all_copies.bytes > 0)
    )
    if not len(all_copies):
        return []
    hidden_ns = kernel_ns(profile, all_copies.dst, all_copies.start_ns, all_copies.end_ns)
    exposed_ns = np.maximum(all_copies.duration_ns - hidden_ns, 0)
    # What launched each copy, and the texts of that by these numbers.
    places, names = np.full(len(all_copies), NO_RANGE), list[str]()
    if profile.unrestricted.has("nvtx_ranges", "api_calls"):
        # Ranges that differ in digits alone are one place: they often number the step.
        origin, texts = origins(profile, all_copies)
        alike = [masked(text) for text in texts]
        names = sorted({*alike})
        number = {name: place for place, name in enumerate(names)}
        # A copy in no range has the number -1, which is that of the last one here.
        places = np.array([*(number[text] for text in alike), NO_RANGE])[origin]
    repeated = [
        places_and_row
        for series in map(by_period, step_windows(profile))
        for places_and_row in _of_series(profile, series, all_copies, exposed_ns, (places, names))
    ]
    repeated.sort(key=lambda places_and_row: cost_of_repeated(places_and_row[1]))
    return [(all_copies.take(places), row) for places, row in repeated[:WORST]]


def cost_of_repeated(row: Row) -> tuple[int, int, float, str]:
    """What rows of `repeated_transfers` are sorted by."""
    return (
        -(row.get("exposed_ns") or 0),
        -(row.get("total_ns") or 0),
        -(row["bytes_per_step"] or 0),
        row["src"] + row["dst"],
    )


def _of_series(
    profile: Profile,
    series: StepWindows,
    all_copies: Copies,
    exposed_ns: Int64s,
    ranges: tuple[Int64s, list[str]],
) -> Iterator[tuple[Int64s, Row]]:
    """Which copies every step of a series makes again."""
    steps = np.flatnonzero(profile.selection.holds(series.start_ns))
    if len(series.between):
        steps = steps[steps < len(series.start_ns) - 1]  # the last one's period is not known
    if len(steps) < _LEAST_STEPS:
        return
    start, end = series.start_ns[steps], series.end_ns[steps]
    step = np.searchsorted(start, all_copies.start_ns, side="right") - 1
    is_ours = (step >= 0) & (all_copies.start_ns < end[np.maximum(step, 0)])
    is_ours &= (
        np.isin(all_copies.dst, series.devices)
        if series.process_id is None
        else all_copies.process == series.process_id
    )
    chosen = np.flatnonzero(is_ours)
    places, names = ranges[0][chosen], ranges[1]
    if series.text in names:  # the step itself is no place in it
        places[places == names.index(series.text)] = NO_RANGE
    keys = (column[chosen] for column in (all_copies.src, all_copies.dst, all_copies.bytes))
    for alike in groups(*keys, places):
        rows = chosen[alike]
        # Copies are in the order of their starts.
        if 1 + np.count_nonzero(np.diff(step[rows])) == len(steps):
            row = _repeated_row(series, all_copies, rows, len(steps))
            place = int(places[alike[0]])
            name = None if place == NO_RANGE else names[place]
            yield rows, row | {"exposed_ns": int(exposed_ns[rows].sum()), "range": name}


def _repeated_row(series: StepWindows, copies: Copies, rows: Int64s, steps: int) -> Row:
    src, dst, size = (int(of[rows[0]]) for of in (copies.src, copies.dst, copies.bytes))
    calls = len(rows)
    keep = f"copy it from {end_name(src)} to {end_name(dst)} once and keep it"
    advice = f"if it is the same data in every step, {keep}"
    # What comes from the host once a step is mostly its batch: it has the same size, not the same
    # data. No recording has the addresses of copies.
    if src == HOST and calls <= steps:
        advice = (
            "copy the next batch while this one computes (pinned memory, non_blocking, a stream of"
            f" its own); {advice}"
        )
    return {
        "process_id": series.process_id,
        "src": end_name(src),
        "dst": end_name(dst),
        "copy_bytes": size,
        "steps": steps,
        "step_source": series.source,
        "calls_per_step": calls / steps,
        "bytes_per_step": calls * size / steps,
        "total_ns": int(copies.duration_ns[rows].sum()),
        "suggestion": advice,
    }
