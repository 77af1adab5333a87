"""Transfers by kind, memory kind, direction and path: how many, how long, how fast."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.statistics import quantiles
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.copies import COPY_READS, DIRECTIONS, PATHS, Copies, sums_of, transfer_rows
from gpuprof.facts.histograms import ROUNDING, distribution
from gpuprof.facts.numbers import NOT_FOUND, groups, rows_named
from gpuprof.model.analysis import Analysis, per_file, reads, summed
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import pair_places, sorted_pairs
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Ns, Schema, Text

TRANSFERS: Final = Schema(
    "transfers",
    "all transfers of one kind, between two kinds of memory, by one path",
    {
        "memcpy_kind": Text(
            "HtoD, DtoH, PtoP (including staged ones), UVM_HtoD, ...", required=True
        ),
        "direction": Text("host to device, device to host or device to device.", required=True),
        "path": Text("direct, staged through the host, or uvm.", required=True),
        "src_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "dst_memory_kind": Text("pageable, pinned, device, managed, ..."),
        "calls": Count("How often; a staged copy counts once.", required=True),
        "total_ns": Ns("Sum of durations; of staged copies, both halves."),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "median_ns": Column(FLOAT, "ns", "Median duration."),
        "p95_ns": Column(FLOAT, "ns", "95 % took no longer (interpolated)."),
        "max_ns": Ns("Longest."),
        "bytes": Bytes("Bytes moved; null where unknown of one."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns; null where either is unknown or 0."),
        "pageable_async_calls": Count(
            "Of pageable memory by an ...Async call, which waits for them all the same; null "
            "where no API calls were recorded."
        ),
    },
)

TRANSFER_READS: Final = reads(COPY_READS, api_calls="process_id correlation_id name_id")
_PAGEABLE: Final = "pageable"
_ASYNC: Final = "Async"


def transfers(profile: Profile) -> pa.Table:
    """Sum up the transfers, the costliest kind first.

    A transfer moves data between the memories of two devices, the host being one; copies
    within one device are not among them. Rates are of all bytes over all time, which is not
    the mean of rates.

    Args:
        profile: Needs ``memcpys``; ``api_calls`` tell the asynchronous calls.

    Returns:
        One row per kind, memory kinds and path, columns as in `TRANSFERS`; no rows where
        nothing was transferred.
    """
    rows = profile.once(transfer_sums).to_pylist()
    if profile.job is None:
        by_words = {
            words: quantiles(durations, *_QUANTILES) for words, durations in _durations(profile)
        }
    else:
        by_words = {
            words: [*map(histogram.quantile, _QUANTILES)]
            for words, (_, histogram) in TRANSFER_DURATIONS.of(profile).items()
        }
    for row in rows:
        calls, total_ns, size = (row[name] for name in _SUMS)
        row["mean_ns"] = total_ns / calls if calls else None
        row["median_ns"], row["p95_ns"] = by_words[tuple(row[key] for key in _KEYS)]
        row["bytes_per_s"] = size * NS_PER_S / total_ns if size is not None and total_ns else None

    def cost(row: Mapping[str, Any]) -> tuple[object, ...]:
        # Unknown words come last.
        return -row["total_ns"], *((row[name] is None, row[name] or "") for name in _ORDER)

    return TRANSFERS.table(sorted(rows, key=cost))


def _by_kind(profile: Profile) -> list[tuple[tuple[str | None, ...], Int64s]]:
    """What `_KEYS` are for the transfers of each kind, and their indices."""
    copies = transfer_rows(profile)
    columns = (
        (copies.kind, copies.kinds),
        (copies.direction, DIRECTIONS),
        (copies.path, PATHS),
        (copies.src_memory, copies.src_memories),
        (copies.dst_memory, copies.dst_memories),
    )
    return [
        (tuple(of[numbers[alike[0]]] for numbers, of in columns), alike)
        for alike in groups(*(numbers for numbers, _ in columns))
    ]


def _is_async(profile: Profile, copies: Copies) -> npt.NDArray[np.bool_]:
    """Whether each copy is of pageable memory, by a call that says that it does not wait."""
    is_async = np.zeros(len(copies.kind), bool)
    memory = (
        (copies.src_memory, copies.src_memories),
        (copies.dst_memory, copies.dst_memories),
    )
    for column, of in memory:
        is_async |= np.array([word == _PAGEABLE for word in of])[column]
    is_async &= copies.correlation != UNKNOWN
    rows = np.flatnonzero(is_async)
    if not len(rows):  # millions of calls need not be read
        return is_async
    process, correlation = copies.process[rows], copies.correlation[rows]
    pairs = sorted_pairs(process, correlation)
    is_called = np.zeros(pairs.shape[1] + 1, bool)
    names = [name for name in profile.loaded("api_calls").names.texts if _ASYNC in name]
    for *of_calls, _ in rows_named(profile, "api_calls", names, "process_id", "correlation_id"):
        is_called[pair_places(pairs, *of_calls)] = True
    is_called[NOT_FOUND] = False
    is_async[rows] = is_called[pair_places(pairs, process, correlation)]
    return is_async


def _durations(profile: Profile) -> Iterator[tuple[tuple[str | None, ...], Int64s]]:
    return ((words, transfer_rows(profile).duration_ns[of]) for words, of in profile.once(_by_kind))


_KEYS: Final = ("memcpy_kind", "direction", "path", "src_memory_kind", "dst_memory_kind")
_ORDER: Final = ("memcpy_kind", "src_memory_kind", "dst_memory_kind", "path", "direction")
_SUMS: Final = ("calls", "total_ns", "bytes")
_QUANTILES: Final = (0.5, 0.95)
_ASYNC_CALLS: Final = "pageable_async_calls"
_SUMS_SCHEMA: Final = Schema(
    "transfer_sums",
    TRANSFERS.row,
    {name: TRANSFERS.columns[name] for name in (*_KEYS, *_SUMS, "max_ns", _ASYNC_CALLS)},
)
TRANSFER_DURATIONS: Final = distribution(
    "transfer_durations", {name: TRANSFERS.columns[name] for name in _KEYS}, _durations
)


def _added(table: pa.Table) -> pa.Table:
    # Files without API calls say nothing of them; of the others the calls add up.
    with_async_calls = summed(table.filter(table[_ASYNC_CALLS].is_valid()), _KEYS, [_ASYNC_CALLS])
    calls = {
        tuple(row[key] for key in _KEYS): row[_ASYNC_CALLS] for row in with_async_calls.to_pylist()
    }
    rows = summed(table, _KEYS, _SUMS, most=["max_ns"]).to_pylist()
    return _SUMS_SCHEMA.table(
        [row | {_ASYNC_CALLS: calls.get(tuple(row[key] for key in _KEYS))} for row in rows]
    )


@per_file(_SUMS_SCHEMA, _added, needs=("memcpys",))
def transfer_sums(profile: Profile) -> pa.Table:
    """What the transfers of each kind add up to."""
    copies = transfer_rows(profile)
    is_async = _is_async(profile, copies) if profile.has("api_calls") else None
    rows: list[dict[str, Any]] = [
        dict[str, Any](zip(_KEYS, words, strict=True))
        | sums_of(copies, alike)
        | {
            "max_ns": int(copies.duration_ns[alike].max()),
            _ASYNC_CALLS: None if is_async is None else int(is_async[alike].sum()),
        }
        for words, alike in profile.once(_by_kind)
    ]
    return _SUMS_SCHEMA.table(rows)


ANALYSIS: Final = Analysis(
    "Transfers by kind",
    TRANSFERS,
    ("memcpys",),
    transfers,
    TRANSFER_READS,
    of_files=(transfer_sums, *TRANSFER_DURATIONS),
    accuracy=f"Of several files, median_ns and p95_ns {ROUNDING}.",
)
