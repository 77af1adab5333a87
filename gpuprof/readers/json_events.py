"""Chrome trace events: what PyTorch's and TensorFlow's JSON traces have in common.

Only the fields that are asked for are decoded, events of other categories not at all, and no
time ever becomes a float.
Source: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (the
Trace Event Format).
"""

import gzip
import re
import zlib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from gpuprof.errors import CorruptFileError, InputError
from gpuprof.units import NS_PER_US

GZIP_MAGIC: Final = b"\x1f\x8b"
EDITED: Final = "Was the file edited, or cut by another tool?"

# C++ programs print doubles that are no number in their own way, which JSON does not know.
_NO_NUMBER: Final = re.compile(rb"(:\s*)-?(?:nan|NaN|inf|Infinity)(?=\s*[,}\]])")

Decoded = TypeVar("Decoded")
Integers = npt.NDArray[np.int64]


def content(path: Path) -> bytes:
    """A file's bytes, gunzipped where it is a gzip file.

    Raises:
        InputError: It cannot be read.
        CorruptFileError: The gzip file is cut short or damaged.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        msg = f"{path}: the gzip file is cut short or damaged ({error})"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.") from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def decode(path: Path, data: bytes, wanted: type[Decoded]) -> Decoded:
    """The wanted fields of a JSON text.

    Raises:
        CorruptFileError: It is no JSON, or a field is not of its kind.
    """
    try:
        return _decode(data, wanted)
    except msgspec.ValidationError as error:
        msg = f"{path}: {error}"
        raise CorruptFileError(msg, EDITED) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: the JSON is cut short or damaged ({error}; {len(data)} bytes)"
        raise CorruptFileError(msg, "Did the program end before the trace was written?") from error


def _decode(data: bytes, wanted: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(data, type=wanted)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended, count = _NO_NUMBER.subn(rb"\1null", data)
        if not count:
            raise
        return msgspec.json.decode(mended, type=wanted)


def joined(values: Sequence[Any]) -> bytes:
    """Raw JSON values as one JSON list, so that they are decoded in one call."""
    return b"[" + b",".join(values) + b"]"


def exact_ns(path: Path, microseconds: Sequence[Any]) -> Integers:
    """Nanoseconds of raw JSON numbers in microseconds, without a float on the way.

    Raises:
        CorruptFileError: One is no number, or not within 292 years.
    """
    try:
        return _exact_ns(joined(microseconds), len(microseconds))
    except (msgspec.ValidationError, ArithmeticError) as error:
        msg = f"{path}: the time of an event is no number of microseconds ({error})"
        raise CorruptFileError(msg, EDITED) from error


def _exact_ns(text: bytes, count: int) -> Integers:
    if b"." not in text and b"e" not in text.lower():
        whole = msgspec.json.decode(text, type=list[int])
        return np.fromiter((number * NS_PER_US for number in whole), np.int64, count)
    exact = msgspec.json.decode(text, type=list[Decimal])
    return np.fromiter((round(number * NS_PER_US) for number in exact), np.int64, count)


def too_large(path: Path, error: Exception) -> CorruptFileError:
    """What a number that no tool writes says about the file."""
    msg = f"{path}: a number is too large ({error})"
    return CorruptFileError(msg, EDITED)


def has_fractions(microseconds: Sequence[Any]) -> bool:
    """Whether any of these raw JSON numbers has decimals."""
    return b"." in b",".join(microseconds)
