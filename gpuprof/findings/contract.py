"""What a finding is, and the steps of one device over which it is measured."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.step_windows import masked
from gpuprof.facts.timeline import COMPUTE, DeviceTimeline
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, covered_within
from gpuprof.model.profile import Profile

# Steps differ so much that the median tells nothing of their mean, which costs are then shares of.
_UNEVEN: Final = 1.1


@dataclass(frozen=True, eq=False)
class Scope:
    """What one device did in the steps of one phase, or in a recording that has no steps.

    Args:
        profile: The recording, or the part of it that is looked at.
        device: The device's timeline.
        phase: What people call the phase, each another name; empty where no steps are known.
        start_ns: Start of each step that is a sample; of the device's span where there are none.
        end_ns: End of each.
        steps: How many steps the phase has, those that are no samples included; 1 for none.
        is_inferred: Whether no range marks the steps.
        devices: The devices of the phase, as operations name them; empty where no steps are known.
        between: When the host is between the marks of the steps, as in `Phase`.
    """

    profile: Profile
    device: DeviceTimeline
    phase: str
    start_ns: Int64s
    end_ns: Int64s
    steps: int
    is_inferred: bool = False
    devices: tuple[int, ...] = ()
    between: Intervals = NOTHING

    @property
    def has_steps(self) -> bool:
        """Whether costs are of one step; else they are of the device's span."""
        return bool(self.phase)

    @cached_property
    def median_ns(self) -> int:
        """Median length of a step."""
        return int(np.median(self.end_ns - self.start_ns))

    @cached_property
    def step_ns(self) -> int:
        """What a step takes, and costs are shares of.

        The median, or where single steps often take longer, as what they wait for then counts
        for all of them, the mean without the longest twentieth.
        """
        usual_ns = usual_of(self.end_ns - self.start_ns)
        return usual_ns if usual_ns > _UNEVEN * self.median_ns else self.median_ns

    @cached_property
    def compute_ns(self) -> int:
        """Time of a step in which the device computes."""
        return self.per_step(self.device.exposed[COMPUTE])

    def is_mark(self, text: str) -> bool:
        """Whether a range's text only marks the steps, so that it is no place within them."""
        return masked(text).replace("*", "#") == self.phase.partition(" (")[0]

    def per_step(self, instants: Intervals) -> int:
        """How many ns of a set of instants a step pays."""
        return usual_of(covered_within(instants, self.start_ns, self.end_ns))


def usual_of(steps: Int64s) -> int:
    """What a step pays of something that each of some steps pays so much of.

    The median over the steps, or the mean without the longest twentieth where that is more:
    some costs come with every other step, and a single step's tell nothing of the others.
    """
    ordered = np.sort(steps)
    usual = ordered[: len(ordered) - -(-len(ordered) // 20)] if len(ordered) > 1 else ordered
    # NumPy's median takes ten times as long for as few steps as most recordings have.
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return int(max(sum(map(int, middle)) / 2, usual.mean()))


class Replayed(NamedTuple):
    """What a replay of the recording says about a finding.

    Args:
        change: As `gpuprof predict --what` takes it; empty where none can be replayed.
        won_ns: What the change wins of a step, at most the finding's ``win_ns``; None where there
            is no prediction.
        words: What is different then, in a phrase; empty where nothing was replayed.
        assumptions: What the replay assumes; why there is none, where there is none.
    """

    change: str
    won_ns: int | None
    words: str
    assumptions: str


class Finding(NamedTuple):
    """One thing that costs a device time.

    Args:
        cause: Its stable name, documented in `gpuprof/docs`.
        scope: Where it was measured.
        phrase: What the device does, to follow its name: ``waits for copies from the host``.
        cost_ns: What it costs a step.
        win_ns: What mending it can win of a step at most, by ``means``.
        means: How, in a phrase: ``fewer bytes``.
        suggestion: What to do, in the framework's own words where the operation is known.
        table: The table that tells more.
        where: Operation, range, call, route or rank; empty where none is known.
        names: What the change that mends it (see `MENDS`) names: kernels, kinds of copies, a link;
            empty where it names nothing, None where no change mends it.
        is_sure: Whether the recording tells that this is what costs the time.
        replayed: What a replay says; None where none was asked.
    """

    cause: str
    scope: Scope
    phrase: str
    cost_ns: int
    win_ns: int
    means: str
    suggestion: str
    table: str
    where: str = ""
    names: tuple[str, ...] | None = None
    is_sure: bool = True
    replayed: Replayed | None = None

    @property
    def likely_win_ns(self) -> int:
        """What a replay says that it wins of a step, else what it can win at most."""
        if self.replayed is None or self.replayed.won_ns is None:
            return self.win_ns
        return self.replayed.won_ns
