"""The cells of a grid, and the order in which they run."""

import random
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from gpuprof.sweep_cells import RUNS
from gpuprof.sweeps.plan import Plan

# What no file system or shell takes amiss in a folder's name.
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


class Run(NamedTuple):
    """One run of a cell.

    Args:
        cell: Of which.
        number: From 1.
        is_warm_up: Whether it does not count.
    """

    cell: Cell
    number: int
    is_warm_up: bool

    @property
    def folder(self) -> Path:
        """Where its recording is, in the sweep's folder."""
        prefix = "warm-up-" if self.is_warm_up else ""
        return Path(RUNS) / self.cell.folder_name / f"{prefix}{self.number}"


def cells(plan: Plan) -> list[Cell]:
    """All combinations of the axes' values, the last axis fastest."""
    combinations = (dict(zip(plan.axes, v, strict=True)) for v in product(*plan.axes.values()))
    return [
        Cell(values, tuple(word.format_map(values) for word in plan.command))
        for values in combinations
    ]


def runs_of(plan: Plan, cell: Cell) -> list[Run]:
    """The runs of a cell, the warm-ups first."""
    return [Run(cell, number, is_warm_up) for number, is_warm_up in _rounds(plan)]


def ordered_runs(plan: Plan, seed: int) -> Iterator[Run]:
    """All runs: each round has every cell once, in an order of its own.

    What changes slowly on the machine (its temperature, other users) then meets all cells.
    """
    shuffler = random.Random(seed)  # noqa: S311 - an order, no secret
    for number, is_warm_up in _rounds(plan):
        shuffled = cells(plan)
        shuffler.shuffle(shuffled)
        yield from (Run(cell, number, is_warm_up) for cell in shuffled)


def _rounds(plan: Plan) -> list[tuple[int, bool]]:
    """Number of each round, and whether it is a warm-up."""
    warm_ups = [(number, True) for number in range(1, plan.warmup + 1)]
    return warm_ups + [(number, False) for number in range(1, plan.repeat + 1)]
