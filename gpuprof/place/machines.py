"""GPUs and links to estimate a step on, by the figures of their vendors.

GPUs: peaks of single precision without Tensor Cores, memory bandwidth and memory of one GPU, from
NVIDIA's data sheets of these boards (of a K80, one of its two GPUs, at its boost clock).
Links are those of `gpuprof.predict.link_models`; ``staged`` is PCIe 3 through the host.
"""

from typing import Final, NamedTuple

from gpuprof.base.errors import UsageError, one_of
from gpuprof.base.units import NS_PER_S
from gpuprof.predict.link_models import NAMES, STAGED, USUAL, links_named

_GIB: Final = 1 << 30
_MOST_GPUS: Final = 16
_STAGED_OVER: Final = "pcie3"


class GpuModel(NamedTuple):
    """Peak rates of a GPU, and its memory."""

    name: str
    flops_per_s: float
    bytes_per_s: float
    memory_bytes: int


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


def _gpu(name: str, tflops: float, gb_per_s: float, gib: int) -> GpuModel:
    return GpuModel(name, tflops * 1e12, gb_per_s * 1e9, gib * _GIB)


GPUS: Final = (
    _gpu("K80", 4.37, 240, 12),
    _gpu("GTX1080Ti", 11.3, 484, 11),
    _gpu("P100", 9.3, 732, 16),
    _gpu("V100", 15.7, 900, 16),
    _gpu("T4", 8.1, 320, 16),
    _gpu("RTX3090", 35.6, 936, 24),
    _gpu("RTX4090", 82.6, 1008, 24),
    _gpu("A10", 31.2, 600, 24),
    _gpu("A100", 19.5, 1555, 40),
    _gpu("A100-80GB", 19.5, 2039, 80),
    _gpu("L40S", 91.6, 864, 48),
    _gpu("H100", 67, 3350, 80),
    _gpu("H100-PCIe", 51, 2000, 80),
    _gpu("H200", 67, 4800, 141),
)


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
        gpu = next((gpu for gpu in GPUS if gpu.name.lower() == name.lower()), None)
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
