"""Which part of a recording to look at: from words of a user to a `Part`."""

import fnmatch

import numpy as np

from gpuprof.analyses.launches import launches
from gpuprof.analyses.nvtx import families, launches_within, ranges_of
from gpuprof.errors import UsageError
from gpuprof.intervals import Intervals, intersection, union
from gpuprof.profile import Part, Profile

_ALWAYS = Intervals(np.array([-(2**62)]), np.array([2**62]))


def part_of(
    profile: Profile,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    range_text: str | None = None,
    device_id: int | None = None,
) -> Profile:
    """The part of a recording in a window, in NVTX ranges, or on a device.

    Args:
        profile: The recording.
        from_ns: Start of the window since the recording's origin; None for its beginning.
        to_ns: End of the window, half-open; None for its end.
        range_text: Text of NVTX ranges, in which * stands for anything. The part is the time
            from the first start to the last end of what each such range launched.
        device_id: The device; None for all.

    Raises:
        UsageError: The window is empty, or no such range launched anything.
        MissingTableError: Ranges are asked for and were not recorded.
    """
    windows = _ALWAYS
    if from_ns is not None or to_ns is not None:
        start = -(2**62) if from_ns is None else from_ns
        end = 2**62 if to_ns is None else to_ns
        if start >= end:
            msg = "the window is empty: --from is not before --to"
            raise UsageError(msg, "Give times since the recording's origin, as in --from 1.5s.")
        windows = union([start], [end])
    if range_text is not None:
        windows = intersection(windows, projected(profile, range_text))
    if windows is _ALWAYS and device_id is None:
        return profile
    pairs = None if windows is _ALWAYS else _pairs(windows)
    return profile.restricted(Part(pairs, device_id))


def projected(profile: Profile, text: str) -> Intervals:
    """From first start to last end of what each range of a text launched."""
    profile.require("nvtx_ranges", "api_calls")
    held = ranges_of(profile)
    matching = [i for i, label in enumerate(held.labels) if fnmatch.fnmatchcase(label[0], text)]
    chosen = held.take(np.flatnonzero(np.isin(held.label, matching)))
    starts, ends = [], []
    for family, ordered in families(chosen, launches(profile)):
        spans = launches_within(family, ordered)
        first, last = spans.extent(ordered)
        starts.append(first)
        ends.append(last)
    found = union(np.concatenate(starts), np.concatenate(ends)) if starts else union([], [])
    if not len(found):
        what = "launched nothing" if matching else "is in this recording"
        msg = f'NVTX range "{text}" {what}' if matching else f'no NVTX range "{text}" {what}'
        raise UsageError(msg, "See `--table ranges` for those that launched something.")
    return found


def _pairs(windows: Intervals) -> tuple[tuple[int, int], ...]:
    return tuple(zip(windows.start.tolist(), windows.end.tolist(), strict=True))
