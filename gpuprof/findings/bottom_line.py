"""What a step takes and goes to, and what moving data costs of it at most: a report's first lines.

A printed summary has no timestamps: it is what the time of all GPU activities goes to. A recording
of TensorFlow tells what a step copies between devices.
"""

from collections import Counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.analyses.ranks import ranks
from gpuprof.analyses.steps import steps
from gpuprof.analyses.tensor_transfers import per_step, tensor_transfers
from gpuprof.analyses.totals import totals
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_name, short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, cut, shortened_apart
from gpuprof.base.units import counted, say_bytes, say_ns, say_share
from gpuprof.facts.activity_sums import SUM_READS, activity_sums
from gpuprof.facts.last_ranks import collective_record
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.step_times import mean_beside
from gpuprof.facts.step_windows import opening_kernels
from gpuprof.facts.timeline import COMMUNICATION, LAYERS, TRANSFER
from gpuprof.findings.exposed_collectives import rank_sentences
from gpuprof.findings.exposed_copies import exposed_by_route
from gpuprof.findings.findings import ANALYSIS as FINDINGS
from gpuprof.findings.findings import (
    JOB_FUNCTIONS,
    costs_of_devices,
    device_name,
    findings,
    findings_of_scopes,
    worst_finding,
    worst_of_scope,
)
from gpuprof.findings.first_sentence import first_sentence
from gpuprof.findings.of_jobs import SCOPES, bottom_lines_of_job
from gpuprof.findings.scope import Scope, scopes
from gpuprof.findings.set_up import copies_outside, set_up_of
from gpuprof.findings.whole_recording import incomplete
from gpuprof.model.analysis import Analysis, as_one_recording, per_file, reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import covered_within, together
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

# From here on compute is the answer, and its kernels are named.
_MOST: Final = 0.5
# What repeats so often within a marked step is no chance.
_REPEATS: Final = 4
# A phase of more devices is what is asked about, unless it is this short beside another one.
_LITTLE: Final = 0.1
# Smaller shares of a step are left out.
_LEAST_SHARE: Final = 0.0005
_LEAST_OUTSIDE: Final = 0.05
BETWEEN_DEVICES: Final = {
    "exposed_peer_copies",
    "staged_copies",
    "collective_transfer",
    "collective_waiting",
    "same_stream",
    "waits_for_device",
    "mpi",
}
WITH_HOST: Final = {"exposed_host_copies", "pageable_memory", "unified_memory"}
_WORDS: Final = {
    "compute_share": "compute",
    "exposed_communication_share": "collectives",
    "exposed_transfer_share": "waits for transfers",
    "exposed_local_copy_share": "local copies",
}
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

BOTTOM_LINE: Final = Schema(
    "bottom_line",
    "one device in the steps of one phase",
    {
        "phase": Column(TEXT, "", "Marks of the steps; null where the recording has no steps."),
        "device_id": Column(INT, "", "CUDA device ordinal; null where none was recorded."),
        "steps": Column(INT, "1", "Steps that were measured; null where there are none."),
        "step_ns": Column(INT, "ns", "Median length of a step; without steps the device's span."),
        "mean_step_ns": Column(
            INT, "ns", "Mean length of a step, which the shares are of; null without steps."
        ),
        "compute_share": Column(FLOAT, "1", "Share of the steps with a compute kernel."),
        "exposed_communication_share": Column(FLOAT, "1", "Only communication kernels."),
        "exposed_transfer_share": Column(FLOAT, "1", "A transfer, and no kernel."),
        "exposed_local_copy_share": Column(FLOAT, "1", "Only local copies or memsets."),
        "idle_share": Column(FLOAT, "1", "Nothing runs, for another reason than set-up."),
        "set_up_share": Column(
            FLOAT, "1", "Idle time outside steps; 0 where steps are known.", label="Set-up share"
        ),
        "between_devices_ns": Column(
            INT, "ns", "What moving data between devices and waiting for it costs a step at most."
        ),
        "with_host_ns": Column(INT, "ns", "The same of copies from and to the host."),
        "bottom_line": Column(TEXT, "", "This in a sentence.", required=True),
    },
)


def bottom_line(profile: Profile) -> pa.Table:
    """Say what a step of each device goes to, and what moving data costs of it at most.

    Of a printed summary, which has no timestamps, it says what the time of all GPU activities goes
    to, summed over devices; of a recording of TensorFlow, what a step copies between devices.

    Shares are of the time of all samples together, and add up to 1. Costs are of one step, as in
    ``findings``.

    Args:
        profile: As for ``findings``, or ``activity_summary``, or ``tensor_copies``.

    Returns:
        One row per device and phase, columns as in `BOTTOM_LINE`; first the phase of most devices
        in which most can be won, and of its devices the one that computes most. Of a job of many
        files, and of one that workers read, one row per phase. Of a summary, and of TensorFlow, one
        row with all but the sentence null.
    """
    profile = as_one_recording(profile)
    if not _is_trace(profile):
        lines = [say(profile) for table, say in _INSTEAD.items() if profile.has(table)]
        text = ". ".join(filter(None, lines))
        return BOTTOM_LINE.table([{"bottom_line": text}] if text else [])
    if profile.job is not None:
        worst = findings(profile).to_pylist()
        rows = bottom_lines_of_job(profile.once(phases_of_devices), worst)
    else:
        rows, ordered = [], _ordered(profile)
        for scope in ordered:
            figures = _figures(profile, scope)
            # Which is looked for in one step of the device that people read about.
            repeats = _repeated_part(scope) if scope is ordered[0] else ""
            rows.append(figures | {"bottom_line": _sentence(profile, scope, figures, repeats)})
    if rows and profile.unrestricted.parts:
        # Which ranks make the others wait or are slow.
        record = collective_record(profile)
        sentences = rank_sentences(record, profile.once(steps), profile.once(ranks))
        rows[0]["bottom_line"] = ". ".join([rows[0]["bottom_line"], *sentences])
    return BOTTOM_LINE.table(rows)


def _ordered(profile: Profile) -> list[Scope]:
    """The scopes with those first that the first sentence is about."""
    measured, worst = scopes(profile), worst_finding(profile)
    times = {scope.phase: scope.steps * scope.step_ns for scope in measured}
    devices = Counter(scope.phase for scope in measured)
    longest = max(times.values(), default=0)
    return sorted(
        measured,
        key=lambda scope: (
            times[scope.phase] < _LITTLE * longest,
            -devices[scope.phase],
            worst is None or worst.scope.phase != scope.phase,
            -times[scope.phase],
            scope.phase,
            -scope.compute_ns,
        ),
    )


def _figures(profile: Profile, scope: Scope) -> dict[str, Any]:
    total = int((scope.end_ns - scope.start_ns).sum())
    times = [
        int(covered_within(scope.device.exposed[layer], scope.start_ns, scope.end_ns).sum())
        for layer in LAYERS
    ]
    shares = [time / total if total else 0.0 for time in times]
    costs = findings_of_scopes(profile).get(scope, ())
    between, with_host = (
        sum(finding.cost_ns for finding in costs if finding.cause in causes)
        for causes in (BETWEEN_DEVICES, WITH_HOST)
    )
    # Costs are medians, and shares means: moving data costs no less than the shares that are said.
    between = max(between, round(shares[COMMUNICATION] * scope.step_ns))
    if between + with_host < round((shares[COMMUNICATION] + shares[TRANSFER]) * scope.step_ns):
        exposed = exposed_by_route(scope)
        of_peers, of_host = (
            int(covered_within(together(times), scope.start_ns, scope.end_ns).sum()) / total
            for times in (
                [t for route, t in exposed.items() if (HOST in {route.src, route.dst}) == is_host]
                for is_host in (False, True)
            )
        )
        between = max(between, round((shares[COMMUNICATION] + of_peers) * scope.step_ns))
        with_host = max(with_host, round(of_host * scope.step_ns))
    set_up_ns = 0 if scope.has_steps else set_up_of(profile, scope.device).length
    set_up_share = min(set_up_ns / total, 1 - sum(shares)) if total else 0.0
    return {
        "phase": scope.phase or None,
        "device_id": scope.device.device_id,
        "steps": len(scope.start_ns) if scope.has_steps else None,
        "step_ns": scope.median_ns,
        "mean_step_ns": total // len(scope.start_ns) if scope.has_steps else None,
        **dict(zip(_WORDS, shares, strict=True)),
        "idle_share": 1 - sum(shares) - set_up_share,
        "set_up_share": set_up_share,
        "between_devices_ns": between,
        "with_host_ns": with_host,
    }


def _sentence(profile: Profile, scope: Scope, row: dict[str, Any], repeats: str) -> str:
    words = _WORDS | {"idle_share": "idle", "set_up_share": "set-up"}
    why = incomplete(profile)
    shares = row | ({} if why is None else {"idle_share": row["idle_share"] + row["set_up_share"]})
    if why is not None:
        words["idle_share"] = why.idle_word
        del words["set_up_share"]
    parts = [f"{say_share(shares[n])} {w}" for n, w in words.items() if shares[n] >= _LEAST_SHARE]
    device, phases = device_name(scope), {measured.phase for measured in scopes(profile)}
    worst = worst_of_scope(profile, scope)
    subject, base, step_subject = (
        f"The recording of {device} spans {say_ns(scope.step_ns)}",
        "it",
        "It",
    )
    if scope.has_steps:
        steps = counted(len(scope.start_ns), "step", "steps")
        steps += ", inferred from its kernels" if scope.is_inferred else ""
        name = f' of "{scope.phase}"' if len(phases) > 1 else ""
        steps += mean_beside(scope.end_ns - scope.start_ns)
        # Where steps differ, costs are shares of their mean.
        mean = " in the mean" if scope.step_ns != scope.median_ns else ""
        subject = f"A step{name} takes {say_ns(scope.step_ns)}{mean}"
        base = "the recording" if worst is not None and not worst["phase"] else "it"
        step_subject = (
            f"The step on {device} (median {say_ns(scope.median_ns)} of {steps}{repeats})"
        )
    text = first_sentence(subject, row["compute_share"], worst, base=base)
    is_said = len(parts) == 1 and "of it compute" in text
    if scope.has_steps or not is_said:
        text = f"{text}. {step_subject} is {', '.join(parts)}"
    if why is not None:
        return text + _costliest_kernels(profile)
    kernels = _costliest_kernels(profile) if row["compute_share"] >= _MOST else ""
    return f"{text}. {_moving(profile, scope, row)}{kernels}"


def _repeated_part(scope: Scope) -> str:
    """What repeats in a marked step of usual length, in words; empty where it is not most of it.

    Steps that nothing marks are what repeats.
    """
    profile = scope.profile.unrestricted
    if not scope.has_steps or scope.is_inferred or not profile.has("kernels"):
        return ""
    lengths = scope.end_ns - scope.start_ns
    usual = int(np.argsort(lengths, kind="stable")[len(lengths) // 2])
    first_ns, last_ns = scope.start_ns[usual], scope.end_ns[usual]
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "name_id")
    in_step = (
        [column[(part[0] >= first_ns) & (part[0] < last_ns)] for column in part]
        for part in profile.columns("kernels", *columns)
    )
    start, end, device, stream, name = columns_of(in_step, len(columns))
    _, member = np.unique(stream, return_inverse=True)
    busy_ns = np.bincount(member, np.where(device == scope.device.number, end - start, 0))
    if not busy_ns.any():
        return ""
    rows = np.flatnonzero((member == busy_ns.argmax()) & (device == scope.device.number))
    rows = rows[np.argsort(start[rows], kind="stable")]
    opening = opening_kernels(name[rows], start[rows], end[rows])
    if opening is None or len(opening) < _REPEATS:
        return ""
    begun = start[rows][opening]
    if begun[-1] - begun[0] < _MOST * lengths[usual]:
        return ""
    took = say_ns(float(np.median(np.diff(begun))))
    return f", in which a part of {took} repeats {len(opening):,} times: a layer?"


def _moving(profile: Profile, scope: Scope, row: dict[str, Any]) -> str:
    """What moving data costs a step at most."""
    between, with_host = (
        row[name] / max(scope.step_ns, 1) for name in ("between_devices_ns", "with_host_ns")
    )
    moves = between >= _LEAST_SHARE
    parts = [f"between devices costs at most {say_share(between)} of it"] if moves else []
    if with_host >= _LEAST_SHARE and with_host > between:
        parts += [f"from and to the host {'' if parts else 'costs '}at most {say_share(with_host)}"]
    outside_ns = copies_outside(profile, scope.device).length if scope.has_steps else 0
    share, outside = outside_ns / max(scope.device.span.length, 1), ""
    if share >= _LEAST_OUTSIDE:
        outside = f", but copies before or after the steps take {say_share(share)} of the recording"
    if not parts:
        return f"Moving data costs {'a step ' * bool(outside)}next to nothing{outside}"
    alone = "" if between or len(scopes(profile)) == 1 else "; none moves between devices"
    return f"Moving data {', '.join(parts)}{alone}{outside}"


@once_per_profile
def _costliest_kernels(profile: Profile) -> str:
    """The costliest kernels with their shares of the time of all."""
    sums = profile.once(activity_sums).to_pylist()
    kernels = [row for row in sums if row["activity_kind"] == "kernel"]
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

    Times are sums over devices: what runs at once counts for each. Empty where no total is known.
    """
    groups = {row["activity_group"]: row for row in profile.once(totals).to_pylist()}
    times = {name: group["total_ns"] for name, group in groups.items()}
    total_ns = times["gpu_activities"]
    is_excerpt = total_ns is None
    total_ns = groups["gpu_activities"]["implied_ns"] if is_excerpt else total_ns
    if not total_ns:
        return ""
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
    unlisted = "; what else there is, the excerpt does not tell" if is_excerpt else ""
    calls, peers = groups["peer_transfers"]["calls"], ""
    if times["peer_transfers"] is not None:
        peers = ". How much of the copies kernels hide, only a trace tells"
        peers = peers if calls else ". No copy goes between devices"
    is_compute = shares.get("compute", 0) >= _MOST and not calls
    kernels = _costliest_kernels(profile) if is_compute else ""
    return f"{text}: {', '.join(parts)}{unlisted}{peers}{kernels}"


def _tensor_line(profile: Profile) -> str:
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


# What is said of recordings that are no traces.
_INSTEAD: Final = {"activity_summary": summary_line, "tensor_copies": _tensor_line}


def _is_trace(profile: Profile) -> bool:
    """Whether it shows when devices worked."""
    return not profile.has("activity_summary") and profile.has(*FINDINGS.needs)


@per_file(SCOPES)
def phases_of_devices(profile: Profile) -> pa.Table:
    """The figures of each device and phase of a trace; others have none."""
    measured = scopes(profile) if _is_trace(profile) else ()
    # What the costs of a job are shares of.
    rows = [_figures(profile, scope) | {"step_ns": scope.step_ns} for scope in measured]
    return SCOPES.table(rows)


ANALYSIS: Final = Analysis(
    "What a step goes to",
    BOTTOM_LINE,
    FINDINGS.needs,
    bottom_line,
    reads(FINDINGS.reads, SUM_READS, RANKS.reads),
    FINDINGS.reads_of_small,
    instead=(*_INSTEAD,),
    of_files=(phases_of_devices, costs_of_devices, *JOB_FUNCTIONS),
    is_as_one=True,
)
