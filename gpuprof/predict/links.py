"""The time of a copy over a link: latency + bytes / bandwidth, from a table, text or copies."""

import re
from typing import Final, NamedTuple

import numpy as np

from gpuprof.base.cuda import pcie_bytes_per_s
from gpuprof.base.errors import UsageError
from gpuprof.base.units import duration_ns, format_rate, say_ns, to_decimal_bytes
from gpuprof.model.intervals import Int64s

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
_NVLINKS: Final = {
    "nvlink2": (24, 48, 140),
    "nvlink3": (200, 270, 300),
    "nvlink4": (340, 390, 450),
}
STAGED: Final = "staged"
NAMES: Final = (*_NVLINKS, "pcie3", "pcie4", "pcie5", STAGED)
_FIGURES: Final = re.compile(r"([\d.]+ ?[num]?s), ?([\d.]+) ?([KMGT]?B)/s")
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


class Links(NamedTuple):
    """A link at its usual, lowest and highest bandwidth."""

    usual: Link
    slow: Link
    fast: Link


def links_named(text: str) -> Links | None:
    """A link by its name or by its figures; None for ``staged``, which is fitted to the recording.

    Args:
        text: One of `NAMES`, or latency and bandwidth such as ``4us,24GB/s``.

    Raises:
        UsageError: The text is neither.
    """
    if text == STAGED:
        return None
    figures = _FIGURES.fullmatch(text)
    try:
        if figures is not None:
            rate = to_decimal_bytes(figures[2], figures[3])
            link = _link("as given", duration_ns(figures[1].replace(" ", "")), rate)
            if rate > 0:
                return Links(link, link, link)
    except ValueError:
        pass
    slow, usual, fast = _rates(text)
    words = f"{text}, table of links"
    return Links(*(_link(words, _LATENCY_NS, rate) for rate in (usual, slow, fast)))


def _rates(name: str) -> tuple[float, ...]:
    if name in _NVLINKS:
        return tuple(rate * _GB for rate in _NVLINKS[name])
    if name in NAMES:
        peak = pcie_bytes_per_s(int(name[-1]), 16) or 0
        return tuple(share * peak for share in _PCIE_SHARES)
    msg = f"there is no link {name}"
    hint = f"Links: {', '.join(NAMES)}, or latency and bandwidth such as 4us,24GB/s."
    raise UsageError(msg, hint)


def _link(words: str, latency_ns: float, bytes_per_s: float) -> Link:
    figures = f"{say_ns(latency_ns)} + bytes / {format_rate(bytes_per_s)}"
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
