"""How long collectives moved data, and how long they waited for the last rank to arrive."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.units import format_ratio, say_ns
from gpuprof.facts.collective_calls import COLLECTIVE, COPIES, FIRST_CALLS, HOST
from gpuprof.facts.collective_parts import (
    RANKS,
    SETUP,
    SPREAD,
    CollectiveParts,
)
from gpuprof.facts.communication import bandwidths
from gpuprof.facts.last_ranks import (
    CALLS_OF_FILES,
    KERNELS,
    LAST_READS,
    CollectiveRecord,
    Delay,
    collective_record,
    delay_before,
)
from gpuprof.facts.numbers import groups
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLAG, FLOAT, INT, TEXT, Column, Schema

COLLECTIVE_WAITS: Final = Schema(
    "collective_waits",
    "all calls of one collective, message and group on one stream of one device",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "rank": Column(INT, "1", "Rank that uses the device, where known."),
        "stream_id": Column(INT, "", "Stream; null where unknown."),
        "collective": Column(TEXT, "", "As in collectives.", required=True),
        "data_type": Column(TEXT, "", "As in collectives."),
        "message_bytes": Column(INT, "B", "As in collectives."),
        "group_size": Column(INT, "1", "Ranks that take part; null where not told."),
        "process_group": Column(TEXT, "", "The framework's name of the group."),
        "basis": Column(
            TEXT,
            "",
            "How the parts are known. ranks: calls are matched over the devices of the recording;"
            " the shortest kernel of each is the transfer, what others last longer is waiting for"
            " the last. spread: one rank is known; what a call lasts longer than the shortest tenth"
            " of those of its message (of its place in the step, where durations repeat) can be"
            " waiting. clocks: not known, as the clocks of devices disagree. none: not known, as"
            " there are too few calls.",
            required=True,
        ),
        "ranks": Column(INT, "1", "Devices whose kernels were matched; null for one alone."),
        "calls": Column(INT, "1", "How often.", required=True),
        "first_call_ns": Column(
            INT, "ns", "First call, if it is set-up and so no part of what follows; else null."
        ),
        "transfer_ns": Column(
            INT, "ns", "Time that moving data took; of spread at least. Null where not known."
        ),
        "waiting_ns": Column(
            INT,
            "ns",
            "Waiting for the last rank; of spread at most, of ranks at least, where some of them"
            " have no recording. Null where not known.",
        ),
        "unknown_ns": Column(
            INT,
            "ns",
            "Time of calls whose transfer and waiting are not known: data moved, or it waited for"
            " ranks without a recording.",
        ),
        "exposed_transfer_ns": Column(INT, "ns", "Transfer while no compute kernel runs."),
        "exposed_waiting_ns": Column(INT, "ns", "Waiting while no compute kernel runs."),
        "median_lag_ns": Column(
            INT, "ns", "How much later than the first rank it came, in the median over calls."
        ),
        "last_share": Column(FLOAT, "1", "Share of the calls in which it was the last rank."),
        "kept_by": Column(
            TEXT, "", "What kept it before the calls in which it was the last; null if not known."
        ),
        "is_same_stream": Column(
            FLAG, "", "Whether its stream also runs compute kernels, which then cannot hide it."
        ),
        "bus_bytes_per_s": Column(
            FLOAT, "B/s", "As in collectives, of the transfer; null where no message is told."
        ),
    },
)


def collective_waits(profile: Profile) -> pa.Table:
    """Split the time of collectives into transfer and waiting.

    Args:
        profile: Needs ``kernels``; ``collectives`` tell messages and groups, and recordings of all
            ranks, read together, tell who waited for whom.

    Returns:
        One row per device, stream, collective, message and group, the longest waiting first,
        columns as in `COLLECTIVE_WAITS`; no rows where no communication kernel ran. Of each row
        the first call, transfer, waiting and what is unknown add up to the time of all calls.
    """
    record = collective_record(profile)
    rows = [_row(record, kernels) for kernels in _by_row(profile, record.parts)]
    rows.sort(
        key=lambda row: (
            -row.get("waiting_ns", 0),
            -row.get("transfer_ns", 0),
            UNKNOWN if row["device_id"] is None else row["device_id"],
        )
    )
    return COLLECTIVE_WAITS.table(rows)


def _by_row(profile: Profile, parts: CollectiveParts) -> Iterator[Int64s]:
    """The kernels of each row, of the part of the recording that is looked at."""
    kernels, part = parts.kernels, profile.selection
    chosen = np.ones(len(kernels), bool)
    if part.device_id is not None:
        chosen &= kernels.device == part.device_id
    if part.windows is not None:
        starts, ends = np.array(part.windows, np.int64).reshape(-1, 2).T
        place = np.searchsorted(starts, kernels.start_ns, side="right") - 1
        chosen &= (place >= 0) & (kernels.start_ns < np.append(ends, 0)[place])
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(kernels.start_ns[rows], kind="stable")]
    columns = kernels.device, kernels.stream, kernels.kind
    return (rows[alike] for alike in groups(*(column[rows] for column in columns)))


def _row(record: CollectiveRecord, rows: Int64s) -> dict[str, Any]:
    parts, kernels = record.parts, record.parts.kernels
    collective = kernels.collectives[kernels.kind[rows[0]]]
    device, stream = int(kernels.device[rows[0]]), int(kernels.stream[rows[0]])
    took, basis = (kernels.end_ns - kernels.start_ns)[rows], parts.basis[rows]
    is_split, is_setup = (basis == RANKS) | (basis == SPREAD), basis == SETUP
    is_whole = parts.is_complete[rows] | (basis == SPREAD)
    is_unknown = ~is_whole & ~is_setup
    row = {
        "device_id": None if device == UNKNOWN else device,
        "rank": record.names.ranks.get(device),
        "stream_id": None if stream == UNKNOWN else stream,
        **collective._asdict(),
        "basis": _basis(parts, device, basis),
        "calls": len(rows),
        "first_call_ns": int(took[is_setup].sum()) if is_setup.any() else None,
        "unknown_ns": int((took - parts.waiting_ns[rows])[is_unknown].sum()),
        "is_same_stream": None if stream == UNKNOWN else bool(parts.is_same_stream[rows[0]]),
    }
    if is_split.any():
        row |= _waiting(record, rows[is_split], device)
    if is_whole.any():
        row |= _transfer(record, rows[is_whole], device)
        row |= {
            name: value
            for name, value in bandwidths(
                collective, int(is_whole.sum()), row["transfer_ns"]
            ).items()
            if name in COLLECTIVE_WAITS.columns
        }
    matched = rows[basis == RANKS]
    return row | (_lateness(record, matched, device) if len(matched) else {})


def _basis(parts: CollectiveParts, device: int, basis: npt.NDArray[np.int8]) -> str:
    if (basis == RANKS).any():
        return "ranks"
    if (basis == SPREAD).any():
        return "spread"
    return "clocks" if any(device in pair[:2] for pair in parts.clocks) else "none"


def _waiting(record: CollectiveRecord, rows: Int64s, device: int) -> dict[str, int]:
    """How long some kernels of a device waited, and how much of that nothing hides."""
    waiting = int(record.parts.waiting_ns[rows].sum())
    return {"waiting_ns": waiting, "exposed_waiting_ns": waiting - record.hidden(rows, device)[1]}


def _transfer(record: CollectiveRecord, rows: Int64s, device: int) -> dict[str, int]:
    """How long some kernels of a device moved data, and how much of that nothing hides."""
    moving = int(record.parts.transfer_ns[rows].sum())
    return {"transfer_ns": moving, "exposed_transfer_ns": moving - record.hidden(rows, device)[0]}


def _lateness(record: CollectiveRecord, rows: Int64s, device: int) -> dict[str, Any]:
    """How late a device came to calls whose ranks are known, and what delayed it."""
    parts = record.parts
    devices = parts.groups[int(parts.group_of[rows[0]])].devices
    is_late = parts.is_last[rows]
    caused = parts.waiting_by_instance[parts.instance[rows]]
    # A rank for which others wait as long as for any other is not what keeps them.
    is_cause = caused[is_late].sum() * len(devices) > caused.sum()
    delay = delay_before(record, device, rows[is_late]) if is_cause else None
    return {
        "ranks": len(devices),
        "median_lag_ns": int(np.median(parts.lag_ns[rows])),
        "last_share": float(is_late.mean()),
        "kept_by": None if delay is None else say_delay(delay),
    }


def say_delay(delay: Delay) -> str:
    """What delayed a rank, for people: ``host: its device idled 1.39 ms longer``."""
    longer = say_ns(delay.longer_ns)
    if delay.cause == HOST:
        return f"host: its device idled {longer} longer than the median of the others"
    if delay.cause == COPIES:
        return f"copies: they took {longer} longer than on the median of the others"
    if delay.cause == COLLECTIVE:
        return f"another collective: {longer} longer in it than the median of the others"
    if delay.kernel is None:
        return f"{delay.cause}: {longer} more than on the median of the others"
    name, times = delay.kernel.split("(")[0].split("<")[0], format_ratio(delay.ratio)
    many = "takes {} times as long" if delay.cause == KERNELS else "runs {} times as often"
    return (
        f"{delay.cause}: {longer} more, {name} {many.format(times)} as on the median of the others"
    )


ANALYSIS: Final = Analysis(
    "Transfer and waiting in collectives",
    COLLECTIVE_WAITS,
    ("kernels",),
    collective_waits,
    reads(LAST_READS),
    of_files=CALLS_OF_FILES,
    accuracy="Of a kernel of a job that compute hides in part, exposed transfer and waiting are"
    f" shared out by their lengths; {FIRST_CALLS}.",
)
