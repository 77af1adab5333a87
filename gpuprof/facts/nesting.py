"""NVTX ranges within others of the same text, as recursion and wrapped layers make them.

Both hold the launches of the inner one, which must count once.
"""

import numpy as np

from gpuprof.facts.groups import Numbers, numbered
from gpuprof.facts.nvtx import Ranges
from gpuprof.model.intervals import Int64s


def merged_by_label(ranges: Ranges) -> Ranges:
    """Ranges of one label and thread that overlap as one range, from first start to last end.

    Args:
        ranges: Sorted by start.

    Returns:
        Ranges of one label and thread that share no instant; those that only touch stay two.
    """
    order, lane = _by_lane(ranges, ranges.label)
    start, end = ranges.start_ns[order], ranges.end_ns[order]
    is_other = lane[1:] != lane[:-1]
    # Where no two that follow one another overlap, no others do.
    if (is_other | (start[1:] >= end[:-1])).all():
        return ranges
    reach = _reach(lane, end)
    is_first = np.ones(len(order), bool)
    is_first[1:] = is_other | (start[1:] >= reach[:-1])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(order)) - 1
    chosen = order[first]
    joined = Ranges(
        start[first],
        reach[last],
        ranges.process[chosen],
        ranges.thread[chosen],
        ranges.label[chosen],
        ranges.labels,
    )
    return joined.take(np.argsort(joined.start_ns, kind="stable"))


def without_nested(ranges: Ranges) -> Ranges:
    """The ranges that lie within no other of their thread, whatever the labels.

    Args:
        ranges: Sorted by start, the outer one first of those that start at once.
    """
    order, lane = _by_lane(ranges)
    end = ranges.end_ns[order]
    is_nested = np.zeros(len(order), bool)
    is_nested[1:] = (lane[1:] == lane[:-1]) & (end[1:] <= _reach(lane, end)[:-1])
    return ranges.take(np.sort(order[~is_nested])) if is_nested.any() else ranges


def _by_lane(ranges: Ranges, *further: Numbers) -> tuple[Int64s, Int64s]:
    """The order by process, thread and further columns, and a number for these in that order."""
    columns = [numbered(column) for column in (ranges.process, ranges.thread, *further)]
    order = np.lexsort(columns[::-1])
    is_other = np.zeros(len(order), bool)
    for column in columns:
        ordered = column[order]
        is_other[1:] |= ordered[1:] != ordered[:-1]
    return order, np.cumsum(is_other)


def _reach(lane: Int64s, end: Int64s) -> Int64s:
    """The latest end up to each range of its lane; the lanes are sorted."""
    # Ranks instead of ends, so that a later lane exceeds all ends of an earlier one.
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    highest = np.maximum.accumulate(lane * len(end) + rank)
    reach: Int64s = end[by_end[highest % max(len(end), 1)]]
    return reach
