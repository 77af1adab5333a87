"""What is said first of sums: the costliest kernels, and what a summary or TensorFlow tells."""

import re
from collections import Counter
from typing import Any, Final

from gpuprof.analyses.placement import per_step, tensor_transfers
from gpuprof.analyses.totals import merged_runs, totals
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_name, short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, cut, shortened_apart
from gpuprof.base.units import counted, say_bytes, say_ns, say_share
from gpuprof.facts.activity_sums import activity_sums
from gpuprof.model.profile import Profile, once_per_profile

# From here on compute is the answer, and its kernels are named.
MOST: Final = 0.5
# Smaller shares of a printed summary are left out.
_LEAST_OF_SUMMARY: Final = 0.005
_WORDS_OF_SUMMARY: Final = {
    "compute": "compute",
    "communication_kernels": "collectives",
    "peer_transfers": "copies between devices",
    "host_transfers": "copies from and to the host",
    "local_copies": "local copies",
    "memsets": "memsets",
}
# So many kernels are named, those that take so much of the time of all.
_COSTLIEST: Final = 3
_LEAST_NAMED: Final = 0.01
# A call that takes so much of the time of all calls of a kernel is not one of many.
_MOST_OF_CALLS: Final = 0.75
_TWO: Final = 2
_COPYING_CALL: Final = re.compile(r"cu(?:da)?Memcpy")


@once_per_profile
def costliest_kernels(profile: Profile) -> str:
    """The costliest kernels with their shares of the time of all."""
    # A printed summary may list a kernel once a process or grid, and groups in any order.
    sums = merged_runs(profile.once(activity_sums).to_pylist())
    kernels = [row for row in sums if row["activity_kind"] == "kernel"]
    kernels.sort(key=lambda row: -row["total_ns"])
    rows = [row for row in kernels if not is_communication(row["name"])]
    total = sum(row["total_ns"] for row in kernels)
    costly = [row for row in rows[:_COSTLIEST] if row["total_ns"] >= _LEAST_NAMED * total]
    short = short_names(row["name"] for row in costly)
    names = shortened_apart([short[row["name"]] for row in costly], LONGEST_IN_WORDS)
    named = []
    for name, row in zip(names, costly, strict=True):
        calls, total_ns, longest_ns = row["calls"], row["total_ns"], row["max_ns"] or 0
        one_call = ""
        if calls > 1 and longest_ns >= _MOST_OF_CALLS * total_ns:
            remaining_calls = "the other" if calls == _TWO else f"the other {calls - 1:,} together"
            remaining_time = say_ns(total_ns - longest_ns)
            one_call = f" (one call of {say_ns(longest_ns)}, {remaining_calls} {remaining_time})"
        named.append(f"{name} {say_share(total_ns / total)}{one_call}")
    return f". Costliest kernels (of all kernel time): {', '.join(named)}" if named else ""


def summary_line(profile: Profile) -> str:
    """Say what the time of all GPU activities goes to, as far as the summary lists it.

    Times are sums over devices: what runs at once counts for each. Of a report of kernels alone it
    says which are the costliest. Empty where no total is known.
    """
    groups = {row["activity_group"]: row for row in profile.once(totals).to_pylist()}
    times = {name: group["total_ns"] for name, group in groups.items()}
    total_ns, unlisted = _listed(groups["gpu_activities"])
    if not total_ns:
        if not (kernels_ns := times["kernels"]):
            return ""
        kernels = f"Kernels take {say_ns(kernels_ns)}, summed over devices"
        return f"{kernels}{costliest_kernels(profile)}"
    for name, of, part in (
        ("compute", "kernels", "communication_kernels"),
        ("host_transfers", "transfers", "peer_transfers"),
    ):
        # Unknown where the summary may lack rows of either.
        times[name] = None if None in {times[of], times[part]} else times[of] - times[part]
    shares = {name: ns / total_ns for name, ns in times.items() if ns is not None}
    parts = [
        f"{say_share(shares[name])} {word}"
        + (f" ({say_ns(times[name])})" if name == "peer_transfers" else "")
        for name, word in _WORDS_OF_SUMMARY.items()
        if shares.get(name, 0) >= _LEAST_OF_SUMMARY
    ]
    text = f"GPU activities take {say_ns(total_ns)}, summed over devices"
    if not parts:
        rows = profile.once(activity_sums).to_pylist()
        listed = (row for row in rows if row["activity_kind"] != "api")
        most = max(listed, key=lambda row: row["total_ns"] or 0)
        name, share = cut(short_name(most["name"]), LONGEST_IN_WORDS), most["total_ns"] / total_ns
        return f"{text}; the costliest that is listed takes {say_share(share)}: {name}"
    calls, peers = groups["peer_transfers"]["calls"], ""
    if times["peer_transfers"] is not None:
        peers = ". How much of the copies kernels hide, only a trace tells"
        peers = peers if calls else _without_peers(profile)
    is_compute = shares.get("compute", 0) >= MOST and not calls
    kernels = costliest_kernels(profile) if is_compute else ""
    return f"{text}: {', '.join(parts)}{unlisted}{peers}{kernels}"


def _listed(everything: dict[str, Any]) -> tuple[int | None, str]:
    """The time of all GPU activities, as far as a summary tells it, and what is beside it."""
    if everything["total_ns"] is not None:
        return everything["total_ns"], ""
    if everything["calls"] is None:
        return everything["implied_ns"], "; what else there is, the excerpt does not tell"
    return everything["listed_ns"], "; what some copies take beside that was not printed"


def _without_peers(profile: Profile) -> str:
    """Whether no copy goes between devices, where a summary lists none that does.

    Without peer access such a copy is one call and two copies, to the host and from it. Where no
    calls are listed, any two may be its halves.
    """
    rows = profile.once(activity_sums).to_pylist()
    copies, calls = Counter[str](), Counter[str]()
    for row in rows:
        name, of_kind = row["name"], {"memcpy": copies, "api": calls}.get(row["activity_kind"])
        if of_kind is not None and not name.startswith("UVM_"):
            of_kind[name] += row["calls"]
    surplus = copies.total() - sum(n for name, n in calls.items() if _COPYING_CALL.match(name))
    if not min(copies["HtoD"], copies["DtoH"]) or surplus <= 0:
        return ". No copy goes between devices"
    more = f"{surplus:,} more copies than calls that copy: some" if calls else "Some"
    return f". {more} may go between devices, through the host, which only a trace tells"


def tensor_line(profile: Profile) -> str:
    """Say how many copies a step makes, of how many bytes, for what, and most of them where to.

    Bytes are unknown where the size of a copy is, or where collective operations move data.
    """
    copies = profile.once(tensor_transfers).to_pylist()
    rows = profile.once(per_step).to_pylist()
    if not rows:
        return f"No training step was seen whole. {_ways(copies)}"
    (step,) = rows
    steps = counted(step["steps"], "step", "steps")
    if step["copies_per_step"] is None:
        return (
            "A step moves data between devices in collective operations, whose bytes TensorFlow"
            f" does not show ({steps})"
        )
    if not step["copies_per_step"]:
        return f"A step copies nothing between devices ({steps})"
    calls, size = step["copies_per_step"], step["bytes_per_step"]
    copied = f"{calls:,.4g} {'copy' if calls == 1 else 'copies'}"
    if size is None:
        unknown = f"{step['unknown_copies_per_step']:,.4g} of them of unknown size"
        return f"A step makes {copied} between devices, {unknown} ({steps}). {_ways(copies)}"
    of_gradients = step["gradient_bytes_per_step"]
    gradients = f", {say_share(of_gradients / size)} of it for gradients" if of_gradients else ""
    return (
        f"A step copies {say_bytes(size)} between devices in {copied} ({steps}){gradients}."
        f" {_ways(copies)}"
    )


def _ways(copies: list[dict[str, Any]]) -> str:
    """From which device most goes to which: of the bytes where these are known, else of copies."""
    if not copies:
        return "Nothing is copied between devices"
    has_bytes = any(row["bytes_per_step"] for row in copies)
    column = "bytes_per_step" if has_bytes else "calls"
    amounts = Counter[tuple[str, str]]()
    for row in copies:
        amounts[row["src_device"], row["dst_device"]] += row[column] or 0
    ((src, dst), amount), *_ = amounts.most_common(1)
    share = say_share(amount / max(amounts.total(), 1))
    unit = "bytes" if has_bytes else "copies"
    return f"The largest part goes from {src} to {dst}: {share} of the {unit}"
