"""Collectives of NCCL and similar libraries, which move data in kernels and leave no copy.

How fast they are, and how long they moved data and waited for the last rank to arrive. Source of
the two bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import say_ns, say_ratio
from gpuprof.facts.collective_calls import CALLS, COLLECTIVE, COPIES, FIRST_CALLS, HOST
from gpuprof.facts.collective_parts import BASES, NONE, RANKS, SETUP, SPREAD
from gpuprof.facts.communication import (
    COMMUNICATION_READS,
    Collective,
    bandwidths,
    communication_kernels,
)
from gpuprof.facts.last_ranks import (
    CALLS_OF_FILES,
    KERNELS,
    LAST_READS,
    CollectiveRecord,
    Delay,
    collective_record,
    delay_before,
)
from gpuprof.facts.links import link_of_collectives
from gpuprof.facts.numbers import groups
from gpuprof.facts.timeline import COMPUTE, TIMELINE_READS, timelines
from gpuprof.model.analysis import Analysis, per_file, reads, summed
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import Int64s, difference, union
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, Bytes, Column, Count, Flag, Id, Ns, Schema, Share, Text

COLLECTIVES: Final = Schema(
    "collectives",
    "all communication kernels of one collective, message and group on one device",
    {
        "device_id": Id("CUDA device ordinal; null where unknown."),
        "collective": Text(
            "AllReduce, SendRecv, ...; the framework's word where it tells one, else the kernel's "
            "name where that tells none."
        ),
        "data_type": Text("Type of the elements, where name or framework tell it."),
        "message_bytes": Bytes(
            "The larger of message in and out on this rank; null where not told."
        ),
        "group_size": Count("Ranks that take part; null where not told."),
        "process_group": Text("The framework's name of the group."),
        "calls": Count("How often.", required=True),
        "total_ns": Ns("Sum of durations, waiting for the slowest rank included.", required=True),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "exposed_ns": Ns("One of them runs, and no compute kernel.", required=True),
        "algorithm_bytes_per_s": Column(FLOAT, "B/s", "calls * message_bytes / total_ns."),
        "bus_bytes_per_s": Column(
            FLOAT,
            "B/s",
            "What each rank's link carries at least: the former * 2 (n - 1) / n for an all-reduce "
            "of n ranks, * (n - 1) / n for gather, scatter and all-to-all, * 1 for all else.",
        ),
        "peak_bytes_per_s": Column(
            INT,
            "B/s",
            "What all NVLinks of the device carry in one direction, else its PCIe; null where "
            "neither links nor the device's name tell. Between machines it is less.",
        ),
        "peak_share": Share("bus_bytes_per_s / peak_bytes_per_s."),
    },
)


_ALIKE: Final = ("device_id", *Collective._fields)
_SUMS: Final = ("calls", "total_ns", "exposed_ns")


# Those of several recordings of one process are added up.
@per_file(
    COLLECTIVES,
    lambda table: _table(summed(table, _ALIKE, _SUMS, most=("peak_bytes_per_s",)).to_pylist()),
    needs=("kernels",),
)
def collectives(profile: Profile) -> pa.Table:
    """Sum up the communication kernels by collective, message and group.

    PyTorch's traces tell messages and groups; kernels' names tell the collective alone. A
    kernel's time includes waiting for the slowest rank, so that both bandwidths are at least
    what is given.

    Args:
        profile: Needs ``kernels``; ``collectives`` tell messages and groups.

    Returns:
        One row per device, collective, message and group, the longest exposed first, columns
        as in `COLLECTIVES`; no rows where no communication kernel ran.
    """
    kernels = communication_kernels(profile)
    lines, rows = timelines(profile.unrestricted), []
    links = {line.number: link_of_collectives(profile, line.device_id) for line in lines}
    peaks = {number: None if link is None else link.bytes_per_s for number, link in links.items()}
    for kind, group in enumerate(kernels.collectives):
        of_kind = np.flatnonzero(kernels.kind == kind)
        for line in lines:
            here = of_kind[kernels.device[of_kind] == line.number]
            start, end = kernels.start_ns[here], kernels.end_ns[here]
            if len(here):
                rows.append(
                    {
                        "device_id": line.device_id,
                        **group._asdict(),
                        "calls": len(here),
                        "total_ns": int((end - start).sum()),
                        "exposed_ns": difference(union(start, end), line.busy[COMPUTE]).length,
                        "peak_bytes_per_s": peaks[line.number],
                    }
                )
    return _table(rows)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with their means and rates, the longest exposed first."""
    rows.sort(key=lambda row: (-row["exposed_ns"], -row["total_ns"], row["device_id"] or 0))
    for row in rows:
        group = Collective(*(row[name] for name in Collective._fields))
        row["mean_ns"] = row["total_ns"] / row["calls"]
        row.update(bandwidths(group, row["calls"], row["total_ns"]))
        if row["peak_bytes_per_s"] and row.get("bus_bytes_per_s") is not None:
            row["peak_share"] = row["bus_bytes_per_s"] / row["peak_bytes_per_s"]
    return COLLECTIVES.table(rows)


ANALYSIS: Final = collectives.analysis(
    "Collectives",
    reads(
        TIMELINE_READS,
        COMMUNICATION_READS,
        links="device_id peer_device_id link bytes_per_s",
        devices="device_id name compute_capability",
    ),
)


COLLECTIVE_WAITS: Final = Schema(
    "collective_waits",
    "all calls of one collective, message and group on one stream of one device",
    {
        "device_id": CALLS.columns["device_id"],
        "rank": Count("Rank that uses the device, where known."),
        "stream_id": CALLS.columns["stream_id"],
        **{name: CALLS.columns[name] for name in ("collective", "data_type", "message_bytes")},
        "group_size": Count("Ranks that take part; null where not told."),
        "process_group": Text("The framework's name of the group."),
        "basis": Text(
            "How the parts are known. ranks: calls are matched over the devices of the recording;"
            " the shortest kernel of each is the transfer, what others last longer is waiting for"
            " the last. spread: one rank is known; what a call lasts longer than the shortest tenth"
            " of those of its message (of its place in the step, where durations repeat) can be"
            " waiting. clocks: not known, as the clocks of devices disagree. none: not known, as"
            " there are too few calls.",
            required=True,
        ),
        "ranks": Count("Devices whose kernels were matched; null for one alone."),
        "calls": Count("How often.", required=True),
        "first_call_ns": Ns(
            "First call, if it is set-up and so no part of what follows; else null."
        ),
        "transfer_ns": Ns("Time that moving data took; of spread at least. Null where not known."),
        "waiting_ns": Ns(
            "Waiting for the last rank; of spread at most, of ranks at least, where some of them"
            " have no recording. Null where not known."
        ),
        "unknown_ns": Ns(
            "Time of calls whose transfer and waiting are not known: data moved, or it waited for"
            " ranks without a recording."
        ),
        "exposed_transfer_ns": Ns("Transfer while no compute kernel runs."),
        "exposed_waiting_ns": Ns("Waiting while no compute kernel runs."),
        "median_lag_ns": Ns(
            "How much later than the first rank it came, in the median over calls."
        ),
        "last_share": Share("Share of the calls in which it was the last rank."),
        "kept_by": Text(
            "What kept it before the calls in which it was the last; null if not known."
        ),
        "is_same_stream": Flag(
            "Whether its stream also runs compute kernels, which then cannot hide it."
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
    record, part = collective_record(profile), profile.selection
    kernels = record.parts.kernels
    chosen = np.argsort(kernels.start_ns, kind="stable")
    if part.device_id is not None:
        chosen = chosen[kernels.device[chosen] == part.device_id]
    chosen = chosen[part.holds(kernels.start_ns[chosen])]
    columns = (column[chosen] for column in (kernels.device, kernels.stream, kernels.kind))
    rows = [_row(record, chosen[alike]) for alike in groups(*columns)]
    rows.sort(
        key=lambda row: (
            -row.get("waiting_ns", 0),
            -row.get("transfer_ns", 0),
            UNKNOWN if row["device_id"] is None else row["device_id"],
        )
    )
    return COLLECTIVE_WAITS.table(rows)


def _row(record: CollectiveRecord, rows: Int64s) -> dict[str, Any]:
    parts, kernels = record.parts, record.parts.kernels
    collective = kernels.collectives[kernels.kind[rows[0]]]
    device, stream = int(kernels.device[rows[0]]), int(kernels.stream[rows[0]])
    took, basis = (kernels.end_ns - kernels.start_ns)[rows], parts.basis[rows]
    is_split, is_setup = (basis == RANKS) | (basis == SPREAD), basis == SETUP
    is_whole = parts.is_complete[rows] | (basis == SPREAD)
    bases = [BASES[way] for way in (RANKS, SPREAD) if (basis == way).any()]
    is_doubted = any(device in pair[:2] for pair in parts.clocks)
    row: dict[str, Any] = {
        "device_id": if_known(device),
        "rank": record.names.ranks.get(device),
        "stream_id": if_known(stream),
        **collective._asdict(),
        "basis": [*bases, "clocks" if is_doubted else BASES[NONE]][0],
        "calls": len(rows),
        "first_call_ns": int(took[is_setup].sum()) if is_setup.any() else None,
        "unknown_ns": int((took - parts.waiting_ns[rows])[~is_whole & ~is_setup].sum()),
        "is_same_stream": None if stream == UNKNOWN else bool(parts.is_same_stream[rows[0]]),
    }
    if is_split.any():
        waiting_ns = int(parts.waiting_ns[rows[is_split]].sum())
        _, hidden_ns = record.hidden(rows[is_split], device)
        row |= {"waiting_ns": waiting_ns, "exposed_waiting_ns": waiting_ns - hidden_ns}
    if is_whole.any():
        transfer_ns = int(parts.transfer_ns[rows[is_whole]].sum())
        hidden_ns, _ = record.hidden(rows[is_whole], device)
        row |= {"transfer_ns": transfer_ns, "exposed_transfer_ns": transfer_ns - hidden_ns}
        rates = bandwidths(collective, int(is_whole.sum()), transfer_ns)
        row |= {name: rate for name, rate in rates.items() if name in COLLECTIVE_WAITS.columns}
    matched = rows[basis == RANKS]
    return row | (_lateness(record, matched, device) if len(matched) else {})


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
    name, times = delay.kernel.split("(")[0].split("<")[0], say_ratio(delay.ratio or 0)
    many = "takes {} times as long" if delay.cause == KERNELS else "runs {} times as often"
    return (
        f"{delay.cause}: {longer} more, {name} {many.format(times)} as on the median of the others"
    )


WAITS_ANALYSIS: Final = Analysis(
    "Transfer and waiting in collectives",
    COLLECTIVE_WAITS,
    ("kernels",),
    collective_waits,
    LAST_READS,
    of_files=CALLS_OF_FILES,
    accuracy="Of a kernel of a job that compute hides in part, exposed transfer and waiting are"
    f" shared out by their lengths; {FIRST_CALLS}.",
)
