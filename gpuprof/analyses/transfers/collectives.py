"""Collectives of NCCL and its kin, which move data in kernels and leave no copy.

Source of the two bandwidths: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.by_number import names_by_number
from gpuprof.analyses.facts.launches import columns_of, read_columns
from gpuprof.analyses.facts.timeline import COMPUTE, TIMELINE_READS, timelines
from gpuprof.cuda import COMMUNICATION_PATTERN
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import Int64s, difference, union
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.units import NS_PER_S

COLLECTIVES: Final = Schema(
    "collectives",
    "all communication kernels of one collective, message and group on one device",
    {
        "device_id": Column(INT, "", "CUDA device ordinal; null where unknown."),
        "collective": Column(
            TEXT,
            "",
            "AllReduce, SendRecv, ...; the framework's word where it tells one, else the kernel's "
            "name where that tells none.",
        ),
        "data_type": Column(TEXT, "", "Type of the elements, where name or framework tell it."),
        "message_bytes": Column(
            INT, "B", "The larger of message in and out on this rank; null where not told."
        ),
        "group_size": Column(INT, "1", "Ranks that take part; null where not told."),
        "process_group": Column(TEXT, "", "The framework's name of the group."),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(
            INT, "ns", "Sum of durations, waiting for the slowest rank included.", required=True
        ),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "exposed_ns": Column(INT, "ns", "One of them runs, and no compute kernel.", required=True),
        "algorithm_bytes_per_s": Column(FLOAT, "B/s", "calls * message_bytes / total_ns."),
        "bus_bytes_per_s": Column(
            FLOAT,
            "B/s",
            "What each rank's link carries at least: the former * 2 (n - 1) / n for an all-reduce "
            "of n ranks, * (n - 1) / n for gather, scatter and all-to-all, * 1 for all else.",
        ),
    },
)

# ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclKernel_AllReduce_RING_LL_Sum_float and
# ncclAllReduceRingLLKernel_sum_f32: three generations of names.
_COLLECTIVE: Final = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAll|Reduce|Send|Recv)",
    re.IGNORECASE,
)
_TYPE: Final = re.compile(
    r"(?:_|<)(u?int(?:8|32|64)_t|[ui](?:8|32|64)|[bf]*f(?:16|32|64)|float|half|double|__nv_bfloat16"
    r"|bfloat16|fp8\w*)(?:_|\(|>|$)"
)


def collective_of(kernel_name: str) -> tuple[str, str | None]:
    """The collective and the type of its elements that a communication kernel's name tells."""
    found = _COLLECTIVE.search(kernel_name)
    kind = _TYPE.search(kernel_name)
    return found[1] if found else kernel_name, kind[1] if kind else None


class _Group(NamedTuple):
    """What tells one row from another on a device."""

    collective: str
    data_type: str | None
    message_bytes: int | None = None
    group_size: int | None = None
    process_group: str | None = None


# The framework's word by its letters -> how often each byte of a message crosses a rank's link
# in a group of n, by (n - 1) / n; 0 stands for once, whatever n is. First match counts.
_BUS_FACTORS: Final = {
    "allreduce": 2,
    "allgather": 1,
    "reducescatter": 1,
    "alltoall": 1,
    "broadcast": 0,
    "reduce": 0,
    "send": 0,
    "recv": 0,
}
_UNTOLD: Final = -1
_NO_KIND: Final = -1
_KERNELS: Final = f"""
    SELECT k.start_ns, k.end_ns, coalesce(k.device_id, {UNKNOWN})::SMALLINT AS device,
        k.kind::INTEGER AS kind, {{message}} AS message
    FROM (SELECT start_ns, end_ns, device_id, process_id, CASE name {{cases}} END AS kind
        FROM kernels WHERE is_communication) k {{join}}"""
# Sizes of one collective and group, numbered alike in both queries.
_SAME_MESSAGE: Final = "collective, data_type, message_bytes, group_size, process_group"
_MESSAGES: Final = f"""
    SELECT *, dense_rank() OVER (ORDER BY {_SAME_MESSAGE}) - 1 AS message FROM (
        SELECT start_ns, end_ns, device_id, process_id, collective, data_type, group_size,
            process_group, greatest(bytes_in, bytes_out) AS message_bytes
        FROM whole.collectives)"""
_JOIN: Final = f"""
    LEFT JOIN (SELECT DISTINCT ON (start_ns, end_ns, device_id, process_id) * FROM ({_MESSAGES})) m
    ON m.start_ns = k.start_ns AND m.end_ns = k.end_ns
        AND m.device_id IS NOT DISTINCT FROM k.device_id
        AND m.process_id IS NOT DISTINCT FROM k.process_id"""


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
    names = f"SELECT DISTINCT name FROM {profile.names('kernels')}"
    found = profile.query(
        f"{names} WHERE regexp_matches(name, '{COMMUNICATION_PATTERN}', 'i')"
        # Among all names of a file are environments: words with zero bytes, which SQL has none of.
        " AND NOT contains(name, chr(0)) ORDER BY name"
    )
    kernels = found.column(0).to_pylist()
    if not kernels:
        return COLLECTIVES.empty()
    rows = [
        row for group, times in _grouped(profile, kernels) for row in _rows(profile, group, times)
    ]
    rows.sort(key=lambda row: (-row["exposed_ns"], -row["total_ns"], row["device_id"] or 0))
    return COLLECTIVES.table(rows)


def _grouped(profile: Profile, kernels: list[str]) -> list[tuple[_Group, list[Int64s]]]:
    """Start, end and device of the kernels of each group."""
    kinds = [_Group(*collective_of(name)) for name in kernels]
    number = {kind: index for index, kind in enumerate(sorted(set(kinds), key=str))}
    kind_of = {name: number[kind] for name, kind in zip(kernels, kinds, strict=True)}
    is_told = profile.whole.has("collectives")
    if is_told or not profile.numbers("kernels"):
        *times, kind, message = read_columns(profile, _sql(kind_of, is_told=is_told), 5)
    else:
        *times, kind = columns_of(_of_kinds(profile, kind_of), 4)
        message = np.full(len(kind), _UNTOLD)
    messages = (
        profile.query(f"SELECT DISTINCT message, {_SAME_MESSAGE} FROM ({_MESSAGES})").to_pylist()
        if is_told
        else []
    )
    told = {row.pop("message"): _Group(**row) for row in messages}
    ordered = list(number)
    pairs, member = np.unique(np.stack([kind, message]), axis=1, return_inverse=True)
    return [
        (
            _described(ordered[of_name], told.get(of_message)),
            [column[member == index] for column in times],
        )
        for index, (of_name, of_message) in enumerate(pairs.T.tolist())
    ]


def _sql(kind_of: Mapping[str, int], *, is_told: bool) -> str:
    """SQL: start, end, device, kind and message of the kernels of each name."""
    cases = " ".join(
        f"WHEN '{name.replace(chr(39), chr(39) * 2)}' THEN {kind}" for name, kind in kind_of.items()
    )
    message = f"coalesce(m.message, {_UNTOLD})" if is_told else _UNTOLD
    return _KERNELS.format(cases=cases, message=message, join=_JOIN if is_told else "")


def _of_kinds(profile: Profile, kind_of: Mapping[str, int]) -> Iterator[list[Any]]:
    """Start, end, device and kind of the kernels of each name, in pieces."""
    kinds = names_by_number(profile, "kernels").values(lambda n: kind_of.get(n, _NO_KIND), _NO_KIND)
    for *part, name_id in profile.integers("kernels", "start_ns", "end_ns", "device_id", "name_id"):
        kind = kinds.of(name_id)
        rows = np.flatnonzero(kind != _NO_KIND)
        yield [column[rows] for column in (*part, kind)]


def _described(by_name: _Group, told: _Group | None) -> _Group:
    """What the framework says, and the kernel's name where it is silent."""
    if told is None:
        return by_name
    return told._replace(data_type=told.data_type or by_name.data_type)


def _rows(profile: Profile, group: _Group, times: list[Int64s]) -> list[dict[str, Any]]:
    start, end, device = times
    rows = []
    for one in timelines(profile.whole):
        here = device == (UNKNOWN if one.device_id is None else one.device_id)
        if here.any():
            running = union(start[here], end[here])
            calls, total = int(here.sum()), int((end - start)[here].sum())
            rows.append(
                {
                    "device_id": one.device_id,
                    **group._asdict(),
                    "calls": calls,
                    "total_ns": total,
                    "mean_ns": total / calls,
                    "exposed_ns": difference(running, one.busy[COMPUTE]).length,
                    **_bandwidths(group, calls, total),
                }
            )
    return rows


def _bandwidths(group: _Group, calls: int, total_ns: int) -> dict[str, float]:
    if group.message_bytes is None or not total_ns:
        return {}
    algorithm = calls * group.message_bytes * NS_PER_S / total_ns
    factor = bus_factor(group.collective, group.group_size)
    return {"algorithm_bytes_per_s": algorithm} | (
        {} if factor is None else {"bus_bytes_per_s": algorithm * factor}
    )


def bus_factor(collective: str, group_size: int | None) -> float | None:
    """Bus bandwidth by algorithm bandwidth; None for an unknown collective or group."""
    letters = re.sub("[^a-z]", "", collective.lower())
    ways = next((ways for word, ways in _BUS_FACTORS.items() if word in letters), None)
    if ways == 0:
        return 1.0
    return None if ways is None or not group_size else ways * (group_size - 1) / group_size


ANALYSIS: Final = Analysis(
    "Collectives",
    COLLECTIVES,
    ("kernels",),
    collectives,
    reads(TIMELINE_READS, kernels="name name_id process_id"),
)
