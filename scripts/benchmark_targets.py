"""What gpuprof's speed and memory are to reach, and whether a measurement did."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What a GPU event takes in an export, which tells how many a file holds.
BYTES_PER_EVENT = 146
# A target holds for exports of its size, give or take this factor.
_LIKE = 1.5


@dataclass(frozen=True)
class Cost:
    """What a contender took: the middle of its times, and the most memory."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Target:
    """One figure to reach.

    Args:
        text: What is to be reached, for people.
        measured: The figure, of our cost and of the contender's in whose row it stands.
        limit: The most it may be, or the least.
        is_least: Whether it is the least.
        unit: Of the figure.
        events: The size of the export for which it holds; None for all.
    """

    text: str
    measured: Callable[[Cost, Cost], float]
    limit: float
    is_least: bool = False
    unit: str = "x"
    events: int | None = None

    def verdict(self, ours: Cost, theirs: Cost) -> str:
        """Whether it is reached, with the figure."""
        found = self.measured(ours, theirs)
        is_reached = found >= self.limit if self.is_least else found <= self.limit
        return f"{self.text}: {'reached' if is_reached else 'missed'} ({found:.3g}{self.unit})"


def faster(times: float, events: int | None = None) -> Target:
    """Ours is at least so many times faster than theirs."""
    return Target(
        f"{times:g}x", lambda o, t: t.seconds / o.seconds, times, is_least=True, events=events
    )


def within(times: float, events: int | None = None) -> Target:
    """Ours takes at most so many times what theirs takes."""
    text = f"within {times:g}x"
    return Target(text, lambda o, t: o.seconds / t.seconds, times, events=events)


def lighter(share: float, events: int | None = None) -> Target:
    """Ours takes at most such a share of their memory."""
    text = f"{share:g} of its memory"
    return Target(text, lambda o, t: o.peak_bytes / t.peak_bytes, share, unit="", events=events)


def seconds(limit: float, events: int) -> Target:
    """Ours takes at most so long."""
    return Target(f"{limit:g} s", lambda o, _: o.seconds, limit, unit=" s", events=events)


def cpu_seconds(limit: float, events: int) -> Target:
    """Ours takes at most so much of the processors."""
    return Target(f"{limit:g} s CPU", lambda o, _: o.cpu_seconds, limit, unit=" s", events=events)


def gigabytes(limit: float, events: int) -> Target:
    """Ours takes at most so much memory."""
    text = f"{limit:g} GB"
    return Target(text, lambda o, _: o.peak_bytes / 1e9, limit, unit=" GB", events=events)


def aimed(path: Path, *targets: Target) -> tuple[Target, ...]:
    """The targets that hold for an export of this size."""
    events = path.stat().st_size / BYTES_PER_EVENT
    return tuple(
        t for t in targets if t.events is None or t.events / _LIKE <= events <= t.events * _LIKE
    )
