"""What the phases of compared recordings are called, and those that only some of them have."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gpuprof.base.kernel_names import short_name
from gpuprof.base.units import counted, say_ns
from gpuprof.comparisons.measure.compared_steps import ComparedSteps, StepsByLabel
from gpuprof.comparisons.rows import Uncompared

# What follows the name of a phase, see `phase_names`.
_APART: Final = re.compile(r" \((?:[\d,]+ devices?(?:, from [^()]+ on)?|from [^()]+ on)\)$")


def phase_names(phases: Sequence[StepsByLabel]) -> list[str]:
    """The name of each phase, with what tells it from the others of one recording."""
    first_runs = [next(iter(of_phase.values()))[0] for of_phase in phases]
    count = Counter((phase.phase, phase.devices) for phase in first_runs)
    names = []
    for phase, of_phase in zip(first_runs, phases, strict=True):
        devices = {run.devices for runs in of_phase.values() for run in runs}
        apart = [counted(phase.devices, "device", "devices")] if len(devices) == 1 else []
        if count[phase.phase, phase.devices] > 1:
            apart.append(f"from {say_ns(phase.start_ns)} on")
        suffix = f" ({', '.join(apart)})" if apart else ""
        names.append(f"{short_name(phase.phase or '')}{suffix}")
    return names


def in_quotes(phase: str) -> str:
    """``"Jacobi solve" (2 devices)``: a phase in a sentence, its own name in quotes."""
    apart = _APART.search(phase)
    end = len(phase) if apart is None else apart.start()
    return f'"{phase[:end]}"{phase[end:]}'


def uncompared_rows(
    phases: Sequence[StepsByLabel], uncompared: Mapping[str, Sequence[Sequence[ComparedSteps]]]
) -> list[Uncompared]:
    """The phases of each variant that are not compared, the longest of each variant first.

    Args:
        phases: Those that are compared.
        uncompared: Those of each run that are not, by variant.

    Returns:
        Of several runs of a variant, a phase of one name as the first one has it.
    """
    rows: dict[tuple[str, str], tuple[int, Uncompared]] = {}
    for label, of_runs in uncompared.items():
        for run, run_phases in enumerate(of_runs):
            compared = [of_phase[label][run] for of_phase in phases]
            names = phase_names([{label: (phase,)} for phase in (*run_phases, *compared)])
            for name, phase in zip(names, run_phases, strict=False):
                steps = len(phase.lengths_ns)
                row = Uncompared(label, name, phase.devices, steps, phase.step_ns)
                rows.setdefault((label, name), (phase.total_ns, row))
    order = list(uncompared)
    ordered = sorted(rows.values(), key=lambda row: (order.index(row[1].variant), -row[0]))
    return [row for _, row in ordered]
