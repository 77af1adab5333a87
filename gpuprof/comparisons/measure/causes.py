"""Which part of a difference makes most of it, and whether its parts cancel out."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gpuprof.comparisons.rows import DifferencePart

COMPUTE: Final = "kernels"
# Parts that work against the difference cancel others where they add up to more of it than this.
_CANCELLING: Final = 0.05


class Sides(NamedTuple):
    """The time of all kernels, or of another part of a comparison, on both sides."""

    baseline_ns: int
    candidate_ns: int

    @property
    def difference_ns(self) -> int:
        """Candidate less baseline."""
        return self.candidate_ns - self.baseline_ns


Parts = Mapping[str, Sides]


def parts_of(rows: Sequence[DifferencePart]) -> Parts:
    """The rows of a split by part, all compute kernels as one."""
    parts: dict[str, Sides] = {}
    for row in rows:
        name = COMPUTE if row.part.startswith(COMPUTE) else row.part
        before, after = parts.get(name, (0, 0))
        parts[name] = Sides(before + row.baseline_ns, after + row.candidate_ns)
    return parts


def difference_of(parts: Parts) -> int:
    """The whole difference in ns."""
    return sum(part.difference_ns for part in parts.values())


def cancel(differences: Sequence[int]) -> bool:
    """Whether parts of both signs cancel out, so that a share of what they leave misleads."""
    total = sum(differences)
    opposed = sum(abs(difference) for difference in differences if difference * total < 0)
    return opposed > _CANCELLING * abs(total)


def largest_part(parts: Parts) -> str | None:
    """The part that makes most of the difference; None without one, or where parts cancel."""
    if not difference_of(parts) or cancel([part.difference_ns for part in parts.values()]):
        return None
    return max(parts, key=lambda name: abs(parts[name].difference_ns))
