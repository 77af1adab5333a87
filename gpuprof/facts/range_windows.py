"""The ranges that a user means, and when what they launched ran."""

from typing import Final

import numpy as np

from gpuprof.base.errors import GpuprofError, MissingTableError, UsageError, one_of
from gpuprof.base.units import counted
from gpuprof.facts.launches import launches
from gpuprof.facts.nvtx import (
    Ranges,
    families,
    launches_within,
    named_parts,
    ranges_like,
)
from gpuprof.model.intervals import Intervals, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import NVTX_RANGES

_MOST_NAMED: Final = 10


def ranges_meant(profile: Profile, text: str, occurrence: int | None = None) -> Ranges:
    """The NVTX ranges of a text, in which * stands for anything, or one of them.

    Raises:
        MissingTableError: No ranges were recorded, or not what they launched.
        UsageError: No range, or no range of this number, has the text.
    """
    profile.require(NVTX_RANGES.name)
    alike = ranges_like(profile, text)
    if not len(alike):
        texts = sorted({label for label, _, _ in named_parts(profile).labels if label})
        msg = f'{profile.origin.source} has no NVTX range "{text}"'
        raise UsageError(msg, one_of("Ranges", text, texts, _MOST_NAMED) if texts else None)
    if not profile.has("api_calls"):
        raise launched_nothing(profile, text, alike)
    if occurrence is None:
        return alike
    if not 0 <= occurrence < len(alike):
        ranges = counted(len(alike), "range", "ranges")
        msg = f'{profile.origin.source} has {ranges} "{text}", none of number {occurrence}'
        raise UsageError(msg, f"Name one with --occurrence 0 to {len(alike) - 1}.")
    return alike.take(np.array([occurrence]))


def launched_nothing(profile: Profile, text: str, ranges: Ranges) -> GpuprofError:
    """The error of ranges whose time on the devices is not known, with that on the host."""
    hint = f"On the host it runs from {ranges.start_ns[0]}ns to {ranges.end_ns[0]}ns"
    hint += " first." if len(ranges) > 1 else "."
    source = profile.origin.source
    if profile.has("api_calls") and len(launches(profile).order):
        return UsageError(f'{source}: NVTX range "{text}" launched nothing', hint)
    msg = f'{source}: what NVTX range "{text}" launched is not known: no launches were recorded'
    return MissingTableError(msg, hint)


def launched_windows(profile: Profile, text: str, occurrence: int | None) -> Intervals:
    """From first start to last end of what each range of a text launched."""
    ranges = ranges_meant(profile, text, occurrence)
    extents = [
        launches_within(family, launched).extent(launched)
        for family, launched in families(ranges, launches(profile))
    ]
    starts, ends = (np.concatenate(times) for times in zip(*extents, strict=True))
    windows = union(starts, ends)
    if not len(windows):
        raise launched_nothing(profile, text, ranges)
    return windows
