"""What comparing asks of a large recording, computed on a second thread meanwhile."""

from collections.abc import Callable
from typing import Final

from gpuprof.comparisons.measure.device_time import copy_layers
from gpuprof.comparisons.measure.matching import kernel_groups
from gpuprof.facts.launches import launches
from gpuprof.facts.nvtx import ranges_of
from gpuprof.model.profile import Profile

# Of smaller recordings the threads would mostly wait for each other.
_LARGE: Final = 2_000_000


def before_steps(recording: Profile) -> None:
    """Start to compute what comes after the devices' timelines, which are asked for first."""
    if not _is_large(recording):
        return
    functions: list[Callable[[Profile], object]] = [copy_layers]
    functions = [launches, *functions] if recording.has("api_calls") else functions
    functions = [ranges_of, *functions] if recording.has("nvtx_ranges") else functions
    recording.compute_ahead(functions)


def before_figures(part: Profile) -> None:
    """Start to compute what comes after the sums of a part, which are asked for first."""
    if _is_large(part.unrestricted):
        part.compute_ahead([kernel_groups])


def _is_large(recording: Profile) -> bool:
    return recording.events >= _LARGE and recording.has("kernels", "memcpys")
