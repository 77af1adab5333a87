"""GPUs and links to estimate a step on, by the figures of their vendors.

Links are those of `gpuprof.predict.link_models`; ``staged`` is PCIe 3 through the host.
"""

from typing import Final, NamedTuple

from gpuprof.base.errors import UsageError, one_of
from gpuprof.base.gpu_models import GPUS, GpuModel, gpu_named
from gpuprof.base.units import NS_PER_S
from gpuprof.predict.link_models import NAMES, STAGED, USUAL, links_named

_MOST_GPUS: Final = 16
_STAGED_OVER: Final = "pcie3"


class GpuLink(NamedTuple):
    """Latency and bandwidth of copies between two devices."""

    name: str
    latency_s: float
    bytes_per_s: float

    def seconds(self, size: float) -> float:
        """How long a copy of this many bytes takes."""
        return self.latency_s + size / self.bytes_per_s


class GpuMachine(NamedTuple):
    """GPUs, with a separate link between each two of them."""

    gpus: tuple[GpuModel, ...]
    link: GpuLink

    @property
    def name(self) -> str:
        """Its GPUs and link, for people."""
        names = [gpu.name for gpu in self.gpus]
        counted = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
        return f"{', '.join(counted)} over {self.link.name}"


def machine(gpus: str, link: str) -> GpuMachine:
    """A machine from command-line options: 2xK80 or V100,T4, and pcie3 or 4us,24GB/s.

    Raises:
        UsageError: A name is unknown, or there are no or too many GPUs.
    """
    chosen: list[GpuModel] = []
    for word in gpus.split(","):
        number, _, name = word.strip().partition("x")
        if not number.isdecimal():  # the x of a name
            number, name = "1", word.strip()
        gpu = gpu_named(name)
        if gpu is None:
            msg = f"--gpus {gpus}: unknown GPU {name}"
            raise UsageError(msg, one_of("Known GPUs", name, [gpu.name for gpu in GPUS]))
        chosen += [gpu] * min(int(number), _MOST_GPUS + 1)
    if not 0 < len(chosen) <= _MOST_GPUS:
        msg = f"--gpus {gpus}: expected 1 to {_MOST_GPUS} GPUs"
        raise UsageError(msg)
    return GpuMachine(tuple(chosen), _link(link))


def _link(text: str) -> GpuLink:
    name = text.lower() if text.lower() in NAMES else text
    if name == STAGED:
        # Both halves one after the other, and a gap about as long as a latency.
        half = _link(_STAGED_OVER)
        return GpuLink(name, 3 * half.latency_s, half.bytes_per_s / 2)
    usual = links_named(name)[USUAL]
    return GpuLink(name, usual.latency_ns / NS_PER_S, usual.bytes_per_s)
