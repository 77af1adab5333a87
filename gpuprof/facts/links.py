"""Which link joins two memories, and its peak, where the recording tells.

nvprof's databases list NVLink and PCIe of every device. Other formats give only the
devices' names. A few of these name the link to the host:

- ``PCIe`` in the name: x16 of the generation that came with the architecture, 3 with Pascal to
  Turing (P100, V100, T4), 4 with Ampere and Ada (A100, A40, L40), 5 with Hopper and Blackwell
  (H100), as in NVIDIA's data sheets of these boards. A slot may offer less.
- ``GH200``: NVLink-C2C, 900 GB/s for both directions together (NVIDIA, "GH200 Grace Hopper
  Superchip", data sheet).

Which links join two devices no name tells: ``SXM`` boards have NVLink, but how many of its lanes
lead to which other device depends on the machine. A collective of a machine's devices may use all
lanes of each; what these carry in one direction is half of what the boards' data sheets say: 160
GB/s of P100, 300 of V100, 600 of A100, 900 of H100 and H200, 1,800 of B200, and 400 of A800 and
H800.
"""

import re
from typing import Final, NamedTuple

from gpuprof.base.cuda import pcie_bytes_per_s
from gpuprof.facts.hosts import device_rows
from gpuprof.model.derived import HOST
from gpuprof.model.profile import Profile, once_per_profile

# First compute capability of an architecture -> the generation of PCIe that it came with.
_PCIE_GENERATIONS: Final = {9.0: 5, 8.0: 4, 6.0: 3}
_LANES: Final = 16
_C2C: Final = ("NVLink-C2C", 450_000_000_000)
# Boards with NVLink by their names -> the peak of all lanes in one direction. That of the H100 with
# SXM is named by its memory.
_NVLINKS: Final = {
    r"\bP100-SXM": 80_000_000_000,
    r"\bV100S?-SXM": 150_000_000_000,
    r"\b(?:A800-SXM|H800\b(?!.*PCIe))": 200_000_000_000,
    r"\bA100-SXM": 300_000_000_000,
    r"\b(?:H100-SXM|H100 80GB HBM3|H200\b(?! NVL))": 450_000_000_000,
    r"\bB200\b": 900_000_000_000,
}


class RecordedLink(NamedTuple):
    """What joins two memories: its name for people, and its peak in one direction."""

    name: str
    bytes_per_s: int | None


Links = dict[tuple[int, int], RecordedLink]


@once_per_profile
def links(profile: Profile) -> Links:
    """The link between each two memories, in both directions; ends are device ids or `HOST`."""
    recording, by_ends = profile.unrestricted, Links()
    if recording.has("links"):
        for row in recording.table("links").to_pylist():
            peer = HOST if row["peer_device_id"] is None else row["peer_device_id"]
            link = RecordedLink(row["link"], row["bytes_per_s"])
            by_ends[row["device_id"], peer] = by_ends[peer, row["device_id"]] = link
        return by_ends
    # Of the others, devices' names tell the link to the host.
    for row in device_rows(profile):
        name, capability = row["name"] or "", float(row["compute_capability"] or 0)
        if "GH200" in name:
            link = RecordedLink(*_C2C)
        elif re.search(r"\bPCIe\b", name, re.IGNORECASE) and capability >= min(_PCIE_GENERATIONS):
            generation = next(g for first, g in _PCIE_GENERATIONS.items() if capability >= first)
            link = RecordedLink(
                f"PCIe {generation} x{_LANES}", pcie_bytes_per_s(generation, _LANES)
            )
        else:
            continue
        by_ends[row["device_id"], HOST] = by_ends[HOST, row["device_id"]] = link
    return by_ends


def link_between(profile: Profile, src: int | None, dst: int | None) -> RecordedLink | None:
    """The link of direct copies between two memories; None where the recording is silent.

    Of two devices without a link of their own, where all links are listed, copies cross the
    links of both to the host side.
    """
    if src is None or dst is None:
        return None
    by_ends = links(profile)
    direct = by_ends.get((src, dst))
    if direct is not None or HOST in {src, dst} or not profile.unrestricted.has("links"):
        return direct
    ways = [by_ends[end, HOST] for end in (src, dst) if (end, HOST) in by_ends]
    if len(ways) < len((src, dst)) or not all(way.name.startswith("PCIe") for way in ways):
        return None
    return min(ways, key=lambda way: way.bytes_per_s or 0)


def link_of_collectives(profile: Profile, device_id: int | None) -> RecordedLink | None:
    """What carries a device's part of a collective within its machine; None where nothing tells.

    All NVLinks of the device together, else its link to the host.
    """
    by_ends = links(profile)
    if profile.unrestricted.has("links"):
        lanes = [link for (src, dst), link in by_ends.items() if src == device_id and dst != HOST]
        if lanes:
            return RecordedLink("NVLink", sum(link.bytes_per_s or 0 for link in lanes) or None)
    else:
        for row in device_rows(profile):
            if row["device_id"] == device_id:
                peaks = (
                    of for board, of in _NVLINKS.items() if re.search(board, row["name"] or "")
                )
                if peak := next(peaks, None):
                    return RecordedLink("NVLink", peak)
    return None if device_id is None else by_ends.get((device_id, HOST))
