"""What ran when on each device, lane by lane, with as many rows as a picture can show."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.copies import copy_rows
from gpuprof.facts.phases import PHASE_READS, steps_in_part
from gpuprof.facts.step_times import typical_steps
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_ID,
    LOCAL_COPY,
    SLICE,
    TIMELINE_READS,
    TRANSFER,
    busy_by_device,
    equal_slices,
    slice_borders,
    timelines,
)
from gpuprof.model import derived
from gpuprof.model.analysis import Analysis, per_file, reads
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    covered_within,
    difference,
    intersection,
)
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.schema import Count, Flag, Instant, Ns, Process, Schema, Text

LANES: Final = Schema(
    "lanes",
    "what one lane of one device did while exposed, or while hidden, in one slice of time",
    {
        "device_id": DEVICE_ID,
        "lane": Text(
            "compute, communication, local_copies (memsets too), or a kind of transfer: HtoD, "
            "DtoH, PtoP, PtoP_staged, DtoD_peer, ...",
            required=True,
        ),
        "is_exposed": Flag("Whether nothing of a lane further up runs meanwhile.", required=True),
        "start_ns": Instant("First start of an interval in the slice.", required=True),
        "end_ns": Instant("Last end of one that started in it.", required=True),
        "busy_ns": Ns("How much of this time it runs.", required=True),
        "slice_ns": Ns(
            "Intervals that start in the same slice of this length are one row; 1 where each "
            "has its own.",
            required=True,
        ),
    },
)

LANES_OVER_TIME: Final = Schema(
    "lanes_over_time",
    "one lane of one device in one of 1,000 equal slices of the time; only where it runs",
    {
        "device_id": DEVICE_ID,
        "lane": LANES.columns["lane"],
        **SLICE,
        "exposed_ns": Ns("It runs, and nothing of a lane further up.", required=True),
        "hidden_ns": Ns("It runs, and so does one further up.", required=True),
    },
)

LANES_IN_STEP: Final = Schema(
    "lanes_in_step",
    "one lane of one device in one of 1,000 equal slices of a typical step; only where it runs",
    {
        "process_id": Process("Process of the step; null where it was detected by device."),
        "step": Count("Number of the step, as in the table steps.", required=True),
        "step_start_ns": Instant("Start of the step on the devices.", required=True),
        "step_end_ns": Instant("Its end.", required=True),
        **LANES_OVER_TIME.columns,
    },
)

_SLICES: Final = 1_000
# Of a device of a job: small for a thousand ranks.
_SLICES_OF_RANKS: Final = 96
# A step that is more of the recording than this is seen well enough in the whole.
_LONGEST_STEP: Final = 0.4
# Rows of all lanes together: more than a screen has columns, few enough to draw at once.
_MOST_ROWS: Final = 120_000
_BITS: Final = 64

_LAYERS: Final = {
    "compute": COMPUTE,
    "communication": COMMUNICATION,
    "transfer": TRANSFER,
    "local_copy": LOCAL_COPY,
}

RANKS_IN_STEP: Final = Schema(
    "ranks_in_step",
    f"one device in one of {_SLICES_OF_RANKS} equal slices of a typical step of its file",
    {
        **{
            name: LANES_IN_STEP.columns[name]
            for name in ("device_id", "step", "start_ns", "end_ns")
        },
        **{
            name: Ns(f"{words}.", required=True)
            for layer in _LAYERS
            for name, words in (
                (f"{layer}_ns", "It runs, and nothing of a kind before it"),
                (f"hidden_{layer}_ns", "It runs, and so does a kind before it"),
            )
        },
    },
)


# Device, name, and when it is exposed and hidden.
_Lane = tuple[int | None, str, Intervals, Intervals]
# The binary logarithms of the ns of slices, and of shorter ones from an instant to another one.
_Slices = tuple[int, int, int, int]


def lanes(profile: Profile) -> pa.Table:
    """Lay out what each device did, one lane per kind of activity.

    Compute is exposed throughout; communication where no compute kernel runs; a transfer where
    no kernel does; a local copy where no kernel and no transfer does (see `breakdown`). A copy
    between two devices is on both. Slices are a power of two long, the shortest that keep the
    table small; those of a typical step are shorter, so that one can look at it closely.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``memsets`` count where they were recorded.

    Returns:
        Columns as in `LANES`; by device, lane (compute, communication, transfers, local copies),
        exposed before hidden, and start. No rows where nothing ran.
    """
    all_lanes = _lanes(profile)
    starts = [times.start for *_, exposed, hidden in all_lanes for times in (exposed, hidden)]
    shift = _shortest(starts, _MOST_ROWS)
    slices = shift, 0, 0, 0
    if shift and (step := typical_step(profile)) is not None:
        *_, first, last = step
        within = [of[np.searchsorted(of, first) : np.searchsorted(of, last)] for of in starts]
        # Of places that are so exact, fewer fit into a page.
        inside = _shortest(within, _MOST_ROWS // 6)
        slices = _shortest(starts, _MOST_ROWS * 2 // 3), inside, first, last
    tables = [
        _table(lane, times, slices, is_exposed=is_exposed)
        for lane in all_lanes
        for is_exposed, times in zip((True, False), lane[2:], strict=True)
        if len(times)
    ]
    return pa.concat_tables(tables).combine_chunks() if tables else LANES.empty()


def _shortest(starts: Sequence[Int64s], most_rows: int) -> int:
    """The binary logarithm of the shortest slices in which so few rows begin."""
    begun = np.zeros(_BITS, np.int64)
    for of in starts:
        if len(of):
            # Slices with fewer bits than the highest one in which two neighbours differ part them.
            bits = np.frexp((of[1:] ^ of[:-1]).astype(np.float64))[1]
            begun += 1 + len(bits) - np.cumsum(np.bincount(bits, minlength=_BITS)[:_BITS])
    return int(np.argmax(begun <= most_rows))


def lanes_over_time(profile: Profile) -> pa.Table:
    """Measure the lanes in a thousand equal slices of the time, the same for all devices.

    Returns:
        Columns as in `LANES_OVER_TIME`, in the order of `lanes`. No rows where nothing ran.
    """
    borders = slice_borders(timelines(profile), _SLICES)
    return _sliced(profile, borders) if len(borders) else LANES_OVER_TIME.empty()


def lanes_in_step(profile: Profile) -> pa.Table:
    """Measure the lanes in a thousand equal slices of the step nearest to the median.

    Args:
        profile: As for `lanes`; ``nvtx_ranges`` and ``api_calls`` for steps that are named.

    Returns:
        Columns as in `LANES_IN_STEP`, in the order of `lanes`. No rows without a `typical_step`.
    """
    step = typical_step(profile)
    if step is None:
        return LANES_IN_STEP.empty()
    table = _sliced(profile, equal_slices(*step[2:], _SLICES))
    columns = dict(zip(LANES_IN_STEP.columns, ([v] * table.num_rows for v in step), strict=False))
    named = {name: table.column(name) for name in table.column_names}
    return LANES_IN_STEP.conform(pa.table(columns | named))


@per_file(RANKS_IN_STEP, needs=("kernels", "memcpys"))
def ranks_in_step(profile: Profile) -> pa.Table:
    """Measure compute, communication, transfers and local copies in the step nearest to the median.

    Returns:
        Columns as in `RANKS_IN_STEP`, by device and time; no rows of a file without a typical
        step, nor of devices that do nothing in it.
    """
    step = typical_step(profile)
    if step is None:
        return RANKS_IN_STEP.empty()
    _, number, first, last = step
    borders, tables = equal_slices(first, last, _SLICES_OF_RANKS), [RANKS_IN_STEP.empty()]
    start, end = borders[:-1], borders[1:]
    for line in timelines(profile):
        columns: dict[str, Any] = {
            "device_id": pa.array([line.device_id] * len(start), pa.int64()),
            "step": [number] * len(start),
            "start_ns": start,
            "end_ns": end,
        }
        for layer, place in _LAYERS.items():
            busy, exposed = (
                covered_within(times[place], start, end) for times in (line.busy, line.exposed)
            )
            columns |= {f"{layer}_ns": exposed, f"hidden_{layer}_ns": busy - exposed}
        if any(np.any(columns[f"{layer}_ns"]) for layer in _LAYERS):
            tables.append(RANKS_IN_STEP.conform(pa.table(columns)))
    return pa.concat_tables(tables)


@once_per_profile
def typical_step(profile: Profile) -> tuple[int | None, int, int, int] | None:
    """Process, number, start and end of the step nearest to the median of the longest phase.

    None where no steps are found, a step takes more than 0.4 of the time, or a part of the
    recording is looked at.
    """
    if profile.selection.windows is not None:
        return None
    span = slice_borders(timelines(profile), 1)
    sampled = [series for series in steps_in_part(profile) if series.is_sample.any()]
    if not (sampled and len(span)):
        return None
    series = max(sampled, key=lambda s: int((s.end_ns - s.start_ns)[s.is_sample].sum()))
    samples = np.flatnonzero(series.is_sample)
    length = (series.end_ns - series.start_ns)[samples]
    place = samples[typical_steps(length)[0]]
    start, end = int(series.start_ns[place]), int(series.end_ns[place])
    if end - start > _LONGEST_STEP * (span[-1] - span[0]):
        return None
    return series.phase.process_id, int(series.number[place]), start, end


def _sliced(profile: Profile, borders: Int64s) -> pa.Table:
    """How much of each slice the lanes take; only where they run."""
    start, end = borders[:-1], borders[1:]
    tables = []
    for lane in _lanes(profile):
        exposed, hidden = (covered_within(times, start, end) for times in lane[2:])
        is_active = exposed + hidden > 0
        columns: dict[str, Any] = _place(lane, int(is_active.sum())) | {
            "start_ns": start[is_active],
            "end_ns": end[is_active],
            "exposed_ns": exposed[is_active],
            "hidden_ns": hidden[is_active],
        }
        tables.append(LANES_OVER_TIME.conform(pa.table(columns)))
    return pa.concat_tables(tables).combine_chunks()


def _place(lane: _Lane, rows: int) -> dict[str, Any]:
    return {
        "device_id": pa.array([lane[0]] * rows, pa.int64()),
        "lane": pa.array([lane[1]] * rows, pa.string()),
    }


@once_per_profile
def _lanes(profile: Profile) -> tuple[_Lane, ...]:
    all_lanes = []
    for device in timelines(profile):
        busy, exposed = device.busy, device.exposed
        transfers = _transfers(profile).get(device.device_id, {}).items()
        of_span = [(kind, intersection(times, device.span)) for kind, times in transfers]
        layers = (
            ("compute", busy[COMPUTE], exposed[COMPUTE]),
            ("communication", busy[COMMUNICATION], exposed[COMMUNICATION]),
            *((kind, times, intersection(times, exposed[TRANSFER])) for kind, times in of_span),
            ("local_copies", busy[LOCAL_COPY], exposed[LOCAL_COPY]),
        )
        for name, running, alone in layers:
            # Compute, which has most intervals, is never hidden.
            hidden = NOTHING if alone is running else difference(running, alone)
            if len(alone) or len(hidden):
                all_lanes.append((device.device_id, name, alone, hidden))
    return tuple(all_lanes)


@once_per_recording
def _transfers(profile: Profile) -> Mapping[int | None, Mapping[str, Intervals]]:
    """When the transfers of each kind ran on each device, by device and kind."""
    copies = copy_rows(profile)
    names = sorted(derived.TRANSFER_MOVEMENTS)
    number = {name: place for place, name in enumerate(names)}
    parts = (
        (p.start_ns, p.end_ns, p.device, p.movements(lambda name: number.get(name, -1)))
        for p in copies.take(copies.is_transfer == 1).by_device()
    )
    by_device = busy_by_device(parts, len(names))
    return {
        device: {names[kind]: times for kind, times in sorted(busy.kinds.items())}
        for device, busy in by_device.items()
    }


def _table(lane: _Lane, times: Intervals, slices: _Slices, *, is_exposed: bool) -> pa.Table:
    """When a lane was busy in each slice in which it begins to be, exposed or hidden."""
    shift, inside, begin, until = slices
    start, end = times.start, times.end
    is_within = (start >= begin) & (start < until)
    # No slice within has the number of one outside.
    number = np.where(is_within, ~(start >> inside), start >> shift)
    first = np.flatnonzero(np.concatenate([[True], np.diff(number) != 0]))
    last = np.concatenate([first[1:], [len(start)]]) - 1
    columns: dict[str, Any] = _place(lane, len(first)) | {
        "is_exposed": [is_exposed] * len(first),
        "start_ns": start[first],
        "end_ns": end[last],
        "busy_ns": np.add.reduceat(end - start, first),
        "slice_ns": np.where(is_within[first], 1 << inside, 1 << shift),
    }
    return LANES.conform(pa.table(columns))


_NEEDS: Final = ("kernels", "memcpys")
ANALYSIS: Final = Analysis(
    "What ran when, lane by lane", LANES, _NEEDS, lanes, reads(PHASE_READS, TIMELINE_READS)
)
OVER_TIME_ANALYSIS: Final = Analysis(
    "Lanes over time", LANES_OVER_TIME, _NEEDS, lanes_over_time, TIMELINE_READS
)
IN_STEP_ANALYSIS: Final = Analysis(
    "Lanes of a typical step",
    LANES_IN_STEP,
    _NEEDS,
    lanes_in_step,
    reads(PHASE_READS, TIMELINE_READS),
)
RANKS_IN_STEP_ANALYSIS: Final = ranks_in_step.analysis(
    "Ranks in a typical step", reads(PHASE_READS, TIMELINE_READS)
)
