"""The costliest kernels of a recording, in words."""

from collections.abc import Mapping
from typing import Any, Final

from gpuprof.analyses.activity_summary import activity_sums
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, shortened_apart
from gpuprof.base.units import say_ns, say_share
from gpuprof.model.profile import Profile

# Of so many, those that take so much of the time of all kernels.
_COSTLIEST: Final = 3
_LEAST_NAMED: Final = 0.01
# A call that takes so much of the time of all calls of a kernel is not one of many.
_MOST_OF_CALLS: Final = 0.75
_TWO: Final = 2


def costliest_kernels(profile: Profile) -> str:
    """The costliest kernels with their shares of the time of all."""
    sums = profile.once(activity_sums).to_pylist()
    kernels = [row for row in sums if row["activity_kind"] == "kernel"]
    rows = [row for row in kernels if not is_communication(row["name"])]
    total = sum(row["total_ns"] for row in kernels)
    costly = [row for row in rows[:_COSTLIEST] if row["total_ns"] >= _LEAST_NAMED * total]
    short = short_names(row["name"] for row in costly)
    names = shortened_apart([short[row["name"]] for row in costly], LONGEST_IN_WORDS)
    named = [
        f"{name} {say_share(row['total_ns'] / total)}{_in_one_call(row)}"
        for name, row in zip(names, costly, strict=True)
    ]
    return f". Costliest kernels (of all kernel time): {', '.join(named)}" if named else ""


def _in_one_call(row: Mapping[str, Any]) -> str:
    """The call that takes most of the time of several calls of a kernel; empty for none."""
    if row["calls"] == 1 or (row["max_ns"] or 0) < _MOST_OF_CALLS * row["total_ns"]:
        return ""
    calls = "the other" if row["calls"] == _TWO else f"the other {row['calls'] - 1:,} together"
    rest_ns = row["total_ns"] - row["max_ns"]
    return f" (one call of {say_ns(row['max_ns'])}, {calls} {say_ns(rest_ns)})"
