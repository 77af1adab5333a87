"""Warnings and errors of Nsight Systems on the quality of a recording (``DIAGNOSTIC_EVENT``).

The texts are those of nsys 2019.5 to 2026.2, such as "CUDA injection initialization failed." and
"CUDA profiling might have not been started correctly.".
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from gpuprof.base import json_input

TABLE: Final = "DIAGNOSTIC_EVENT"
WARNING: Final = 2
ERROR: Final = 3
SEVERE: Final = (WARNING, ERROR)
# Of CPU samples, of libraries that are not read here, or of ranges that a program need not have.
_BESIDE_THE_POINT: Final = re.compile(
    r"IP/backtrace|IP samples|Scheduling information|event sampling|context switch|VSync"
    r"|^(?:No|Zero) (?!CUDA).* events (?:were )?collected"
    r"|^Not all (?!CUDA|NVTX).* events might|^(?!CUDA|NVTX).* profiling (?:might|stopped)"
)
_JSON_EVENT: Final = re.compile(
    r'\{"Type":\d+,"DiagnosticEvent":\{.*"Level":"(?P<level>Warning|Error)"'
    r',"Text":(?P<text>"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")'
)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_CUDA: Final = re.compile(r"CUDA|CUPTI")
# Of CUDA, but no reason why GPU work should be missing.
_COLLECTED: Final = re.compile(r"collected instead|Unified Memory|UVM|page fault|[Bb]acktrace")

_FAILED: Final = re.compile(r"fail|stopped|not (?:been )?started|[Cc]annot|[Cc]ould not|disabled")


def doubts(texts: Iterable[object]) -> list[str]:
    """The first line of each different text that touches what is read here."""
    lines = dict.fromkeys(str(text).split("\n")[0].strip() for text in texts if text)
    return [line for line in lines if not _BESIDE_THE_POINT.search(line)]


def faults(lines: Iterable[str]) -> list[str]:
    """Those that say why GPU work may be missing, where none is there; failures come first."""
    about_cuda = [line for line in lines if _CUDA.search(line) and not _COLLECTED.search(line)]
    return sorted(about_cuda, key=lambda line: _FAILED.search(line) is None)


def in_json(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Severity and text of the warnings and errors in an export of ``--type=json``.

    It has one event a line. nsys exports diagnostics to tables since 2024 alone.
    """
    severities = {"Warning": WARNING, "Error": ERROR}
    for line in lines:
        event = _JSON_EVENT.match(line)
        if event is not None:
            yield severities[event["level"]], json_input.loads(_CONTROL.sub(" ", event["text"]))
