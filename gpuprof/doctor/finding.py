"""The result of a check: its state, a sentence, and the fix."""

from collections.abc import Callable
from itertools import takewhile
from typing import Literal, NamedTuple

from gpuprof.doctor.machine import Machine

State = Literal["ok", "limited", "problem"]


class Finding(NamedTuple):
    """The result of one check.

    Args:
        name: Of the check, such as ``nsys``.
        state: ``ok``; ``limited`` where something cannot be recorded; ``problem`` where
            recording fails or misleads.
        text: The result in a sentence.
        fix: How to fix it; None only where it is ok.
    """

    name: str
    state: State
    text: str
    fix: str | None = None


Check = Callable[[Machine], Finding]


def in_words(version: tuple[int, ...]) -> str:
    """A version as people write it: ``12.4``."""
    return ".".join(map(str, version))


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, to compare: ``2023.4.4.54-x`` as (2023, 4, 4, 54)."""
    parts = version.replace("-", ".").split(".")
    return tuple(map(int, takewhile(str.isdigit, parts)))
