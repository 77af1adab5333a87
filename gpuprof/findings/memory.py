"""What the kind of memory costs: pageable memory of asynchronous copies, and managed memory."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from gpuprof.analyses.transfers import TRANSFER_READS, transfers
from gpuprof.base.units import counted, format_bytes, listed, say_ns
from gpuprof.facts.copies import (
    COPY_READS,
    PATHS,
    UVM,
    Route,
    copy_rows,
    running_on,
    transfer_rows,
    transfer_times,
)
from gpuprof.facts.numbers import columns_of
from gpuprof.facts.timeline import TRANSFER, busy_by_device
from gpuprof.findings.contract import Finding, Scope
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import NOTHING, Int64s, Intervals, intersection, together
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words

READS: Final = reads(TRANSFER_READS, COPY_READS, page_faults="start_ns processor device_id faults")
# What a processor does between two faults takes less; longer pauses have other reasons.
_LONG_NS: Final = 1_000_000
# A driver handles a batch of faults of a GPU in less; the kernel that faults waits for it.
_BATCH_NS: Final = 200_000


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits a step for copies of pageable memory, and for pages that migrate."""
    yield from _pageable(scope)
    yield from _unified(scope)


def _pageable(scope: Scope) -> Iterator[Finding]:
    """Copies that were meant to run beside other work and cannot."""
    for kind, by_device in scope.profile.unrestricted.once(_pageable_copies).items():
        running = by_device.get(scope.device.device_id, NOTHING)
        cost_ns = scope.per_step(intersection(running, scope.device.exposed[TRANSFER]))
        if cost_ns:
            yield Finding(
                "pageable_memory",
                scope,
                f"waits for asynchronous {kind} copies of pageable memory, which make the host"
                " wait, too",
                cost_ns,
                cost_ns,
                "pinned memory",
                "pin the memory (cudaHostAlloc, pin_memory=True)",
                "transfers",
                kind,
                (kind,),
            )


def _pageable_copies(profile: Profile) -> Mapping[str, Mapping[int | None, Intervals]]:
    """By memcpy kind and device, when asynchronous copies of pageable memory run."""
    if not profile.has("memcpys"):
        return {}
    rows = [r for r in profile.once(transfers).to_pylist() if r["pageable_async_calls"]]
    kinds = sorted({row["memcpy_kind"] for row in rows})
    return {
        kind: _busy_with(profile, [row for row in rows if row["memcpy_kind"] == kind])
        for kind in kinds
    }


def _busy_with(profile: Profile, rows: list[dict[str, Any]]) -> Mapping[int | None, Intervals]:
    """By device, when at least one of the copies of some rows of `transfers` runs."""
    copies = transfer_rows(profile)
    is_meant = np.zeros(len(copies.kind), bool)
    for row in rows:
        pairs = (
            (copies.kind, copies.kinds.index(row["memcpy_kind"])),
            (copies.path, PATHS.index(row["path"])),
            (copies.src_memory, copies.src_memories.index(row["src_memory_kind"])),
            (copies.dst_memory, copies.dst_memories.index(row["dst_memory_kind"])),
        )
        is_meant |= np.logical_and.reduce([column == number for column, number in pairs])
    device = copies.device[is_meant]
    kind = np.zeros(len(device), np.int8)
    part = (copies.start_ns[is_meant], copies.end_ns[is_meant], device, kind)
    return {
        device: busy.kinds.get(0, NOTHING) for device, busy in busy_by_device([part], 1).items()
    }


def _unified(scope: Scope) -> Iterator[Finding]:
    """Pages of managed memory that migrate: kernels that touch them wait, busy as they look."""
    device = scope.device.device_id
    routes = {
        route: intersection(running_on(times, device, route), scope.device.span)
        for route, times in transfer_times(scope.profile.unrestricted).items()
        if route.path == "uvm" and device is not None and device in {route.src, route.dst}
    }
    pauses, migrating = migration_pauses(scope), together([*routes.values()])
    faulting = _faulting(scope, migrating)
    cost_ns = scope.per_step(together([migrating, pauses, faulting])) if routes else 0
    if cost_ns:
        parts = {"pauses of {}": pauses, "{} of kernels that fault": faulting}
        costs = {text: scope.per_step(part) for text, part in parts.items()}
        between = listed([text.format(say_ns(ns)) for text, ns in costs.items() if ns])
        beside = f", with {between} between them" if between else ""
        most = max(routes, key=lambda route: scope.per_step(routes[route]))
        yield Finding(
            "unified_memory",
            scope,
            f"has {_migrated(scope)} migrate, most {_way(most)}{_faults(scope)}{beside}",
            cost_ns,
            cost_ns,
            "prefetching",
            "move pages ahead (cudaMemPrefetchAsync), let both sides read them"
            " (cudaMemAdviseSetReadMostly), or copy explicitly",
            "transfers",
            _way(most),
        )


def migration_pauses(scope: Scope) -> Intervals:
    """When the device idles before pages migrate: a processor touches one page after another.

    Where copies of pages run beside kernels, kernels wait for them as they look busy.
    """
    recorded = scope.profile.unrestricted
    if not any(route.path == "uvm" for route in transfer_times(recorded)):
        return NOTHING
    start_ns = recorded.once(_migrations)[0]
    idle = scope.device.idle
    is_before = np.isin(idle.end, start_ns) & (idle.end - idle.start < _LONG_NS)
    return Intervals(idle.start[is_before], idle.end[is_before])


def _faulting(scope: Scope, migrating: Intervals) -> Intervals:
    """When a kernel has faulted, and the next pages that it waits for do not migrate yet."""
    start, end = migrating.end[:-1], migrating.start[1:]
    kernels = scope.device.kernels if len(start) else NOTHING
    kernel = np.searchsorted(kernels.start, start, side="right") - 1
    is_within = (kernel >= 0) & (end - start < _BATCH_NS)
    is_within[is_within] &= kernels.end[kernel[is_within]] >= end[is_within]
    return Intervals(start[is_within], end[is_within])


def _migrated(scope: Scope) -> str:
    """How much a step migrates to and from the device, as far as known."""
    start_ns, size, src, dst = scope.profile.unrestricted.once(_migrations)
    is_here = (src == scope.device.device_id) | (dst == scope.device.device_id)
    if (size[is_here] < 0).any():
        return "pages of managed memory"
    amount = _mean_of_step(scope, start_ns[is_here], size[is_here])
    return f"{format_bytes(amount)} of managed memory{' a step' if scope.has_steps else ''}"


def _migrations(profile: Profile) -> list[Int64s]:
    """Start, bytes (`UNKNOWN` where so), source and destination of each migration."""
    copies = copy_rows(profile)
    is_migration = copies.path == UVM
    columns = (copies.start_ns, copies.bytes, copies.src, copies.dst)
    return [column[is_migration].astype(np.int64) for column in columns]


def _faults(scope: Scope) -> str:
    """How many faults of the device's brought this about; empty where none were recorded."""
    device_id, start_ns, faults = scope.profile.unrestricted.once(_page_faults)
    is_here = device_id == scope.device.device_id
    count = round(_mean_of_step(scope, start_ns[is_here], faults[is_here]))
    if not count or (faults[is_here] < 0).any():
        return ""
    return f", with {counted(count, 'GPU page fault', 'GPU page faults')}"


def _page_faults(profile: Profile) -> list[Int64s]:
    """Device, start and number (below 0 where unknown) of each record of a GPU's page faults."""
    if not profile.has("page_faults"):
        return columns_of((), 3)
    processors = Words()
    columns = ("device_id", "start_ns", "faults", "processor")
    texts = {"processor": processors}
    parts = profile.stored_columns("page_faults", *columns, texts=texts) or ()
    *faults, processor = columns_of(([v.filled for v in part] for part in parts), len(columns))
    return [column[processor == processors.place("gpu")] for column in faults]


def _mean_of_step(scope: Scope, start_ns: Int64s, amount: Int64s) -> float:
    """What a step of a scope takes, on average, of amounts that come at some times."""
    step = np.searchsorted(scope.start_ns, start_ns, side="right") - 1
    is_in = (step >= 0) & (start_ns < scope.end_ns[step])
    return float(amount[is_in].sum() / len(scope.start_ns))


def _way(route: Route) -> str:
    if route.src == HOST:
        return "from the host"
    return "to the host" if route.dst == HOST else "between devices"
