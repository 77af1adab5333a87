"""The checks of a machine: one function each, in the order of the report.

They judge GPUs, their driver, links and counters; profilers and whether they suit the driver and
the GPUs; the operating system's restrictions and space; and the Python environment.
"""

from collections.abc import Callable
from typing import Final

from gpuprof.base.errors import install
from gpuprof.base.units import say_bytes
from gpuprof.doctor.examined_machine import (
    FRAMEWORKS,
    INJECTIONS,
    VISIBLE,
    Finding,
    Machine,
    in_words,
    numbers,
)
from gpuprof.launch.recorders.nsys import incompatibility
from gpuprof.launch.recorders.nvprof import NEWEST_COMPUTE_CAPABILITY

_OLDEST_FOR_NCU: Final = (7, 0)
_OF_MONITOR: Final = {"nvidia-ml-py": "GPUs are", "psutil": "the host is"}
_GET_NSYS: Final = "Get NVIDIA Nsight Systems from https://developer.nvidia.com/nsight-systems."
_HIGHEST_PARANOID: Final = 2
_TOO_LITTLE_BYTES: Final = 1_000_000_000
_LITTLE_BYTES: Final = 10_000_000_000
# From this version on, nsys 2023.4 keeps no range of the package.
_NVTX_TOO_NEW: Final = (0, 2, 12)
_NSYS_WITHOUT_RANGES: Final = (2023, 4)


def driver(machine: Machine) -> Finding:
    """NVIDIA's driver."""
    if not machine.has_driver:
        fix = (
            "If the machine has a GPU, install NVIDIA's driver; start a container with "
            "`--gpus all`. Without a GPU, the profilers of frameworks still record."
        )
        text = "no NVIDIA driver is installed, so no GPU activity can be recorded"
        return Finding("driver", "limited", text, fix)
    cuda = f" (CUDA up to {in_words(machine.driver_cuda)})" if machine.driver_cuda else ""
    return Finding("driver", "ok", f"NVIDIA driver {machine.driver or 'of unknown version'}{cuda}")


def devices(machine: Machine) -> Finding:
    """The GPUs that a program started here would see."""
    hidden = machine.variables.get(VISIBLE)
    if machine.gpus:
        names = (
            f"{gpu.name} (compute capability {in_words(gpu.compute_capability)}, "
            f"{say_bytes(gpu.total_memory_bytes)})"
            for gpu in machine.gpus
        )
        shown = "" if hidden is None else f"; {VISIBLE}={hidden}"
        return Finding("gpus", "ok", "; ".join(names) + shown)
    if machine.has_driver and hidden is not None:
        text = f"a driver is installed, but no GPU is visible: {VISIBLE}={hidden}"
        return Finding("gpus", "problem", text, f"unset {VISIBLE}, or add a GPU to it.")
    fix = (
        "Check with `nvidia-smi`; start a container with `--gpus all`."
        if machine.has_driver
        else "Record on a machine with NVIDIA GPUs; the run folder can be read anywhere."
    )
    return Finding("gpus", "limited", "no NVIDIA GPU was found", fix)


def topology(machine: Machine) -> Finding:
    """Whether copies between GPUs go directly."""
    pairs = [pair for pair in machine.peers if pair[0] < pair[1]]
    if not pairs:
        text = "one GPU, so there are no links" if machine.gpus else "no GPUs"
        return Finding("topology", "ok", text)
    through_host = [
        p for p in pairs if not (machine.peers[p] and machine.peers.get((p[1], p[0]), True))
    ]
    ways = ", ".join(f"{a}-{b} {machine.links.get((a, b), 'link unknown')}" for a, b in pairs)
    if not through_host:
        return Finding("topology", "ok", f"all GPUs have peer access to each other: {ways}")
    without = ", ".join(f"{a}-{b}" for a, b in through_host)
    text = f"GPUs {without} have no peer access, so copies go through the host ({ways})"
    fix = (
        "Many GeForce cards lack peer access. For others, check `nvidia-smi topo -p2p r`, and "
        "disable ACS and the IOMMU in the firmware."
    )
    return Finding("topology", "limited", text, fix)


def counters(machine: Machine) -> Finding:
    """Who may read the GPU's performance counters; traces do not need them."""
    if machine.counters_for_admins is None:
        return Finding("counters", "ok", "no driver restricts GPU performance counters")
    if not machine.counters_for_admins or machine.is_admin:
        return Finding("counters", "ok", "GPU performance counters are accessible")
    text = (
        "GPU performance counters are restricted to administrators (ERR_NVGPUCTRPERM): ncu fails, "
        "nvprof may fail, and nsys records no GPU metrics; kernels and copies are still recorded"
    )
    fix = (
        "As root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
        "/etc/modprobe.d/nvidia-profiling.conf, then reboot; for a container, do so on its host "
        "or start it with --cap-add=SYS_ADMIN."
    )
    return Finding("counters", "limited", text, fix)


def nsys(machine: Machine) -> Finding:
    """Nsight Systems, against the driver and the GPUs."""
    version = machine.tools.get("nsys")
    if version is None:
        return Finding("nsys", "limited", "nsys is not installed or not on PATH", _GET_NSYS)
    reason = incompatibility(machine.gpus, machine.driver, machine.driver_cuda, machine.nsys_cuda)
    if reason is not None:
        fix = f"Use another recorder, or a newer nsys and driver. {_GET_NSYS}"
        return Finding("nsys", "problem", f"nsys {version} would record nothing: {reason}", fix)
    cuda = f", traces CUDA up to {in_words(machine.nsys_cuda)}" if machine.nsys_cuda else ""
    return Finding("nsys", "ok", f"nsys {version}{cuda}")


def nvprof(machine: Machine) -> Finding:
    """Nvprof, for GPUs before Ampere."""
    version = machine.tools.get("nvprof")
    new = [g for g in machine.gpus if g.compute_capability > NEWEST_COMPUTE_CAPABILITY]
    if new and len(new) == len(machine.gpus):
        capability = in_words(new[0].compute_capability)
        text = f"nvprof cannot profile {new[0].name} (compute capability {capability}); it supports"
        text += " up to 7.5"
        return Finding("nvprof", "limited", text, "Use --recorder nsys.")
    if version is None:
        fix = "Needed only for GPUs before Pascal. It is part of the CUDA toolkit up to 12.x."
        return Finding("nvprof", "limited", "nvprof is not installed or not on PATH", fix)
    return Finding("nvprof", "ok", f"nvprof {version}")


def ncu(machine: Machine) -> Finding:
    """Nsight Compute, for the analysis of one kernel; gpuprof does not need it."""
    version = machine.tools.get("ncu")
    if version is None:
        fix = "To analyse single kernels, install https://developer.nvidia.com/nsight-compute."
        return Finding("ncu", "limited", "ncu is not installed; recording does not need it", fix)
    old = [g for g in machine.gpus if g.compute_capability < _OLDEST_FOR_NCU]
    if old:
        text = f"ncu {version} profiles Volta and newer GPUs; {old[0].name} is older"
        return Finding("ncu", "limited", text, "Use nvprof's metrics instead.")
    return Finding("ncu", "ok", f"ncu {version}")


def cupti(machine: Machine) -> Finding:
    """The package for recording in the process, against the driver's CUDA."""
    version = machine.packages.get("cupti-python")
    if version is None:
        fix = f"If nsys cannot be installed: {install('cupti')}"
        return Finding("cupti", "limited", "cupti-python is not installed", fix)
    major, driver = numbers(version)[0], machine.driver_cuda
    if driver and driver[0] < major:
        text = f"cupti-python {version} needs CUDA {major}; the driver supports {in_words(driver)}"
        fix = f"pip install 'cupti-python=={driver[0]}.*', or install a newer driver."
        return Finding("cupti", "problem", text, fix)
    return Finding("cupti", "ok", f"cupti-python {version}")


def monitor(machine: Machine) -> Finding:
    """The packages that sample GPUs and host during a run."""
    installed = [f"{n} {machine.packages[n]}" for n in _OF_MONITOR if n in machine.packages]
    lacking = [
        sampled
        for name, sampled in _OF_MONITOR.items()
        if name not in machine.packages and (machine.gpus or name != "nvidia-ml-py")
    ]
    if not lacking:
        return Finding("monitor", "ok", ", ".join(installed))
    text = f"{' and '.join(lacking)} not sampled during a run"
    return Finding("monitor", "limited", text, install("monitor"))


def other_profiler(machine: Machine) -> Finding:
    """A profiler around this process: only one can trace CUDA in one process."""
    injected = [name for name in INJECTIONS if name in machine.variables]
    if not injected:
        return Finding(
            "other profiler", "ok", "no other profiler is configured to load into programs"
        )
    text = f"another profiler would load into recorded programs: {', '.join(injected)} is set"
    fix = f"unset {' '.join(injected)}, or record outside that profiler."
    return Finding("other profiler", "problem", text, fix)


def recorders(machine: Machine) -> Finding:
    """Which recorders could start here."""
    able = [name for name, obstacle in machine.obstacles.items() if obstacle is None]
    # The recorder none measures times only.
    useless = {"none"} if machine.gpus else {"none", "nsys", "nvprof", "cupti"}
    useful = [name for name in able if name not in useless]
    if useful:
        return Finding("recorders", "ok", f"available recorders: {', '.join(useful)}")
    reasons = "; ".join(obstacle for obstacle in machine.obstacles.values() if obstacle)
    if able:
        reasons = "; ".join(filter(None, (f"{', '.join(able)} would record no GPU", reasons)))
    fix = f"Install a framework that has a profiler: {install('tensorflow')}"
    return Finding("recorders", "problem", f"no recorder works here: {reasons}", fix)


def system(machine: Machine) -> Finding:
    """The operating system."""
    if machine.system.startswith("Linux"):
        return Finding("system", "ok", machine.system)
    fix = "Record on Linux; the run's folder can be read anywhere."
    return Finding("system", "problem", f"recording needs Linux; this is {machine.system}", fix)


def container(machine: Machine) -> Finding:
    """The restrictions of a container on profilers."""
    if machine.container is None:
        return Finding("container", "ok", "not in a container")
    text = f"in a container ({machine.container})"
    if machine.is_admin:
        return Finding("container", "ok", f"{text} with SYS_ADMIN: profilers are not restricted")
    fix = "If you need these, start it with --cap-add=SYS_ADMIN (and --gpus all)."
    text += " without SYS_ADMIN: no GPU counters and no CPU samples; kernels and copies are traced"
    return Finding("container", "limited", text, fix)


def sampling(machine: Machine) -> Finding:
    """Whether nsys can sample the CPU; gpuprof does not need samples."""
    level = machine.perf_event_paranoid
    if level is None or level <= _HIGHEST_PARANOID or machine.is_admin:
        setting = "" if level is None else f" (perf_event_paranoid {level})"
        return Finding("sampling", "ok", f"nsys can sample the CPU{setting}")
    text = (
        f"perf_event_paranoid is {level}, so nsys cannot sample the CPU; gpuprof does not need it"
    )
    return Finding("sampling", "limited", text, "sudo sysctl kernel.perf_event_paranoid=2")


def space(machine: Machine) -> Finding:
    """Free space for traces, in the folder of runs and in the temporary folder of nsys."""
    shown = ", ".join(f"{say_bytes(b)} free in {f}" for f, b in machine.free_bytes.items())
    least = min(machine.free_bytes.values(), default=_LITTLE_BYTES)
    fix = "Free some space, or use another disk: -o for the run, TMPDIR for nsys."
    if least < _TOO_LITTLE_BYTES:
        return Finding("space", "problem", f"{shown}; traces take gigabytes", fix)
    if least < _LITTLE_BYTES:
        return Finding("space", "limited", f"{shown}; enough for short traces", fix)
    return Finding("space", "ok", shown)


def frameworks(machine: Machine) -> Finding:
    """Frameworks, whose profilers record without a GPU tool; none is imported."""
    installed = [f"{n} {machine.packages[n]}" for n in FRAMEWORKS if n in machine.packages]
    if installed:
        return Finding("frameworks", "ok", ", ".join(installed))
    fix = "Install gpuprof in the Python environment of the training script."
    text = "TensorFlow, PyTorch and JAX are not installed"
    return Finding("frameworks", "limited", text, fix)


def nvtx(machine: Machine) -> Finding:
    """The package that shows marked epochs to nsys."""
    version, nsys = machine.packages.get("nvtx"), machine.tools.get("nsys")
    if version is None:
        text = "nvtx is not installed, so nsys does not record marked epochs and steps"
        return Finding("nvtx", "limited", text, install("nvtx"))
    too_new = numbers(version) >= _NVTX_TOO_NEW
    if nsys is not None and too_new and numbers(nsys)[:2] <= _NSYS_WITHOUT_RANGES:
        text = f"nvtx {version} is too new for nsys {nsys}, which would record no ranges"
        return Finding("nvtx", "problem", text, "pip install 'nvtx<0.2.12', or update nsys.")
    return Finding("nvtx", "ok", f"nvtx {version}")


def compiled(machine: Machine) -> Finding:
    """The functions of gpuprof that read SQLite files from their pages."""
    if machine.is_compiled:
        return Finding("SQLite", "ok", "gpuprof's compiled functions read SQLite exports")
    text = "gpuprof was installed without its compiled functions: large SQLite exports take longer"
    fix = "Install a C compiler (apt-get install gcc), then reinstall gpuprof."
    return Finding("SQLite", "limited", text, fix)


def distribution(machine: Machine) -> Finding:
    """PyPI's ``gpuprof``, another project that installs the same package and command."""
    if machine.other_gpuprof is None:
        return Finding("distribution", "ok", "no other package named gpuprof is installed")
    text = (
        f"PyPI's gpuprof {machine.other_gpuprof}, another project, is also installed and replaces "
        "this command and package"
    )
    fix = "pip uninstall gpuprof, then install gpuprof-toolkit again from where you have it."
    return Finding("distribution", "problem", text, fix)


CHECKS: Final[tuple[Callable[[Machine], Finding], ...]] = (
    system,
    driver,
    devices,
    topology,
    counters,
    nsys,
    nvprof,
    ncu,
    cupti,
    monitor,
    other_profiler,
    container,
    sampling,
    space,
    frameworks,
    nvtx,
    compiled,
    distribution,
    recorders,
)
