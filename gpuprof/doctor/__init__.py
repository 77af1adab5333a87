"""What this machine can record, what prevents recording, and the fix: one function per check.

A check is a function of a `Machine`, in the file of its subject, and one line in `CHECKS`.
"""

from typing import Final

from gpuprof.doctor import gpu, host, python, tools
from gpuprof.doctor.finding import Check, Finding
from gpuprof.doctor.machine import Machine

CHECKS: Final[tuple[Check, ...]] = (
    host.system,
    gpu.driver,
    gpu.devices,
    gpu.topology,
    gpu.counters,
    tools.nsys,
    tools.nvprof,
    tools.ncu,
    tools.cupti,
    tools.monitor,
    tools.other_profiler,
    host.container,
    host.sampling,
    host.space,
    python.frameworks,
    python.nvtx,
    python.compiled,
    python.distribution,
    tools.recorders,
)


def findings(machine: Machine) -> tuple[Finding, ...]:
    """The findings of all checks of a machine, in the order of `CHECKS`."""
    return tuple(check(machine) for check in CHECKS)
