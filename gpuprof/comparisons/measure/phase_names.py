"""What the phases of compared recordings are called, and those that only some of them have."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gpuprof.comparisons.measure.work import Work, Works
from gpuprof.comparisons.rows import Uncompared
from gpuprof.kernel_names import short_name
from gpuprof.units import counted, say_ns


def phase_names(phases: Sequence[Works]) -> list[str]:
    """The name of each phase, with what tells it from the others of one recording."""
    works = [next(iter(of_phase.values()))[0] for of_phase in phases]
    count = Counter((work.phase, work.devices) for work in works)
    names = []
    for work, of_phase in zip(works, phases, strict=True):
        devices = {run.devices for runs in of_phase.values() for run in runs}
        apart = [counted(work.devices, "device", "devices")] if len(devices) == 1 else []
        if count[work.phase, work.devices] > 1:
            apart.append(f"from {say_ns(work.start_ns)} on")
        suffix = f" ({', '.join(apart)})" if apart else ""
        names.append(f"{short_name(work.phase or '')}{suffix}")
    return names


def uncompared_rows(
    phases: Sequence[Works], uncompared: Mapping[str, Sequence[Sequence[Work]]]
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
        for run, works in enumerate(of_runs):
            compared = [of_phase[label][run] for of_phase in phases]
            names = phase_names([{label: (work,)} for work in (*works, *compared)])
            for name, work in zip(names, works, strict=False):
                steps = len(work.lengths_ns)
                row = Uncompared(label, name, work.devices, steps, work.step_ns)
                rows.setdefault((label, name), (work.total_ns, row))
    order = list(uncompared)
    ordered = sorted(rows.values(), key=lambda row: (order.index(row[1].variant), -row[0]))
    return [row for _, row in ordered]
