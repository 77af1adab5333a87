"""What a step goes to, and what moving data costs of it at most: the first sentence of a report."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.activity_summary import SUM_READS
from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.analyses.ranks import ranks
from gpuprof.analyses.steps import steps
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.last_ranks import collective_record
from gpuprof.facts.step_times import mean_beside
from gpuprof.facts.timeline import COMMUNICATION, LAYERS, TRANSFER
from gpuprof.findings.contract import Finding, Scope
from gpuprof.findings.costliest_kernels import costliest_kernels
from gpuprof.findings.findings import ANALYSIS as FINDINGS
from gpuprof.findings.findings import (
    JOB_FUNCTIONS,
    device_name,
    findings_of_scopes,
    worst_finding,
)
from gpuprof.findings.incomplete import incomplete
from gpuprof.findings.late_ranks import rank_sentences
from gpuprof.findings.of_jobs import SCOPES, bottom_lines_of_job
from gpuprof.findings.scopes import scopes
from gpuprof.findings.set_up import copies_outside, set_up_of
from gpuprof.findings.summary_line import summary_line
from gpuprof.findings.tensor_line import tensor_line
from gpuprof.findings.transfers import exposed_by_route
from gpuprof.model.analysis import Analysis, per_file, reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import covered_within, together
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

# From here on compute is the answer, and its kernels are named.
_MOST: Final = 0.5
# A phase of more devices is what is asked about, unless it is this short beside another one.
_LITTLE: Final = 0.1
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
_WORDS: Final = ("compute", "collectives", "waits for transfers", "local copies")
_SHARES: Final = (
    "compute_share",
    "exposed_communication_share",
    "exposed_transfer_share",
    "exposed_local_copy_share",
)

_MOVING: Final = ("between_devices_ns", "with_host_ns")

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

# What is said of recordings that are no traces.
_INSTEAD: Final = {"activity_summary": summary_line, "tensor_copies": tensor_line}


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
        in which most can be won, and of its devices the one that computes most. Of a job of
        several files, one row per phase. Of a summary, and of TensorFlow, one row with all but the
        sentence null.
    """
    if not _is_trace(profile):
        lines = [line_of(profile) for table, line_of in _INSTEAD.items() if profile.has(table)]
        text = ". ".join(filter(None, lines))
        return BOTTOM_LINE.table([{"bottom_line": text}] if text else [])
    if profile.job is not None:
        rows = bottom_lines_of_job(profile.once(phases_of_devices))
    else:
        rows = [_row(profile, scope) for scope in _ordered(profile)]
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


def _row(profile: Profile, scope: Scope) -> dict[str, Any]:
    row = _figures(profile, scope)
    return row | {"bottom_line": _sentence(profile, scope, row)}


def _figures(profile: Profile, scope: Scope) -> dict[str, Any]:
    total = int((scope.end_ns - scope.start_ns).sum())
    times = [
        int(covered_within(scope.device.exposed[layer], scope.start_ns, scope.end_ns).sum())
        for layer in LAYERS
    ]
    shares = [time / total if total else 0.0 for time in times]
    costs = findings_of_scopes(profile).get(scope, ())
    between, with_host = (_sum(costs, causes) for causes in (BETWEEN_DEVICES, WITH_HOST))
    # Costs are medians, and shares means: moving data costs no less than the shares that are said.
    between = max(between, round(shares[COMMUNICATION] * scope.step_ns))
    if between + with_host < round((shares[COMMUNICATION] + shares[TRANSFER]) * scope.step_ns):
        of_peers, of_host = (ns / total for ns in _exposed_copies_ns(scope))
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
        **dict(zip(_SHARES, shares, strict=True)),
        "idle_share": 1 - sum(shares) - set_up_share,
        "set_up_share": set_up_share,
        "between_devices_ns": between,
        "with_host_ns": with_host,
    }


def _exposed_copies_ns(scope: Scope) -> tuple[int, int]:
    """How long a device waits in all steps for copies between devices, and with the host."""
    exposed = exposed_by_route(scope)
    of_host = [times for route, times in exposed.items() if HOST in {route.src, route.dst}]
    of_peers = [times for route, times in exposed.items() if HOST not in {route.src, route.dst}]
    peers_ns, host_ns = (
        int(covered_within(together(times), scope.start_ns, scope.end_ns).sum())
        for times in (of_peers, of_host)
    )
    return peers_ns, host_ns


def _sum(costs: Sequence[Finding], causes: set[str]) -> int:
    return sum(finding.cost_ns for finding in costs if finding.cause in causes)


def _sentence(profile: Profile, scope: Scope, row: dict[str, Any]) -> str:
    words = dict(zip(_SHARES, _WORDS, strict=True))
    words |= {"idle_share": "idle", "set_up_share": "set-up"}
    why = incomplete(profile)
    shares = row | ({} if why is None else {"idle_share": row["idle_share"] + row["set_up_share"]})
    if why is not None:
        words["idle_share"] = why.idle_word
        del words["set_up_share"]
    parts = [f"{say_share(shares[n])} {w}" for n, w in words.items() if shares[n] >= _LEAST_SHARE]
    device, phases = device_name(scope), {measured.phase for measured in scopes(profile)}
    subject = f"The recording of {device} spans {say_ns(scope.step_ns)}"
    if scope.has_steps:
        steps = counted(len(scope.start_ns), "step", "steps")
        steps += ", inferred from its kernels" if scope.is_inferred else ""
        name = f' of "{scope.phase}"' if len(phases) > 1 else ""
        steps += mean_beside(scope.end_ns - scope.start_ns)
        subject = f"A step{name} takes {say_ns(scope.median_ns)} on {device} (median of {steps})"
    text = f"{subject}: {', '.join(parts)}"
    if why is not None:
        return text + costliest_kernels(profile)
    kernels = costliest_kernels(profile) if row["compute_share"] >= _MOST else ""
    return f"{text}. {_moving(profile, scope, row)}{kernels}"


def _moving(profile: Profile, scope: Scope, row: dict[str, Any]) -> str:
    """What moving data costs a step at most."""
    between, with_host = (row[name] / max(scope.step_ns, 1) for name in _MOVING)
    moves = between >= _LEAST_SHARE
    parts = [f"between devices costs at most {say_share(between)} of it"] if moves else []
    if with_host >= _LEAST_SHARE and with_host > between:
        parts += [f"from and to the host {'' if parts else 'costs '}at most {say_share(with_host)}"]
    outside = _moving_outside(profile, scope)
    if not parts:
        return f"Moving data costs {'a step ' * bool(outside)}next to nothing{outside}"
    alone = "" if between or len(scopes(profile)) == 1 else "; none moves between devices"
    return f"Moving data {', '.join(parts)}{alone}{outside}"


def _moving_outside(profile: Profile, scope: Scope) -> str:
    """What copies take of the recording that no step pays, where that is worth a word."""
    outside_ns = copies_outside(profile, scope.device).length if scope.has_steps else 0
    share = outside_ns / max(scope.device.span.length, 1)
    if share < _LEAST_OUTSIDE:
        return ""
    return f", but copies before or after the steps take {say_share(share)} of the recording"


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
    of_files=(phases_of_devices, *JOB_FUNCTIONS),
)
