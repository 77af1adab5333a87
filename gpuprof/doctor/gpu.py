"""Checks of the GPUs, their driver, the links between them and access to their counters."""

from gpuprof.base.units import format_bytes
from gpuprof.doctor.finding import Finding, in_words
from gpuprof.doctor.machine import VISIBLE, Machine


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
            f"{format_bytes(gpu.total_memory_bytes)})"
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
