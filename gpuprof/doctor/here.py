"""The facts of this machine, read from the driver, /proc, PATH and the installed packages."""

import os
import platform
import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

from gpuprof import native
from gpuprof.base import nsight
from gpuprof.doctor.machine import INJECTIONS, PACKAGES, VISIBLE, Machine
from gpuprof.launch import all_recorders
from gpuprof.launch.contract import Program
from gpuprof.launch.run.gpus import driver_cuda, driver_version, gpus, has_driver, peers

_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_STATUS: Final = Path("/proc/self/status")
_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
# Bits of CAP_SYS_ADMIN and CAP_PERFMON in linux/capability.h.
_CAPABILITIES: Final = (1 << 21) | (1 << 38)
_TOOLS: Final = ("nsys", "nvprof", "ncu")


def this_machine() -> Machine:
    """Look at this machine; what cannot be found out is None or left out."""
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
        packages={n: v for n in PACKAGES if (v := _version(n)) is not None},
        is_compiled=native.library() is not None,
        other_gpuprof=_version("gpuprof"),
        counters_for_admins=_counters_for_admins(),
        is_admin=_is_admin(),
        perf_event_paranoid=_paranoid(),
        container=_container(),
        variables={n: os.environ[n] for n in (VISIBLE, *INJECTIONS) if n in os.environ},
        free_bytes={f: shutil.disk_usage(f).free for f in (str(Path.cwd()), tempfile.gettempdir())},
        obstacles=_obstacles(),
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


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _counters_for_admins() -> bool | None:
    value = _first(r"^RmProfilingAdminOnly: (\d)", _text(_PARAMETERS))
    return None if value is None else value != "0"


def _is_admin() -> bool:
    effective = _first(r"^CapEff:\s*([0-9a-f]+)", _text(_STATUS))
    return effective is not None and bool(int(effective, 16) & _CAPABILITIES)


def _paranoid() -> int | None:
    text = _text(_PARANOID).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _container() -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "Kubernetes"
    for path, name in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")):
        if Path(path).exists():
            return name
    return os.environ.get("container")  # noqa: SIM112 - systemd-nspawn and LXC write it so


def _obstacles() -> dict[str, str | None]:
    python = Program((sys.executable,))
    obstacles = ((r.name, r.obstacle(python)) for r in all_recorders())
    return {name: None if obstacle is None else obstacle.message for name, obstacle in obstacles}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else None
