"""What threads were in at some instants: calls and ranges of a thread as disjoint stretches."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpuprof.analyses.facts.by_number import names_by_number
from gpuprof.analyses.facts.groups import Numbers, groups
from gpuprof.analyses.facts.host_clock import host_clock
from gpuprof.analyses.facts.nvtx import NO_RANGE, Ranges, open_at
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s, Intervals, meeting
from gpuprof.profile import Profile

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

    def take(self, chosen: Any) -> "Stretches":  # noqa: ANN401 - an index of any kind
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


def calls_within(
    profile: Profile,
    table: str,
    instants: Intervals,
    label: Callable[[str], int],
    where: str = "",
) -> dict[Thread, Stretches]:
    """The calls of each thread that cover any of some instants of devices, in any order.

    Args:
        profile: The whole recording is read.
        table: A table of calls.
        instants: The instants, on the clock of the devices, as are the calls' times.
        label: What calls of a name are, by number.
        where: SQL: which calls; empty for all.
    """
    parts = [[np.empty(0, np.int64)] * 5]
    clock = host_clock(profile)
    for *times, process, thread, names in _rows(profile.unrestricted, table, label, where):
        place = [*(clock.on_devices(column, process) for column in times), process, thread]
        covering = meeting(Intervals(*place[:2]), instants)
        parts.append([column[covering] for column in (*place, names)])
    start, end, process, thread, labels = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    calls = Stretches(start, end, labels)
    return {(int(process[r[0]]), int(thread[r[0]])): calls.take(r) for r in groups(process, thread)}


def _rows(
    profile: Profile, table: str, label: Callable[[str], int], where: str
) -> Iterator[list[Any]]:
    """Start, end, process, thread and label of all calls, in pieces."""
    if not where:
        names = names_by_number(profile, table)
        labels = names.values(label, label("unknown"))
        for *place, number in profile.integers(table, *_PLACE, "name_id"):
            yield [*place, labels.of(number)]
        return
    place_columns = ", ".join(f"coalesce({column}, {UNKNOWN})" for column in _PLACE)
    for batch in profile.batches(f"SELECT {place_columns}, name FROM {table} {where}"):
        words = batch.columns[4].dictionary_encode()
        labels_of = np.array([label(name) for name in words.dictionary.to_pylist()], np.int64)
        yield [*map(np.from_dlpack, batch.columns[:4]), labels_of[np.from_dlpack(words.indices)]]


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
