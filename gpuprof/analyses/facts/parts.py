"""Which part of a recording to look at: from words of a user to a `Selection`."""

from dataclasses import replace
from typing import Final

import numpy as np

from gpuprof.errors import EmptyRecordingError, MissingTableError, UsageError
from gpuprof.intervals import Intervals, intersection, union
from gpuprof.profile import Profile
from gpuprof.selection import Selection
from gpuprof.window import Window, extent, origin_of_part, timed_tables

_ALWAYS = Intervals(np.array([-(2**62)]), np.array([2**62]))
_OF_DEVICES: Final = ("devices", "kernels", "memcpys", "memsets", "graph_launches")
_CUT: Final = "Sums are of what starts in it; the time of a device is cut at its borders."


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
        UsageError: The window is empty, no such range launched anything, or no such device is in
            the recording.
        EmptyRecordingError: Nothing runs in the window.
        MissingTableError: The recording holds sums only, or ranges are asked for and were not
            recorded.
    """
    if from_ns is None and to_ns is None and range_text is None and device_id is None:
        return profile
    if not timed_tables(profile):
        msg = f"{profile.origin.source} holds sums only, no part of which can be told"
        raise MissingTableError(msg, "Record with `gpuprof record`, which keeps every activity.")
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
    pairs = None if windows is _ALWAYS else _pairs(windows)
    words = _words(from_ns, to_ns, range_text, device_id)
    if device_id is not None:
        _check_device(profile, device_id)
    if pairs is not None:
        _check_windows(profile, pairs, words)
    origin = origin_of_part(profile, f"{words}.{'' if pairs is None else f' {_CUT}'}")
    return replace(profile.restricted(Selection(pairs, device_id)), origin=origin)


def _words(
    from_ns: int | None, to_ns: int | None, range_text: str | None, device_id: int | None
) -> str:
    """The part for people: ``device 0, ranges "forward", from 1.500 s to 2.000 s``."""
    words = [] if device_id is None else [f"device {device_id}"]
    words += [] if range_text is None else [f'what ranges "{range_text}" launched']
    words += [] if from_ns is None and to_ns is None else [Window(from_ns, to_ns).words]
    return ", ".join(words)


def _check_device(profile: Profile, device_id: int) -> None:
    """See that a device is in the recording: a mistyped one would have done nothing."""
    held = [table for table in _OF_DEVICES if profile.has(table)]
    ends = {"memcpys": "unnest([device_id, src_device_id, dst_device_id])"}
    columns = {table: f"SELECT {ends.get(table, 'device_id')} AS id FROM {table}" for table in held}
    for sql in columns.values():
        if profile.query(f"SELECT 1 AS found FROM ({sql}) WHERE id = {device_id} LIMIT 1").num_rows:
            return
    every = f"SELECT DISTINCT id FROM ({' UNION ALL '.join(columns.values())})" if columns else ""
    rows = profile.query(f"{every} WHERE id IS NOT NULL ORDER BY id").to_pylist() if every else []
    known = ", ".join(str(row["id"]) for row in rows)
    msg = f"no device {device_id} is in {profile.origin.source}"
    raise UsageError(msg, f"Devices: {known}." if known else "It names no device.")


def _check_windows(profile: Profile, windows: tuple[tuple[int, int], ...], words: str) -> None:
    """See that anything runs in the windows: a mistyped time would show zeros."""
    names = timed_tables(profile)
    if windows:
        first, last = windows[0][0], windows[-1][1]
        within = f"start_ns < {last} AND (end_ns > {first} OR start_ns >= {first})"
        for name in names:
            if profile.query(f"SELECT 1 AS found FROM {name} WHERE {within} LIMIT 1").num_rows:
                return
    msg = f"{profile.origin.source}: nothing runs in this part, {words}"
    raise EmptyRecordingError(msg, extent(profile, names))


def projected(profile: Profile, text: str) -> Intervals:
    """From first start to last end of what each range of a text launched."""
    from gpuprof.analyses.facts.launches import launches  # noqa: PLC0415 - start-up time
    from gpuprof.analyses.facts.nvtx import (  # noqa: PLC0415
        families,
        launches_within,
        ranges_like,
    )

    profile.require("nvtx_ranges", "api_calls")
    chosen = ranges_like(profile, text)
    starts, ends = [], []
    for family, ordered in families(chosen, launches(profile)):
        spans = launches_within(family, ordered)
        first, last = spans.extent(ordered)
        starts.append(first)
        ends.append(last)
    found = union(np.concatenate(starts), np.concatenate(ends)) if starts else union([], [])
    if not len(found):
        what = "launched nothing" if len(chosen) else "is in this recording"
        msg = f'NVTX range "{text}" {what}' if len(chosen) else f'no NVTX range "{text}" {what}'
        raise UsageError(msg, "See `--table ranges` for those that launched something.")
    return found


def _pairs(windows: Intervals) -> tuple[tuple[int, int], ...]:
    return tuple(zip(windows.start.tolist(), windows.end.tolist(), strict=True))
