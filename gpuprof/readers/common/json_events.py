"""Chrome trace events: what PyTorch's and TensorFlow's JSON traces have in common.

Only the fields that are asked for are decoded, events of other categories not at all, and no
time ever becomes a float.
Source: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (the
Trace Event Format).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError
from gpuprof.base.units import NS_PER_US

EDITED: Final = "Was the file edited, or cut by another tool?"
_LIMIT: Final = "No profiler writes such a trace: was the file made or changed by another tool?"

# A number that some tools print as a text.
_QUOTED: Final = re.compile(rb'"\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*"')
# The longest names of templates have some ten thousand characters.
_LONGEST_NAME: Final = 1 << 20

Decoded = TypeVar("Decoded")
Integers = npt.NDArray[np.int64]


def decode(path: Path, data: bytes, expected: type[Decoded]) -> Decoded:
    """The expected fields of a JSON text, with defaults for those of another type.

    Raises:
        CorruptFileError: It is no JSON or too large, or a field without a default is of another
            type.
    """
    try:
        return json_input.lenient(data, expected)
    except json_input.ShapeError as error:
        msg = f"{path}: {error}"
        raise CorruptFileError(msg, EDITED) from error
    except json_input.LimitError as error:
        msg = f"{path}: the JSON is {error}"
        raise CorruptFileError(msg, _LIMIT) from error
    except json_input.JsonError as error:
        msg = f"{path}: the JSON is {error}"
        raise CorruptFileError(msg, "Did the program end before the trace was written?") from error


def check_length(name: str) -> None:
    """See that an event's name can be shown and compared in the time that a trace takes.

    Raises:
        LimitError: It is longer than any that a profiler writes.
    """
    if len(name) > _LONGEST_NAME:
        msg = f"an event has a name of {len(name):,} characters"
        raise json_input.LimitError(msg)


@contextmanager
def within_limits(path: Path) -> Iterator[None]:
    """Read a trace that holds nothing larger than a profiler writes.

    Raises:
        CorruptFileError: A limit is exceeded, or a number is too large.
    """
    try:
        yield
    except json_input.LimitError as error:
        msg = f"{path}: {error}"
        raise CorruptFileError(msg, _LIMIT) from error
    except OverflowError as error:
        msg = f"{path}: a number is too large ({error})"
        raise CorruptFileError(msg, EDITED) from error


def joined(values: Sequence[Any]) -> bytes:
    """Raw JSON values as one JSON list, so that they are decoded in one call."""
    return b"[" + b",".join(values) + b"]"


def exact_ns(path: Path, microseconds: Sequence[Any]) -> Integers:
    """Nanoseconds of raw JSON numbers in microseconds, without a float on the way.

    Raises:
        CorruptFileError: One is no number, or not within 292 years.
    """
    text = joined(microseconds)
    text = _QUOTED.sub(rb"\1", text) if b'"' in text else text
    try:
        if b"." not in text and b"e" not in text.lower():
            numbers = [number * NS_PER_US for number in json_input.decode(text, list[int])]
        elif b'"' in text:  # Decimal would take texts such as "NaN".
            msg = "a text"
            raise json_input.ShapeError(msg)
        else:
            exact = json_input.decode(text, list[Decimal])
            numbers = [round(number * NS_PER_US) for number in exact]
        return np.array(numbers, np.int64)
    except (json_input.JsonError, ArithmeticError) as error:
        msg = f"{path}: the time of an event is not a number of microseconds ({error})"
        raise CorruptFileError(msg, EDITED) from error
