"""Checks of the GPUs, their driver, the links between them and who may use their counters."""

from gpuprof.doctor.finding import Finding, in_words
from gpuprof.doctor.machine import VISIBLE, Machine
from gpuprof.units import format_bytes


def driver(machine: Machine) -> Finding:
    """NVIDIA's driver."""
    if not machine.has_driver:
        fix = (
            "Where there is a GPU: install NVIDIA's driver; in a container, start it with "
            "`--gpus all`. Without one, frameworks' own profilers still record."
        )
        return Finding("driver", "limited", "no NVIDIA driver here: no GPU work is recorded", fix)
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
        text = f"a driver is here, but no GPU is seen: {VISIBLE}={hidden}"
        return Finding("gpus", "problem", text, f"unset {VISIBLE}, or name a GPU in it.")
    fix = (
        "Look with `nvidia-smi`; in a container, start it with `--gpus all`."
        if machine.has_driver
        else "Record GPU work on a machine with NVIDIA GPUs; its run folder is read anywhere."
    )
    return Finding("gpus", "limited", "no NVIDIA GPU here", fix)


def topology(machine: Machine) -> Finding:
    """Whether copies between GPUs go directly."""
    pairs = [pair for pair in machine.peers if pair[0] < pair[1]]
    if not pairs:
        few = "one GPU: nothing to link" if machine.gpus else "no GPUs to link"
        return Finding("topology", "ok", few)
    through_host = [
        p for p in pairs if not (machine.peers[p] and machine.peers.get((p[1], p[0]), True))
    ]
    ways = ", ".join(f"{a}-{b} {machine.links.get((a, b), 'link unknown')}" for a, b in pairs)
    if not through_host:
        return Finding("topology", "ok", f"every GPU reaches every other's memory: {ways}")
    without = ", ".join(f"{a}-{b}" for a, b in through_host)
    text = f"copies between GPUs {without} go through the host: no peer access ({ways})"
    fix = (
        "Many GeForce cards have none. Elsewhere look at `nvidia-smi topo -p2p r`, and turn off "
        "ACS and the IOMMU in the firmware."
    )
    return Finding("topology", "limited", text, fix)


def counters(machine: Machine) -> Finding:
    """Who may read the GPU's performance counters; traces do without them."""
    if machine.counters_for_admins is None:
        return Finding("counters", "ok", "no driver that restricts GPU counters")
    if not machine.counters_for_admins or machine.is_admin:
        return Finding("counters", "ok", "GPU performance counters may be read")
    text = (
        "GPU performance counters are for administrators only (ERR_NVGPUCTRPERM): ncu fails, "
        "nvprof may, and nsys records no GPU metrics; kernels and copies are recorded all the same"
    )
    fix = (
        "As root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
        "/etc/modprobe.d/nvidia-profiling.conf, then reboot; for a container, do so on its host "
        "or start it with --cap-add=SYS_ADMIN."
    )
    return Finding("counters", "limited", text, fix)
