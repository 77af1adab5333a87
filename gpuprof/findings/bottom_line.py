"""What a step takes and goes to, and what moving data costs of it at most: a report's first lines.

A printed summary has no timestamps: it is what the time of all GPU activities goes to. A recording
of TensorFlow tells what a step copies between devices.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS
from gpuprof.analyses.ranks import ranks
from gpuprof.analyses.steps import steps
from gpuprof.base.statistics import quantiles
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.facts.activity_sums import SUM_READS, trace_sums
from gpuprof.facts.hosts import device_name
from gpuprof.facts.last_ranks import collective_record
from gpuprof.facts.numbers import read_columns
from gpuprof.facts.step_times import mean_beside
from gpuprof.facts.step_windows import opening_kernels, pauses_before
from gpuprof.facts.timeline import COMMUNICATION, DEVICE_ID, LAYERS, TRANSFER
from gpuprof.findings.causes import WITHOUT_COST, first_sentence
from gpuprof.findings.costs import findings_of_scopes
from gpuprof.findings.exposed_collectives import rank_sentences
from gpuprof.findings.exposed_copies import exposed_by_route
from gpuprof.findings.findings import ANALYSIS as FINDINGS
from gpuprof.findings.findings import JOB_FUNCTIONS, findings, worst_finding, worst_of_scope
from gpuprof.findings.lines_of_sums import MOST, costliest_kernels, summary_line, tensor_line
from gpuprof.findings.scope import Scope, scopes
from gpuprof.findings.set_up import copies_outside, set_up_of
from gpuprof.findings.whole_recording import incomplete
from gpuprof.model.analysis import Analysis, per_file, reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import covered_within, together
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Ns, Schema, Share, Text
from gpuprof.model.table import Selection

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
_IDLE: Final = {"idle_share": "idle", "set_up_share": "set-up"}
_SHARES: Final = (*_WORDS, *_IDLE)

BOTTOM_LINE: Final = Schema(
    "bottom_line",
    "one device in the steps of one phase",
    {
        "phase": Text("Marks of the steps; null where the recording has no steps."),
        "device_id": DEVICE_ID,
        "steps": Count("Steps that were measured; null where there are none."),
        "step_ns": Ns("Median length of a step; without steps the device's span."),
        "mean_step_ns": Ns("Mean length of a step, which the shares are of; null without steps."),
        "compute_share": Share("Share of the steps with a compute kernel."),
        "exposed_communication_share": Share("Only communication kernels."),
        "exposed_transfer_share": Share("A transfer, and no kernel."),
        "exposed_local_copy_share": Share("Only local copies or memsets."),
        "idle_share": Share("Nothing runs, for another reason than set-up."),
        "set_up_share": Share(
            "Idle time outside steps; 0 where steps are known.", label="Set-up share"
        ),
        "between_devices_ns": Ns(
            "What moving data between devices and waiting for it costs a step at most."
        ),
        "with_host_ns": Ns("The same of copies from and to the host."),
        "bottom_line": Text("This in a sentence.", required=True),
    },
)

SCOPES: Final = Schema(
    "phases_of_devices",
    "one device in the steps of one phase, or in a recording without steps",
    {
        **{name: BOTTOM_LINE.columns[name] for name in ("device_id", "phase", "steps", "step_ns")},
        **{name: Share("As in bottom_line.") for name in _SHARES},
        "between_devices_ns": Ns("As in bottom_line."),
        "with_host_ns": Ns("As in bottom_line."),
    },
)

Row = dict[str, Any]


def bottom_line(profile: Profile) -> pa.Table:
    """Say what a step of each device goes to, and what moving data costs of it at most.

    Of a printed summary, which has no timestamps, it says what the time of all GPU activities goes
    to, summed over devices; of a recording of TensorFlow, what a step copies between devices.

    Shares are of the time of all samples together, and add up to 1. Costs are of one step, as in
    ``findings``.

    Returns:
        One row per device and phase, columns as in `BOTTOM_LINE`; first the phase of most devices
        in which most can be won, and of its devices the one that computes most. Of a job of several
        files one row per phase. Of a summary, and of TensorFlow, one row with all but the sentence
        null.
    """
    if not _is_trace(profile):
        lines = [say(profile) for table, say in _INSTEAD.items() if profile.has(table)]
        text = ". ".join(filter(None, lines))
        return BOTTOM_LINE.table([{"bottom_line": text}] if text else [])
    if profile.job is not None:
        phases: dict[str | None, list[Row]] = {}
        for row in profile.once(phases_of_devices).to_pylist():
            phases.setdefault(row["phase"], []).append(row)
        in_order = sorted(phases.values(), key=lambda rows: (-len(rows), -_time(rows)))
        rows = [_of_phase(profile, of, is_named=len(phases) > 1) for of in in_order]
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


def _time(rows: Sequence[Row]) -> int:
    return sum((row["steps"] or 1) * row["step_ns"] for row in rows)


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
            worst is None or (worst["phase"] or "") != scope.phase,
            -times[scope.phase],
            scope.phase,
            -scope.compute_ns,
        ),
    )


def _figures(profile: Profile, scope: Scope) -> Row:
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


def _sentence(profile: Profile, scope: Scope, row: Row, repeats: str) -> str:
    words = _WORDS | _IDLE
    why = incomplete(profile)
    shares = row | ({} if why is None else {"idle_share": row["idle_share"] + row["set_up_share"]})
    if why is not None:
        words["idle_share"] = why.idle_word
        del words["set_up_share"]
    parts = _parts(shares, words)
    device = device_name(scope.device.device_id)
    phases = {measured.phase for measured in scopes(profile)}
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
        return text + costliest_kernels(profile)
    kernels = costliest_kernels(profile) if row["compute_share"] >= MOST else ""
    moving = _moving(row, scope.step_ns, len(scopes(profile)), _outside(scope))
    return f"{text}. {moving}{kernels}"


def _repeated_part(scope: Scope) -> str:
    """What repeats in a marked step of usual length, in words; empty where it is not most of it.

    Steps that nothing marks are what repeats.
    """
    profile = scope.profile.unrestricted
    if not scope.has_steps or scope.is_inferred or not profile.has("kernels"):
        return ""
    lengths = scope.end_ns - scope.start_ns
    usual = int(np.argsort(lengths, kind="stable")[len(lengths) // 2])
    step = Selection(((int(scope.start_ns[usual]), int(scope.end_ns[usual])),))
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "name_id")
    start, end, device, stream, name = read_columns(profile.restricted(step), "kernels", *columns)
    _, member = np.unique(stream, return_inverse=True)
    busy_ns = np.bincount(member, np.where(device == scope.device.number, end - start, 0))
    if not busy_ns.any():
        return ""
    rows = np.flatnonzero((member == busy_ns.argmax()) & (device == scope.device.number))
    rows = rows[np.argsort(start[rows], kind="stable")]
    opening = opening_kernels(name[rows], pauses_before(start[rows], (end - start)[rows]))
    if opening is None or len(opening) < _REPEATS:
        return ""
    begun = start[rows][opening]
    if begun[-1] - begun[0] < MOST * lengths[usual]:
        return ""
    took = say_ns(float(np.median(np.diff(begun))))
    return f", in which a part of {took} repeats {len(opening):,} times: a layer?"


def _outside(scope: Scope) -> str:
    """What copies take of the recording that no step pays, in words; empty for little."""
    outside_ns = copies_outside(scope.profile, scope.device).length if scope.has_steps else 0
    share = outside_ns / max(scope.device.span.length, 1)
    if share < _LEAST_OUTSIDE:
        return ""
    return f", but copies before or after the steps take {say_share(share)} of the recording"


def _moving(row: Row, step_ns: int, devices: int, outside: str = "") -> str:
    """What moving data costs a step at most."""
    between, with_host = (
        row[name] / max(step_ns, 1) for name in ("between_devices_ns", "with_host_ns")
    )
    moves = between >= _LEAST_SHARE
    parts = [f"between devices costs at most {say_share(between)} of it"] if moves else []
    if with_host >= _LEAST_SHARE and with_host > between:
        parts += [f"from and to the host {'' if parts else 'costs '}at most {say_share(with_host)}"]
    if not parts:
        return f"Moving data costs {'a step ' * bool(outside)}next to nothing{outside}"
    alone = "" if between or devices == 1 else "; none moves between devices"
    return f"Moving data {', '.join(parts)}{alone}{outside}"


def _of_phase(profile: Profile, rows: Sequence[Row], *, is_named: bool) -> Row:
    """The row of all devices of a job in one phase: medians, and means of what adds up to 1."""
    first, names = rows[0], ("step_ns", "between_devices_ns", "with_host_ns")
    row: Row = {
        "phase": first["phase"],
        "device_id": first["device_id"] if len(rows) == 1 else None,
        "steps": None if first["steps"] is None else int(np.median([r["steps"] for r in rows])),
        **{name: int(np.median([row[name] for row in rows])) for name in names},
        **{name: float(np.mean([row[name] for row in rows])) for name in _SHARES},
    }
    here = (
        finding
        for finding in profile.once(findings).to_pylist()
        if finding["phase"] in {None, row["phase"]} or finding["cause"] in WITHOUT_COST
    )
    worst = next(here, None)
    name = f' of "{row["phase"]}"' if is_named and row["phase"] else ""
    subject = f"A step{name} takes" if row["steps"] else "A device's recording spans"
    is_outside = row["phase"] and worst is not None and not worst["phase"]
    base, share = "the recording" if is_outside else "it", row["compute_share"]
    text = first_sentence(f"{subject} {say_ns(row['step_ns'])}", share, worst, base=base)
    low, high = quantiles(np.array([of_device["step_ns"] for of_device in rows]), 0.1, 0.9)
    text += (
        f". {'The step' if row['steps'] else 'It'} (median of"
        f" {counted(len(rows), 'device', 'devices')}; 10 % and 90 % quantiles {say_ns(int(low))}"
        f" and {say_ns(int(high))}) is {', '.join(_parts(row, _WORDS | _IDLE))}"
    )
    kernels = costliest_kernels(profile) if share >= MOST else ""
    if worst is None or worst["cause"] not in {"incomplete", "kernels_rerun"}:
        text += f". {_moving(row, row['step_ns'], len(rows))}"
    return row | {"bottom_line": text + kernels}


def _parts(row: Row, words: Mapping[str, str]) -> list[str]:
    return [f"{say_share(row[n])} {word}" for n, word in words.items() if row[n] >= _LEAST_SHARE]


# What is said of recordings that are no traces.
_INSTEAD: Final = {"activity_summary": summary_line, "tensor_copies": tensor_line}


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
    of_files=(phases_of_devices, trace_sums, *JOB_FUNCTIONS),
)
