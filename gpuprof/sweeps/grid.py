"""The cells of a grid, and the order in which they run."""

import random
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from gpuprof.base.sweep_cells import RUNS
from gpuprof.sweeps.plan import Plan

# Characters that some file system or shell does not allow in a folder's name.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=,+-]")


class Cell(NamedTuple):
    """One value of each axis.

    Args:
        values: Axis to value.
        words: The command with them in it.
    """

    values: Mapping[str, str]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """``placement=dual,batch=64``."""
        return ",".join(f"{axis}={value}" for axis, value in self.values.items()) or "only"

    @property
    def folder_name(self) -> str:
        """The name with other characters as their codes, so that no two cells share a folder."""
        return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02x}", self.name)


class SweepRun(NamedTuple):
    """One run of a cell.

    Args:
        cell: The cell that runs.
        number: From 1.
        is_warm_up: Whether it is excluded from the results.
    """

    cell: Cell
    number: int
    is_warm_up: bool

    @property
    def folder(self) -> Path:
        """The folder of its recording, relative to the sweep's folder."""
        prefix = "warm-up-" if self.is_warm_up else ""
        return Path(RUNS) / self.cell.folder_name / f"{prefix}{self.number}"


def cells(plan: Plan) -> list[Cell]:
    """All combinations of the axes' values, the last axis fastest."""
    combinations = (dict(zip(plan.axes, v, strict=True)) for v in product(*plan.axes.values()))
    return [
        Cell(values, tuple(word.format_map(values) for word in plan.command))
        for values in combinations
    ]


def runs_of(plan: Plan, cell: Cell) -> list[SweepRun]:
    """The runs of a cell, the warm-ups first."""
    return [SweepRun(cell, number, is_warm_up) for number, is_warm_up in _rounds(plan)]


def ordered_runs(plan: Plan, seed: int) -> Iterator[SweepRun]:
    """All runs: each round runs every cell once, in a new random order.

    Slow changes of the machine (its temperature, other users) then affect all cells alike.
    """
    shuffler = random.Random(seed)  # noqa: S311 - an order, no secret
    for number, is_warm_up in _rounds(plan):
        shuffled = cells(plan)
        shuffler.shuffle(shuffled)
        yield from (SweepRun(cell, number, is_warm_up) for cell in shuffled)


def _rounds(plan: Plan) -> list[tuple[int, bool]]:
    """Number of each round, and whether it is a warm-up."""
    warm_ups = [(number, True) for number in range(1, plan.warmup + 1)]
    return warm_ups + [(number, False) for number in range(1, plan.repeat + 1)]
