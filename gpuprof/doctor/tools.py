"""Checks of the profilers: which are installed, and whether they suit the driver and the GPUs."""

from typing import Final

from gpuprof.base.errors import install
from gpuprof.doctor.finding import Finding, in_words, numbers
from gpuprof.doctor.machine import INJECTIONS, Machine
from gpuprof.launch.recorders.nsys import incompatibility
from gpuprof.launch.recorders.nvprof import NEWEST_COMPUTE_CAPABILITY

_OLDEST_FOR_NCU: Final = (7, 0)
_OF_MONITOR: Final = {"nvidia-ml-py": "GPUs are", "psutil": "the host is"}
_GET_NSYS: Final = "Get NVIDIA Nsight Systems from https://developer.nvidia.com/nsight-systems."


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
