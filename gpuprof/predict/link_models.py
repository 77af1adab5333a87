"""The time of a copy over a link: latency + bytes / bandwidth, from a table, text or copies."""

import re
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.cuda import pcie_bytes_per_s
from gpuprof.base.errors import UsageError
from gpuprof.base.units import duration_ns, say_ns, say_rate, to_decimal_bytes
from gpuprof.model.derived import HOST
from gpuprof.model.intervals import Int64s
from gpuprof.predict.graph import DEFAULT_STREAMS, holds
from gpuprof.predict.graph import STAGED as STAGED_HALVES
from gpuprof.predict.recorded import COPY, Flags, Operations
from gpuprof.predict.replay import Changed, lasting, on_route

_NS_PER_S: Final = 1_000_000_000
_GB: Final = to_decimal_bytes("1", "GB")
# The time of the smallest copies: 1.3 to 3.4 us in recordings of K80, V100, A100 and H100.
_LATENCY_NS: Final = 2_000
# Share of the peak of 16 PCIe lanes that copies of many MB reach: least, usual, most.
_PCIE_SHARES: Final = (0.65, 0.78, 0.88)
# GB/s in one direction between two GPUs: least, usual, most. NVLink 2: two links of 25, as
# most pairs of a DGX-1 have, one, or six through NVSwitch; NVLink 3: 12 links of 25; NVLink 4: 18
# of 25. Sources: NVIDIA's whitepapers of V100, A100 and H100 for the peaks; A. Li et al.,
# Evaluating Modern GPU Interconnect, IEEE TPDS 31, 2020, for what copies reach of them.
_NVLINKS: Final[dict[str, tuple[float, ...]]] = {
    "nvlink2": (24, 48, 140),
    "nvlink3": (200, 270, 300),
    "nvlink4": (340, 390, 450),
}
STAGED: Final = "staged"
NAMES: Final = (*_NVLINKS, "pcie3", "pcie4", "pcie5", STAGED)
_FIGURES: Final = re.compile(r"([\d.]+ ?[nuµm]?s), ?([\d.]+) ?([KMGT]?B)/s")
# A link at its usual, lowest or highest bandwidth.
USUAL, SLOW, FAST = range(3)
# Where the recording has no gap between halves of a staged copy, or copies of two devices.
_HALVES_NS: Final = 7_000
# Four in five copies take between these shares of what is fitted to them all.
_SPREAD: Final = (0.1, 0.9)
# Bandwidth needs copies of several sizes: the largest this many times the smallest.
_LARGER: Final = 8


class Link(NamedTuple):
    """Latency and bandwidth of copies over a link.

    Args:
        words: Name and figures, for people.
        latency_ns: Time of a copy of 0 bytes.
        bytes_per_s: Bandwidth.
    """

    words: str
    latency_ns: float
    bytes_per_s: float

    def copies_ns(self, sizes: Int64s) -> Int64s:
        """How long copies of these sizes take."""
        took: Int64s = np.rint(self.latency_ns + sizes * (_NS_PER_S / self.bytes_per_s)).astype(int)
        return took


def links_named(text: str) -> tuple[Link, Link, Link]:
    """A link by its name or by its figures: at its usual, lowest and highest bandwidth.

    Args:
        text: One of `NAMES` but for ``staged``, or latency and bandwidth such as ``4us,24GB/s``.

    Raises:
        UsageError: The text is neither.
    """
    if figures := _FIGURES.fullmatch(text):
        with suppress(ValueError):
            rate = to_decimal_bytes(figures[2], figures[3])
            link = _link("as given", duration_ns(figures[1].replace(" ", "")), rate)
            if rate > 0:
                return link, link, link
    if text in _NVLINKS:
        shares, peak = _NVLINKS[text], _GB
    elif text in NAMES:
        shares, peak = _PCIE_SHARES, pcie_bytes_per_s(int(text[-1]), 16) or 0
    else:
        msg = f"there is no link {text}"
        hint = f"Links: {', '.join(NAMES)}, or latency and bandwidth such as 4us,24GB/s."
        raise UsageError(msg, hint)
    words = f"{text}, table of links"
    slow, usual, fast = (_link(words, _LATENCY_NS, share * peak) for share in shares)
    return usual, slow, fast


def _link(words: str, latency_ns: float, bytes_per_s: float) -> Link:
    figures = f"{say_ns(latency_ns)} + bytes / {say_rate(bytes_per_s)}"
    return Link(f"{figures} ({words})", latency_ns, bytes_per_s)


def fitted(sizes: Int64s, took_ns: Int64s, words: str) -> Link | None:
    """Latency and bandwidth of copies; None where their sizes are too similar.

    The smallest copies give the latency, the largest ones the bandwidth.
    """
    if not len(sizes) or int(sizes.max()) < _LARGER * max(int(sizes.min()), 1):
        return None
    least, most = int(sizes.min()), int(sizes.max())
    low, high = (float(np.median(took_ns[sizes == size])) for size in (least, most))
    if high <= low:
        return None
    rate = (most - least) * _NS_PER_S / (high - low)
    return _link(words, max(low - least * _NS_PER_S / rate, 0), rate)


def with_link(changed: Changed, route: str | None, name: str) -> Changed:
    """Let copies of a route, or between devices, go over another link.

    Args:
        changed: The graph so far.
        route: Kind or ends of the copies; None for all between devices.
        name: As `links_named` knows it, or ``staged``: through the host, fitted to the recording.

    Raises:
        UsageError: There is no such link, or no such copy.
    """
    link = None if name == STAGED else links_named(name)[changed.bound]
    o = changed.graph.operations
    is_meant = on_route(o, route)
    if link is None:
        return _staged(changed, is_meant, route)
    second = changed.operation(changed.stored(STAGED_HALVES, is_meant))
    sizes = o.bytes
    took = changed.scaled(link.copies_ns(np.maximum(sizes, 0)))
    took[second] = 0
    # The host copies it into pinned memory, or out of it: a faster link waits for that.
    is_staged_by_host = is_meant & (sizes >= 0) & o.where(lambda label: label.is_pageable)
    took = np.where(is_staged_by_host, np.maximum(took, changed.took_ns), took)
    changed = lasting(changed, is_meant & (sizes >= 0), took)
    is_second = np.zeros(len(o), bool)
    is_second[second] = True
    starts = 2 * (len(changed.graph.calls) + second)
    changed = changed.with_edges(changed.stored(STAGED_HALVES, is_second), 0).without_lag(starts)
    copies = int((is_meant & (sizes >= 0)).sum()) - len(second)
    pageable = int(is_staged_by_host.sum())
    of_host = f" those of pageable memory ({pageable:,}) no less than recorded, as the host's own"
    of_host = f"{of_host} copy to or from pinned memory bounds them;" if pageable else ""
    return changed.saying(
        f"copies {route or 'between devices'} ({copies:,}) take {link.words};{of_host}"
        f"{_without_size(sizes[is_meant])} collectives keep their recorded times, and copies that"
        " share a link do not slow each other down"
    )


def _without_size(sizes: Int64s) -> str:
    """Words about copies that no link changes; none where there are none."""
    unknown = int((sizes < 0).sum())
    return f" copies of unknown size ({unknown:,}) and" if unknown else ""


def _staged(changed: Changed, is_meant: Flags, route: str | None) -> Changed:
    """Copies between devices through the host: two copies, and the gap between them."""
    o = changed.graph.operations
    if (is_meant & ~o.where(lambda label: label.is_peer)).any():
        msg = f"copies {route} are not between devices: none can be staged"
        raise UsageError(msg, "Name a route between two devices: link[0->1]=staged.")
    sizes = o.bytes
    direct = is_meant & ~o.where(lambda label: label.is_staged) & (sizes >= 0)
    halves = [_host_link(o, kind, changed.bound) for kind in ("DtoH", "HtoD")]
    # The median gap from a copy to one on another device that waits for it.
    between, is_copy = _HALVES_NS, o.where(lambda label: label.kind == COPY)
    for kind in (DEFAULT_STREAMS, STAGED_HALVES):
        rows = changed.stored(kind, is_copy)
        rows = rows[holds(is_copy, changed.operation(rows, is_source=True))]
        if len(rows):
            between = int(np.median(changed.graph.weights.edges.usual_ns[rows]))
    first, second = (link.copies_ns(np.maximum(sizes, 0)) for link in halves)
    words = f"copies {route or 'between devices'} ({direct.sum():,}) go through the host: "
    words += f"DtoH {halves[0].words}, a gap of {say_ns(between)}, HtoD {halves[1].words}"
    if unchanged_copies := _without_size(sizes[is_meant]):
        words += f";{unchanged_copies.removesuffix(' and')} keep their times"
    return lasting(changed, direct, changed.scaled(first + between + second)).saying(words)


def _host_link(o: Operations, kind: str, bound: int) -> Link:
    """A link fitted to the recorded copies between host and devices, else PCIe 3."""
    sizes = o.bytes
    for ends in (kind, "HtoD", "DtoH"):
        rows = o.where(lambda of: of.kind == COPY and not of.is_pageable)
        rows &= (o.ends()[0 if ends == "HtoD" else 1] == HOST) & (sizes >= 0)
        took = o.end_ns[rows] - o.start_ns[rows]
        link = fitted(sizes[rows], took, f"fitted to its {ends} copies")
        if link is not None:
            shares = took / np.maximum(link.copies_ns(sizes[rows]), 1)
            # Tools that write whole microseconds give short copies no time at all.
            spread = np.quantile(shares[shares > 0], _SPREAD)
            times = dict(zip((FAST, SLOW), spread.tolist(), strict=True)).get(bound, 1.0)
            return Link(link.words, link.latency_ns * times, link.bytes_per_s / times)
    return links_named("pcie3")[bound]
