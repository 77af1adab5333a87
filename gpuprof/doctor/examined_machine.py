"""The facts of a machine that matter for recording, and what a check makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Literal, NamedTuple

from gpuprof.launch.run.gpus import Gpu

# An active profiler sets these for its program.
INJECTIONS: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
FRAMEWORKS: Final = ("tensorflow", "tensorflow-cpu", "keras", "torch", "jax")
PACKAGES: Final = (*FRAMEWORKS, "nvtx", "cupti-python", "nvidia-ml-py", "psutil")


@dataclass(frozen=True)
class Machine:
    """One machine and the Python environment on it.

    Args:
        system: Operating system, kernel and architecture.
        has_driver: Whether NVIDIA's driver library loads.
        driver: The driver's version; None where unknown.
        driver_cuda: Newest CUDA that the driver runs, such as (12, 4).
        gpus: The GPUs that CUDA lists.
        peers: Whether a GPU can reach another's memory, by their numbers.
        links: The link between two GPUs, as in nvidia-smi: ``NV4``, ``PIX``, ``SYS``.
        tools: Versions of nsys, nvprof and ncu, where they are on PATH.
        nsys_cuda: Newest CUDA that this nsys can trace.
        packages: Versions of the installed Python packages that matter.
        is_compiled: Whether gpuprof has its compiled functions.
        other_gpuprof: Version of PyPI's other ``gpuprof``, where that is installed.
        counters_for_admins: Whether the driver keeps GPU counters for administrators.
        is_admin: Whether this process may use what is kept for administrators.
        perf_event_paranoid: The kernel's setting; None where it has none.
        container: Kind of container; None outside of one.
        variables: Those of the environment that hide GPUs or load another profiler.
        free_bytes: Free space of the folders that recordings go through.
        obstacles: Why each recorder cannot work here; None where it can.
    """

    system: str
    has_driver: bool = False
    driver: str | None = None
    driver_cuda: tuple[int, int] | None = None
    gpus: tuple[Gpu, ...] = ()
    peers: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    nsys_cuda: tuple[int, int] | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    is_compiled: bool = True
    other_gpuprof: str | None = None
    counters_for_admins: bool | None = None
    is_admin: bool = False
    perf_event_paranoid: int | None = None
    container: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    obstacles: Mapping[str, str | None] = field(default_factory=dict)


State = Literal["ok", "limited", "problem"]


class Finding(NamedTuple):
    """The result of one check.

    Args:
        name: Of the check, such as ``nsys``.
        state: ``ok``; ``limited`` where something cannot be recorded; ``problem`` where
            recording fails or misleads.
        text: The result in a sentence.
        fix: How to fix it; None only where it is ok.
    """

    name: str
    state: State
    text: str
    fix: str | None = None


def in_words(version: tuple[int, ...]) -> str:
    """A version as people write it: ``12.4``."""
    return ".".join(map(str, version))


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, to compare: ``2023.4.4.54-x`` as (2023, 4, 4, 54)."""
    parts = version.replace("-", ".").split(".")
    return tuple(map(int, takewhile(str.isdigit, parts)))
