"""What the kind of memory costs: pageable memory of asynchronous copies, and managed memory."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuprof.analyses.contract import reads
from gpuprof.analyses.facts.busy import busy_by_device
from gpuprof.analyses.facts.copies import COPY_READS, Route, transfer_times
from gpuprof.analyses.facts.timeline import TRANSFER
from gpuprof.analyses.findings.contract import Finding, Scope
from gpuprof.analyses.transfers.peer_matrix import running_on
from gpuprof.analyses.transfers.transfers import TRANSFER_READS, transfers
from gpuprof.engine import literal
from gpuprof.facts import HOST, UNKNOWN
from gpuprof.intervals import NOTHING, Intervals, intersection, together
from gpuprof.profile import Profile

READS: Final = reads(TRANSFER_READS, COPY_READS)
_ALIKE: Final = ("memcpy_kind", "path", "src_memory_kind", "dst_memory_kind")


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits a step for copies of pageable memory, and for pages that migrate."""
    yield from _pageable(scope)
    yield from _unified(scope)


def _pageable(scope: Scope) -> Iterator[Finding]:
    """Copies that were meant to run beside other work and cannot."""
    for kind, by_device in scope.profile.whole.once(_pageable_copies).items():
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
    alike = " OR ".join(
        " AND ".join(
            f"{name} IS NOT DISTINCT FROM {'NULL' if row[name] is None else literal(row[name])}"
            for name in _ALIKE
        )
        for row in rows
    )
    sql = f"SELECT start_ns, end_ns, coalesce(device_id, {UNKNOWN}), 0 FROM copies WHERE {alike}"
    by_device = busy_by_device(profile.arrays(sql), 1)
    return {device: busy.kinds.get(0, NOTHING) for device, busy in by_device.items()}


def _unified(scope: Scope) -> Iterator[Finding]:
    """Pages of managed memory that migrate: kernels that touch them wait, busy as they look."""
    device = scope.device.device_id
    routes = {
        route: intersection(running_on(times, device, route), scope.device.span)
        for route, times in transfer_times(scope.profile.whole).items()
        if route.path == "uvm" and device is not None and device in {route.src, route.dst}
    }
    cost_ns = scope.per_step(together([*routes.values()])) if routes else 0
    if cost_ns:
        most = max(routes, key=lambda route: scope.per_step(routes[route]))
        yield Finding(
            "unified_memory",
            scope,
            f"has pages of managed memory migrate, most {_way(most)}",
            cost_ns,
            cost_ns,
            "prefetching",
            "move pages ahead (cudaMemPrefetchAsync), let both sides read them"
            " (cudaMemAdviseSetReadMostly), or copy explicitly",
            "transfers",
            _way(most),
        )


def _way(route: Route) -> str:
    if route.src == HOST:
        return "from the host"
    return "to the host" if route.dst == HOST else "between devices"
