"""Which rank's own work makes the others wait: the steps of all devices side by side.

Collectives end on all ranks together, so that the steps of all ranks take as long, whoever is
late. What tells ranks apart is a step without its collectives, the device's *own time*. It is
compared step by step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.breakdown import ANALYSIS as BREAKDOWN_ANALYSIS
from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.steps import ANALYSIS as STEPS_ANALYSIS
from gpuprof.analyses.steps import steps
from gpuprof.base.statistics import median
from gpuprof.base.units import number_ranges, say_ns
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.numbers import groups
from gpuprof.facts.slow_devices import Floats, beside_median, slow_steps
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Column, Count, Flag, Id, Kind, Ns, Schema, Share, Text

# The parts of a step, and what people call them; without the collectives, of a device's own time.
_STEP_PARTS: Final = {
    "compute_ns": "compute",
    "exposed_communication_ns": "exposed collectives",
    "exposed_transfer_ns": "exposed transfers",
    "exposed_local_copy_ns": "exposed local copies",
    "idle_ns": "idle",
}
_COLLECTIVES: Final = "exposed_communication_ns"
_PARTS: Final = {name: word for name, word in _STEP_PARTS.items() if name != _COLLECTIVES}
_SAMPLES: Final = ("sample", "outlier")
# A recording ends early that lacks so much of what those of most ranks hold.
_EARLY: Final = 0.1

RANKS: Final = Schema(
    "ranks",
    "one device in one phase of steps",
    {
        "phase": Text("Name of the phase, as in phases; null for whole recordings without steps."),
        "rank": Count("Rank that uses the device, where known."),
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "host": Text("Host of the device, where those of several hosts are known."),
        "steps": Count(
            "Steps that it and other devices recorded whole; 1 for whole recordings.", required=True
        ),
        "step_ns": Ns("Length of a step in the median.", required=True),
        "own_ns": Ns(
            "Step without exposed collectives, in the median.",
            required=True,
            label="Without collectives",
        ),
        "own_ratio": Column(
            FLOAT,
            "1",
            "Own time / median over the devices in the same step, in the median over the steps;"
            " null where that is 0.",
            kind=Kind.RATIO,
            label="Ratio to median",
        ),
        "slowest_share": Share(
            "Share of the steps in which its own time is the longest.", required=True
        ),
        "is_slow": Flag(
            "Whether it is slow in an eighth of the steps or more, one after another: in most of"
            " them its own time is longer than on the others, by more than chance, and in the"
            " median it is an outlier (modified z-score above 3.5, and 1 % above the median, 10 %"
            " of fewer than five devices). Null for fewer than three devices."
        ),
        "slow_from_step": Id(
            "The first step in which it is slow, as in steps; null for the first of all."
        ),
        "slow_to_step": Id("The last step in which it is slow; null where it is to the end."),
        "slow_ratio": Column(
            FLOAT,
            "1",
            "Own time / median over the other devices, in the median over the steps in which it is"
            " slow.",
            kind=Kind.RATIO,
        ),
        "longer_part": Text(
            "Part of its own time that exceeds the median over the devices by most, in the steps in"
            " which it is slow, else in all: compute, exposed transfers, exposed local copies or"
            " idle; null where none does."
        ),
        "longer_ns": Ns("How much longer that part of a step takes; null where none does."),
        "exposed_communication_ns": Ns("Exposed collectives, in the median."),
        "compute_ns": Ns("Compute, in the median."),
        "exposed_transfer_ns": Ns("Exposed transfers, in the median."),
        "exposed_local_copy_ns": Ns("Exposed local copies, in the median."),
        "idle_ns": Ns("Idle time, in the median."),
    },
)


# The steps of a phase that several devices recorded whole: its name, None for whole recordings; its
# devices, `UNKNOWN` for one of unknown ordinal; the numbers of its steps; own time and the columns
# of `steps` in ns, of a row per device and a column per step, NaN where it was not recorded.
_Phase = tuple[str | None, Int64s, Int64s, Mapping[str, Floats]]


def ranks(profile: Profile) -> pa.Table:
    """Set the steps of the devices of each phase side by side.

    Args:
        profile: Needs ``kernels`` and ``memcpys``: the recordings of all ranks, read together.

    Returns:
        One row per phase and device, the phase of most time first and in it the device with the
        longest own time, columns as in `RANKS`. Where no phase has steps of two devices, whole
        recordings are set side by side; no rows for a single device.
    """
    names = names_of(profile)
    phases = [*_phases(profile.once(steps), names)]
    if not phases and (devices := profile.once(breakdown)).num_rows > 1:
        # Whole recordings, each as one step.
        times = {key: ns[:, np.newaxis].astype(float) for key, ns in _times(devices).items()}
        phases = [(None, _integers(devices, "device_id"), np.zeros(1, np.int64), times)]
    phases.sort(key=lambda phase: -float(np.nansum(phase[-1]["span_ns"])))
    return RANKS.table([row for phase in phases for row in _rows(phase, names)])


def early_ends(profile: Profile) -> list[str]:
    """A note on ranks of a job whose recordings end before those of the others."""
    if not profile.parts:
        return []
    step_rows, names = profile.once(steps), names_of(profile)
    device, start = _integers(step_rows, "device_id"), _integers(step_rows, "start_ns")
    end = start + _integers(step_rows, "span_ns")
    last: dict[int, int] = {}
    for number, end_ns in zip(device.tolist(), end.tolist(), strict=True):
        rank = names.ranks.get(number)
        if rank is not None:
            last[rank] = max(last.get(rank, end_ns), end_ns)
    usual_ns = int(np.median([*last.values()])) if last else 0
    lacking_ns = {rank: usual_ns - end_ns for rank, end_ns in last.items()}
    least_ns = _EARLY * (usual_ns - int(start.min(initial=usual_ns)))
    early = sorted(rank for rank, ns in lacking_ns.items() if ns > least_ns)
    if not early:
        return []
    words = "recording of rank {} ends" if len(early) == 1 else "recordings of ranks {} end"
    note = (
        f"The {words.format(number_ranges(early))} before those of the others, by up to"
        f" {say_ns(max(lacking_ns.values()))}: what is said of later steps is of the other ranks."
    )
    return [note]


def by_phase(table: pa.Table) -> dict[str | None, list[dict[str, Any]]]:
    """The rows of `RANKS` by their phase, in the order of the table."""
    phases: dict[str | None, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        phases.setdefault(row["phase"], []).append(row)
    return phases


def _phases(table: pa.Table, names: DeviceNames) -> Iterator[_Phase]:
    """The phases of several devices."""
    phase = np.array(table["phase"].to_pylist(), object)
    status = np.array(table["status"].to_pylist(), object)
    is_sample = np.isin(status, _SAMPLES)
    # Where steps of a phase go on at another length, as with a rank that has become slow, the first
    # ones are no warm-up.
    is_sample |= (status == "warm_up") & (_integers(table, "phase_number") > 1)
    device, step, start, span = (
        _integers(table, name) for name in ("device_id", "step", "start_ns", "span_ns")
    )
    # The numbers of steps go on where a rank has another file, of later steps.
    end, step, columns = start + span, step.copy(), _times(table)
    rank = np.array([names.ranks.get(key, UNKNOWN) for key in device.tolist()], np.int64)
    for of_rank in groups(rank, np.where(rank == UNKNOWN, device, 0)):
        rows = of_rank[np.argsort(start[of_rank], kind="stable")]
        ended = np.maximum.accumulate(end[rows])[:-1]
        begins_anew = (np.diff(step[rows]) < 0) & (start[rows[1:]] >= ended)
        step[rows[1:]] += np.cumsum(np.where(begins_anew, step[rows[:-1]] + 1, 0))
    for name in dict.fromkeys(phase[is_sample]):
        rows = np.flatnonzero(is_sample & (phase == name))
        devices, row = np.unique(device[rows], return_inverse=True)
        numbers, column = np.unique(step[rows], return_inverse=True)
        # Of processes that share a device the last is taken.
        place = np.full((len(devices), len(numbers)), -1)
        place[row, column] = rows
        # A step that one device alone recorded has nothing beside it.
        is_shared = (place >= 0).sum(axis=0) > 1
        place = place[:, is_shared]
        has_any = (place >= 0).any(axis=1)
        place = place[has_any]
        if place.size:
            times: dict[str, Floats] = {
                key: np.where(place >= 0, values[place], np.nan) for key, values in columns.items()
            }
            yield name, devices[has_any], numbers[is_shared], times


def _times(table: pa.Table) -> dict[str, Int64s]:
    """Span, own time and its parts, in ns."""
    columns = {name: _integers(table, name) for name in ("span_ns", _COLLECTIVES, *_PARTS)}
    return columns | {"own_ns": columns["span_ns"] - columns[_COLLECTIVES]}


def _integers(table: pa.Table, name: str) -> Int64s:
    values: Int64s = table[name].combine_chunks().fill_null(UNKNOWN).to_numpy()
    return values


def _rows(phase: _Phase, names: DeviceNames) -> list[dict[str, Any]]:
    """The rows of one phase, the longest own time first."""
    phase_name, devices, numbers, times = phase
    own_ns = times["own_ns"]
    medians = {name: np.nanmedian(values, axis=1) for name, values in times.items()}
    ratio = beside_median(own_ns)
    excess = {part: times[part] - np.nanmedian(times[part], axis=0) for part in _PARTS}
    usual_excess = {part: np.nanmedian(values, axis=1) for part, values in excess.items()}
    # Of devices that take equally long, none is the slowest.
    is_longest = own_ns == np.nanmax(own_ns, axis=0)
    longest = (is_longest & (is_longest.sum(axis=0) == 1)).sum(axis=1)
    steps, slow = (~np.isnan(own_ns)).sum(axis=1), slow_steps(own_ns)
    rows = []
    for place in np.argsort(-medians["own_ns"], kind="stable").tolist():
        device, stretch = int(devices[place]), (slow or {}).get(place)
        longer_ns = {part: int(values[place]) for part, values in usual_excess.items()}
        if stretch is not None:
            longer_ns = {p: int(np.nanmedian(of[place, stretch])) for p, of in excess.items()}
        part = max(longer_ns, key=lambda part: longer_ns[part])
        row = {name: int(values[place]) for name, values in medians.items()} | {
            "phase": phase_name,
            "rank": names.ranks.get(device),
            "host": names.hosts.get(device),
            "device_id": if_known(device),
            "steps": int(steps[place]),
            "step_ns": int(medians["span_ns"][place]),
            "own_ratio": _median(ratio[place]),
            "slowest_share": longest[place] / steps[place],
            "is_slow": None if slow is None else stretch is not None,
            "longer_part": _PARTS[part] if longer_ns[part] > 0 else None,
            "longer_ns": longer_ns[part] if longer_ns[part] > 0 else None,
        }
        if stretch is not None:
            others_ns = np.nanmedian(np.delete(own_ns[:, stretch], place, axis=0), axis=0)
            row["slow_ratio"] = _median(own_ns[place, stretch] / others_ns)
            if not np.isnan(own_ns[place, : stretch.start]).all():
                row["slow_from_step"] = int(numbers[stretch.start])
            if not np.isnan(own_ns[place, stretch.stop :]).all():
                row["slow_to_step"] = int(numbers[stretch.stop - 1])
        rows.append(row)
    return rows


def _median(values: Floats) -> float | None:
    """The median of those that are known; None for none."""
    finite = values[~np.isnan(values)]
    return float(median(finite)) if len(finite) else None


ANALYSIS: Final = Analysis(
    "Ranks side by side",
    RANKS,
    ("kernels", "memcpys"),
    ranks,
    reads(STEPS_ANALYSIS.reads, BREAKDOWN_ANALYSIS.reads, devices="device_id rank"),
    of_files=(steps, breakdown),
)


_QUANTILES: Final = {"p10_ns": 0.1, "median_ns": 0.5, "p90_ns": 0.9}

RANK_QUANTILES: Final = Schema(
    "rank_quantiles",
    "one figure of the devices of one phase",
    {
        "phase": Text("As in ranks."),
        "figure": Text("Column of ranks.", required=True),
        "devices": Count("Devices that are compared.", required=True),
        "min_ns": Ns("The least.", required=True),
        "p10_ns": Ns("10 % have less (interpolated).", required=True),
        "median_ns": Ns("Median.", required=True),
        "p90_ns": Ns("90 % have less (interpolated).", required=True),
        "max_ns": Ns("The most.", required=True),
        "min_rank": Count("Rank with the least, where known."),
        "min_device_id": Id("Its device."),
        "max_rank": Count("Rank with the most, where known."),
        "max_device_id": Id("Its device."),
    },
)


def rank_quantiles(profile: Profile) -> pa.Table:
    """Sum up the table `ranks`: from the least to the most that a step takes on a device.

    Returns:
        One row per phase and figure, in the order of the columns of ``ranks``, columns as in
        `RANK_QUANTILES`; no rows for a single device.
    """
    rows = []
    for phase, devices in by_phase(profile.once(ranks)).items():
        for figure in ("step_ns", "own_ns", *_STEP_PARTS):
            values = np.array([row[figure] for row in devices])
            least, most = devices[int(values.argmin())], devices[int(values.argmax())]
            row = {"phase": phase, "figure": figure, "devices": len(devices)}
            row |= {"min_ns": least[figure], "max_ns": most[figure]}
            row |= {n: round(float(np.quantile(values, q))) for n, q in _QUANTILES.items()}
            for key in ("rank", "device_id"):
                row |= {f"min_{key}": least[key], f"max_{key}": most[key]}
            rows.append(row)
    return RANK_QUANTILES.table(rows)


QUANTILES_ANALYSIS: Final = replace(
    ANALYSIS, title="Spread between ranks", schema=RANK_QUANTILES, run=rank_quantiles
)


# Devices of a group differ in each part of a step by no more than this share of the median step.
_ALIKE: Final = 0.05

RANK_GROUPS: Final = Schema(
    "rank_groups",
    "the devices of one phase whose steps are alike",
    {
        "phase": Text("As in ranks."),
        "group": Count("1 for the group of most devices.", required=True),
        "devices": Count("Devices in it.", required=True),
        "ranks": Text("Their ranks, such as 0 to 6 and 9; null where unknown."),
        "device_ids": Text("The devices."),
        "step_ns": Ns("Length of a step, median over its devices.", required=True),
        **{
            name: Ns(f"Time of {word} in a step, median over its devices.")
            for name, word in _STEP_PARTS.items()
        },
        "differs_by": Text("The part that differs most from that of group 1; null for group 1."),
        "difference_ns": Ns("How much longer it takes; negative for shorter."),
    },
)


def rank_groups(profile: Profile) -> pa.Table:
    """Group the devices of each phase by what a step goes to.

    The device whose parts are nearest to the medians leads the first group, which holds all
    devices that differ from it in no part by more than 5 % of the median step. Of the others the
    nearest leads the next group, and so on. Source: J. A. Hartigan, Clustering Algorithms, 1975,
    chapter 3.

    Returns:
        One row per phase and group, that of most devices first, columns as in `RANK_GROUPS`; no
        rows for a single device.
    """
    rows = []
    for phase, devices in by_phase(profile.once(ranks)).items():
        times = np.array([[row[name] for name in _STEP_PARTS] for row in devices], float)
        most_apart = _ALIKE * float(np.median([row["step_ns"] for row in devices]))
        unassigned = np.abs(times - np.median(times, axis=0)).max(axis=1).argsort(kind="stable")
        alike: list[list[int]] = []
        while len(unassigned):
            is_like = np.abs(times[unassigned] - times[unassigned[0]]).max(axis=1) <= most_apart
            alike.append(unassigned[is_like].tolist())
            unassigned = unassigned[~is_like]
        alike.sort(key=lambda members: -len(members))
        usual = np.median(times[alike[0]], axis=0)
        for number, members in enumerate(alike, start=1):
            medians = np.median(times[members], axis=0)
            apart = medians - usual
            part = int(np.abs(apart).argmax())
            of_group = [devices[place] for place in members]
            numbers = {row["rank"] for row in of_group} - {None}
            ids = {row["device_id"] for row in of_group} - {None}
            row = {
                "phase": phase,
                "group": number,
                "devices": len(members),
                "ranks": number_ranges(sorted(numbers)) if numbers else None,
                "device_ids": number_ranges(sorted(ids)) if ids else None,
                "step_ns": int(np.median([row["step_ns"] for row in of_group])),
                **dict(zip(_STEP_PARTS, medians.astype(int).tolist(), strict=True)),
            }
            if number > 1:
                row["differs_by"] = [*_STEP_PARTS.values()][part]
                row["difference_ns"] = int(apart[part])
            rows.append(row)
    return RANK_GROUPS.table(rows)


GROUPS_ANALYSIS: Final = replace(
    ANALYSIS, title="Ranks that behave alike", schema=RANK_GROUPS, run=rank_groups
)
