"""The plan of a sweep: a command with placeholders, their values, and the order of its runs."""

import difflib
import random
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from gpuprof.base.errors import UsageError
from gpuprof.base.sweep_cells import RUNS

Number = int | float
_AXIS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Characters that some file system or shell does not allow in a folder's name.
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=,+-]")
# Columns of the results, which an axis or a figure of the program must not hide.
RESERVED: Final = frozenset(
    {"run", "runs", "status", "reason", "speed_up", "seconds", "cell", "folder"}
)


@dataclass(frozen=True)
class Plan:
    """A sweep, checked.

    Args:
        command: Words; ``{axis}`` in them becomes the cell's value, ``{{`` a brace.
        axes: Axis name to its values, as text; a cell is one value of each.
        repeat: Runs per cell that count.
        warmup: Runs per cell before these, which are excluded.
        skipped_epochs: Epochs at the start of each run, which are excluded; 0 keeps all, None
            excludes the warm-up that is found.
        recorder: As in ``gpuprof record --recorder``; ``none`` only times.
        baseline: Values of some axes: what every cell's speed-up is relative to.
        figures: Name to the pattern whose first group is that figure in the program's output;
            the last match counts.
        seed: Of the order of runs; None to draw one.
        name: Of the sweep's folder, where none is given.

    Raises:
        UsageError: The fields contradict each other.
    """

    command: tuple[str, ...]
    axes: Mapping[str, tuple[str, ...]]
    repeat: int = 1
    warmup: int = 0
    skipped_epochs: int | None = None
    recorder: str = "auto"
    baseline: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    name: str = "sweep"

    def __post_init__(self) -> None:
        """Check the plan before anything runs."""
        if not self.command:
            msg = "the sweep has no command"
            raise UsageError(msg, "Give one: gpuprof sweep --grid batch=64,128 -- train.py {batch}")
        for name, least in (("repeat", 1), ("warmup", 0), ("skipped_epochs", 0)):
            count = getattr(self, name)
            if count is not None and count < least:
                msg = f"{name} must be at least {least}, not {count}"
                raise UsageError(msg)
        for name, values in self.axes.items():
            _check_axis(name, values)
        _check_placeholders(self.command, self.axes)
        for name, value in self.baseline.items():
            if name not in self.axes:
                msg = f"the grid has no axis {name}, which the baseline names"
                raise UsageError(msg, near(name, self.axes))
            if value not in self.axes[name]:
                msg = f"the grid has no {name}={value}, which the baseline names"
                raise UsageError(msg, near(value, self.axes[name]))
        _check_figures(self.figures, self.axes)


def near(word: str, names: Iterable[str]) -> str:
    """A hint with the nearest choice, or with all choices."""
    choices = list(names)
    nearest = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f"Did you mean {nearest[0]}?" if nearest else f"Choose from: {', '.join(choices)}."


def as_number(text: str) -> Number | None:
    """The whole or decimal number that a text is; None for other texts."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _check_axis(name: str, values: tuple[str, ...]) -> None:
    if not _AXIS_NAME.fullmatch(name) or name in RESERVED:
        msg = f"{name!r} cannot name an axis"
        raise UsageError(msg, "Use letters, digits and _, but no column of the results.")
    if not values or "" in values:
        msg = f"the axis {name} has {'an empty value' if values else 'no values'}"
        raise UsageError(msg, f"Separate values by commas: --grid {name}=1,2")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        msg = f"the axis {name} has the value {twice} twice"
        raise UsageError(msg)


def _check_placeholders(command: tuple[str, ...], axes: Mapping[str, object]) -> None:
    named: dict[str, str] = {}
    for word in command:
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]
        except ValueError as error:
            msg = f"{word}: {error}"
            raise UsageError(msg, "Write {{ and }} for literal braces.") from error
        named |= dict.fromkeys(names, word)
    for name, word in named.items():
        if name not in axes:
            msg = f"the grid has no axis {name!r}, which the command uses in {word}"
            raise UsageError(msg, f"{near(name, axes)} Write {{{{ for a literal brace.")
    for name in axes:
        if name not in named:
            msg = f"the command has no {{{name}}}, so this axis would have no effect"
            raise UsageError(msg, f"Put {{{name}}} into the command where the value belongs.")


def _check_figures(figures: Mapping[str, str], axes: Mapping[str, object]) -> None:
    for name, pattern in figures.items():
        if not _AXIS_NAME.fullmatch(name) or name in RESERVED or name in axes:
            msg = f"{name!r} cannot name a figure of the program"
            raise UsageError(msg, "Use letters, digits and _, but no column of the results.")
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            msg = f"the pattern of {name}, {pattern}, is not a regular expression: {error}"
            raise UsageError(msg) from error
        if groups != 1:
            msg = f"the pattern of {name}, {pattern}, must have one group, not {groups}"
            raise UsageError(msg, r"Put the number into the group: accuracy=(\S+)")


class SweepCell(NamedTuple):
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

    cell: SweepCell
    number: int
    is_warm_up: bool

    @property
    def folder(self) -> Path:
        """The folder of its recording, relative to the sweep's folder."""
        prefix = "warm-up-" if self.is_warm_up else ""
        return Path(RUNS) / self.cell.folder_name / f"{prefix}{self.number}"


def cells(plan: Plan) -> list[SweepCell]:
    """All combinations of the axes' values, the last axis fastest."""
    combinations = (dict(zip(plan.axes, v, strict=True)) for v in product(*plan.axes.values()))
    return [
        SweepCell(values, tuple(word.format_map(values) for word in plan.command))
        for values in combinations
    ]


def runs_of(plan: Plan, cell: SweepCell) -> list[SweepRun]:
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
