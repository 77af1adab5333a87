"""Which part of a recording to look at: from words of a user to a `Selection`."""

from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from gpuprof.base.errors import EmptyRecordingError, MissingTableError, UsageError
from gpuprof.base.units import format_ns
from gpuprof.model.data_model import BY_NAME, NVTX_RANGES, RECORDED_STEPS
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import intersection, single
from gpuprof.model.profile import Profile
from gpuprof.model.table import ENDS, Selection

_RANGES: Final = NVTX_RANGES.name
_OF_DEVICES: Final = ("devices", "kernels", "memcpys", "memsets", "graph_launches")
_CUT_AT_BORDERS: Final = (
    "Sums are of what starts in it; the time of a device is cut at its borders."
)


@dataclass(frozen=True)
class RecordingPart:
    """The part of a recording that a user asks for, by any of these.

    Args:
        from_ns: Start of a window, since the recording's origin.
        to_ns: End of the window, half-open.
        range_text: Text of NVTX ranges, in which * stands for anything. The part is the time
            from the first start to the last end of what each such range launched.
        occurrence: Which of these ranges, 0 for the one that starts first; None for all.
        device_id: The device.

    Raises:
        UsageError: The window is empty, or an occurrence is given without a range.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    range_text: str | None = None
    occurrence: int | None = None
    device_id: int | None = None

    def __post_init__(self) -> None:
        """Refuse words that do not fit together."""
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            times = format_ns(self.from_ns), format_ns(self.to_ns)
            msg = f"the window is empty: --from {times[0]} is not before --to {times[1]}"
            raise UsageError(msg, "Times count from the recording's origin: --from 1.5s --to 2s.")
        if self.occurrence is not None and self.range_text is None:
            msg = "--occurrence says which --range is meant, and none is given"
            raise UsageError(msg, "Give both: --range step --occurrence 2.")

    @property
    def words(self) -> str:
        """For people: ``device 0, what ranges "forward" launched, from 1.500 s to 2.000 s``."""
        words = [] if self.device_id is None else [f"device {self.device_id}"]
        if self.range_text is not None:
            chosen = "ranges" if self.occurrence is None else f"range {self.occurrence} of"
            words.append(f'what {chosen} "{self.range_text}" launched')
        if (self.from_ns, self.to_ns) != (None, None):
            start = "the start" if self.from_ns is None else format_ns(self.from_ns)
            end = "the end" if self.to_ns is None else format_ns(self.to_ns)
            words.append(f"from {start} to {end}")
        return ", ".join(words)

    def selection(self, profile: Profile) -> Selection:
        """Its windows and device in a recording.

        Raises:
            UsageError: No such range launched anything, or no such device is in the recording.
            MissingTableError: Ranges or what they launched were not recorded.
        """
        if self.device_id is not None:
            _check_device(profile, self.device_id)
        if (self.from_ns, self.to_ns, self.range_text) == (None, None, None):
            return Selection(None, self.device_id)
        first = -(2**62) if self.from_ns is None else self.from_ns
        last = 2**62 if self.to_ns is None else self.to_ns
        windows = single(first, last)
        if self.range_text is not None:
            from gpuprof.facts.range_launches import (  # noqa: PLC0415 - start-up time
                launched_windows,
            )

            launched = launched_windows(profile, self.range_text, self.occurrence)
            windows = intersection(windows, launched)
        pairs = zip(windows.start.tolist(), windows.end.tolist(), strict=True)
        return Selection(tuple(pairs), self.device_id)


def part_of(profile: Profile, part: RecordingPart, *, is_kept_whole: bool = False) -> Profile:
    """The activities of a part of a recording, whose first warning says what it is a part of.

    Args:
        profile: The recording.
        part: What is asked for; all of the recording where that is nothing.
        is_kept_whole: Whether it is for a file, in which something must start.

    Raises:
        UsageError: No such range launched anything, or no such device is in the recording.
        EmptyRecordingError: Nothing runs in the part; where it is kept whole: starts in it.
        MissingTableError: The recording holds sums only, or ranges are asked for, and they or what
            they launched were not recorded.
    """
    if part == RecordingPart():
        return profile
    # Samples of GPU metrics have no end.
    timed = [name for name in profile.sources if "end_ns" in BY_NAME[name].columns]
    if not timed:
        msg = f"{profile.origin.source} holds sums only, so no part of it can be selected"
        raise MissingTableError(msg, "Record with `gpuprof record`, which keeps every activity.")
    restricted = profile.restricted(part.selection(profile))
    if not _is_filled(restricted, timed, is_kept_whole=is_kept_whole):
        verb = "starts" if is_kept_whole else "runs"
        msg = f"{profile.origin.source}: nothing {verb} in this part, {part.words}"
        columns = [start for name in timed for (start,) in profile.columns(name, "start_ns")]
        starts = [time for start in columns if len(start) for time in (start.min(), start.max())]
        hint = "It holds nothing that has a time."
        if starts:
            first, last = (format_ns(int(time)) for time in (min(starts), max(starts)))
            hint = f"Its activities start between {first} and {last}."
        raise EmptyRecordingError(msg, hint)
    borders = "" if restricted.selection.windows is None else f" {_CUT_AT_BORDERS}"
    note = f"{part.words}.{borders}"
    source = profile.origin.source
    # Of several files it names the folder that they have in common.
    note = f"A part of {source.name or source.resolve().name}: {note}"
    warnings = (note, *profile.origin.warnings)
    return replace(restricted, origin=replace(profile.origin, warnings=warnings))


def _check_device(profile: Profile, device_id: int) -> None:
    """See that a device is in the recording: a mistyped one would have done nothing."""
    ids: set[int] = set()
    for table in filter(profile.has, _OF_DEVICES):
        ends = ENDS if table == "memcpys" else ENDS[:1]
        for column in chain.from_iterable(profile.columns(table, *ends)):
            ids.update(np.unique(column).tolist())
            if device_id in ids:
                return
    devices = ", ".join(map(str, sorted(ids - {UNKNOWN})))
    msg = f"no device {device_id} is in {profile.origin.source}"
    raise UsageError(msg, f"Devices: {devices}." if devices else "It names no device.")


def _is_filled(part: Profile, names: list[str], *, is_kept_whole: bool) -> bool:
    """Whether anything runs in the windows, or starts there: a mistyped time would show zeros."""
    if is_kept_whole:  # a range by itself is no work
        work = (name for name in names if name not in (_RANGES, RECORDED_STEPS.name))
        return any(len(start) for name in work for (start,) in part.columns(name, "start_ns"))
    windows = part.selection.windows
    if windows is None:
        return True
    if not windows:
        return False
    first, last = windows[0][0], windows[-1][1]
    return any(
        ((start < last) & ((end > first) | (start >= first))).any()
        for name in names
        for start, end in part.unrestricted.columns(name, "start_ns", "end_ns")
    )
