"""Whether an nsys suits a driver and its GPUs; one that does not records nothing, with status 0.

Sources: "GPU architectures starting with Pascal" and "any driver from 450 on" of the Nsight
Systems Installation Guide; an older nsys brings no tracer for a newer CUDA (``libcupti.so.*``).
"""

from collections.abc import Sequence
from typing import Final

from gpuprof.launch.run.gpus import Gpu

_OLDEST_CAPABILITY: Final = (6, 0)
_OLDEST_DRIVER: Final = 450


def incompatibility(
    gpus: Sequence[Gpu],
    driver: str | None,
    driver_cuda: tuple[int, int] | None,
    nsys_cuda: tuple[int, int] | None,
) -> str | None:
    """Why this nsys would record nothing, in a clause; None where it is compatible."""
    if driver and int(driver.partition(".")[0]) < _OLDEST_DRIVER:
        return f"nsys needs driver {_OLDEST_DRIVER} or newer; this is {driver}"
    if nsys_cuda and driver_cuda and nsys_cuda[0] < driver_cuda[0]:
        newest, runs = ("{}.{}".format(*cuda) for cuda in (nsys_cuda, driver_cuda))
        return f"this nsys traces CUDA up to {newest}; the driver runs {runs}"
    old = [gpu for gpu in gpus if gpu.compute_capability < _OLDEST_CAPABILITY]
    if old:
        return f"nsys records Pascal and newer GPUs; {old[0].name} is older"
    return None
