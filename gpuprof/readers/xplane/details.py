"""The details of an activity in an XPlane profile, as text: ``regs:38 grid:160,1,1``.

Source: https://github.com/openxla/xla, xla/backends/profiler/gpu/cupti_buffer_events.h.
"""

import re
from typing import Final

from gpuprof.base import cuda

_DETAIL: Final = re.compile(r"(\w+):(\S+)")
_CONTEXT: Final = re.compile(r"\$\$(\d+)")
# Digits of the largest number that every int64 column holds.
_LONGEST: Final = 18
_MEMORY_KINDS: Final = frozenset(cuda.CUPTI_MEMORY_KINDS.values())


def number(word: str, details: str) -> int | None:
    """The number after a word of an event's details, such as ``regs:38``; None without it."""
    return _integer(dict(_DETAIL.findall(details)).get(word, ""))


def axis(word: str, place: int, details: str) -> int | None:
    """One of the three numbers after a word, such as ``grid:160,1,1``; None without them."""
    texts = dict(_DETAIL.findall(details)).get(word, "").split(",")
    return _integer(texts[place]) if len(texts) == len("xyz") else None


def memory_kind(word: str, details: str) -> str | None:
    """The kind of memory after a word, such as ``kind_src:pageable``; None without it."""
    kind = dict(_DETAIL.findall(details)).get(word)
    return kind if kind is None or kind in _MEMORY_KINDS else cuda.UNKNOWN


def context_id(text: str) -> int | None:
    """The number of a context such as ``$$5``; None where it is none."""
    match = _CONTEXT.fullmatch(text)
    return _integer(match[1]) if match else None


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST else None
