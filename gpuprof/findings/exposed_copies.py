"""What a device waits for copies and for pages that migrate, and what winning that back can win."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import numpy as np

from gpuprof.analyses.transfers import TRANSFER_READS, transfers
from gpuprof.base.units import NS_PER_S, counted, listed, say_bytes, say_ns, say_share
from gpuprof.facts.copies import (
    COPY_READS,
    PATHS,
    UVM,
    Route,
    copy_rows,
    end_name,
    transfer_rows,
    transfer_times,
    transfers_by_route,
)
from gpuprof.facts.launches import activities
from gpuprof.facts.metric_samples import METRIC_READS, mean_of
from gpuprof.facts.needless_copies import Avoidable, avoidable, not_sought
from gpuprof.facts.numbers import columns_of, read_columns
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.facts.timeline import TRANSFER, busy_by_device
from gpuprof.findings.scope import Finding, Scope, launched_in
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    covered_within,
    difference,
    intersection,
    together,
    union,
)
from gpuprof.model.profile import Profile, once_per_profile, once_per_recording
from gpuprof.model.words import Words
from gpuprof.predict.link_models import NAMES

READS: Final = reads(
    TRANSFER_READS,
    COPY_READS,
    METRIC_READS,
    links="device_id peer_device_id link",
    page_faults="start_ns end_ns processor device_id faults",
)
READS_OF_SMALL: Final = RANGE_READS

_STAGED, _WITH_HOST = "staged_copies", "exposed_host_copies"
# Cause of copies -> what the device does, and what to try.
_CAUSES: Final = {
    "exposed_peer_copies": (
        "waits for copies between devices",
        "place what works on the same data on one device, or overlap the copies with compute",
    ),
    _STAGED: (
        "waits for copies between devices through the host",
        "turn on peer access, or choose a pair of devices that has it (nvidia-smi topo -p2p r)",
    ),
    _WITH_HOST: (
        "waits for copies from and to the host",
        (
            "keep data on the device and copy less, or copy ahead on a stream of its own from"
            " pinned memory"
        ),
    ),
}
_PIN: Final = (
    "pin the host's memory (cudaHostAlloc, cudaHostRegister, pin_memory=True), from where copies"
    " run faster and beside kernels, or copy less"
)
_PEER_KINDS: Final = ("PtoP", "DtoD_peer")
# What is copied needlessly, or launched in one place, is said where it is most of the time.
_MOST: Final = 0.5
# A kind of copies that costs less of what the costliest one does is not worth a word.
_LITTLE: Final = 0.01
# A link that is used for this much of its peak has little to give, and one that is used for less
# than half could take twice as much. No recording with samples was at hand to try others on.
_FULL, _HALF_FULL = 0.8, 0.5
# Copies of fewer bytes take a time that says little of the speed of memory and link.
_LARGE_BYTES: Final = 1 << 20
# What a processor does between two faults takes less; longer pauses have other reasons.
_LONG_NS: Final = 1_000_000
# A driver handles a batch of faults of a GPU in less; the kernel that faults waits for it.
_BATCH_NS: Final = 200_000


def of_copies(scope: Scope) -> Iterator[Finding]:
    """What a device waits for copies in a step, by kind; copies of managed memory are not here."""
    waits: dict[str, dict[Route, Intervals]] = {}
    for route, exposed in exposed_by_route(scope).items():
        if route.path == "staged":
            waits.setdefault(_STAGED, {})[route] = exposed
        elif route.path != "uvm":
            is_with_host = HOST in {route.src, route.dst}
            cause = _WITH_HOST if is_with_host else "exposed_peer_copies"
            waits.setdefault(cause, {})[route] = exposed
    for cause, routes in waits.items():
        exposed = together([*routes.values()])
        if cost_ns := scope.per_step(exposed):
            phrase, suggestion = _CAUSES[cause]
            costs = (cost_ns, cost_ns, hiding(min(cost_ns, scope.compute_ns), scope))
            yield Finding(
                *(cause, scope, phrase, *costs, suggestion, "peer_matrix"),
                instants=exposed,
                details=cache(partial(_in_words, scope, cause, routes, cost_ns)),
            )


def exposed_by_route(scope: Scope) -> dict[Route, Intervals]:
    """When a device waits for copies, by their route."""
    device = scope.device.device_id
    return {
        route: intersection(running, scope.device.exposed[TRANSFER])
        for (route, end), running in transfer_times(scope.profile.unrestricted).items()
        if end == device is not None
    }


def _in_words(
    scope: Scope, cause: str, routes: Mapping[Route, Intervals], cost_ns: int
) -> dict[str, Any]:
    """Which copies a device waits for, what launched them, and what to do in place of them."""
    needless = _needless(scope, together([*routes.values()]), cost_ns)
    costs = {route: scope.per_step(exposed) for route, exposed in routes.items()}
    route, (phrase, suggestion) = max(costs, key=lambda route: costs[route]), _CAUSES[cause]
    ends, speed = f"{end_name(route.src)} to {end_name(route.dst)}", ""
    origin, share = _launched_in(scope, routes)
    if cause == _STAGED:
        link, reason = _direct_link(scope.profile, route)
        names: tuple[str, ...] = (link,)
        suggestion = f"{suggestion}; {reason}" if reason else suggestion
    else:
        waited = [route for route in routes if costs[route]] or [*routes]
        kinds = [
            ("HtoD",) if r.src == HOST else ("DtoH",) if r.dst == HOST else _PEER_KINDS
            for r in waited
        ]
        names = tuple(dict.fromkeys(kind for of_route in kinds for kind in of_route))
    if cause == _WITH_HOST:
        speed, pin = speed_of(scope.profile, route)
        speed += _of_link(scope, route, routes[route])
        suggestion = pin or suggestion
    if needless is not None:
        suggestion = f"{needless.suggestion} ({needless.phrase})"
    rows = transfers_by_route(scope.profile.unrestricted)
    # From a single copy nothing follows for others.
    is_single = not scope.has_steps and sum(len(rows[route]) for route in routes) == 1
    return {
        "phrase": f"{phrase} ({'most ' * (len(routes) > 1)}{ends}{speed}{share}"
        f"{', one copy' if is_single else ''})",
        "suggestion": suggestion,
        "table": "peer_matrix" if needless is None else needless.table,
        "where": f"{ends}, {origin}" if origin else ends,
        "names": names,
    }


def hiding(won_ns: int, scope: Scope) -> str:
    """By which means copies can be won back, where hiding them wins so much of a step."""
    return f"fewer bytes; hiding them behind compute wins {say_share(won_ns / scope.step_ns)}"


def speed_of(profile: Profile, route: Route) -> tuple[str, str]:
    """The speed of large copies from or to the host, with what to do where memory is pageable.

    Both are empty where nothing follows: of small copies, and where bytes are unknown.
    """
    is_from_host = route.src == HOST
    direction = "host to device" if is_from_host else "device to host"
    rows = [
        row
        for row in profile.unrestricted.once(transfers).to_pylist()
        if row["direction"] == direction and row["path"] == "direct"
    ]
    if not rows or any(row["bytes"] is None for row in rows):
        return "", ""
    size, total_ns, calls = (
        sum(row[name] for row in rows) for name in ("bytes", "total_ns", "calls")
    )
    if not total_ns or size < _LARGE_BYTES * calls:
        return "", ""
    memory = "src_memory_kind" if is_from_host else "dst_memory_kind"
    pageable_ns = sum(row["total_ns"] for row in rows if row[memory] == "pageable")
    words = f" at {say_bytes(size * NS_PER_S / total_ns)}/s"
    if pageable_ns <= _MOST * total_ns:
        return words, ""
    return f"{words} {'from' if is_from_host else 'into'} pageable memory", _PIN


def _of_link(scope: Scope, route: Route, exposed: Intervals) -> str:
    """How much of PCIe copies use in steps by nsys' samples, and what follows; empty without."""
    metric = f"PCIe {'RX' if route.src == HOST else 'TX'} Throughput"
    in_steps = intersection(exposed, union(scope.start_ns, scope.end_ns))
    share = mean_of(scope.profile, scope.device.device_id, metric, in_steps)
    if share is None:
        return ""
    follows = ", as fast as it allows" if share >= _FULL else ""
    follows = ", which could carry more" if share < _HALF_FULL else follows
    return f", {say_share(share)} of the peak of PCIe{follows}"


def _direct_link(profile: Profile, route: Route) -> tuple[str, str]:
    """The link that direct copies take, and why two devices may lack peer access, where known.

    The link is the NVLink of the machine, else the slowest one.
    """
    if not profile.unrestricted.has("links"):
        return "pcie3", ""
    rows = profile.unrestricted.table("links").to_pylist()
    links = [row for row in rows if row["peer_device_id"] is not None]
    matches = (re.match(r"NVLink (\d)", row["link"]) for row in links)
    names = (f"nvlink{match[1]}" for match in matches if match)
    name = next((name for name in names if name in NAMES), "pcie3")
    for row in links:
        if {row["device_id"], row["peer_device_id"]} == {route.src, route.dst}:
            return name, f"{row['link']} joins the two, so that peer access is only off"
    if not links:
        return name, "no link between devices was found on this machine"
    ends = f"device {links[0]['device_id']} and device {links[0]['peer_device_id']}"
    return name, f"no link joins the two, but {links[0]['link']} joins {ends}"


def _launched_in(scope: Scope, routes: Mapping[Route, Intervals]) -> tuple[str, str]:
    """The part of the program that launched most of what a device waits for, and how much of it.

    Both are empty where it is not known.
    """
    recorded = scope.profile.unrestricted
    if not_sought(scope.profile) or not recorded.has("nvtx_ranges", "api_calls"):
        return "", ""
    copies = activities(recorded).copies
    rows = np.flatnonzero(
        np.any([(copies.src == r.src) & (copies.dst == r.dst) for r in routes], axis=0)
    )
    waits = intersection(together([*routes.values()]), union(scope.start_ns, scope.end_ns))
    waited_ns = covered_within(waits, copies.start_ns[rows], copies.end_ns[rows])
    return launched_in(scope, rows, waited_ns)


def _needless(scope: Scope, exposed: Intervals, cost_ns: int) -> Avoidable | None:
    """Copies that need not be, where they are most of a wait."""
    needless = avoidable(scope.profile)
    start, end, bounds = _needless_copies(scope.profile)
    waited_ns = np.diff(np.append(0, covered_within(exposed, start, end).cumsum())[bounds])
    # Few of them take enough time to be most of a wait at all: what a step usually pays is at
    # most twice the mean.
    for place in np.flatnonzero(2 * waited_ns > _MOST * cost_ns * len(scope.start_ns)).tolist():
        if scope.per_step(intersection(needless[place].running, exposed)) > _MOST * cost_ns:
            return needless[place]
    return None


@once_per_profile
def _needless_copies(profile: Profile) -> tuple[Int64s, Int64s, Int64s]:
    """When all copies that need not be start and end, and where those of each reason begin."""
    sets = [copies.running for copies in avoidable(profile)]
    start = np.concatenate([NOTHING.start, *(copies.start for copies in sets)])
    end = np.concatenate([NOTHING.end, *(copies.end for copies in sets)])
    return start, end, np.cumsum([0, *map(len, sets)])


def of_memory(scope: Scope) -> Iterator[Finding]:
    """What a device waits a step for copies of pageable memory, and for pages that migrate."""
    waits = {
        kind: intersection(by_device[scope.device.device_id], scope.device.exposed[TRANSFER])
        for kind, by_device in _pageable_copies(scope.profile).items()
        if scope.device.device_id in by_device
    }
    costs = {kind: ns for kind, instants in waits.items() if (ns := scope.per_step(instants))}
    if costs:
        kinds = sorted(costs, key=lambda kind: -costs[kind])
        kinds = [kind for kind in kinds if costs[kind] >= _LITTLE * costs[kinds[0]]]
        waiting = together([waits[kind] for kind in kinds])
        cost_ns = scope.per_step(waiting)
        yield Finding(
            "pageable_memory",
            scope,
            f"waits for asynchronous {listed(kinds)} copies of pageable memory, which make the host"
            " wait, too",
            cost_ns,
            cost_ns,
            "pinned memory",
            "pin the memory (cudaHostAlloc, pin_memory=True)",
            "transfers",
            listed(kinds),
            tuple(kinds),
            instants=waiting,
        )
    yield from _unified(scope)


@once_per_recording
def _pageable_copies(profile: Profile) -> Mapping[str, Mapping[int | None, Intervals]]:
    """By memcpy kind and device, when copies of pageable memory run that should run beside work."""
    if not profile.has("memcpys"):
        return {}
    rows = [r for r in profile.once(transfers).to_pylist() if r["pageable_async_calls"]]
    copies = transfer_rows(profile)
    running: dict[str, Mapping[int | None, Intervals]] = {}
    for kind in sorted({row["memcpy_kind"] for row in rows}):
        is_meant = np.zeros(len(copies.kind), bool)
        for row in (row for row in rows if row["memcpy_kind"] == kind):
            is_meant |= (
                (copies.kind == copies.kinds.index(kind))
                & (copies.path == PATHS.index(row["path"]))
                & (copies.src_memory == copies.src_memories.index(row["src_memory_kind"]))
                & (copies.dst_memory == copies.dst_memories.index(row["dst_memory_kind"]))
            )
        device = copies.device[is_meant]
        alike = np.zeros(len(device), np.int8)
        part = (copies.start_ns[is_meant], copies.end_ns[is_meant], device, alike)
        busy = busy_by_device([part], 1)
        running[kind] = {device: of.kinds.get(0, NOTHING) for device, of in busy.items()}
    return running


def _unified(scope: Scope) -> Iterator[Finding]:
    """Pages of managed memory that migrate: kernels that touch them wait, busy as they look."""
    device = scope.device.device_id
    routes = {
        route: intersection(running, scope.device.span)
        for (route, end), running in transfer_times(scope.profile.unrestricted).items()
        if route.path == "uvm" and end == device is not None
    }
    if not routes:
        return
    pauses, migrating = migration_pauses(scope), together([*routes.values()])
    handled = intersection(_handled(scope), scope.device.kernels)
    faulting = together([_faulting(scope, migrating), handled])
    waits = together([migrating, pauses, faulting])
    if cost_ns := scope.per_step(waits):
        parts = {
            "pauses of {}": pauses,
            "{} of kernels that fault": difference(faulting, migrating),
        }
        costs = {text: scope.per_step(part) for text, part in parts.items()}
        between = listed([text.format(say_ns(ns)) for text, ns in costs.items() if ns])
        beside = f", with {between} between them" if between else ""
        pages, way = _migrated(scope)
        yield Finding(
            "unified_memory",
            scope,
            f"has {pages} migrate, most {way}{_faults(scope)}{beside}",
            cost_ns,
            cost_ns,
            "prefetching",
            "move pages ahead (cudaMemPrefetchAsync), let both sides read them"
            " (cudaMemAdviseSetReadMostly), or copy explicitly",
            "transfers",
            way,
            instants=waits,
        )


def migration_pauses(scope: Scope) -> Intervals:
    """When the device idles before pages migrate: a processor touches one page after another.

    Where copies of pages run beside kernels, kernels wait for them as they look busy.
    """
    recorded = scope.profile.unrestricted
    if not any(route.path == "uvm" for route in transfers_by_route(recorded)):
        return NOTHING
    start_ns = _migrations(recorded)[0]
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


def _handled(scope: Scope) -> Intervals:
    """When faults of the device are handled, for which the kernels that fault wait."""
    device_id, start_ns, end_ns, _ = _page_faults(scope.profile)
    is_here = device_id == scope.device.device_id
    return union(start_ns[is_here], end_ns[is_here])


def _migrated(scope: Scope) -> tuple[str, str]:
    """How much a step migrates to and from the device, as far as known, and which way most of it.

    Pages of unknown size count alike.
    """
    start_ns, size, src, dst = _migrations(scope.profile)
    is_here = (src == scope.device.device_id) | (dst == scope.device.device_id)
    is_known = not (size[is_here] < 0).any()
    size = size if is_known else np.ones_like(size)
    ways = {"from the host": src == HOST, "to the host": dst == HOST}
    ways["between devices"] = ~np.any([*ways.values()], axis=0)
    moved = {
        way: _mean_of_step(scope, start_ns[is_here & its], size[is_here & its])
        for way, its in ways.items()
    }
    way = max(moved, key=lambda way: moved[way])
    if not is_known:
        return "pages of managed memory", way
    amount = say_bytes(sum(moved.values()))
    return f"{amount} of managed memory{' a step' if scope.has_steps else ''}", way


@once_per_recording
def _migrations(profile: Profile) -> list[Int64s]:
    """Start, bytes (`UNKNOWN` where so), source and destination of each migration."""
    copies = copy_rows(profile)
    is_migration = copies.path == UVM
    columns = (copies.start_ns, copies.bytes, copies.src, copies.dst)
    return [column[is_migration].astype(np.int64) for column in columns]


def _faults(scope: Scope) -> str:
    """How many faults of the device's brought this about; empty where none were recorded."""
    device_id, start_ns, _, faults = _page_faults(scope.profile)
    is_here = device_id == scope.device.device_id
    count = round(_mean_of_step(scope, start_ns[is_here], faults[is_here]))
    if not count or (faults[is_here] < 0).any():
        return ""
    return f", with {counted(count, 'GPU page fault', 'GPU page faults')}"


@once_per_recording
def _page_faults(profile: Profile) -> list[Int64s]:
    """Device, start, end and number (below 0 where unknown) of each record of a GPU's faults."""
    if not profile.has("page_faults"):
        return columns_of((), 4)
    processors = Words()
    columns = ("device_id", "start_ns", "end_ns", "faults", "processor")
    texts = {"processor": processors}
    *faults, processor = read_columns(profile, "page_faults", *columns, texts=texts)
    return [column[processor == processors.place("gpu")] for column in faults]


def _mean_of_step(scope: Scope, start_ns: Int64s, amount: Int64s) -> float:
    """What a step of a scope takes, on average, of amounts that come at some times."""
    return float(amount[scope.step_of(start_ns) >= 0].sum() / len(scope.start_ns))
