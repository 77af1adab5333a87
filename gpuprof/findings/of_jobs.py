"""What costs the devices of a job, whose files each say it of their own, as all of them tell it.

Who waits for whom in collectives, and who has more work than others, follows from all ranks
together; and a step of the job is as long as that of the rank for which the others wait.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.collective_calls import collective_calls, most_calls
from gpuprof.facts.collective_parts import RANKS, collective_parts
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.last_ranks import LastRank, last_ranks
from gpuprof.facts.step_times import usual_of
from gpuprof.findings.causes import WITHOUT_COST, family_of
from gpuprof.findings.costs import DIVIDED_ANEW, costs_of_devices
from gpuprof.findings.exposed_collectives import LITTLE, words_of_transfer, words_of_waiting
from gpuprof.findings.scope import Measured, measured
from gpuprof.findings.whole_recording import EQUAL_WORK, unequal, words_of_unequal
from gpuprof.findings.wins import NO_CHANGE
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import different
from gpuprof.model.profile import Profile, once_per_profile

_MOST_NAMED: Final = 3
# Devices that pay so many times the median are named.
_MUCH_MORE: Final = 1.1
_WAITING, _TRANSFER = DIVIDED_ANEW
_NO_REPLAY: Final = {
    "predicted_win_ns": None,
    "family_predicted_win_ns": None,
    "change": None,
    "different": "",
    "assumptions": "ranks are replayed one by one, each with the waits that were recorded",
}

Row = dict[str, Any]
# A device, and what its steps are marked with; None for all of its recording.
Place = tuple[int | None, str | None]
# What a device waits in collectives for other ranks while it does not compute, of a step, else in
# all; whether all ranks of its collectives are known; and the rank for which its communicator
# waits longest, None where that is unknown.
Waiting = tuple[int, bool, LastRank | None]


def costs_of_job(job: Profile) -> list[Row]:
    """What costs the devices of all files, as in `gpuprof.findings.costs.COSTS`."""
    rows = [
        row
        for row in _with_waiting(job, job.once(costs_of_devices).to_pylist())
        if row["cause"] != "unbalanced_devices"
    ]
    if any(row["order"] < 0 and row["cause"] != "no_kernels" for row in rows):
        return rows
    # Of the devices of all files, those that compute for longer in the same steps than others do.
    for busiest, least, win_ns in unequal(measured(job)):
        name = names_of(job).in_words([least.device_id])
        cost_ns = busiest.compute_ns - least.compute_ns
        costs = {"cost_ns": cost_ns, "win_ns": win_ns}
        row = {
            "cause": "unbalanced_devices",
            "family": family_of("unbalanced_devices"),
            "order": 0,
            "device_id": busiest.device_id,
            "phase": busiest.phase,
            "where": name,
            "steps": len(busiest.start_ns),
            "all_steps": busiest.steps,
            "step_ns": busiest.step_ns,
            **costs,
            **{f"family_{name}": ns for name, ns in costs.items()},
            "is_sure": True,
            "phrase": words_of_unequal(busiest.compute_ns, least.compute_ns, name),
            **dict(zip(("means", "suggestion", "table"), EQUAL_WORK, strict=True)),
            **_NO_REPLAY,
            "assumptions": NO_CHANGE,
            "start_ns": int(busiest.start_ns[0]),
            "end_ns": int(busiest.end_ns[0]),
        }
        rows.append(row)
    return rows


def _with_waiting(job: Profile, rows: Sequence[Row]) -> Iterator[Row]:
    """The costs with waiting and transfer of collectives as the calls of all ranks tell them."""
    waiting = waiting_by_device(job)
    exposed: dict[Place, Row] = {}
    for row in sorted(rows, key=lambda row: -row["cost_ns"]):
        place = row["device_id"], row["phase"]
        if row["cause"] not in DIVIDED_ANEW or place not in waiting:
            yield row
            continue
        # What a file alone takes for either is their sum.
        costlier = exposed.setdefault(place, row | {"cost_ns": 0})
        costlier["cost_ns"] += row["cost_ns"]
    for place, row in exposed.items():
        waiting_ns, is_known, last = waiting[place]
        waits_ns, part = min(waiting_ns, row["cost_ns"]), row["where"]
        launched = f", most of it from {part}" if part else ""
        phrase, suggestion = words_of_transfer(is_known=is_known, absent=job.absent_ranks)
        moves = {"phrase": phrase + launched, "means": "overlap", "suggestion": suggestion}
        suggestion, name = words_of_waiting(last)
        most = f", most for {name}" if name else ""
        phrase = f"waits in collectives for other ranks{most}{launched}"
        waits = {"phrase": phrase, "means": "balance", "suggestion": suggestion}
        waits["where"] = name or part
        shared = {"is_sure": True, "table": "collective_waits", **_NO_REPLAY}
        for cause, cost_ns, words in (
            (_WAITING, waits_ns, waits),
            (_TRANSFER, row["cost_ns"] - waits_ns, moves),
        ):
            if cost_ns:
                costs = {"cause": cause, "cost_ns": cost_ns, "win_ns": cost_ns}
                yield row | shared | words | costs


@once_per_profile
def _alone_ns(job: Profile) -> Mapping[Place, int]:
    """What a step of each device takes without its waits for other ranks."""
    waiting = waiting_by_device(job)
    alone_ns: dict[Place, int] = {}
    for steps in measured(job):
        place = steps.device_id, steps.phase or None
        alone_ns[place] = steps.step_ns - (waiting[place][0] if place in waiting else 0)
    return alone_ns


def _won_ns(job: Profile, rows: Sequence[Row], column: str) -> int | None:
    """What a step of the job wins where ranks win what the replay of each tells; None for unknown.

    It is as long as that of the rank which waits least: what others win, they wait more. ``column``
    says what each wins; of the devices of one file it is predicted of the first one.
    """
    predicted = [row for row in rows if row["change"] or row["assumptions"]]
    if not predicted or any(row[column] is None for row in predicted):
        return None
    unpredicted = {row["device_id"] for row in rows} - {row["device_id"] for row in predicted}
    won = {row["device_id"]: int(row[column]) for row in predicted}
    steps: list[tuple[int, int]] = [
        (alone_ns, alone_ns - won.get(device, 0))
        for (device, of), alone_ns in _alone_ns(job).items()
        if of == rows[0]["phase"] and device not in unpredicted
    ]
    longest_ns = max(before for before, _ in steps)
    return max(longest_ns - max(after for _, after in steps), 0)


def usual_row(job: Profile, rows: Sequence[Row]) -> Row:
    """What one cause costs the devices of a job in one phase: their median, in words of the worst.

    ``rows`` has those of each of them, the most first.
    """
    names = ("step_ns", "cost_ns", "win_ns", "family_cost_ns", "family_win_ns")
    usual = rows[0] | {n: int(np.median([row[n] or 0 for row in rows])) for n in names}
    for most, won in (("win_ns", "predicted_win_ns"), ("family_win_ns", "family_predicted_win_ns")):
        won_ns = _won_ns(job, rows, won)
        usual[won] = None if won_ns is None else min(won_ns, usual[most])
    called = names_of(job)
    return usual | {
        "where": usual["where"] or _named(_outstanding(rows) or rows, called, has_hosts=False),
        "all_steps": sum(row["all_steps"] for row in rows),
        "total_win_ns": sum(row["win_ns"] * row["all_steps"] for row in rows),
    }


def sentence_of_job(job: Profile, phases: Sequence[Sequence[Row]], *, has_phases: bool) -> str:
    """How many devices pay it, what it costs them, and which pay much more than the others.

    ``phases`` has those that pay it in each phase, the most first; first the phase in which most
    can be won.
    """
    rows, names = phases[0], names_of(job)
    phrase = names.in_text(rows[len(rows) // 2]["phrase"])
    if len(rows) == 1:
        text, median = f"{_named(rows, names)} {phrase}", ""
    else:
        devices = counted(job.table("devices").num_rows, "device", "devices")
        text, median = f"{len(rows):,} of {devices}: each {phrase}", " in the median"
    if rows[0]["cause"] in WITHOUT_COST:
        return text
    costs = []
    for of_phase in phases:
        # In the median over the devices.
        cost_ns = int(np.median([row["cost_ns"] for row in of_phase]))
        step_ns = float(np.median([row["step_ns"] or 0 for row in of_phase]))
        name = of_phase[0]["phase"] if has_phases else None
        phase = f' of "{name}"' if name else ""
        of_a_step = f" of a step{phase}" if of_phase[0]["steps"] else ""
        share = f" ({say_share(cost_ns / step_ns)})" if step_ns else ""
        costs.append(f"{say_ns(cost_ns)}{of_a_step}{share}")
    text += f": {costs[0]}{median}"
    if median and (most := _outstanding(rows)):
        text += f"; most on {_named(most, names)} ({say_ns(most[0]['cost_ns'])})"
    return "; ".join([text, *costs[1:]])


def _outstanding(rows: Sequence[Row]) -> list[Row]:
    """Those that pay much more than the median."""
    usual = float(np.median([row["cost_ns"] for row in rows]))
    return [row for row in rows if row["cost_ns"] > _MUCH_MORE * usual]


def _named(rows: Sequence[Row], names: DeviceNames, *, has_hosts: bool = True) -> str:
    """The first devices, three at most, by their ranks where these are known."""
    devices = [row["device_id"] for row in rows]
    return names.in_words(devices, _MOST_NAMED, has_hosts=has_hosts)


@once_per_profile
def waiting_by_device(job: Profile) -> Mapping[Place, Waiting]:
    """What each device whose collectives are known of all ranks waits in them, by its phase."""
    parts = collective_parts(job)
    kernels = parts.kernels
    last_of = {device: last for last in reversed(last_ranks(job)) for device in last.devices}
    steps: dict[int | None, list[Measured]] = {}
    for of_scope in measured(job):
        steps.setdefault(of_scope.device_id, []).append(of_scope)
    waiting: dict[Place, Waiting] = {}
    matched = np.flatnonzero(parts.basis == RANKS)
    # How long each kernel waits while nothing computes, if compute hides all of it alike.
    took = (kernels.end_ns - kernels.start_ns)[matched]
    hidden = job.once(collective_calls)["hidden_ns"].to_numpy()[matched] / np.maximum(took, 1)
    exposed_ns = (parts.waiting_ns[matched] * (1 - hidden)).astype(np.int64)
    for number in different(kernels.device[matched]).tolist():
        here = kernels.device[matched] == number
        device, last = None if number == UNKNOWN else number, last_of.get(number)
        start, waits = kernels.start_ns[matched[here]], exposed_ns[here]
        is_complete = parts.is_complete[matched[here]]
        last_kept = int(start.max()) if here.sum() >= most_calls(job) else None
        waiting[device, None] = int(waits.sum()), _are_known(is_complete), last
        for of_scope in steps.get(device, ()):
            if not of_scope.has_steps:
                continue
            step_start, step_end = of_scope.start_ns, of_scope.end_ns
            place = np.searchsorted(step_start, start, side="right") - 1
            inside = (place >= 0) & (start < step_end[place])
            per_step = np.bincount(place[inside], waits[inside], len(step_start))
            if last_kept is not None:
                per_step = per_step[step_end <= last_kept]
            if len(per_step):
                cost_ns = usual_of(per_step.astype(np.int64))
                is_known = _are_known(is_complete[inside])
                waiting[device, of_scope.phase] = cost_ns, is_known, last
    return waiting


def _are_known(is_complete: npt.NDArray[np.bool_]) -> bool:
    """Whether all ranks of nearly all of some calls are known."""
    return bool((~is_complete).sum() <= LITTLE * len(is_complete))
