"""The plan of the arguments of ``gpuprof sweep``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuprof.base.errors import UsageError
from gpuprof.sweeps.plan import Plan
from gpuprof.sweeps.sweep_file import read_sweep_file


def planned(words: tuple[str, ...], grid: Sequence[tuple[str, str]], **options: Any) -> Plan:
    """The plan of a sweep file, or of a command and its grid.

    Args:
        words: The name of a file in TOML, or a command with placeholders.
        grid: Each axis and its values, with commas between them.
        options: Fields of the plan in place of the file's; None or empty for those not given.

    Raises:
        GpuprofError: The file cannot be read, or the arguments contradict each other.
    """
    is_file = len(words) == 1 and words[0].endswith(".toml")
    if is_file and grid:
        msg = f"--grid cannot be combined with {words[0]}"
        raise UsageError(msg, "Add the axis to [grid] in the file.")
    plan = read_sweep_file(Path(words[0])) if is_file else _of_grid(words, grid)
    changes = {name: value for name, value in options.items() if value not in (None, {})}
    return replace(plan, **changes)


def _of_grid(words: tuple[str, ...], grid: Sequence[tuple[str, str]]) -> Plan:
    if not grid:
        msg = "the sweep has no grid"
        raise UsageError(msg, "Give a sweep.toml, or axes: --grid batch=64,128 -- train.py {batch}")
    names = [name for name, _ in grid]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        msg = f"--grid {repeated} is given twice"
        raise UsageError(msg, f"Give all its values in one option: --grid {repeated}=1,2")
    axes = {name: tuple(values.split(",")) if values else () for name, values in grid}
    return Plan(words, axes, name=name_of(words))


def name_of(words: Sequence[str]) -> str:
    """The name of a sweep of a command, after its script or program."""
    program = next((word for word in words if word.endswith(".py")), *words[:1] or ["sweep"])
    return Path(program).stem
