"""Copies that need not be, in a phrase each, for the findings of a recording."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.alternation import turns
from gpuprof.analyses.ping_pong import Pairs, repeated_pairs, suggestion
from gpuprof.analyses.repeated_transfers import copied_again
from gpuprof.base.units import counted, format_bytes
from gpuprof.facts.copies import Copies, end_name
from gpuprof.facts.moves import moves, works_between
from gpuprof.facts.numbers import groups
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s, Intervals, together, union
from gpuprof.model.profile import Profile, once_per_profile

# Steps and ranges of more events take longer than all else that a report says first.
_MOST_EVENTS: Final = 1_000_000
_WORST: Final = 20


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


@once_per_profile
def avoidable(profile: Profile) -> list[Avoidable]:
    """What goes there and back; of recordings that are not large, what is repeated, too."""
    there_and_back = [*_there_and_back(profile)]
    return (
        there_and_back
        if not_sought(profile)
        else [*there_and_back, *_turns(profile), *_again(profile)]
    )


def not_sought(profile: Profile) -> str:
    """What is not looked for in a large recording, in a sentence; empty for a small one."""
    if profile.events <= _MOST_EVENTS:
        return ""
    return (
        f"The recording has more than {_MOST_EVENTS:,} events, so findings leave out repeated"
        " copies, alternation and the occupancy of kernels; see --table repeated_transfers,"
        " --table alternation and --table kernel_occupancy."
    )


def _there_and_back(profile: Profile) -> Iterator[Avoidable]:
    """All sizes between the same two memories together.

    Input that the host gives and results that it takes are as they should be. Devices that
    exchange borders copy both ways, too: only what comes back after a kernel ran is meant.
    """
    all_pairs, alike = repeated_pairs(profile)
    some = all_pairs.take(np.concatenate([np.empty(0, np.int64), *alike]))
    is_meant = (some.there.dst == HOST) | works_between(profile, some.there, some.back)
    some = some.take(is_meant & (some.there.src != HOST) & ~_are_exchanged(profile, some))
    for rows in groups(some.there.src, some.there.dst):
        pairs = some.take(rows)
        src, dst = int(pairs.there.src[0]), int(pairs.there.dst[0])
        yield Avoidable(
            _running(pairs.there, pairs.back),
            f"{counted(len(rows), 'copy', 'copies')} from {end_name(src)} to {end_name(dst)} that"
            f" {'comes' if len(rows) == 1 else 'come'} straight back in the same size",
            suggestion(src, dst),
            "ping_pong",
        )


def _running(*copies: Copies) -> Intervals:
    return together([union(some.start_ns, some.end_ns) for some in copies])


def _are_exchanged(profile: Profile, some: Pairs) -> npt.NDArray[np.bool_]:
    """Whether two devices give one another what they have, and then both work.

    So neighbours do that exchange borders: the first copy of such a pair was sent before a kernel
    saw what the other device had sent last.
    """
    copies = some.there
    all_copies = moves(profile)
    exchanged = [np.empty((0, 3), np.int64)]
    for rows in groups(
        np.minimum(all_copies.src, all_copies.dst), np.maximum(all_copies.src, all_copies.dst)
    ):
        alike = all_copies.take(rows)
        if min(alike.src[0], alike.dst[0]) != HOST:
            exchanged.append(_keys(alike.take(_without_an_answer(profile, alike))))
    keys = np.concatenate([*exchanged, _keys(copies)])
    _, number = np.unique(keys, axis=0, return_inverse=True)
    before, of_copies = np.split(number.reshape(-1), [len(keys) - len(copies)])
    is_exchanged: npt.NDArray[np.bool_] = np.isin(of_copies, before)
    at_source = replace(copies, dst=copies.src)
    return is_exchanged & works_between(profile, at_source, some.back)


def _keys(copies: Copies) -> Int64s:
    return np.stack([copies.start_ns, copies.src, copies.dst], axis=1).astype(np.int64)


def _without_an_answer(profile: Profile, some: Copies) -> Int64s:
    """The copies of two devices before which no kernel ran on what the other one sent last."""
    place, first = np.arange(len(some)), some.src[0]
    last = [
        np.maximum.accumulate(np.where((some.src == first) == is_first, place, -1))
        for is_first in (True, False)
    ]
    opposite = np.where(some.src == first, last[1], last[0])
    later = np.flatnonzero(opposite >= 0)
    works = works_between(profile, some.take(opposite[later]), some.take(later))
    return later[~works]


def _turns(profile: Profile) -> Iterator[Avoidable]:
    for (there, back), row in turns(profile)[:_WORST]:
        there_in, back_in = f'in "{row["there"]}"', f'in "{row["back"]}"'
        phrase = f"turns from {row['src']} to {row['dst']} {there_in} and back {back_in}"
        yield Avoidable(_running(there, back), phrase, row["suggestion"], "alternation")


def _again(profile: Profile) -> Iterator[Avoidable]:
    for copies, row in copied_again(profile)[:_WORST]:
        phrase = (
            f"copies of {format_bytes(row['copy_bytes'])} from {row['src']} to {row['dst']} that"
            " every step makes again"
        )
        yield Avoidable(_running(copies), phrase, row["suggestion"], "repeated_transfers")
