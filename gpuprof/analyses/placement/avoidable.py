"""Copies that need not be, in a phrase each, for the findings of a recording."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.facts.copies import end_name
from gpuprof.analyses.facts.groups import groups
from gpuprof.analyses.facts.moves import Moves, works_between
from gpuprof.analyses.facts.timeline import TRANSFER, DeviceTimeline
from gpuprof.analyses.placement.alternation import turns
from gpuprof.analyses.transfers.ping_pong import repeated_pairs, suggestion
from gpuprof.analyses.transfers.repeated_transfers import copied_again
from gpuprof.facts import HOST
from gpuprof.intervals import intersection, union
from gpuprof.profile import Profile
from gpuprof.units import counted, format_bytes

# Steps and ranges of more events take longer than all else that a report says first.
_MOST_EVENTS: Final = 1_000_000
_WORST: Final = 20


class Avoidable(NamedTuple):
    """Copies that need not be.

    Args:
        copies: The copies; all go to and fro between the same two memories.
        what: What a device waits for, in a phrase.
        suggestion: What to try.
        table: The table that tells more.
    """

    copies: tuple[Moves, ...]
    what: str
    suggestion: str
    table: str

    def cost_ns(self, device: DeviceTimeline) -> int:
        """How long a device does nothing but wait for these copies."""
        first = self.copies[0]
        if device.device_id not in {int(first.src[0]), int(first.dst[0])}:
            return 0
        running = union(
            np.concatenate([some.start_ns for some in self.copies]),
            np.concatenate([some.end_ns for some in self.copies]),
        )
        return intersection(running, device.exposed[TRANSFER]).length


def avoidable(profile: Profile) -> list[Avoidable]:
    """What goes there and back; of recordings that are not large, what is repeated, too."""
    found = [*_there_and_back(profile)]
    return found if not_sought(profile) else [*found, *_turns(profile), *_again(profile)]


def not_sought(profile: Profile) -> str:
    """What is not looked for in a large recording, in a sentence; empty for a small one."""
    if profile.events <= _MOST_EVENTS or not profile.has("memcpys", "kernels"):
        return ""
    return (
        f"Over {_MOST_EVENTS:,} events: why devices idle, what steps copy again and what takes"
        " turns are in --table utilisation, repeated_transfers and alternation alone."
    )


def _there_and_back(profile: Profile) -> Iterator[Avoidable]:
    """All sizes between the same two memories together.

    Input that the host gives and results that it takes are as they should be. Devices that
    exchange borders copy both ways, too: only what comes back after a kernel ran is meant.
    """
    every, alike = repeated_pairs(profile)
    some = every.take(np.concatenate([np.empty(0, np.int64), *alike]))
    is_meant = (some.there.dst == HOST) | works_between(profile, some.there, some.back)
    some = some.take(is_meant & (some.there.src != HOST))
    for mine in groups(some.there.src, some.there.dst):
        one = some.take(mine)
        src, dst = int(one.there.src[0]), int(one.there.dst[0])
        yield Avoidable(
            (one.there, one.back),
            f"{counted(len(mine), 'copy', 'copies')} from {end_name(src)} to {end_name(dst)} that"
            f" {'comes' if len(mine) == 1 else 'come'} straight back in the same size",
            suggestion(src, dst),
            "ping_pong",
        )


def _turns(profile: Profile) -> Iterator[Avoidable]:
    for (there, back), row in turns(profile)[:_WORST]:
        there_in, back_in = f'in "{row["there"]}"', f'in "{row["back"]}"'
        what = f"turns from {row['src']} to {row['dst']} {there_in} and back {back_in}"
        yield Avoidable((there, back), what, row["suggestion"], "alternation")


def _again(profile: Profile) -> Iterator[Avoidable]:
    for copies, row in copied_again(profile)[:_WORST]:
        what = (
            f"copies of {format_bytes(row['copy_bytes'])} from {row['src']} to {row['dst']} that"
            " every step makes again"
        )
        yield Avoidable((copies,), what, row["suggestion"], "repeated_transfers")
