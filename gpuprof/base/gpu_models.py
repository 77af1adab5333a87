"""GPUs by the peak rates that their vendor states: the yardstick of what a program reaches.

Sources: NVIDIA's data sheets of these boards, and for GeForce boards the whitepapers of their
architectures (GA102, AD102). Rates of Tensor Cores are those without sparsity that add up in single
precision. Of a K80, one of its two GPUs at its boost clock.
"""

import re
from typing import Final, NamedTuple

_GIB: Final = 1 << 30
_MOST_OF_A100: Final = 60 * _GIB  # with 40 GB


class GpuModel(NamedTuple):
    """Peak rates of a GPU, and its memory.

    Args:
        name: As people write it on the command line.
        flops_per_s: In single precision, without Tensor Cores.
        bytes_per_s: Of its memory.
        memory_bytes: Its memory.
        half_flops_per_s: In fp16 with Tensor Cores, or without where it has none; None where it
            is not faster than in single precision.
        tf32_flops_per_s: Of fp32 matrices by Tensor Cores that round them to tf32; None without.
        has_bf16: Whether bf16 is as fast as fp16.
    """

    name: str
    flops_per_s: float
    bytes_per_s: float
    memory_bytes: int
    half_flops_per_s: float | None = None
    tf32_flops_per_s: float | None = None
    has_bf16: bool = False

    def peak_flops_per_s(self, data_type: str) -> float | None:
        """The highest rate of matrix products of a type; None where none is stated.

        Products of fp32 may use tf32 or not, which a recording does not tell: their peak is tf32's.

        Args:
            data_type: float, half or bfloat16.
        """
        if data_type == "float":
            return self.tf32_flops_per_s or self.flops_per_s
        is_half = data_type == "half" or (data_type == "bfloat16" and self.has_bf16)
        return self.half_flops_per_s if is_half else None


def _gpu(
    name: str, gib: int, gb_per_s: float, tflops: float, tensor: tuple[float, ...] = ()
) -> GpuModel:
    """A GPU, of its Tensor Cores (or halves) the TFLOP/s in fp16 and, since Ampere, in tf32."""
    half, tf32 = [rate * 1e12 for rate in tensor] + [None] * (2 - len(tensor))
    return GpuModel(
        name, tflops * 1e12, gb_per_s * 1e9, gib * _GIB, half, tf32, has_bf16=tf32 is not None
    )


GPUS: Final = (
    _gpu("K80", 12, 240, 4.37),
    _gpu("GTX1080Ti", 11, 484, 11.3),
    _gpu("P100", 16, 732, 9.3, (18.7,)),
    _gpu("P100-SXM2", 16, 732, 10.6, (21.2,)),
    _gpu("V100", 16, 900, 15.7, (125,)),
    _gpu("V100-PCIe", 16, 900, 14, (112,)),
    _gpu("T4", 16, 320, 8.1, (65,)),
    _gpu("RTX3090", 24, 936, 35.6, (71, 35.6)),
    _gpu("RTX4090", 24, 1008, 82.6, (165.2, 82.6)),
    _gpu("A10", 24, 600, 31.2, (125, 62.5)),
    _gpu("A30", 24, 933, 10.3, (165, 82)),
    _gpu("A100", 40, 1555, 19.5, (312, 156)),
    _gpu("A100-80GB", 80, 2039, 19.5, (312, 156)),
    _gpu("A100-80GB-PCIe", 80, 1935, 19.5, (312, 156)),
    _gpu("L40S", 48, 864, 91.6, (362, 183)),
    _gpu("H100", 80, 3350, 67, (989, 494)),
    _gpu("H100-PCIe", 80, 2000, 51, (756, 378)),
    _gpu("H200", 141, 4800, 67, (989, 494)),
)
_BY_NAME: Final = {gpu.name.lower(): gpu for gpu in GPUS}


def gpu_named(name: str) -> GpuModel | None:
    """The GPU of a short name such as A100-80GB, in any capitals; None for an unknown one."""
    return _BY_NAME.get(name.lower())


def gpu_of_device(name: str, memory_bytes: int | None = None) -> GpuModel | None:
    """The GPU that a recording names in full, such as "NVIDIA A100-SXM4-40GB"; None if unknown.

    Boards that differ by their socket or memory have entries of their own. Parts of a GPU (MIG)
    are unknown: they have a share of its rates.

    Args:
        name: As the driver calls the device.
        memory_bytes: Its memory, which some names lack.
    """
    words = re.sub(r"\b(nvidia|tesla|geforce|quadro)\b", " ", name.lower())
    words = words.replace("1080 ti", "1080ti").strip()
    if re.search(r"\b(mig|laptop|max-q|super|nvl|ti)\b", words):
        return None
    words = re.sub(r"\b(rtx|gtx) ", r"\1", words)
    board, *details = re.split(r"[ -]+", words)
    variant = [word for word in details if word in ("pcie", "sxm2")]
    is_large = board == "a100" and ("80gb" in details or (memory_bytes or 0) > _MOST_OF_A100)
    board = f"{board}-80gb" if is_large else board
    return gpu_named("-".join([board, *variant])) or gpu_named(board)
