"""What costs a recording most, in sentences: that first which is worth most to mend.

A finding is made of rows of what costs each device time, whatever made these: one process, or the
workers that read the files of a job.
"""

import shlex
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.hosts import device_name
from gpuprof.facts.last_ranks import CALLS_OF_FILES
from gpuprof.findings import (
    costly_kernels,
    exposed_collectives,
    exposed_copies,
    late_hosts,
    unfilled_gpus,
    whole_recording,
)
from gpuprof.findings.causes import NOTHING_SHARE, UNKNOWN_WIN, UNKNOWN_WINS, WITHOUT_COST
from gpuprof.findings.costs import FINDINGS, LEAST_SHARE, Row, costs_of_devices
from gpuprof.findings.of_jobs import costs_of_job, sentence_of_job, usual_row
from gpuprof.findings.scope import SCOPE_READS, Scope, measured, measured_steps, scopes
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.predict.effects import PREDICT_READS

# What may be won or not.
_UNSURE_SHARE: Final = 0.5
# From fewer steps nothing follows for sure.
_FEW: Final = 3
# Another device's cost is worth a word if it is this much of the first one's.
_ALSO: Final = 0.1
_MOST_OTHERS: Final = 2

# What a cause costs in one phase: as a row for all its devices, and as a row of each of them.
_Phase = tuple[Row, list[Row]]


def findings(profile: Profile) -> pa.Table:
    """Name what costs the devices time that they do not compute, and what mending it can win.

    What it can win at most is the time that it costs; where a change of `gpuprof predict` mends
    it, and the recording is small enough, a replay estimates how much of it the step would win.

    Costs are of one step, the median over the steps of a phase; where a recording has no steps,
    of the device's span. The costs of findings may overlap: they must not be added up.

    Of a job of several files a row is the median over its devices. Each file is replayed by itself,
    with the waits that were recorded; the job wins what the step of the rank that waits least does.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls``, ``host_calls``, ``nvtx_ranges``
            and ``synchronizations`` tell why a device idles, and where copies come from.

    Returns:
        One row per cause that costs at least 1 % of a step, columns as in `FINDINGS`: of the phase
        in which most can be won; its sentence names others. What can win most time comes first. No
        rows where nothing costs that much.
    """
    is_job = profile.job is not None
    has_phases = len({of.phase for of in (measured if is_job else scopes)(profile)}) > 1
    rows = []
    for number, phases in enumerate(_ranked(profile), start=1):
        of_devices = [of_phase for _, of_phase in phases]
        if is_job:
            sentence = sentence_of_job(profile, of_devices, has_phases=has_phases)
        else:
            sentence = _sentence(of_devices, has_phases=has_phases)
        row = _with_win(phases[0][0], profile.origin.source)
        rows.append(row | {"rank": number, "finding": sentence})
    return FINDINGS.table(rows)


def worst_finding(profile: Profile) -> Row | None:
    """The first one; None where nothing is worth a sentence."""
    return next((lead for phases in _ranked(profile) for lead, _ in phases), None)


def worst_of_scope(profile: Profile, scope: Scope) -> Row | None:
    """The first one of a scope's phase, or of its device outside of steps, as a row; None for none.

    What a recording lacks is that of all its devices.
    """
    source = profile.origin.source
    for lead, of_devices in (of_phase for phases in _ranked(profile) for of_phase in phases):
        is_of_phase = scope.has_steps and lead["phase"] == scope.phase
        if is_of_phase or lead["cause"] in WITHOUT_COST:
            return _with_win(lead, source)
        for row in of_devices:
            if (row["phase"], row["device_id"]) == (None, scope.device.device_id):
                return _with_win(row, source)
    return None


@once_per_profile
def _ranked(profile: Profile) -> list[list[_Phase]]:
    """What is worth a sentence, by cause and phase: the family that can win most first."""
    is_job = profile.job is not None
    costs = costs_of_job(profile) if is_job else profile.once(costs_of_devices).to_pylist()
    worth = [
        row
        for row in costs
        if _share(row, "cost_ns") >= LEAST_SHARE or row["cause"] in WITHOUT_COST
    ]
    worth.sort(key=_cause_and_phase)
    by_cause: dict[str, list[_Phase]] = {}
    for (cause, _), alike in groupby(worth, key=_cause_and_phase):
        if is_job:
            of_devices = sorted(alike, key=lambda row: -row["cost_ns"])
            lead = usual_row(profile, of_devices)
        else:
            of_devices = sorted(alike, key=lambda row: (-row["win_ns"], -row["cost_ns"]))
            lead = of_devices[0]
        by_cause.setdefault(cause, []).append((lead, of_devices))
    by_family: dict[str, list[list[_Phase]]] = {}
    for phases in by_cause.values():
        phases.sort(key=lambda of_phase: -_weight(of_phase[0]))
        by_family.setdefault(phases[0][0]["family"], []).append(phases)
    families = sorted(map(_family, by_family.values()), key=itemgetter(0))
    return [phases for _, causes in families for phases in causes]


def _family(
    causes: Sequence[list[_Phase]],
) -> tuple[tuple[int, float, int], list[list[_Phase]]]:
    """The place of a family by what can be won of it, and its causes, which say what that is."""
    ranked = sorted(
        causes,
        key=lambda phases: (
            phases[0][0]["order"],
            -sum(_weight(lead) for lead, _ in phases),
            -phases[0][0]["cost_ns"],
        ),
    )
    first, weight = ranked[0][0][0], 0.0
    by_phase: dict[str | None, list[Row]] = {}
    for lead in (lead for phases in ranked for lead, _ in phases):
        # Before or after what steps pay: the first cause counts.
        if lead["order"] == first["order"]:
            by_phase.setdefault(lead["phase"], []).append(lead)
    for parts in by_phase.values():
        steps = max(part["all_steps"] for part in parts)
        bounds = sum(_weight(part) for part in parts if part["predicted_win_ns"] is None)
        replayed_ns = parts[0]["family_predicted_win_ns"] or 0
        most_ns = max(part["family_win_ns"] for part in parts)
        weight += min(bounds + replayed_ns * steps, most_ns * steps)
    # Its causes may cost most on different devices: that of which they cost most together counts.
    costliest = max(by_phase[first["phase"]], key=itemgetter("family_cost_ns"))
    sums = {name: costliest[name] for name in first if name.startswith("family_")}
    for lead in (lead for phases in ranked for lead, _ in phases):
        lead.update(sums)
    return (first["order"], -weight, -first["cost_ns"]), ranked


def _cause_and_phase(row: Row) -> tuple[str, str]:
    return row["cause"], row["phase"] or ""


def _share(row: Row, column: str) -> float:
    """A time as a share of the step; 0 of steps without length."""
    return row[column] / row["step_ns"] if row["step_ns"] else 0.0


def _weight(row: Row) -> float:
    """What can be won, by a replay where there is one; half counts where that is not sure."""
    won_ns = row["win_ns"] if row["predicted_win_ns"] is None else row["predicted_win_ns"]
    return float(won_ns * row["all_steps"] * (1.0 if row["is_sure"] else _UNSURE_SHARE))


def _with_win(cost: Row, source: Path) -> Row:
    """A row of findings: what something costs and can win, by a replay where there is one."""
    win_share, won_ns = _share(cost, "win_ns"), cost["predicted_win_ns"]
    row = {
        "total_win_ns": cost["win_ns"] * cost["all_steps"],
        **cost,
        "cost_share": _share(cost, "cost_ns"),
        "win_share": win_share,
    }
    if cost["cause"] in UNKNOWN_WINS or not cost["win_ns"]:
        unknown = cost["cause"] in UNKNOWN_WINS
        words = {"win": UNKNOWN_WIN if unknown else "nothing by itself"}
        return row | words | dict.fromkeys(("predicted_win_ns", "change", "assumptions"))
    words, change = cost["different"], cost["change"]
    win = at_most = f"at most {say_share(win_share)}"
    if won_ns is None:
        win += f", next to nothing {words}" if words else ""
    elif _share(cost, "predicted_win_ns") < NOTHING_SHARE:
        win = f"next to nothing by itself, {words}; {at_most}"
    elif won_ns == cost["cost_ns"]:
        win = f"all of it {words}"
    else:
        won = f"{say_ns(won_ns)} ({say_share(_share(cost, 'predicted_win_ns'))}) {words}"
        win = won if won_ns == cost["win_ns"] else f"{won}; {at_most}"
    command = shlex.join(["gpuprof", "predict", str(source), "--what", change or ""])
    return row | {
        "predicted_win_share": None if won_ns is None else _share(cost, "predicted_win_ns"),
        "win": win,
        "command": command if change else None,
    }


def _sentence(phases: Sequence[Sequence[Row]], *, has_phases: bool) -> str:
    """What a device pays in the phase in which most can be won, other devices, and other phases.

    Each phase has the rows of its devices; where the recording has several, they are named.
    """
    first, *on_others = phases[0]
    text = f"{device_name(first['device_id'])} {first['phrase']}"
    if first["cause"] in WITHOUT_COST:
        return text
    also = [row for row in on_others if row["cost_ns"] >= _ALSO * first["cost_ns"]]
    shares = [
        f"{device_name(row['device_id'])} {say_share(_share(row, 'cost_ns'))}"
        for row in also[:_MOST_OTHERS]
    ]
    if more := len(also) - len(shares):
        shares.append(f"{more} more {'device' if more == 1 else 'devices'}")
    for phase, *_ in phases[1:]:
        is_same = phase["device_id"] == first["device_id"] and not shares
        device = "" if is_same else f"{device_name(phase['device_id'])} "
        shares.append(f"{device}{_cost(phase, has_phases=has_phases)}")
    return "; ".join([f"{text}: {_cost(first, has_phases=has_phases)}", *shares])


def _cost(row: Row, *, has_phases: bool) -> str:
    time, share = say_ns(row["cost_ns"]), say_share(_share(row, "cost_ns"))
    if row["steps"] is None:
        return f"{time} ({share})"
    few = f"; {counted(row['steps'], 'step', 'steps')} only" if row["steps"] < _FEW else ""
    phase = f' of "{row["phase"]}"' if has_phases and row["phase"] else ""
    return f"{time} of a step{phase} ({share}{few})"


# What the answers for a job are made of.
JOB_FUNCTIONS: Final = (
    *(costs_of_devices, measured_steps),
    *(*CALLS_OF_FILES, *(RANKS.of_files or ())),
)

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
    of_files=JOB_FUNCTIONS,
)
