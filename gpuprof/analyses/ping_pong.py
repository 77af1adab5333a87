"""Copies that need not be: there and straight back, and the same bytes again in every step."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.facts.copies import UVM, Copies, end_name
from gpuprof.facts.moves import followers, moves, origins, usual
from gpuprof.facts.numbers import groups
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.model.analysis import Analysis
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

PING_PONG: Final = Schema(
    "ping_pong",
    "all pairs of copies of one size that went to a memory and came back next",
    {
        "src": Column(TEXT, "", "Memory that the data left: host, or device N.", required=True),
        "dst": Column(TEXT, "", "Memory that it went to and came back from.", required=True),
        "copy_bytes": Column(INT, "B", "Size of each copy.", required=True),
        "pairs": Column(INT, "1", "How often it went there and came back.", required=True),
        "total_ns": Column(INT, "ns", "Time of the copies of all pairs.", required=True),
        "median_stay_ns": Column(
            FLOAT, "ns", "Median time from the end of the way there to the start of the way back."
        ),
        "there_range": Column(
            TEXT, "", "NVTX range or operation that launched most ways there; null where unknown."
        ),
        "back_range": Column(
            TEXT, "", "NVTX range or operation that launched most ways back; null where unknown."
        ),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
    },
)

_LEAST_PAIRS: Final = 2
_ROWS: Final = 20
# Smaller copies are loss values and flags, which the host must read.
_LEAST_BYTES: Final = 1024


@dataclass(frozen=True, eq=False)
class Pairs:
    """Copies there and back, one element each.

    Args:
        there: The ways there.
        back: The ways back, in the same order.
    """

    there: Copies
    back: Copies

    def take(self, chosen: npt.NDArray[Any]) -> "Pairs":
        """Some of them, in the order of the indices."""
        return Pairs(self.there.take(chosen), self.back.take(chosen))


@once_per_profile
def repeated_pairs(profile: Profile) -> tuple[Pairs, list[Int64s]]:
    """All pairs, and the indices of those of one way and one size that occur more than once.

    The costliest come first.
    """
    all_pairs = _pairs(profile)
    cost_ns = all_pairs.there.duration_ns + all_pairs.back.duration_ns
    alike = groups(all_pairs.there.src, all_pairs.there.dst, all_pairs.there.bytes)
    repeated = [rows for rows in alike if len(rows) >= _LEAST_PAIRS]
    return all_pairs, sorted(repeated, key=lambda rows: -int(cost_ns[rows].sum()))


def _pairs(profile: Profile) -> Pairs:
    """Copies that follow one another there and back; each copy belongs to one pair at most."""
    copies = moves(profile)
    some = copies.take((copies.bytes >= _LEAST_BYTES) & (copies.path != UVM))
    there, back = followers(some)
    is_turn = (some.src[back] == some.dst[there]) & (some.bytes[back] == some.bytes[there])
    is_turn &= some.start_ns[back] >= some.end_ns[there]
    # In a run of turns, every second one opens a pair. A run ends where the next turn does
    # not begin with the copy that ended this one: between other memories.
    place = np.arange(len(there))
    is_new = np.ones(len(there), bool)
    is_new[1:] = there[1:] != back[:-1]
    before = np.where(~is_turn, place, np.where(is_new, place - 1, -1))
    nth = place - np.maximum.accumulate(before)
    opening = np.flatnonzero(is_turn & (nth % 2 == 1))
    return Pairs(some.take(there[opening]), some.take(back[opening]))


def ping_pong(profile: Profile) -> pa.Table:
    """Find data that goes to a memory and comes straight back.

    Two copies are a pair if they follow one another between the same two memories, in opposite
    directions, with the same size, the second after the first has ended. That the bytes are
    the same data is likely where it repeats, not certain: the contents of copies are not
    recorded. Copies below 1 KiB are left out.

    Args:
        profile: Needs ``memcpys``; ``nvtx_ranges`` and ``api_calls`` name who copied.

    Returns:
        At most twenty rows, the costliest first, columns as in `PING_PONG`; pairs that occur
        only once are left out.
    """
    all_pairs, alike = repeated_pairs(profile)
    worst = [all_pairs.take(rows) for rows in alike[:_ROWS]]
    return PING_PONG.table([_row(pairs) | _ranges(profile, pairs) for pairs in worst])


def _row(pairs: Pairs) -> dict[str, Any]:
    src, dst = int(pairs.there.src[0]), int(pairs.there.dst[0])
    return {
        "src": end_name(src),
        "dst": end_name(dst),
        "copy_bytes": int(pairs.there.bytes[0]),
        "pairs": len(pairs.there),
        "total_ns": int(pairs.there.duration_ns.sum() + pairs.back.duration_ns.sum()),
        "median_stay_ns": float(np.median(pairs.back.start_ns - pairs.there.end_ns)),
        "suggestion": suggestion(src, dst),
    }


def _ranges(profile: Profile, pairs: Pairs) -> dict[str, str | None]:
    """What launched most of a row's copies there, and back."""
    if not profile.unrestricted.has("nvtx_ranges", "api_calls"):
        return {}
    return {
        f"{way}_range": usual(*origins(profile, some))
        for way, some in (("there", pairs.there), ("back", pairs.back))
    }


def suggestion(src: int, dst: int) -> str:
    """What to try against data that goes there and straight back."""
    if dst == HOST:
        return f"keep it on {end_name(src)}: do on the device what the host does with it"
    if src == HOST:
        return f"keep the result on {end_name(dst)} until the host needs it"
    return f"run what works on it on {end_name(dst)} where its input lives: {end_name(src)}"


ANALYSIS: Final = Analysis("Copies there and back", PING_PONG, ("memcpys",), ping_pong, RANGE_READS)
