"""What a copy takes over a link: latency + bytes / bandwidth, from a table, a text or copies."""

import re
from typing import Final, NamedTuple

import numpy as np

from gpuprof.cuda import pcie_bytes_per_s
from gpuprof.errors import UsageError
from gpuprof.intervals import Int64s
from gpuprof.units import duration_ns, say_ns, say_rate, to_decimal_bytes

_NS_PER_S: Final = 1_000_000_000
_GB: Final = to_decimal_bytes("1", "GB")
# What the smallest copies take: 1.3 to 3.4 us in recordings of K80, V100, A100 and H100.
_LATENCY_NS: Final = 2_000
# Of a PCIe link's peak with 16 lanes, copies of many MB reach: least, usually, and most.
_PCIE_SHARES: Final = (0.65, 0.78, 0.88)
# GB/s in one direction between two GPUs: least, usually, and most. NVLink 2: two links of 25, as
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
_GIVEN: Final = re.compile(r"([\d.]+ ?[num]?s), ?([\d.]+) ?([KMGT]?B)/s")
# Copies of one size tell no bandwidth; the larger ones must be so many times as large.
_LARGER: Final = 8


class Link(NamedTuple):
    """What copies over a link take.

    Args:
        words: What it is, with its figures, for people.
        latency_ns: What a copy of no bytes takes.
        bytes_per_s: Bandwidth.
    """

    words: str
    latency_ns: float
    bytes_per_s: float

    def copies_ns(self, sizes: Int64s) -> Int64s:
        """What copies of so many bytes take."""
        took: Int64s = np.rint(self.latency_ns + sizes * (_NS_PER_S / self.bytes_per_s)).astype(int)
        return took


class Links(NamedTuple):
    """A link as usual, at its slowest and at its fastest."""

    usual: Link
    slow: Link
    fast: Link


def links_named(text: str) -> Links | None:
    """A link by its name or by its figures; None for ``staged``, which the recording tells.

    Args:
        text: One of `NAMES`, or latency and bandwidth such as ``4us,24GB/s``.

    Raises:
        UsageError: It is neither.
    """
    if text == STAGED:
        return None
    given = _GIVEN.fullmatch(text)
    try:
        if given is not None:
            rate = to_decimal_bytes(given[2], given[3])
            link = _link("as given", duration_ns(given[1].replace(" ", "")), rate)
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
    figures = f"{say_ns(latency_ns)} + bytes / {say_rate(bytes_per_s)}"
    return Link(f"{figures} ({words})", latency_ns, bytes_per_s)


def fitted(sizes: Int64s, took_ns: Int64s, words: str) -> Link | None:
    """Latency and bandwidth of some copies; None where their sizes do not tell them.

    The smallest copies tell the latency, and the largest ones the bandwidth.
    """
    if not len(sizes) or int(sizes.max()) < _LARGER * max(int(sizes.min()), 1):
        return None
    least, most = int(sizes.min()), int(sizes.max())
    low, high = (float(np.median(took_ns[sizes == size])) for size in (least, most))
    if high <= low:
        return None
    rate = (most - least) * _NS_PER_S / (high - low)
    return _link(words, max(low - least * _NS_PER_S / rate, 0), rate)
