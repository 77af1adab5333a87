"""What a device waits for copies from and to other memories, and what hiding these can win."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from gpuprof.analyses.transfers import TRANSFER_READS, transfers
from gpuprof.base.units import NS_PER_S, format_bytes, say_share
from gpuprof.facts.copies import Copies, Route, end_name, running_on, transfer_times
from gpuprof.facts.moves import moves, origins
from gpuprof.facts.needless_copies import Avoidable, avoidable, not_sought
from gpuprof.facts.nvtx import RANGE_READS
from gpuprof.facts.timeline import TRANSFER
from gpuprof.findings.contract import Finding, Scope
from gpuprof.model.analysis import reads
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Intervals, covered_within, intersection, together, union
from gpuprof.model.profile import Profile
from gpuprof.predict.links import NAMES

READS: Final = reads(TRANSFER_READS, links="device_id peer_device_id link")
READS_OF_SMALL: Final = RANGE_READS

_PEER, _STAGED, _WITH_HOST = "peer", "staged", "with_host"
_PEER_KINDS: Final = ("PtoP", "DtoD_peer")
# What is copied needlessly is said in place of the route where it is most of the time.
_MOST: Final = 0.5


class _Kind(NamedTuple):
    """A kind of copies: its cause, and its sentences."""

    cause: str
    phrase: str
    suggestion: str


_KINDS: Final = {
    _PEER: _Kind(
        "exposed_peer_copies",
        "waits for copies between devices",
        "place what works on the same data on one device, or overlap the copies with compute",
    ),
    _STAGED: _Kind(
        "staged_copies",
        "waits for copies between devices through the host",
        "turn on peer access, or choose a pair of devices that has it (nvidia-smi topo -p2p r)",
    ),
    _WITH_HOST: _Kind(
        "exposed_host_copies",
        "waits for copies from and to the host",
        "keep data on the device and copy less, or copy ahead on a stream of its own from pinned"
        " memory",
    ),
}
_PIN: Final = (
    "pin the host's memory (cudaHostAlloc, cudaHostRegister, pin_memory=True), from where copies"
    " run faster and beside kernels, or copy less"
)
# Copies of fewer bytes take a time that says little of the speed of memory and link.
_SLOW: Final = "pageable"
_SUMS: Final = ("bytes", "total_ns", "calls")
_LARGE_BYTES: Final = 1 << 20
_DIRECTIONS: Final = {True: ("host to device", "src"), False: ("device to host", "dst")}


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device waits for copies in a step, by kind; copies of managed memory are not here."""
    waits: dict[str, dict[Route, Intervals]] = {}
    for route, exposed in exposed_by_route(scope).items():
        if route.path != "uvm":
            waits.setdefault(_kind(route), {})[route] = exposed
    for kind, routes in waits.items():
        if finding := _of_kind(scope, _KINDS[kind], routes):
            yield finding


def exposed_by_route(scope: Scope) -> dict[Route, Intervals]:
    """When a device waits for copies, by their route."""
    device = scope.device.device_id
    return {
        route: intersection(running_on(times, device, route), scope.device.exposed[TRANSFER])
        for route, times in transfer_times(scope.profile.unrestricted).items()
        if device in {route.src, route.dst} and device is not None
    }


def _kind(route: Route) -> str:
    if route.path == "staged":
        return _STAGED
    return _WITH_HOST if HOST in {route.src, route.dst} else _PEER


def _of_kind(scope: Scope, kind: _Kind, routes: Mapping[Route, Intervals]) -> Finding | None:
    exposed = together([*routes.values()])
    cost_ns = scope.per_step(exposed)
    if not cost_ns:
        return None
    route = max(routes, key=lambda route: scope.per_step(routes[route]))
    ends = f"{end_name(route.src)} to {end_name(route.dst)}"
    origin, needless = _origin(scope, routes), _needless(scope, exposed, cost_ns)
    hidden_ns = min(cost_ns, scope.compute_ns)
    memory = memory_of(scope.profile, route) if kind is _KINDS[_WITH_HOST] else Memory("", "")
    return Finding(
        kind.cause,
        scope,
        f"{kind.phrase} ({'most ' * (len(routes) > 1)}{ends}{memory.words}"
        f"{f', in {origin}' if origin else ''}"
        f"{', one copy' if _is_single(scope, routes) else ''})",
        cost_ns,
        cost_ns,
        hiding(hidden_ns, scope),
        (memory.suggestion if needless is None else "")
        or _suggestion(scope, kind, route, needless),
        "peer_matrix" if needless is None else needless.table,
        f"{ends}, {origin}" if origin else ends,
        (_direct_link(scope.profile),) if kind is _KINDS[_STAGED] else _kinds_of(scope, routes),
    )


class Memory(NamedTuple):
    """The speed of large copies of a route and their memory, with what follows from that."""

    words: str
    suggestion: str


def memory_of(profile: Profile, route: Route) -> Memory:
    """What is known of the host's memory of a route; nothing of small copies."""
    direction, host_end = _DIRECTIONS[route.src == HOST]
    rows = [
        row
        for row in profile.unrestricted.once(transfers).to_pylist()
        if row["direction"] == direction and row["path"] == "direct"
    ]
    if not rows or any(row["bytes"] is None for row in rows):
        return Memory("", "")
    size, total_ns, calls = (sum(row[name] for row in rows) for name in _SUMS)
    if not total_ns or size < _LARGE_BYTES * calls:
        return Memory("", "")
    pageable_ns = sum(row["total_ns"] for row in rows if row[f"{host_end}_memory_kind"] == _SLOW)
    of_pageable = pageable_ns > _MOST * total_ns
    words = f" at {format_bytes(size * NS_PER_S / total_ns)}/s"
    if not of_pageable:
        return Memory(words, "")
    return Memory(f"{words} {'from' if host_end == 'src' else 'into'} pageable memory", _PIN)


def hiding(won_ns: int, scope: Scope) -> str:
    """By which means copies can be won back, where hiding them wins so much of a step."""
    return f"fewer bytes; hiding them behind compute wins {say_share(won_ns / scope.step_ns)}"


def _kinds_of(scope: Scope, routes: Mapping[Route, Intervals]) -> tuple[str, ...]:
    """The kinds of the copies of some routes that a step waits for, as labels of copies begin."""
    waited = [route for route, exposed in routes.items() if scope.per_step(exposed)]
    kinds = [
        kind
        for route in waited or routes
        for kind in (
            ("HtoD",) if route.src == HOST else ("DtoH",) if route.dst == HOST else _PEER_KINDS
        )
    ]
    return (*dict.fromkeys(kinds),)


def _direct_link(profile: Profile) -> str:
    """The link that direct copies take: the NVLink of the machine, else the slowest one."""
    links = (
        profile.unrestricted.table("links").to_pylist() if profile.unrestricted.has("links") else []
    )
    names = [
        re.match(r"NVLink (\d)", row["link"]) for row in links if row["peer_device_id"] is not None
    ]
    nvlinks = [f"nvlink{match[1]}" for match in names if match]
    return next((name for name in nvlinks if name in NAMES), "pcie3")


def _suggestion(scope: Scope, kind: _Kind, route: Route, needless: Avoidable | None) -> str:
    if needless is not None:
        return f"{needless.suggestion} ({needless.phrase})"
    reason = _why_staged(scope.profile, route) if route.path == "staged" else ""
    return f"{kind.suggestion}; {reason}" if reason else kind.suggestion


def _why_staged(profile: Profile, route: Route) -> str:
    """Why two devices may lack peer access, where the recording lists links; else nothing."""
    if not profile.unrestricted.has("links"):
        return ""
    pair = {route.src, route.dst}
    links = profile.unrestricted.table("links").to_pylist()
    linked = [row for row in links if row["peer_device_id"] is not None]
    for row in linked:
        if {row["device_id"], row["peer_device_id"]} == pair:
            return f"{row['link']} joins the two, so that peer access is only off"
    if not linked:
        return "no link between devices was found on this machine"
    row = linked[0]
    ends = f"device {row['device_id']} and device {row['peer_device_id']}"
    return f"no link joins the two, but {row['link']} joins {ends}"


def _is_single(scope: Scope, routes: Mapping[Route, Intervals]) -> bool:
    """Whether a single copy is all there is, from which nothing follows for others."""
    times = transfer_times(scope.profile.unrestricted)
    return not scope.has_steps and sum(len(times[route].start_ns) for route in routes) == 1


def _origin(scope: Scope, routes: Mapping[Route, Intervals]) -> str | None:
    """The operation or range that launched most of the time of the copies; None where unknown."""
    profile = scope.profile
    if not_sought(profile) or not profile.unrestricted.has("nvtx_ranges", "api_calls"):
        return None
    copies = moves(profile.unrestricted)
    steps = union(scope.start_ns, scope.end_ns)
    is_meant = covered_within(steps, copies.start_ns, copies.end_ns) > 0
    is_meant &= np.any(
        [(copies.src == route.src) & (copies.dst == route.dst) for route in routes], axis=0
    )
    origin = _usual_origin(profile, copies.take(np.flatnonzero(is_meant)))
    return None if origin is None or scope.is_mark(origin) else origin


def _usual_origin(profile: Profile, copies: Copies) -> str | None:
    numbers, texts = origins(profile, copies)
    if not len(numbers):
        return None
    sums = np.bincount(numbers + 1, copies.duration_ns)
    most = int(sums.argmax()) - 1
    return texts[most] if most >= 0 and sums[most + 1] > _MOST * sums.sum() else None


def _needless(scope: Scope, exposed: Intervals, cost_ns: int) -> Avoidable | None:
    """Copies that need not be, where they are most of a wait."""
    for copies in avoidable(scope.profile):
        running = copies.running
        # Few of them take enough time to be most of a wait at all: what a step usually pays is at
        # most twice the mean.
        if 2 * running.length <= _MOST * cost_ns * len(scope.start_ns):
            continue
        if scope.per_step(intersection(running, exposed)) > _MOST * cost_ns:
            return copies
    return None
