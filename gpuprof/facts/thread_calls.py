"""What threads were in at some instants: calls and ranges of a thread as disjoint stretches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpuprof.facts.by_number import UNNAMED, names_by_number
from gpuprof.facts.calls import Pairs
from gpuprof.facts.groups import Numbers, groups
from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.nvtx import NO_RANGE, Ranges, open_at
from gpuprof.model.intervals import Int64s, Intervals, meeting
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words

Thread = tuple[int, int]
_PLACE: Final = ("start_ns", "end_ns", "process_id", "thread_id")


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of time of a thread, one element each, with a number of what they are.

    Args:
        start_ns: Start on the host.
        end_ns: End on the host.
        label: What it is.
    """

    start_ns: Int64s
    end_ns: Int64s
    label: Numbers

    def take(self, chosen: Any) -> "Stretches":
        """Some of them."""
        return Stretches(self.start_ns[chosen], self.end_ns[chosen], self.label[chosen])

    def outermost(self) -> "Stretches":
        """Those that lie in no other, cut where one begins before another ended: disjoint."""
        ordered = self.take(np.lexsort((-self.end_ns, self.start_ns)))
        reach = np.maximum.accumulate(ordered.end_ns)[:-1]
        start = ordered.start_ns.copy()
        start[1:] = np.maximum(start[1:], reach)
        return Stretches(start, ordered.end_ns, ordered.label).take(ordered.end_ns > start)

    def innermost(self) -> "Stretches":
        """At each instant the one that began last: disjoint."""
        return _disjoint(self.take(np.lexsort((-self.end_ns, self.start_ns))), is_outermost=False)


def _disjoint(ordered: Stretches, *, is_outermost: bool) -> Stretches:
    """The innermost or outermost at each instant of stretches that are sorted, the outer first."""
    borders = np.unique(np.concatenate([ordered.start_ns, ordered.end_ns]))
    place = open_at(ordered, borders, is_outermost=is_outermost)[:-1]
    is_open = place != NO_RANGE
    return Stretches(borders[:-1][is_open], borders[1:][is_open], ordered.label[place[is_open]])


NO_STRETCHES: Final = Stretches(*(np.empty(0, np.int64) for _ in range(3)))


def api_calls(profile: Profile, label: Callable[[str], int]) -> Iterator[list[Any]]:
    """Start, end, process, thread and, by its name, the label of each API call, in pieces."""
    names = names_by_number(profile, "api_calls")
    labels = names.values(label, label(UNNAMED))
    for *place, number in profile.integers("api_calls", *_PLACE, "name_id"):
        yield [*place, labels.of(number)]


def library_calls(
    profile: Profile, labels: Mapping[str, Callable[[str], int]]
) -> Iterator[list[Any]]:
    """The same of ``host_calls``: the label of a name by library; those of others are left out."""
    if not profile.has("host_calls"):
        return
    texts, pairs, numbers = {"library": Words(labels), "name": Words()}, Pairs(), list[int]()
    for part in profile.stored_columns("host_calls", *_PLACE, *texts, texts=texts) or ():
        *place, library, name = (values.filled for values in part)
        rows = np.flatnonzero(library < len(labels))
        number = pairs.learn(library[rows], name[rows])
        libraries, names = (words.words for words in texts.values())
        for by, of in pairs.values.T[len(numbers) :].tolist():
            numbers.append(labels[str(libraries[by])](str(names[of])))
        yield [*(column[rows] for column in place), np.array(numbers, np.int64)[number]]


def calls_within(
    profile: Profile, instants: Intervals, calls: Iterable[Sequence[Any]]
) -> dict[Thread, Stretches]:
    """The calls of each thread that cover any of some instants of devices, in any order.

    Args:
        profile: The whole recording.
        instants: The instants, on the clock of the devices, as are the times that are returned.
        calls: As from `api_calls` or `library_calls`.
    """
    parts, clock = [[np.empty(0, np.int64)] * 5], host_clock(profile)
    for *times, process, thread, labels in calls:
        place = [*(clock.on_devices(column, process) for column in times), process, thread]
        covering = meeting(Intervals(*place[:2]), instants)
        parts.append([column[covering] for column in (*place, labels)])
    start, end, process, thread, label = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    within = Stretches(start, end, label)
    return {
        (int(process[r[0]]), int(thread[r[0]])): within.take(r) for r in groups(process, thread)
    }


def labelled(calls: Mapping[Thread, Stretches], numbers: Sequence[int]) -> dict[Thread, Stretches]:
    """Those of each thread that have one of some labels."""
    return {thread: of.take(np.isin(of.label, numbers)) for thread, of in calls.items()}


def ranges_within(
    ranges: Ranges, instants: Intervals, labels: Mapping[int, int], *, is_outermost: bool
) -> dict[Thread, Stretches]:
    """The innermost or outermost ranges of each thread as disjoint stretches.

    Args:
        ranges: The ranges.
        instants: Ranges that cover none of these are left out.
        labels: What ranges with a label of these are, by number; others are left out.
        is_outermost: Whether the outermost range is wanted where several are open.
    """
    number = np.full(len(ranges.labels), NO_RANGE)
    number[[*labels]] = [*labels.values()]
    near = ranges.take(meeting(Intervals(ranges.start_ns, ranges.end_ns), instants))
    chosen = near.take(np.flatnonzero(number[near.label] != NO_RANGE))
    labelled = Stretches(chosen.start_ns, chosen.end_ns, number[chosen.label])
    return {
        thread: _disjoint(labelled.take(rows), is_outermost=is_outermost)
        for thread, rows in chosen.lanes.items()
    }
