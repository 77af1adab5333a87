"""What costs a recording most, in sentences: that first which is worth most to mend."""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.last_ranks import CALLS_OF_FILES
from gpuprof.facts.launches import activities
from gpuprof.findings import (
    collectives,
    host,
    kernels,
    memory,
    occupancy,
    recording,
    transfers,
)
from gpuprof.findings.contract import Finding, Scope
from gpuprof.findings.incomplete import INCOMPLETE, RERUN, incomplete
from gpuprof.findings.of_jobs import COSTS, findings_of_job, measured_steps
from gpuprof.findings.scopes import SCOPE_READS, scopes
from gpuprof.findings.wins import with_win
from gpuprof.model.analysis import Analysis, per_file, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.predict.effects import PREDICT_READS

# Less of a step is not worth a sentence.
_LEAST_SHARE: Final = 0.01
# What may be won or not.
_UNSURE_SHARE: Final = 0.5
# Copies of pageable memory are what copies are about if they are this much of them.
_MOST: Final = 0.5
# A recording that is set-up by so much says so first.
_ALL: Final = 0.9
# A replay that wins less wins nothing that could be measured.
_NOTHING_SHARE: Final = 0.001
# From fewer steps nothing follows for sure.
_FEW: Final = 3
# Another device's cost is worth a word if it is this much of the first one's.
_ALSO: Final = 0.1
_MOST_OTHERS: Final = 2

FINDINGS: Final = Schema(
    "findings",
    "one thing that costs time",
    {
        "rank": Column(INT, "1", "1 for what is worth most to mend.", required=True),
        "cause": Column(
            TEXT, "", "Its stable name, explained by `gpuprof help findings`.", required=True
        ),
        "where": Column(TEXT, "", "Operation, range, call, route or rank; null where unknown."),
        "device_id": Column(INT, "", "Device that loses most by it; null where unknown."),
        "phase": Column(TEXT, "", "Marks of the steps; null where the recording has no steps."),
        "steps": Column(INT, "1", "Steps that were measured; null where there are none."),
        "step_ns": Column(
            INT,
            "ns",
            "Median length of a step, the mean where that is a tenth more; else the device's span.",
        ),
        "cost_ns": Column(INT, "ns", "Time that it costs a step, or the span.", required=True),
        "cost_share": Column(FLOAT, "1", "cost_ns / step_ns.", required=True),
        "win_ns": Column(INT, "ns", "What mending it can win of that at most.", required=True),
        "win_share": Column(FLOAT, "1", "win_ns / step_ns.", required=True),
        "predicted_win_ns": Column(
            INT, "ns", "What `change` wins of it in a replay; null where there is no prediction."
        ),
        "predicted_win_share": Column(FLOAT, "1", "predicted_win_ns / step_ns."),
        "win": Column(TEXT, "", "What it can win, in words.", required=True),
        "change": Column(
            TEXT, "", "What mends it, as `gpuprof predict --what` takes it; null for nothing."
        ),
        "assumptions": Column(TEXT, "", "What the replay assumes, or why there is no prediction."),
        "command": Column(TEXT, "", "Command that tells more of the replay; null for none."),
        "means": Column(TEXT, "", "By what it can be won.", required=True),
        "total_win_ns": Column(INT, "ns", "win_ns of all steps of the phase.", required=True),
        "finding": Column(TEXT, "", "What it is, in a sentence.", required=True),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
        "table": Column(TEXT, "", "Table that tells more.", required=True),
    },
)

# What a device waits for others is won where these are mended.
_OF_OTHERS: Final = {"collective_waiting", "waits_for_device", "unbalanced_devices"}
_FAMILIES: Final = (transfers, host, collectives, kernels, memory, occupancy)
# What `scopes` has computed ahead for the last of these takes longest.
_AS_COMPUTED: Final = (host, kernels, memory, occupancy, collectives, transfers)
# What a recording lacks comes first where its pauses tell nothing without that; what steps do not
# pay comes after what they do, and what may win nothing at all after what wins something.
_ORDER: Final = {
    INCOMPLETE: -1,
    RERUN: -1,
    "no_training": -1,
    "no_kernels": -1,
    "low_occupancy": 1,
    "truncated": 1,
    "setup": 2,
    "copies_outside_steps": 2,
    "waits_outside_steps": 2,
}
# What copies cost is known without kernels; what a device does in pauses is not.
_COPIES: Final = {"exposed_peer_copies", "staged_copies", "exposed_host_copies", "pageable_memory"}
_WITHOUT_COST: Final = {INCOMPLETE, RERUN, "no_training", "no_kernels", "truncated"}


def findings(profile: Profile) -> pa.Table:
    """Name what costs the devices time that they do not compute, and what mending it can win.

    What it can win at most is the time that it costs; where a change of `gpuprof predict` mends
    it, and the recording is small enough, a replay estimates how much of it the step would win.

    Costs are of one step, the median over the steps of a phase; where a recording has no steps,
    of the device's span. The costs of findings may overlap: they must not be added up.

    Of a job of several files a row is the median over its devices, without a prediction.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls``, ``host_calls``, ``nvtx_ranges``
            and ``synchronizations`` tell why a device idles, and where copies come from.

    Returns:
        One row per cause that costs at least 1 % of a step, columns as in `FINDINGS`: of the phase
        in which most can be won; its sentence names others. What can win most time comes first. No
        rows where nothing costs that much.
    """
    if profile.job is not None:
        return FINDINGS.table(findings_of_job(profile, profile.once(costs_of_devices)))
    has_phases = len({scope.phase for scope in scopes(profile)}) > 1
    groups = profile.once(_ranked)
    return FINDINGS.table(
        [
            _row(phases[0][0])
            | {"rank": number, "finding": _sentence(phases, has_phases=has_phases)}
            for number, phases in enumerate(groups, start=1)
        ]
    )


def worst_finding(profile: Profile) -> Finding | None:
    """The first one; None where nothing is worth a sentence."""
    groups = profile.once(_ranked)
    return groups[0][0][0] if groups else None


def _ranked(profile: Profile) -> list[list[list[Finding]]]:
    """What is worth a sentence, by cause, phase and device: that first which can win most."""
    of_steps = [cost for costs in findings_of_scopes(profile).values() for cost in costs]
    of_recording = [*recording.of_recording(profile, scopes(profile))]
    if any(finding.cause == "no_training" for finding in of_recording):
        of_steps = []
    if incomplete(profile) is not None:
        of_recording = [finding for finding in of_recording if finding.cause in _WITHOUT_COST]
        of_steps = []
    if len(activities(profile.unrestricted)) == 1 and not _works(profile):
        of_steps = []
    worth = [
        finding
        for finding in (*of_recording, *of_steps)
        if _share(finding.cost_ns, finding) >= _LEAST_SHARE or finding.cause in _WITHOUT_COST
    ]
    groups: dict[str, list[list[Finding]]] = {}
    for first, *on_others in _by_phase(worth):
        groups.setdefault(first.cause, []).append([with_win(first), *on_others])
    ordered = [
        sorted(phases, key=lambda devices: -_weight(devices[0])) for phases in groups.values()
    ]
    has_steps = any(scope.has_steps for scope in scopes(profile))
    has_kernels = "no_kernels" not in groups
    return sorted(ordered, key=partial(_place, has_steps=has_steps, has_kernels=has_kernels))


def _works(profile: Profile) -> bool:
    """Whether a kernel ran; from a single copy nothing follows."""
    return any(scope.device.kernels.length for scope in scopes(profile))


def _place(
    phases: Sequence[Sequence[Finding]], *, has_steps: bool, has_kernels: bool
) -> tuple[int, float, int]:
    """By what it is sorted: what the steady state pays by what can be won, set-up after it.

    A recording that is all set-up says so first, and one without steps if most of it is. What takes
    most of the time with copies is true without kernels, too.
    """
    first = phases[0][0]
    order = _ORDER.get(first.cause, 0)
    if not has_kernels and first.cause in _COPIES and _share(first.cost_ns, first) >= _MOST:
        order = _ORDER["no_kernels"]
    if first.cause == "setup" and _share(first.cost_ns, first) >= (_ALL if has_steps else _MOST):
        order = 0
    return order, -sum(_weight(devices[0]) for devices in phases), -first.cost_ns


def _weight(finding: Finding) -> float:
    """What can be won; half of it counts where that is not sure."""
    return finding.likely_win_ns * finding.scope.steps * (1.0 if finding.is_sure else _UNSURE_SHARE)


def findings_of_scopes(profile: Profile) -> Mapping[Scope, Sequence[Finding]]:
    """All that costs each device time, however little, by what was looked at."""
    return profile.once(_findings_of_scopes)


def _findings_of_scopes(profile: Profile) -> Mapping[Scope, Sequence[Finding]]:
    most: dict[str, int] = {}
    for scope in scopes(profile):
        most[scope.phase] = max(most.get(scope.phase, 0), scope.compute_ns)
    of_family = {
        family: {scope: [*family.of_scope(scope)] for scope in scopes(profile)}
        for family in _AS_COMPUTED
    }
    return {
        scope: [
            _on_path(finding, most[scope.phase])
            for finding in _joined(
                [row for family in _FAMILIES for row in of_family[family][scope]]
            )
        ]
        for scope in scopes(profile)
    }


def _on_path(finding: Finding, most_compute_ns: int) -> Finding:
    """A finding with what it can win of the step, which waits for the device that computes most.

    A device that computes less would wait for that one in the time that it saves.
    """
    if not finding.scope.has_steps or finding.cause in _OF_OTHERS:
        return finding
    slack_ns = most_compute_ns - finding.scope.compute_ns
    return finding._replace(win_ns=max(finding.win_ns - slack_ns, 0))


def _joined(of_scope: Sequence[Finding]) -> list[Finding]:
    """The findings of a scope, those that are about the same time joined."""
    by_cause: dict[str, Finding] = {}
    for finding in of_scope:
        prior = by_cause.get(finding.cause)
        by_cause[finding.cause] = finding if prior is None else _together(prior, finding)
    staged, waits = by_cause.get("staged_copies"), by_cause.get("waits_for_device")
    if staged is not None and waits is not None:
        # Devices wait for the halves that the others copy.
        by_cause["staged_copies"] = staged._replace(
            cost_ns=staged.cost_ns + waits.cost_ns,
            win_ns=staged.win_ns + waits.win_ns,
            phrase=f"{staged.phrase}, with pauses of {say_ns(waits.cost_ns)} beside them",
        )
        del by_cause["waits_for_device"]
    pageable, copies = by_cause.get("pageable_memory"), by_cause.get("exposed_host_copies")
    if pageable is not None and copies is not None and pageable.cost_ns >= _MOST * copies.cost_ns:
        by_cause["pageable_memory"] = pageable._replace(
            cost_ns=copies.cost_ns, win_ns=copies.win_ns, where=copies.where
        )
        del by_cause["exposed_host_copies"]
    small, late = by_cause.get("small_kernels"), by_cause.get("host_late")
    if small is not None and late is not None:
        # The host is late for small kernels; what is left has another reason.
        rest_ns = max(late.cost_ns - small.cost_ns, 0)
        by_cause["host_late"] = late._replace(cost_ns=rest_ns, win_ns=min(late.win_ns, rest_ns))
    return [*by_cause.values()]


def _together(first: Finding, second: Finding) -> Finding:
    """Findings of one cause at different times, in the words of the costlier one."""
    costlier = max(first, second, key=lambda finding: finding.cost_ns)
    cost_ns, win_ns = first.cost_ns + second.cost_ns, first.win_ns + second.win_ns
    return costlier._replace(cost_ns=cost_ns, win_ns=win_ns)


def _by_phase(costs: Sequence[Finding]) -> list[list[Finding]]:
    """The findings of one cause in one phase, that of the device that can win most first."""
    ordered = sorted(costs, key=_alike)
    groups = [list(of_cause) for _, of_cause in groupby(ordered, key=_alike)]
    return [sorted(of_cause, key=lambda cost: (-cost.win_ns, -cost.cost_ns)) for of_cause in groups]


def _alike(finding: Finding) -> tuple[str, str]:
    return finding.cause, finding.scope.phase


def _share(ns: int, finding: Finding) -> float:
    return ns / finding.scope.step_ns if finding.scope.step_ns else 0.0


def _row(first: Finding) -> dict[str, Any]:
    """A finding without its place and sentence."""
    scope = first.scope
    return {
        "cause": first.cause,
        "where": first.where or None,
        "device_id": scope.device.device_id,
        "phase": scope.phase or None,
        "steps": len(scope.start_ns) if scope.has_steps else None,
        "step_ns": scope.step_ns,
        "cost_ns": first.cost_ns,
        "cost_share": _share(first.cost_ns, first),
        "win_ns": first.win_ns,
        "win_share": _share(first.win_ns, first),
        **_win(first),
        "means": first.means,
        "total_win_ns": first.win_ns * scope.steps,
        "suggestion": first.suggestion,
        "table": first.table,
    }


def _win(finding: Finding) -> dict[str, Any]:
    """What a finding can win: by a replay where there is one."""
    if not finding.win_ns:
        return {"win": "nothing by itself"}
    at_most = f"at most {say_share(_share(finding.win_ns, finding))}"
    if (replayed := finding.replayed) is None:
        return {"win": at_most}
    change, won_ns = replayed.change, replayed.won_ns
    command = ["gpuprof", "predict", str(finding.scope.profile.origin.source), "--what", change]
    row = {
        "predicted_win_ns": won_ns,
        "predicted_win_share": None if won_ns is None else _share(won_ns, finding),
        "win": at_most,
        "change": change or None,
        "assumptions": replayed.assumptions,
        "command": shlex.join(command) if change else None,
    }
    if won_ns is None:
        words = f", next to nothing {replayed.words}" if replayed.words else ""
        return row | {"win": at_most + words}
    if _share(won_ns, finding) < _NOTHING_SHARE:
        return row | {"win": f"next to nothing by itself, {replayed.words}; {at_most}"}
    if won_ns == finding.cost_ns:
        return row | {"win": f"all of it {replayed.words}"}
    won = f"{say_ns(won_ns)} ({say_share(_share(won_ns, finding))}) {replayed.words}"
    return row | {"win": won if won_ns == finding.win_ns else f"{won}; {at_most}"}


def _sentence(phases: Sequence[Sequence[Finding]], *, has_phases: bool) -> str:
    """What a device pays in the phase in which most can be won, other devices, and other phases.

    Args:
        phases: The findings of a cause by phase and device.
        has_phases: Whether the recording has several phases, so that they are named.
    """
    first, *on_others = phases[0]
    text = f"{device_name(first.scope)} {first.phrase}"
    if first.cause in _WITHOUT_COST:
        return text
    also = [finding for finding in on_others if finding.cost_ns >= _ALSO * first.cost_ns]
    shares = [
        f"{device_name(finding.scope)} {say_share(_share(finding.cost_ns, finding))}"
        for finding in also[:_MOST_OTHERS]
    ]
    if more := len(also) - len(shares):
        shares.append(f"{more} more {'device' if more == 1 else 'devices'}")
    for phase, *_ in phases[1:]:
        is_same = phase.scope.device.device_id == first.scope.device.device_id and not shares
        device = "" if is_same else f"{device_name(phase.scope)} "
        shares.append(f"{device}{_cost(phase, has_phases=has_phases)}")
    return "; ".join([f"{text}: {_cost(first, has_phases=has_phases)}", *shares])


def _cost(finding: Finding, *, has_phases: bool) -> str:
    time, share = say_ns(finding.cost_ns), say_share(_share(finding.cost_ns, finding))
    if not finding.scope.has_steps:
        return f"{time} ({share})"
    steps = len(finding.scope.start_ns)
    few = f"; {counted(steps, 'step', 'steps')} only" if steps < _FEW else ""
    phase = f' of "{finding.scope.phase}"' if has_phases and finding.scope.phase else ""
    return f"{time} of a step{phase} ({share}{few})"


def device_name(scope: Scope) -> str:
    """The device of a scope in a sentence."""
    number = scope.device.device_id
    return "an unknown device" if number is None else f"device {number}"


@per_file(COSTS, needs=("kernels", "memcpys"))
def costs_of_devices(profile: Profile) -> pa.Table:
    """What costs the devices of one file of a job time; without predictions, which take longest."""
    costs = [*recording.of_recording(profile, scopes(profile))]
    costs += [cost for of_scope in findings_of_scopes(profile).values() for cost in of_scope]
    return COSTS.table(
        [
            {
                "device_id": cost.scope.device.device_id,
                "phase": cost.scope.phase or None,
                "cause": cost.cause,
                "where": cost.where or None,
                "steps": len(cost.scope.start_ns) if cost.scope.has_steps else None,
                "step_ns": cost.scope.step_ns,
                "cost_ns": cost.cost_ns,
                "win_ns": cost.win_ns,
                "total_win_ns": cost.win_ns * cost.scope.steps,
                "is_sure": cost.is_sure,
                "phrase": cost.phrase,
                "means": cost.means,
                "suggestion": cost.suggestion,
                "table": cost.table,
            }
            for cost in costs
            if cost.cost_ns
        ]
    )


# What the answers for a job are made of, beside what costs its devices.
JOB_FUNCTIONS: Final = (*CALLS_OF_FILES, measured_steps, *(RANKS.of_files or ()))

ANALYSIS: Final = Analysis(
    "What costs most",
    FINDINGS,
    ("kernels", "memcpys"),
    findings,
    reads(SCOPE_READS, recording.READS, *(family.READS for family in _FAMILIES)),
    reads(transfers.READS_OF_SMALL, occupancy.READS_OF_SMALL, PREDICT_READS),
    of_files=(costs_of_devices, *JOB_FUNCTIONS),
)
