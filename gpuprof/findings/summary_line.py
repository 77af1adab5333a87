"""What the GPU time of a printed summary goes to, in a sentence: such a table has no timestamps."""

from collections.abc import Mapping
from typing import Any, Final

from gpuprof.analyses.activity_summary import activity_sums
from gpuprof.analyses.totals import totals
from gpuprof.base.kernel_names import short_name
from gpuprof.base.short_texts import LONGEST_IN_WORDS, cut
from gpuprof.base.units import say_ns, say_share
from gpuprof.findings.costliest_kernels import costliest_kernels
from gpuprof.model.profile import Profile

# Smaller shares are left out.
_LEAST_SHARE: Final = 0.005
# From here on, and where no copy goes between devices, the costliest kernels are the answer.
_MOST: Final = 0.5
_WORDS: Final = {
    "compute": "compute",
    "communication_kernels": "collectives",
    "peer_transfers": "copies between devices",
    "host_transfers": "copies from and to the host",
    "local_copies": "local copies",
    "memsets": "memsets",
}
Row = Mapping[str, Any]


def summary_line(profile: Profile) -> str:
    """Say what the time of all GPU activities goes to, as far as the summary lists it.

    Times are sums over devices: what runs at once counts for each. Empty where no total is known.
    """
    groups = {row["activity_group"]: row for row in profile.once(totals).to_pylist()}
    total_ns = _total_ns(groups["gpu_activities"])
    if not total_ns:
        return ""
    shares = {name: ns / total_ns for name, ns in _times(groups).items() if ns is not None}
    parts = [
        f"{say_share(shares[name])} {word}{_amount(name, groups)}"
        for name, word in _WORDS.items()
        if shares.get(name, 0) >= _LEAST_SHARE
    ]
    text = f"GPU activities take {say_ns(total_ns)}, summed over devices"
    if not parts:
        return f"{text}; {_costliest_listed(profile, total_ns)}"
    is_compute = shares.get("compute", 0) >= _MOST and not groups["peer_transfers"]["calls"]
    kernels = costliest_kernels(profile) if is_compute else ""
    is_excerpt = groups["gpu_activities"]["total_ns"] is None
    unlisted = "; what else there is, the excerpt does not tell" if is_excerpt else ""
    return f"{text}: {', '.join(parts)}{unlisted}{_peers(groups['peer_transfers'])}{kernels}"


def _total_ns(everything: Row) -> int | None:
    total_ns: int | None = everything["total_ns"]
    return everything["implied_ns"] if total_ns is None else total_ns


def _times(groups: Mapping[str, Row]) -> dict[str, int | None]:
    """The time of each part; None where the summary may lack rows of it."""
    times: dict[str, int | None] = {name: groups[name]["total_ns"] for name in groups}
    times["compute"] = _difference(times["kernels"], times["communication_kernels"])
    times["host_transfers"] = _difference(times["transfers"], times["peer_transfers"])
    return times


def _difference(all_ns: int | None, part_ns: int | None) -> int | None:
    return None if all_ns is None or part_ns is None else all_ns - part_ns


def _amount(name: str, groups: Mapping[str, Row]) -> str:
    """How long copies between devices take; empty for other parts."""
    return f" ({say_ns(groups[name]['total_ns'])})" if name == "peer_transfers" else ""


def _peers(group: Row) -> str:
    """What is to be said of copies between devices; empty where it is unknown whether any are."""
    if group["total_ns"] is None:
        return ""
    if not group["calls"]:
        return ". No copy goes between devices"
    return ". How much of the copies kernels hide, only a trace tells"


def _costliest_listed(profile: Profile, total_ns: int) -> str:
    """The costliest row of an excerpt that lists no kind of activity whole."""
    rows = profile.once(activity_sums).to_pylist()
    row = max(
        (row for row in rows if row["activity_kind"] != "api"), key=lambda row: row["total_ns"] or 0
    )
    name = cut(short_name(row["name"]), LONGEST_IN_WORDS)
    share = say_share(row["total_ns"] / total_ns)
    return f"the costliest that is listed takes {share}: {name}"
