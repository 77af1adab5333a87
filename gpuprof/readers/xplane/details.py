"""What an XPlane profile says of an activity as text: ``regs:38 grid:160,1,1``.

Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_buffer_events.h.
"""

import re
from dataclasses import dataclass
from typing import Final

from gpuprof import cuda

_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_CONTEXT: Final = re.compile(r"\$\$(\d+)")
# Digits of the largest number that every int64 column holds.
_LONGEST: Final = 18
_MEMORY_KINDS: Final = frozenset(cuda.CUPTI_MEMORY_KINDS.values())


@dataclass(frozen=True)
class Number:
    """The number after a word of an event's details, such as ``regs:38``."""

    word: str

    def __call__(self, details: str) -> int | None:
        """None where the details do not have it."""
        return _integer(dict(_DETAIL.findall(details)).get(self.word, ""))


@dataclass(frozen=True)
class Axis:
    """One of the three numbers after a word, such as ``grid:160,1,1``."""

    word: str
    axis: int

    def __call__(self, details: str) -> int | None:
        """None where the details do not have them."""
        texts = dict(_DETAIL.findall(details)).get(self.word, "").split(",")
        return _integer(texts[self.axis]) if len(texts) == len("xyz") else None


@dataclass(frozen=True)
class Word:
    """The kind of memory after a word, such as ``kind_src:pageable``."""

    word: str

    def __call__(self, details: str) -> str | None:
        """None where the details do not have it."""
        text = dict(_DETAIL.findall(details)).get(self.word)
        return text if text is None or text in _MEMORY_KINDS else cuda.UNKNOWN


def context_id(text: str) -> int | None:
    """The number of a context such as ``$$5``; None where it is none."""
    match = _CONTEXT.fullmatch(text)
    return _integer(match[1]) if match else None


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST else None
