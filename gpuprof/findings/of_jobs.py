"""What costs a job most, and what its steps go to: each cause once for all devices.

Files are read one by one, so that each says what costs its own devices time. Who waits for whom
in collectives follows from the calls of all ranks together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.collective_calls import collective_calls, most_calls
from gpuprof.facts.collective_parts import RANKS, collective_parts
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.last_ranks import LastRank, last_ranks
from gpuprof.findings.exposed_collectives import LITTLE, words_of_transfer, words_of_waiting
from gpuprof.findings.first_sentence import (
    LACKING,
    UNKNOWN_WIN,
    UNKNOWN_WINS,
    first_sentence,
)
from gpuprof.findings.scope import scopes, usual_of
from gpuprof.model.analysis import per_file
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column, Schema, instant_column

# What of a step is not worth a sentence.
_LEAST_SHARE: Final = 0.01
_UNSURE_SHARE: Final = 0.5
_MOST_NAMED: Final = 3
# Of fewer steps or calls one is always most of all.
_LEAST_PLACES: Final = 3
# Devices that pay so many times the median are named.
_MUCH_MORE: Final = 1.1
_ORDER: Final = {
    "no_training": -1,
    "truncated": 1,
    "setup": 2,
    "copies_outside_steps": 2,
    "waits_outside_steps": 2,
}
_WAITING, _TRANSFER = "collective_waiting", "collective_transfer"
SHARES: Final = (
    "compute_share",
    "exposed_communication_share",
    "exposed_transfer_share",
    "exposed_local_copy_share",
    "idle_share",
    "set_up_share",
)

COSTS: Final = Schema(
    "costs_of_devices",
    "one thing that costs one device time in one phase",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "phase": Column(TEXT, "", "Marks of the steps; null where the recording has no steps."),
        "cause": Column(TEXT, "", "As in findings.", required=True),
        "where": Column(TEXT, "", "As in findings."),
        "steps": Column(INT, "1", "Steps that were measured; null where there are none."),
        "step_ns": Column(INT, "ns", "Median length of a step, else the device's span."),
        "cost_ns": Column(INT, "ns", "Time that it costs a step, or the span.", required=True),
        "win_ns": Column(INT, "ns", "What mending it can win of that at most.", required=True),
        "family": Column(TEXT, "", "As in findings.", required=True),
        "family_cost_ns": Column(INT, "ns", "What its family costs.", required=True),
        "family_win_ns": Column(INT, "ns", "What its family can win.", required=True),
        "total_win_ns": Column(INT, "ns", "win_ns of all steps of the phase.", required=True),
        "is_sure": Column(FLAG, "", "Whether it can be won for sure.", required=True),
        "phrase": Column(TEXT, "", "What the device does, as the end of a sentence."),
        "means": Column(TEXT, "", "As in findings."),
        "suggestion": Column(TEXT, "", "As in findings."),
        "table": Column(TEXT, "", "As in findings."),
    },
)
SCOPES: Final = Schema(
    "phases_of_devices",
    "one device in the steps of one phase, or in a recording without steps",
    {
        **{name: COSTS.columns[name] for name in ("device_id", "phase", "steps", "step_ns")},
        **{name: Column(FLOAT, "1", "As in bottom_line.") for name in SHARES},
        "between_devices_ns": Column(INT, "ns", "As in bottom_line."),
        "with_host_ns": Column(INT, "ns", "As in bottom_line."),
    },
)


_MEASURED: Final = Schema(
    "measured_steps",
    "one step that is a sample, on one device",
    {
        **{name: COSTS.columns[name] for name in ("device_id", "phase")},
        "start_ns": instant_column("Start of the step on the devices.", required=True),
        "end_ns": instant_column("Its end.", required=True),
    },
)


@per_file(_MEASURED, needs=("kernels", "memcpys"))
def measured_steps(profile: Profile) -> pa.Table:
    """The steps of each device that are samples."""
    return _MEASURED.table(
        [
            {
                "device_id": scope.device.device_id,
                "phase": scope.phase,
                "start_ns": at,
                "end_ns": to,
            }
            for scope in scopes(profile)
            if scope.has_steps
            for at, to in zip(scope.start_ns.tolist(), scope.end_ns.tolist(), strict=True)
        ]
    )


Row = dict[str, Any]


class Waiting(NamedTuple):
    """What a device waits in collectives for other ranks while it does not compute.

    Args:
        cost_ns: Of a step, else in all.
        is_known: Whether all ranks of its collectives are known.
        last: The rank for which its communicator waits longest; None where it is unknown.
    """

    cost_ns: int
    is_known: bool
    last: LastRank | None


def findings_of_job(job: Profile, costs: pa.Table) -> list[Row]:
    """The rows of ``findings``, what costs all devices together most first.

    Args:
        job: The job.
        costs: What costs the devices of each file, as in `COSTS`.
    """
    by_cause: dict[str, dict[str | None, list[Row]]] = {}
    rows = sorted(_with_waiting(job, costs.to_pylist()), key=lambda row: -row["cost_ns"])
    for row in rows:
        by_cause.setdefault(row["cause"], {}).setdefault(row["phase"], []).append(row)
    groups = [[*filter(_is_worth, phases.values())] for phases in by_cause.values()]
    groups = [sorted(phases, key=lambda rows: -_weight(rows)) for phases in groups if phases]
    groups.sort(key=_place)
    families: dict[str, list[list[list[Row]]]] = {}
    for phases in groups:
        families.setdefault(phases[0][0]["family"], []).append(phases)
    groups = [phases for causes in sorted(families.values(), key=_family) for phases in causes]
    names, is_named = names_of(job), len({row["phase"] for row in rows}) > 1
    devices = job.table("devices").num_rows
    return [
        _finding(phases[0], names)
        | {
            "rank": number,
            "finding": _sentence(phases, devices, names, is_named=is_named),
        }
        for number, phases in enumerate(groups, start=1)
    ]


def _place(phases: Sequence[Sequence[Row]]) -> tuple[int, float]:
    """What steps pay first, and of that what can win most."""
    return _ORDER.get(phases[0][0]["cause"], 0), -sum(map(_weight, phases))


def _family(causes: Sequence[Sequence[Sequence[Row]]]) -> tuple[int, float]:
    """The place of a family, whose causes are in their order."""
    order, _ = _place(causes[0])
    return order, sum(won for at, won in map(_place, causes) if at == order)


def _is_worth(rows: Sequence[Row]) -> bool:
    return any(row["cost_ns"] >= _LEAST_SHARE * (row["step_ns"] or 0) for row in rows)


def _weight(rows: Sequence[Row]) -> float:
    """What could be won on all devices; half of it counts where that is not sure."""
    shares = {True: 1.0, False: _UNSURE_SHARE}
    return float(sum(row["total_win_ns"] * shares[row["is_sure"]] for row in rows))


def _with_waiting(job: Profile, rows: Sequence[Row]) -> Iterator[Row]:
    """The costs with waiting and transfer of collectives as the calls of all ranks tell them."""
    waiting = job.once(waiting_by_device)
    exposed: dict[tuple[int | None, str | None], Row] = {}
    for row in rows:
        place = row["device_id"], row["phase"]
        if row["cause"] not in (_WAITING, _TRANSFER) or place not in waiting:
            yield row
            continue
        # What a file alone takes for either is their sum.
        costlier = exposed.setdefault(place, row | {"cost_ns": 0})
        costlier["cost_ns"] += row["cost_ns"]
    for place, row in exposed.items():
        yield from _split(row, waiting[place], job.absent_ranks)


def _split(row: Row, waiting: Waiting, absent: Sequence[int]) -> Iterator[Row]:
    waits_ns = min(waiting.cost_ns, row["cost_ns"])
    steps = row["steps"] or 1
    phrase, suggestion = words_of_transfer(is_known=waiting.is_known, absent=absent)
    moves = {"phrase": phrase, "means": "overlap", "suggestion": suggestion, "where": None}
    suggestion, name = words_of_waiting(waiting.last)
    phrase = f"waits in collectives for other ranks{f', most for {name}' if name else ''}"
    waits = {"phrase": phrase, "means": "balance", "suggestion": suggestion, "where": name or None}
    shared = {"is_sure": True, "table": "collective_waits"}
    for cause, cost_ns, words in (
        (_WAITING, waits_ns, waits),
        (_TRANSFER, row["cost_ns"] - waits_ns, moves),
    ):
        costs = {"cost_ns": cost_ns, "win_ns": cost_ns, "total_win_ns": cost_ns * steps}
        if cost_ns:
            yield row | shared | words | costs | {"cause": cause}


def _finding(rows: Sequence[Row], names: DeviceNames) -> Row:
    """A finding without its place and sentence: of the phase in which most can be won."""
    worst = rows[0]
    cost_ns, win_ns = (int(np.median([row[n] for row in rows])) for n in ("cost_ns", "win_ns"))
    step_ns = int(np.median([row["step_ns"] or 0 for row in rows]))
    win_share = win_ns / step_ns if step_ns else 0.0
    win = f"at most {say_share(win_share)}" if win_ns else "nothing by itself"
    return {
        "cause": worst["cause"],
        "family": worst["family"],
        **{
            name: int(np.median([row[name] for row in rows]))
            for name in ("family_cost_ns", "family_win_ns")
        },
        "where": worst["where"] or _named(_outstanding(rows) or rows, names, has_hosts=False),
        "device_id": worst["device_id"],
        "phase": worst["phase"],
        "steps": worst["steps"],
        "step_ns": step_ns,
        "cost_ns": cost_ns,
        "cost_share": cost_ns / step_ns if step_ns else 0.0,
        "win_ns": win_ns,
        "win_share": win_share,
        "win": UNKNOWN_WIN if worst["cause"] in UNKNOWN_WINS else win,
        "means": worst["means"],
        "total_win_ns": sum(row["total_win_ns"] for row in rows),
        "suggestion": worst["suggestion"],
        "table": worst["table"],
    }


def _sentence(
    phases: Sequence[Sequence[Row]], devices: int, names: DeviceNames, *, is_named: bool
) -> str:
    """How many devices pay it, what it costs them, and which pay much more than the others.

    Args:
        phases: Those that pay it in each phase; first the phase in which most can be won.
        devices: How many devices the job has.
        names: What people know them by.
        is_named: Whether phases are named.
    """
    rows = phases[0]
    costs = [_cost(of_phase, is_named=is_named) for of_phase in phases]
    if len(rows) == 1:
        return "; ".join([f"{_named(rows, names)} {rows[0]['phrase']}: {costs[0]}", *costs[1:]])
    middle = rows[len(rows) // 2]
    text = (
        f"{len(rows):,} of {counted(devices, 'device', 'devices')}: each {middle['phrase']}:"
        f" {costs[0]} in the median"
    )
    if most := _outstanding(rows):
        text = f"{text}; most on {_named(most, names)} ({say_ns(most[0]['cost_ns'])})"
    return "; ".join([text, *costs[1:]])


def _cost(rows: Sequence[Row], *, is_named: bool) -> str:
    """What it costs the devices in the median, in one phase."""
    cost_ns = int(np.median([row["cost_ns"] for row in rows]))
    step_ns = float(np.median([row["step_ns"] or 0 for row in rows]))
    phase = f' of "{rows[0]["phase"]}"' if is_named and rows[0]["phase"] else ""
    share = f" ({say_share(cost_ns / step_ns)})" if step_ns else ""
    return f"{say_ns(cost_ns)}{f' of a step{phase}' if rows[0]['steps'] else ''}{share}"


def _outstanding(rows: Sequence[Row]) -> list[Row]:
    """Those that pay much more than the median."""
    usual = float(np.median([row["cost_ns"] for row in rows]))
    return [row for row in rows if row["cost_ns"] > _MUCH_MORE * usual]


def _named(rows: Sequence[Row], names: DeviceNames, *, has_hosts: bool = True) -> str:
    """The first devices, three at most, by their ranks where these are known."""
    devices = [row["device_id"] for row in rows]
    return names.in_words(devices, _MOST_NAMED, has_hosts=has_hosts)


def waiting_by_device(job: Profile) -> Mapping[tuple[int | None, str | None], Waiting]:
    """What each device whose collectives are known of all ranks waits in them, by its phase."""
    parts = collective_parts(job)
    kernels = parts.kernels
    last_of = {device: last for last in reversed(last_ranks(job)) for device in last.devices}
    steps = _steps_of_devices(job)
    waiting: dict[tuple[int | None, str | None], Waiting] = {}
    matched = np.flatnonzero(parts.basis == RANKS)
    # How long each kernel waits while nothing computes, if compute hides all of it alike.
    took = (kernels.end_ns - kernels.start_ns)[matched]
    hidden = job.once(collective_calls)["hidden_ns"].to_numpy()[matched] / np.maximum(took, 1)
    exposed_ns = (parts.waiting_ns[matched] * (1 - hidden)).astype(np.int64)
    for number in np.unique(kernels.device[matched]).tolist():
        here = kernels.device[matched] == number
        device, last = None if number == UNKNOWN else number, last_of.get(number)
        start, waits = kernels.start_ns[matched[here]], exposed_ns[here]
        is_complete = parts.is_complete[matched[here]]
        last_kept = int(start.max()) if here.sum() >= most_calls(job) else None
        waiting[device, None] = Waiting(int(waits.sum()), _are_known(is_complete), last)
        for phase, (step_start, step_end) in steps.get(device, {}).items():
            place = np.searchsorted(step_start, start, side="right") - 1
            inside = (place >= 0) & (start < step_end[place])
            per_step = np.bincount(place[inside], waits[inside], len(step_start))
            if last_kept is not None:
                per_step = per_step[step_end <= last_kept]
            if len(per_step):
                cost_ns = usual_of(per_step.astype(np.int64))
                waiting[device, phase] = Waiting(cost_ns, _are_known(is_complete[inside]), last)
    return waiting


def _are_known(is_complete: npt.NDArray[np.bool_]) -> bool:
    """Whether all ranks of nearly all of some calls are known."""
    return bool((~is_complete).sum() <= LITTLE * len(is_complete))


def _steps_of_devices(
    job: Profile,
) -> Mapping[int | None, Mapping[str, tuple[Int64s, Int64s]]]:
    """Start and end of the steps of each device and phase that were measured."""
    table = job.once(measured_steps)
    rows: dict[int | None, dict[str, list[tuple[int, int]]]] = {}
    columns = (table[name].to_pylist() for name in _MEASURED.columns)
    for device, phase, start, end in zip(*columns, strict=True):
        rows.setdefault(device, {}).setdefault(phase, []).append((start, end))
    return {
        device: {
            phase: tuple(np.array(sorted(of_phase), np.int64).T)
            for phase, of_phase in of_device.items()
        }
        for device, of_device in rows.items()
    }


def bottom_lines_of_job(scopes_of_devices: pa.Table, findings: Sequence[Row]) -> list[Row]:
    """The rows of ``bottom_line``: one per phase, that of most devices and time first.

    Args:
        scopes_of_devices: What the steps of devices go to, as in `SCOPES`.
        findings: The rows of ``findings``.
    """
    phases: dict[str | None, list[Row]] = {}
    for row in scopes_of_devices.to_pylist():
        phases.setdefault(row["phase"], []).append(row)
    ordered = sorted(phases.values(), key=lambda rows: (-len(rows), -_time(rows)))
    return [_bottom_line(rows, findings, is_named=len(phases) > 1) for rows in ordered]


def _time(rows: Sequence[Row]) -> int:
    return sum((row["steps"] or 1) * row["step_ns"] for row in rows)


def _bottom_line(rows: Sequence[Row], findings: Sequence[Row], *, is_named: bool) -> Row:
    medians = {
        name: float(np.median([row[name] for row in rows]))
        for name in ("step_ns", "between_devices_ns", "with_host_ns")
    }
    first = rows[0]
    row: Row = {
        "phase": first["phase"],
        "device_id": first["device_id"] if len(rows) == 1 else None,
        "steps": None if first["steps"] is None else int(np.median([r["steps"] for r in rows])),
        **{name: int(value) for name, value in medians.items()},
        # Means, so that shares add up to 1.
        **{name: float(np.mean([row[name] for row in rows])) for name in SHARES},
    }
    here = (f for f in findings if f["phase"] in {None, row["phase"]} or f["cause"] in LACKING)
    worst = next(here, None)
    name = f' of "{row["phase"]}"' if is_named and row["phase"] else ""
    subject = f"A step{name} takes" if row["steps"] else "A device's recording spans"
    is_outside = row["phase"] and worst is not None and not worst["phase"]
    text = first_sentence(
        f"{subject} {say_ns(row['step_ns'])}", row["compute_share"], worst,
        base="the recording" if is_outside else "it",
    )  # fmt: skip
    return row | {"bottom_line": f"{text}. {_spread(rows, row)}. {_moving(row)}"}


def _spread(rows: Sequence[Row], row: Row) -> str:
    """How much devices differ, and what their steps go to."""
    words = ("compute", "collectives", "waits for transfers", "local copies", "idle", "set-up")
    shares = [
        f"{say_share(row[name])} {word}"
        for name, word in zip(SHARES, words, strict=True)
        if row[name] >= _LEAST_SHARE / 2
    ]
    low, high = np.quantile([scope["step_ns"] for scope in rows], [0.1, 0.9])
    return (
        f"{'The step' if row['steps'] else 'It'} (median of"
        f" {counted(len(rows), 'device', 'devices')}; 10 % and 90 % quantiles {say_ns(int(low))}"
        f" and {say_ns(int(high))}) is {', '.join(shares)}"
    )


def _moving(row: Row) -> str:
    share = row["between_devices_ns"] / max(row["step_ns"], 1)
    if share:
        return f"Moving data between devices costs at most {say_share(share)} of it"
    return "Moving data between devices costs next to nothing"
