"""The facts of this machine, read from the driver, /proc, PATH and the installed packages."""

import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from gpuprof import native
from gpuprof.base import nsight
from gpuprof.doctor.examined_machine import INJECTIONS, PACKAGES, VISIBLE, Machine
from gpuprof.launch import all_recorders
from gpuprof.launch.contract import Program
from gpuprof.launch.run.gpus import (
    driver_cuda,
    driver_version,
    found_in,
    gpus,
    has_driver,
    peers,
)
from gpuprof.launch.run.provenance import versions

_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_STATUS: Final = Path("/proc/self/status")
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
# Bits of CAP_SYS_ADMIN and CAP_PERFMON in linux/capability.h.
_CAPABILITIES: Final = (1 << 21) | (1 << 38)
_TOOLS: Final = ("nsys", "nvprof", "ncu")


def this_machine() -> Machine:
    """Look at this machine; what cannot be found out is None or left out."""
    python = Program((sys.executable,))
    obstacles = {recorder.name: recorder.obstacle(python) for recorder in all_recorders()}
    restricted = found_in(r"^RmProfilingAdminOnly: (\d)", _PARAMETERS)
    capabilities = found_in(r"^CapEff:\s*([0-9a-f]+)", _STATUS)
    paranoid = found_in(r"\A(-?\d+)\s*\Z", _PARANOID)
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
        container=_container(),
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


def _container() -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "Kubernetes"
    for path, name in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")):
        if Path(path).exists():
            return name
    return os.environ.get("container")  # noqa: SIM112 - systemd-nspawn and LXC write it so
