"""What a check says: how things stand, in a sentence, and what to do about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gpuprof.doctor.machine import Machine

State = Literal["ok", "limited", "problem"]


@dataclass(frozen=True)
class Finding:
    """How one thing stands.

    Args:
        name: Of the check, such as ``nsys``.
        state: ``ok``; ``limited`` where something cannot be recorded; ``problem`` where
            recording fails or misleads.
        text: What was found.
        fix: What to do about it; None only where it is ok.
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
    found: list[int] = []
    for part in version.replace("-", ".").split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
