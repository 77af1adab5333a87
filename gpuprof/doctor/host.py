"""Checks of the operating system: containers, permissions, space."""

from typing import Final

from gpuprof.base.units import format_bytes
from gpuprof.doctor.finding import Finding
from gpuprof.doctor.machine import Machine

_HIGHEST_PARANOID: Final = 2
_TOO_LITTLE_BYTES: Final = 1_000_000_000
_LITTLE_BYTES: Final = 10_000_000_000


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
    shown = ", ".join(f"{format_bytes(b)} free in {f}" for f, b in machine.free_bytes.items())
    least = min(machine.free_bytes.values(), default=_LITTLE_BYTES)
    fix = "Free some space, or use another disk: -o for the run, TMPDIR for nsys."
    if least < _TOO_LITTLE_BYTES:
        return Finding("space", "problem", f"{shown}; traces take gigabytes", fix)
    if least < _LITTLE_BYTES:
        return Finding("space", "limited", f"{shown}; enough for short traces", fix)
    return Finding("space", "ok", shown)
