"""What costs a recording most, in sentences: that first which is worth most to mend."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.last_ranks import CALLS_OF_FILES
from gpuprof.facts.launches import activities
from gpuprof.findings import (
    costly_kernels,
    exposed_collectives,
    exposed_copies,
    late_hosts,
    unfilled_gpus,
    whole_recording,
)
from gpuprof.findings.causes import Finding, with_win, won_together
from gpuprof.findings.exchanges import with_exchanges
from gpuprof.findings.families import family_of, with_families
from gpuprof.findings.first_sentence import NOTHING_SHARE, UNKNOWN_WIN, UNKNOWN_WINS
from gpuprof.findings.of_jobs import COSTS, findings_of_job, measured_steps
from gpuprof.findings.scope import SCOPE_READS, Scope, scopes
from gpuprof.findings.whole_recording import incomplete, of_recording
from gpuprof.model.analysis import Analysis, as_one_recording, per_file, reads
from gpuprof.model.intervals import together
from gpuprof.model.profile import Profile, once_per_profile
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
        "family": Column(
            TEXT,
            "",
            "What its line in a report is about; causes of one are in one line.",
            required=True,
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
        "family_cost_ns": Column(
            INT,
            "ns",
            "What its family costs, where this one costs most; no time counts twice.",
            required=True,
        ),
        "family_win_ns": Column(
            INT, "ns", "What mending all of the family can win of that at most.", required=True
        ),
        "family_predicted_win_ns": Column(
            INT, "ns", "What the changes that mend parts of it win together in a replay; or null."
        ),
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

# The findings of a cause by phase and device, the one that can win most first.
_Phases = list[list[Finding]]

# What a device waits for others is won where these are mended.
_OF_OTHERS: Final = {"collective_waiting", "waits_for_device", "unbalanced_devices"}
# What costs a device time in a step, by family of causes: those first that need nothing of what
# `scopes` has computed ahead, as copies do, which takes longest.
_FAMILIES: Final[Sequence[Callable[[Scope], Iterator[Finding]]]] = (
    late_hosts.of_scope,
    costly_kernels.of_scope,
    exposed_copies.of_memory,
    unfilled_gpus.of_scope,
    exposed_collectives.of_scope,
    exposed_copies.of_copies,
)
# What a recording lacks comes first where its pauses tell nothing without that; what steps do not
# pay comes after what they do, and what may win nothing at all after what wins something.
_ORDER: Final = {
    "incomplete": -1,
    "kernels_rerun": -1,
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
_WITHOUT_COST: Final = {"incomplete", "kernels_rerun", "no_training", "no_kernels", "truncated"}


def findings(profile: Profile) -> pa.Table:
    """Name what costs the devices time that they do not compute, and what mending it can win.

    What it can win at most is the time that it costs; where a change of `gpuprof predict` mends
    it, and the recording is small enough, a replay estimates how much of it the step would win.

    Costs are of one step, the median over the steps of a phase; where a recording has no steps,
    of the device's span. The costs of findings may overlap: they must not be added up.

    Of a job of many files, and of one that workers read, a row is the median over its devices,
    without a prediction; see `gpuprof.model.analysis.as_one_recording`.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls``, ``host_calls``, ``nvtx_ranges``
            and ``synchronizations`` tell why a device idles, and where copies come from.

    Returns:
        One row per cause that costs at least 1 % of a step, columns as in `FINDINGS`: of the phase
        in which most can be won; its sentence names others. What can win most time comes first. No
        rows where nothing costs that much.
    """
    profile = as_one_recording(profile)
    if profile.job is not None:
        return FINDINGS.table(findings_of_job(profile, profile.once(costs_of_devices)))
    has_phases = len({scope.phase for scope in scopes(profile)}) > 1
    return FINDINGS.table(
        [
            _columns(phases[0][0])
            | _shares(phases[0][0])
            | {"rank": number, "finding": _sentence(phases, has_phases=has_phases)}
            for number, phases in enumerate(_ranked(profile), start=1)
        ]
    )


def worst_finding(profile: Profile) -> Finding | None:
    """The first one; None where nothing is worth a sentence."""
    groups = _ranked(profile)
    return groups[0][0][0] if groups else None


def worst_of_scope(profile: Profile, scope: Scope) -> dict[str, Any] | None:
    """The first one of a scope's phase, or of its device outside of steps, as a row; None for none.

    What a recording lacks is that of all its devices.
    """
    for finding, *on_others in (of_phase for phases in _ranked(profile) for of_phase in phases):
        is_of_phase = scope.has_steps and finding.scope.phase == scope.phase
        if is_of_phase or finding.cause in _WITHOUT_COST:
            return _columns(finding) | _shares(finding)
        for of_device in (finding, *on_others):
            place = of_device.scope.phase, of_device.scope.device.number
            if place == ("", scope.device.number):
                return _columns(of_device) | _shares(of_device)
    return None


def _worth_a_sentence(profile: Profile) -> list[Finding]:
    """What costs enough, of what the recording can tell."""
    of_steps = [cost for costs in findings_of_scopes(profile).values() for cost in costs]
    of_devices: dict[tuple[str, int], list[Finding]] = {}
    for finding in of_recording(profile, scopes(profile)):
        place = finding.scope.phase, finding.scope.device.number
        of_devices.setdefault(place, []).append(finding)
    of_all = [f for alike in of_devices.values() for f in with_families(alike, _LEAST_SHARE)]
    lacking = {finding.cause for finding in of_all}
    # From a single copy nothing follows, unless a kernel ran.
    is_copy = len(activities(profile.unrestricted)) == 1 and not any(
        scope.device.kernels_ns for scope in scopes(profile)
    )
    if incomplete(profile) is not None:
        of_all = [finding for finding in of_all if finding.cause in _WITHOUT_COST]
    if incomplete(profile) is not None or is_copy or "no_training" in lacking:
        of_steps = []
    return [
        finding
        for finding in (*of_all, *of_steps)
        if finding.share(finding.cost_ns) >= _LEAST_SHARE or finding.cause in _WITHOUT_COST
    ]


@once_per_profile
def _ranked(profile: Profile) -> list[_Phases]:
    """What is worth a sentence, by cause, phase and device: the family that can win most first."""
    worth = _worth_a_sentence(profile)
    by_cause: dict[str, list[list[Finding]]] = {}
    for (cause, _), alike in groupby(sorted(worth, key=_cause_and_phase), key=_cause_and_phase):
        first, *on_others = sorted(alike, key=lambda cost: (-cost.win_ns, -cost.cost_ns))
        by_cause.setdefault(cause, []).append([with_win(first), *on_others])
    has_steps, has_kernels = any(s.has_steps for s in scopes(profile)), "no_kernels" not in by_cause

    def order(finding: Finding) -> int:
        """What the steady state pays before set-up.

        A recording that is all set-up says so first, and one without steps if most of it is. What
        takes most of the time with copies is true without kernels, too.
        """
        share = finding.share(finding.cost_ns)
        if not has_kernels and finding.cause in _COPIES and share >= _MOST:
            return _ORDER["no_kernels"]
        if finding.cause == "setup" and share >= (_ALL if has_steps else _MOST):
            return 0
        return _ORDER.get(finding.cause, 0)

    by_family: dict[str, list[_Phases]] = {}
    for cause, phases in by_cause.items():
        most_first = sorted(phases, key=lambda devices: -_weight(devices[0]))
        by_family.setdefault(family_of(cause), []).append(most_first)
    places = {}
    for name, causes in by_family.items():
        places[name], by_family[name] = _family(causes, [order(of[0][0]) for of in causes])
    in_order = sorted(by_family, key=lambda name: places[name])
    return [phases for name in in_order for phases in by_family[name]]


def _family(
    causes: Sequence[_Phases], orders: Sequence[int]
) -> tuple[tuple[int, float, int], list[_Phases]]:
    """The place of a family by what can be won of it, and its causes, which say what that is.

    Args:
        causes: Its causes by phase and device.
        orders: Whether each comes before or after what steps pay: the first of them counts.
    """
    ranked = sorted(
        zip(orders, causes, strict=True),
        key=lambda of: (of[0], -sum(_weight(first) for first, *_ in of[1]), -of[1][0][0].cost_ns),
    )
    lead, weight, won_ns = ranked[0][1][0][0], 0.0, None
    by_phase: dict[str, list[Finding]] = {}
    for order, phases in ranked:
        for first, *_ in phases if order == ranked[0][0] else ():
            by_phase.setdefault(first.scope.phase, []).append(first)
    for phase, parts in by_phase.items():
        replayed_ns = won_together(parts)
        won_ns = replayed_ns if phase == lead.scope.phase else won_ns
        bounds = sum(_weight(part) for part in parts if part.won_ns is None)
        most_ns = max(part.of_family_ns[1] for part in parts) * parts[0].scope.steps
        weight += min(bounds + (replayed_ns or 0) * parts[0].scope.steps, most_ns)
    of_family_ns = (*lead.of_family_ns[:2], won_ns)
    causes_with_sums = [
        [[first._replace(of_family_ns=of_family_ns), *on_others] for first, *on_others in phases]
        for _, phases in ranked
    ]
    return (ranked[0][0], -weight, -lead.cost_ns), causes_with_sums


def _cause_and_phase(finding: Finding) -> tuple[str, str]:
    return finding.cause, finding.scope.phase


def _weight(finding: Finding) -> float:
    """What can be won, by a replay where there is one; half counts where that is not sure."""
    won_ns = finding.win_ns if finding.won_ns is None else finding.won_ns
    return won_ns * finding.scope.steps * (1.0 if finding.is_sure else _UNSURE_SHARE)


@once_per_profile
def findings_of_scopes(profile: Profile) -> Mapping[Scope, Sequence[Finding]]:
    """All that costs each device time, however little, by what was looked at."""
    most_compute_ns: dict[str, int] = {}
    for scope in scopes(profile):
        most_ns = max(most_compute_ns.get(scope.phase, 0), scope.compute_ns)
        most_compute_ns[scope.phase] = most_ns
    costs: dict[Scope, list[Finding]] = {scope: [] for scope in scopes(profile)}
    for family in _FAMILIES:
        for scope, of_scope in costs.items():
            of_scope.extend(family(scope))
    for scope, of_scope in costs.items():
        # A device that computes less than another would wait for that one in the time it saves.
        slack_ns = most_compute_ns[scope.phase] - scope.compute_ns if scope.has_steps else 0
        costs[scope] = [
            f if f.cause in _OF_OTHERS else f._replace(win_ns=max(f.win_ns - slack_ns, 0))
            for f in _joined(of_scope)
        ]
    return {
        scope: with_families(of_scope, _LEAST_SHARE)
        for scope, of_scope in with_exchanges(costs).items()
    }


def _joined(of_scope: Sequence[Finding]) -> list[Finding]:
    """The findings of a scope, those that are about the same time joined."""
    by_cause: dict[str, Finding] = {}
    for finding in of_scope:
        prior = by_cause.setdefault(finding.cause, finding)
        if prior is not finding:
            # At another time: in the words of the costlier one.
            costlier = max(prior, finding, key=lambda cost: cost.cost_ns)
            cost_ns, win_ns = prior.cost_ns + finding.cost_ns, prior.win_ns + finding.win_ns
            instants = together([prior.instants, finding.instants])
            by_cause[finding.cause] = costlier._replace(
                cost_ns=cost_ns, win_ns=win_ns, instants=instants
            )
    staged, waits = by_cause.get("staged_copies"), by_cause.get("waits_for_device")
    if staged is not None and waits is not None:
        # Devices wait for the halves that the others copy.
        by_cause["staged_copies"] = staged._replace(
            cost_ns=staged.cost_ns + waits.cost_ns,
            win_ns=staged.win_ns + waits.win_ns,
            phrase=f"{staged.phrase}, with pauses of {say_ns(waits.cost_ns)} beside them",
            instants=together([staged.instants, waits.instants]),
        )
        del by_cause["waits_for_device"]
    pageable, copies = by_cause.get("pageable_memory"), by_cause.get("exposed_host_copies")
    if pageable is not None and copies is not None and pageable.cost_ns >= _MOST * copies.cost_ns:
        by_cause["pageable_memory"] = pageable._replace(
            cost_ns=copies.cost_ns,
            win_ns=copies.win_ns,
            where=copies.where,
            instants=copies.instants,
        )
        del by_cause["exposed_host_copies"]
    small, late = by_cause.get("small_kernels"), by_cause.get("host_late")
    if small is not None and late is not None:
        # The host is late for small kernels; what is left has another reason.
        rest_ns = max(late.cost_ns - small.cost_ns, 0)
        by_cause["host_late"] = late._replace(cost_ns=rest_ns, win_ns=min(late.win_ns, rest_ns))
    return [*by_cause.values()]


def _columns(finding: Finding) -> dict[str, Any]:
    """What a row of findings, and of the costs of a job's devices, says of a finding."""
    scope = finding.scope
    return {
        "cause": finding.cause,
        "family": family_of(finding.cause),
        "family_cost_ns": finding.of_family_ns[0],
        "family_win_ns": finding.of_family_ns[1],
        "family_predicted_win_ns": finding.of_family_ns[2],
        "where": finding.where or None,
        "device_id": scope.device.device_id,
        "phase": scope.phase or None,
        "steps": len(scope.start_ns) if scope.has_steps else None,
        "step_ns": scope.step_ns,
        "cost_ns": finding.cost_ns,
        "win_ns": finding.win_ns,
        "means": finding.means,
        "total_win_ns": finding.win_ns * scope.steps,
        "suggestion": finding.suggestion,
        "table": finding.table,
    }


def _shares(finding: Finding) -> dict[str, Any]:
    """What a finding costs and can win: by a replay where there is one."""
    win_share, won_ns = finding.share(finding.win_ns), finding.won_ns
    row = {"cost_share": finding.share(finding.cost_ns), "win_share": win_share}
    if finding.cause in UNKNOWN_WINS or not finding.win_ns:
        unknown = finding.cause in UNKNOWN_WINS
        return row | {"win": UNKNOWN_WIN if unknown else "nothing by itself"}
    source, words = str(finding.scope.profile.origin.source), finding.different
    command = shlex.join(["gpuprof", "predict", source, "--what", finding.change])
    win = at_most = f"at most {say_share(win_share)}"
    if won_ns is None:
        win += f", next to nothing {words}" if words else ""
    elif finding.share(won_ns) < NOTHING_SHARE:
        win = f"next to nothing by itself, {words}; {at_most}"
    elif won_ns == finding.cost_ns:
        win = f"all of it {words}"
    else:
        won = f"{say_ns(won_ns)} ({say_share(finding.share(won_ns))}) {words}"
        win = won if won_ns == finding.win_ns else f"{won}; {at_most}"
    return row | {
        "predicted_win_ns": won_ns,
        "predicted_win_share": None if won_ns is None else finding.share(won_ns),
        "win": win,
        "change": finding.change or None,
        "assumptions": finding.assumptions,
        "command": command if finding.change else None,
    }


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
        f"{device_name(finding.scope)} {say_share(finding.share(finding.cost_ns))}"
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
    time, share = say_ns(finding.cost_ns), say_share(finding.share(finding.cost_ns))
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
    costs = [*of_recording(profile, scopes(profile))]
    costs += [cost for of_scope in findings_of_scopes(profile).values() for cost in of_scope]
    return COSTS.table(
        [
            _columns(cost) | {"is_sure": cost.is_sure, "phrase": cost.phrase}
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
    reads(
        SCOPE_READS,
        whole_recording.READS,
        exposed_copies.READS,
        late_hosts.READS,
        exposed_collectives.READS,
        costly_kernels.READS,
        unfilled_gpus.READS,
    ),
    reads(exposed_copies.READS_OF_SMALL, unfilled_gpus.READS_OF_SMALL, PREDICT_READS),
    of_files=(costs_of_devices, *JOB_FUNCTIONS),
    is_as_one=True,
)
