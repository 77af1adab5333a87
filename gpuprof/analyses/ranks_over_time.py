"""What each device of a job did in equal slices of the time of all of them.

Slices are a power of two of ns long and begin at multiples of it, counted from 1970: so slices of
files whose recordings are of any length add up to those of the job, without a rest.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.facts.collective_calls import collective_calls
from gpuprof.facts.collective_parts import PARTS_READS, collective_parts
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.rank_matching import are_apart
from gpuprof.facts.timeline import (
    COMMUNICATION,
    COMPUTE,
    LOCAL_COPY,
    TIMELINE_READS,
    TRANSFER,
    timelines,
)
from gpuprof.model.analysis import Analysis, ordered, per_file, reads, summed
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Id, Ns, Schema, Text

# Of a device; twice as many as are shown, so that clocks can be set right by half a slice.
_MOST_OF_DEVICE: Final = 800
_MOST: Final = 400
_TIMES: Final = ("recorded_ns", "compute_ns", "communication_ns", "copies_ns")

_OF_SLICE: Final = {
    "recorded_ns": Ns("Part of it from the device's first activity to its last.", required=True),
    "compute_ns": Ns("A compute kernel runs.", required=True),
    "communication_ns": Ns("A communication kernel runs, and no compute kernel.", required=True),
    "copies_ns": Ns("A copy or memset runs, and no kernel.", required=True),
}
RANKS_OVER_TIME: Final = Schema(
    "ranks_over_time",
    "one device in one slice of the time of all devices; only where it was recorded",
    {
        "rank": Count("Rank that uses the device, where known."),
        "device_id": Id("CUDA device ordinal.", required=True),
        "host": Text("Host of the device, where those of several hosts are known."),
        "start_ns": Ns("Start, since the recording's origin.", required=True),
        "end_ns": Ns("Its end.", required=True),
        **_OF_SLICE,
        "idle_ns": Ns("The rest of recorded_ns: nothing runs.", required=True),
    },
)
_SLICES: Final = Schema(
    "slices_of_devices",
    "one device in one slice of its time",
    {
        "device_id": Id("CUDA device ordinal.", required=True),
        "epoch_ns": Ns("When the recording's clock began; null where unknown."),
        "exponent": Count("The slice is 2 ** exponent ns long.", required=True),
        "slice": Count("Its number since epoch_ns is 0, in 1970.", required=True),
        **_OF_SLICE,
    },
)


def ranks_over_time(profile: Profile) -> pa.Table:
    """Cut the time of all devices into up to 400 slices.

    Clocks that are apart are set right as `clock_offsets` does, to half a slice.

    Args:
        profile: Needs ``kernels`` and ``memcpys``: the recordings of all ranks, read together.

    Returns:
        One row per device and slice, columns as in `RANKS_OVER_TIME`. Devices whose number is
        unknown are left out, as those of several files could not be told apart.
    """
    rows = profile.once(slices)
    if not rows.num_rows:
        return RANKS_OVER_TIME.empty()
    device, number, exponents = (
        rows[name].to_numpy().astype(np.int64) for name in ("device_id", "slice", "exponent")
    )
    epochs = rows["epoch_ns"]
    has_epochs = not epochs.null_count
    if not has_epochs:  # then all files begin at 0
        number -= epochs.fill_null(0).to_numpy() >> exponents
    exponent = int(exponents.max())
    number >>= exponent - exponents
    for offset in filter(are_apart, collective_parts(profile).offsets):
        # To the nearest slice.
        number[device == offset.device] -= (offset.offset_ns + (1 << exponent >> 1)) >> exponent
    coarser = _exponent(int(number.min()), int(number.max()), _MOST)
    columns = {"device": device, "slice": number >> coarser} | {n: rows[n] for n in _TIMES}
    keys = ("device", "slice")
    sums = ordered(summed(pa.table(columns), keys, _TIMES), [(key, "ascending") for key in keys])
    # Where all files know it, time counts from when the clock of the first one began.
    origin_ns = min(epochs.to_pylist()) if has_epochs else 0
    return _rows(sums, exponent + coarser, origin_ns, names_of(profile))


@per_file(_SLICES, needs=("kernels", "memcpys"))
def slices(profile: Profile) -> pa.Table:
    """As `_SLICES`: up to 800 rows per device."""
    epoch_ns, tables = profile.origin.epoch_ns, [_SLICES.empty()]
    since_ns = epoch_ns or 0
    for line in timelines(profile):
        if line.device_id is None or not len(line.span):
            continue
        first_ns, last_ns = (
            since_ns + int(end) for end in (line.span.start[0], line.span.end[-1] - 1)
        )
        exponent = _exponent(first_ns, last_ns, _MOST_OF_DEVICE)
        numbers = np.arange(first_ns >> exponent, (last_ns >> exponent) + 2)
        borders = (numbers << exponent) - since_ns
        start, end, exposed = borders[:-1], borders[1:], line.exposed
        copies = [covered_within(exposed[layer], start, end) for layer in (TRANSFER, LOCAL_COPY)]
        columns: dict[str, Any] = {
            "device_id": [line.device_id] * len(start),
            "epoch_ns": [epoch_ns] * len(start),
            "exponent": [exponent] * len(start),
            "slice": numbers[:-1],
            "recorded_ns": covered_within(line.span, start, end),
            "compute_ns": covered_within(exposed[COMPUTE], start, end),
            "communication_ns": covered_within(exposed[COMMUNICATION], start, end),
            "copies_ns": np.add(*copies),
        }
        arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
        tables.append(_SLICES.conform(pa.table(arrays)))
    return pa.concat_tables(tables)


def _exponent(first: int, last: int, most: int) -> int:
    """The least power of two of numbers that make a slice, so that there are no more than most."""
    exponent = max(((last - first) // most).bit_length() - 1, 0)
    while (last >> exponent) - (first >> exponent) >= most:
        exponent += 1
    return exponent


def _rows(sums: pa.Table, exponent: int, origin_ns: int, names: DeviceNames) -> pa.Table:
    device = sums["device"].to_pylist()
    start = (sums["slice"].to_numpy() << exponent) - origin_ns
    recorded, *parts = (sums[name].to_numpy() for name in _TIMES)
    columns: dict[str, Any] = {
        "rank": pa.array([*map(names.ranks.get, device)], pa.int64()),
        "device_id": sums["device"],
        "host": pa.array([*map(names.hosts.get, device)], pa.string()),
        "start_ns": start,
        "end_ns": start + (1 << exponent),
        **{name: sums[name] for name in _TIMES},
        "idle_ns": recorded - np.sum(parts, axis=0),
    }
    table = pa.table(columns)
    return RANKS_OVER_TIME.conform(table.filter(pa.array(recorded > 0)))


ANALYSIS: Final = Analysis(
    "Ranks over time",
    RANKS_OVER_TIME,
    ("kernels", "memcpys"),
    ranks_over_time,
    reads(TIMELINE_READS, PARTS_READS, devices="device_id rank"),
    of_files=(slices, collective_calls),
)
