"""What other programs put before each line of a log, or make of a CSV table.

Docker, Kubernetes, GitHub Actions, ``ts`` and loggers put the time before each line; ``srun
--label``, ``pdsh``, ``mpirun --tag-output`` and ``mpiexec -l`` the number or the host of a process.
Spreadsheets in countries with a decimal comma separate cells by semicolons.
"""

import csv
import io
import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

# What makes of some whole lines the text that was meant.
Rewrite: TypeAlias = Callable[[bytes], bytes]

# So much of a text tells what all its lines begin with.
HEAD_BYTES: Final = 4096
# Fewer lines may begin alike by chance.
_LEAST_LINES: Final = 2
_BOM: Final = b"\xef\xbb\xbf"
_DAY: Final = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = rb"[0-9]{2}:[0-9]{2}:[0-9]{2}"
# With its zone, a time before the first line is enough.
_STAMP: Final = re.compile(
    rb"^(?:%s)?%sT%s(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2}) ?" % (_BOM, _DAY, _TIME), re.MULTILINE
)
_LOCAL_STAMP: Final = re.compile(
    rb"^\[?(?:%s[T ])?%s(?:[.,][0-9]+)?(?:\]:?)? " % (_DAY, _TIME), re.MULTILINE
)
# Of srun and pdsh, mpirun, and mpiexec. Lines of a report of nsys as text begin with "data:", and
# what `nsys stats` leaves out with "SKIPPED:".
_LABEL: Final = re.compile(
    rb" *(?:(?!data:|SKIPPED:)[A-Za-z0-9][A-Za-z0-9._-]*:|\[[0-9]+\]"
    rb"|\[[A-Za-z0-9@._-]*[0-9]+,[0-9]+\]<std(?:out|err)>:)"
)
# The head of a table of nvprof or nsys.
_SEMICOLONS: Final = re.compile(
    rb'"?(?:Time(?: ?\(%\))?|Start(?: ?\(ns\))?)"?;"?(?:Time|Total Time|Duration)'
)
_DECIMAL: Final = re.compile(
    r"-?[0-9]+,[0-9]+(?:E[+-]?[0-9]+)?(?: ?[%A-Za-zµμ]{1,3})?", re.IGNORECASE
)


def rewriting(head: bytes) -> Rewrite | None:
    """What makes of the lines of a text those that a profiler printed; None where they are these.

    Args:
        head: How the text begins, up to `HEAD_BYTES`.
    """
    if _SEMICOLONS.search(head):
        return _with_commas
    if _STAMP.match(head):
        return partial(_STAMP.sub, b"")
    # The last one may be cut.
    lines = [line for line in head.split(b"\n")[:-1] if line.strip()]
    if len(lines) < _LEAST_LINES:
        return None
    if all(map(_LOCAL_STAMP.match, lines)):
        return partial(_LOCAL_STAMP.sub, b"")
    label = _LABEL.match(lines[0])
    if label is None or not all(line.startswith(label[0]) for line in lines):
        return None
    return partial(re.compile(rb"^%s ?" % re.escape(label[0]), re.MULTILINE).sub, b"")


def _with_commas(lines: bytes) -> bytes:
    """Rows of cells between semicolons as rows between commas; other lines as they are."""
    return b"".join(map(_row_with_commas, lines.splitlines(keepends=True)))


def _row_with_commas(line: bytes) -> bytes:
    if line.count(b";") < _LEAST_LINES:
        return line
    text = line.removeprefix(_BOM).decode("utf-8", errors="surrogateescape")
    cells = next(csv.reader([text], delimiter=";"), [])
    numbers = [c.replace(",", ".") if _DECIMAL.fullmatch(c) else c for c in cells]
    row = io.StringIO()
    csv.writer(row, lineterminator="\n").writerow(numbers)
    return row.getvalue().encode("utf-8", errors="surrogateescape")
