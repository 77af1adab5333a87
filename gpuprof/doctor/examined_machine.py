"""The facts of a machine that matter for recording, and what a check makes of them.

Those of this machine are read from the driver, /proc, PATH and the installed packages.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from gpuprof import native
from gpuprof.base import nsight
from gpuprof.launch import all_recorders
from gpuprof.launch.contract import Program
from gpuprof.launch.run.gpus import (
    Gpu,
    driver_cuda,
    driver_version,
    found_in,
    gpus,
    has_driver,
    peers,
)
from gpuprof.launch.run.provenance import versions

# An active profiler sets these for its program.
INJECTIONS: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
FRAMEWORKS: Final = ("tensorflow", "tensorflow-cpu", "keras", "torch", "jax")
PACKAGES: Final = (*FRAMEWORKS, "nvtx", "cupti-python", "nvidia-ml-py", "psutil")
_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_STATUS: Final = Path("/proc/self/status")
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
# Bits of CAP_SYS_ADMIN and CAP_PERFMON in linux/capability.h.
_CAPABILITIES: Final = (1 << 21) | (1 << 38)
_TOOLS: Final = ("nsys", "nvprof", "ncu")
_CONTAINERS: Final = (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman"))


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


def this_machine() -> Machine:
    """Look at this machine; what cannot be found out is None or left out."""
    python = Program((sys.executable,))
    obstacles = {recorder.name: recorder.obstacle(python) for recorder in all_recorders()}
    restricted = found_in(r"^RmProfilingAdminOnly: (\d)", _PARAMETERS)
    capabilities = found_in(r"^CapEff:\s*([0-9a-f]+)", _STATUS)
    paranoid = found_in(r"\A(-?\d+)\s*\Z", _PARANOID)
    container = os.environ.get("container")  # noqa: SIM112 - systemd-nspawn and LXC write it so
    container = next((name for path, name in _CONTAINERS if Path(path).exists()), container)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        container = "Kubernetes"
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        has_driver=has_driver(),
        driver=driver_version(),
        driver_cuda=driver_cuda(),
        gpus=gpus(),
        peers=peers(),
        links=links(nsight.printed("nvidia-smi", "topo", "-m")),
        tools={t: nsight.version(t) or "of unknown version" for t in _TOOLS if shutil.which(t)},
        nsys_cuda=nsight.newest_cuda(),
        packages={n: v for name in PACKAGES for n, v in versions(name).items()},
        is_compiled=native.library() is not None,
        other_gpuprof=versions("gpuprof").get("gpuprof"),
        counters_for_admins=None if restricted is None else restricted != "0",
        is_admin=capabilities is not None and bool(int(capabilities, 16) & _CAPABILITIES),
        perf_event_paranoid=None if paranoid is None else int(paranoid),
        container=container,
        variables={n: os.environ[n] for n in (VISIBLE, *INJECTIONS) if n in os.environ},
        free_bytes={f: shutil.disk_usage(f).free for f in (str(Path.cwd()), tempfile.gettempdir())},
        obstacles={n: None if e is None else e.message for n, e in obstacles.items()},
    )


def links(table: str) -> dict[tuple[int, int], str]:
    """The way between each two GPUs, from what ``nvidia-smi topo -m`` prints."""
    # The heading is underlined on a terminal; columns of network cards follow those of the GPUs.
    lines = [line.split() for line in re.sub(r"\x1b\[\d*m", "", table).splitlines()]
    heading = next((words for words in lines if words[:1] == ["GPU0"]), [])
    columns = [word for word in heading if re.fullmatch(r"GPU\d+", word)]
    rows = [words[1 : len(columns) + 1] for words in lines[1:] if words[:1] and words[0] in columns]
    return {
        (number, peer): way
        for number, row in enumerate(rows)
        for peer, way in enumerate(row)
        if way != "X"
    }


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
