"""Warnings and errors of Nsight Systems on the quality of a recording (``DIAGNOSTIC_EVENT``).

The texts are those of nsys 2019.5 to 2026.2, such as "CUDA injection initialization failed." and
"CUDA profiling might have not been started correctly.".
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

TABLE: Final = "DIAGNOSTIC_EVENT"
# Warnings and errors.
SELECT: Final = f"SELECT text FROM {TABLE} WHERE severity IN (2, 3)"
_BESIDE_THE_POINT: Final = re.compile(
    r"IP/backtrace|Scheduling information|event sampling|context switch"
    r"|No (?:NVTX|OpenGL|Vulkan|OpenACC|OpenMP|MPI) events collected"
)
_CUDA: Final = re.compile(r"CUDA|CUPTI")
# Of CUDA, but no reason why GPU work should be missing; a program need not use CUDA.
_COLLECTED: Final = re.compile(
    r"collected instead|will be collected using|No CUDA events collected"
    r"|Unified Memory|UVM|page fault|[Bb]acktrace"
)


def doubts(texts: Iterable[str | None]) -> list[str]:
    """The first line of each different text that touches what is read here."""
    lines = dict.fromkeys(text.split("\n")[0].strip() for text in texts if text)
    return [line for line in lines if not _BESIDE_THE_POINT.search(line)]


def faults(lines: Sequence[str]) -> list[str]:
    """Those that say why GPU work may be missing: where none was collected, it is unknown."""
    return [line for line in lines if _CUDA.search(line) and not _COLLECTED.search(line)]
