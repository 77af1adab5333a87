"""Which rank's own work makes the others wait: the steps of all devices side by side.

Collectives end on all ranks together, so that the steps of all ranks take as long, whoever is
late. What tells ranks apart is a step without its collectives, the device's *own time*.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.hosts import DeviceNames, names_of, names_of_job
from gpuprof.analyses.merge import JobStates, Merge
from gpuprof.analyses.time.breakdown import ANALYSIS as BREAKDOWN_ANALYSIS
from gpuprof.analyses.time.breakdown import MERGE as BREAKDOWN_MERGE
from gpuprof.analyses.time.breakdown import breakdown
from gpuprof.analyses.time.steps import ANALYSIS as STEPS_ANALYSIS
from gpuprof.analyses.time.steps import MERGE as STEPS_MERGE
from gpuprof.analyses.time.steps import steps
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s
from gpuprof.profile import Profile
from gpuprof.schema import FLAG, FLOAT, INT, TEXT, Column, Kind, Schema

# The parts of a device's own time, and what people call them.
_PARTS: Final = {
    "compute_ns": "compute",
    "exposed_transfer_ns": "exposed transfers",
    "exposed_local_copy_ns": "exposed local copies",
    "idle_ns": "idle",
}
_COLLECTIVES: Final = "exposed_communication_ns"
_SAMPLES: Final = ("sample", "outlier")
# Modified z-score of Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993: 0.6745 times
# the distance from the median by the median distance; beyond 3.5 a value is an outlier.
_Z: Final = 0.6745
_OUTLYING: Final = 3.5
_LEAST_DEVICES: Final = 5
# Less than that above the median is no reason to look at a rank, however alike the others are.
_LEAST_RATIO: Final = 1.01

RANKS: Final = Schema(
    "ranks",
    "one device in one phase of steps",
    {
        "phase": Column(
            TEXT, "", "Name of the phase, as in phases; null for whole recordings without steps."
        ),
        "rank": Column(INT, "1", "Rank that uses the device, where known."),
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "host": Column(TEXT, "", "Host of the device, where those of several hosts are known."),
        "steps": Column(
            INT,
            "1",
            "Steps that all its devices recorded whole; 1 for whole recordings.",
            required=True,
        ),
        "step_ns": Column(INT, "ns", "Length of a step in the median.", required=True),
        "own_ns": Column(
            INT,
            "ns",
            "Step without exposed collectives, in the median.",
            required=True,
            label="Without collectives",
        ),
        "own_ratio": Column(
            FLOAT,
            "1",
            "own_ns / median over the devices of the phase; null where that is 0.",
            kind=Kind.RATIO,
            label="Ratio to median",
        ),
        "slowest_share": Column(
            FLOAT, "1", "Share of the steps in which its own time is the longest.", required=True
        ),
        "is_slow": Column(
            FLAG,
            "",
            "Whether own_ns is an outlier among the devices (modified z-score above 3.5, and 1 %"
            " above the median); null for fewer than five devices.",
        ),
        "longer_part": Column(
            TEXT,
            "",
            "Part of its own time that exceeds the median over the devices by most: compute,"
            " exposed transfers, exposed local copies or idle; null where none does.",
        ),
        "longer_ns": Column(INT, "ns", "How much longer that part takes; null where none does."),
        "exposed_communication_ns": Column(INT, "ns", "Exposed collectives, in the median."),
        "compute_ns": Column(INT, "ns", "Compute, in the median."),
        "exposed_transfer_ns": Column(INT, "ns", "Exposed transfers, in the median."),
        "exposed_local_copy_ns": Column(INT, "ns", "Exposed local copies, in the median."),
        "idle_ns": Column(INT, "ns", "Idle time, in the median."),
    },
)


class _Phase(NamedTuple):
    """The steps that all devices of a phase recorded whole.

    Args:
        name: The phase; None for whole recordings.
        device: Its devices, `UNKNOWN` for one of unknown ordinal.
        steps: How many steps there are.
        times_ns: Own time, and the columns of `steps`, each of a row per device and a column per
            step.
    """

    name: str | None
    device: Int64s
    steps: int
    times_ns: Mapping[str, Int64s]


def ranks(profile: Profile) -> pa.Table:
    """Set the steps of the devices of each phase side by side.

    Args:
        profile: Needs ``kernels`` and ``memcpys``: the recordings of all ranks, read together.

    Returns:
        One row per phase and device, the phase of most time first and in it the device with the
        longest own time, columns as in `RANKS`. Where no phase has steps of two devices, whole
        recordings are set side by side; no rows for a single device.
    """
    return _table(profile.once(steps), profile.once(breakdown), names_of(profile))


def ranks_of_job(job: JobStates) -> pa.Table:
    """As `ranks`, of a job."""
    return _table(STEPS_MERGE.answer(job), BREAKDOWN_MERGE.answer(job), names_of_job(job))


def _table(step_rows: pa.Table, breakdown_rows: pa.Table, names: DeviceNames) -> pa.Table:
    phases = [*_phases(step_rows)] or [*_recordings(breakdown_rows)]
    phases.sort(key=lambda phase: -int(phase.times_ns["span_ns"].sum()))
    return RANKS.table([row for phase in phases for row in _rows(phase, names)])


def by_phase(table: pa.Table) -> dict[str | None, list[dict[str, Any]]]:
    """The rows of `RANKS` by their phase, in the order of the table."""
    phases: dict[str | None, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        phases.setdefault(row["phase"], []).append(row)
    return phases


def _phases(table: pa.Table) -> Iterator[_Phase]:
    """The phases of several devices."""
    names = np.array(table["phase"].to_pylist(), object)
    is_sample = np.isin(table["status"].to_pylist(), _SAMPLES)
    device, step, columns = _integers(table, "device_id"), _integers(table, "step"), _times(table)
    for name in dict.fromkeys(names[is_sample]):
        rows = np.flatnonzero(is_sample & (names == name))
        devices, row = np.unique(device[rows], return_inverse=True)
        numbers, column = np.unique(step[rows], return_inverse=True)
        # Of processes that share a device the last is taken.
        place = np.full((len(devices), len(numbers)), -1)
        place[row, column] = rows
        place = place[:, (place >= 0).all(axis=0)]
        if len(devices) > 1 and place.size:
            times = {key: values[place] for key, values in columns.items()}
            yield _Phase(name, devices, place.shape[1], times)


def _recordings(table: pa.Table) -> Iterator[_Phase]:
    """Whole recordings of several devices as one step."""
    device = _integers(table, "device_id")
    if len(device) > 1:
        times = {name: values[:, np.newaxis] for name, values in _times(table).items()}
        yield _Phase(None, device, 1, times)


def _times(table: pa.Table) -> dict[str, Int64s]:
    """Span, own time and its parts, in ns."""
    columns = {name: _integers(table, name) for name in ("span_ns", _COLLECTIVES, *_PARTS)}
    return columns | {"own_ns": columns["span_ns"] - columns[_COLLECTIVES]}


def _integers(table: pa.Table, name: str) -> Int64s:
    values: Int64s = table[name].combine_chunks().fill_null(UNKNOWN).to_numpy()
    return values


def _rows(phase: _Phase, names: DeviceNames) -> list[dict[str, Any]]:
    """The rows of one phase, the longest own time first."""
    medians = {name: np.median(times, axis=1) for name, times in phase.times_ns.items()}
    usual = {name: float(np.median(values)) for name, values in medians.items()}
    own_ns, slow = medians["own_ns"], _slow(medians["own_ns"])
    longest = np.bincount(phase.times_ns["own_ns"].argmax(axis=0), minlength=len(phase.device))
    rows = []
    for place in np.argsort(-own_ns, kind="stable").tolist():
        device = int(phase.device[place])
        longer_ns = {part: int(medians[name][place] - usual[name]) for name, part in _PARTS.items()}
        part = max(longer_ns, key=lambda part: longer_ns[part])
        rows.append(
            {name: int(values[place]) for name, values in medians.items()}
            | {
                "phase": phase.name,
                "rank": names.ranks.get(device),
                "host": names.hosts.get(device),
                "device_id": None if device == UNKNOWN else device,
                "steps": phase.steps,
                "step_ns": int(medians["span_ns"][place]),
                "own_ratio": own_ns[place] / usual["own_ns"] if usual["own_ns"] else None,
                "slowest_share": longest[place] / phase.steps,
                "is_slow": None if slow is None else bool(slow[place]),
                "longer_part": part if longer_ns[part] > 0 else None,
                "longer_ns": longer_ns[part] if longer_ns[part] > 0 else None,
            }
        )
    return rows


def _slow(own_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_] | None:
    """Which own times are outliers upwards; None for too few devices to say."""
    if len(own_ns) < _LEAST_DEVICES:
        return None
    above_ns = own_ns - np.median(own_ns)
    is_far = _Z * above_ns > _OUTLYING * np.median(np.abs(above_ns))
    is_slow: npt.NDArray[np.bool_] = is_far & (own_ns > _LEAST_RATIO * np.median(own_ns))
    return is_slow


MERGE: Final = Merge(
    (*STEPS_MERGE.states, *BREAKDOWN_MERGE.states), ranks_of_job, STEPS_MERGE.accuracy
)
ANALYSIS: Final = Analysis(
    "Ranks side by side",
    RANKS,
    ("kernels", "memcpys"),
    ranks,
    reads(STEPS_ANALYSIS.reads, BREAKDOWN_ANALYSIS.reads, devices="device_id rank"),
    merge=MERGE,
)
