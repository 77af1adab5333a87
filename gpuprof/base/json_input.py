"""Every JSON text that gpuprof reads, decoded with limits of size and depth; values of its types.

A text that is cut short, damaged, nested too deep or too large ends in one `JsonError`, which
is a `ValueError`, whichever decoder found it. JSON sets no limits itself (RFC 8259, section 9,
lets a parser set them).
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, get_args, get_origin

# What a trace of hours takes; as objects in memory it takes a few times as much.
LARGEST_TRACE_BYTES: Final = 4 << 30
# Manifests, headers and recordings of TensorFlow take some megabytes at most.
LARGEST_DOCUMENT_BYTES: Final = 256 << 20
# A value that is decoded takes some hundred bytes, however short its text. In a large text no
# profiler writes objects that take fewer bytes on average, or lists of smaller values.
_LARGE_BYTES: Final = 16 << 20
_LEAST_BYTES: Final = {b"{": 20, b",": 8}
# Profilers nest some ten levels, plans of queries fifty. Python's own limit differs by version.
DEEPEST: Final = 200

_TOO_DEEP: Final = f"nested deeper than {DEEPEST} levels"
# C++ programs print doubles that are no number in their own way, which JSON does not know.
_NO_NUMBER: Final = re.compile(rb"(:\s*)-?(?:nan|NaN|inf|Infinity)(?=\s*[,}\]])")
# Escapes, and among them halves of characters, which no text can hold.
_HALF: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?:u[dD][89a-fA-F]\w\w|.)"
)
_REPLACEMENT: Final = r"\ufffd"
_ABSENT: Final = object()

Decoded = TypeVar("Decoded")


class JsonError(ValueError):
    """A text is no JSON, or is beyond a limit; the message says which, in a part of a line."""


class LimitError(JsonError):
    """A text is larger or nested deeper than is read."""


class ShapeError(JsonError):
    """A text is JSON of another shape than asked for."""


def load(path: Path) -> Any:
    """The document that a file holds.

    Raises:
        OSError: The file cannot be read.
        JsonError: It is no JSON, or is beyond a limit.
    """
    with path.open("rb") as file:
        return loads(file.read(LARGEST_DOCUMENT_BYTES + 1))


def lines(path: Path) -> Iterator[Any]:
    """What each line of a file says, without those that broke off where a process was killed.

    Nothing where there is no file.

    Raises:
        OSError: The file cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in text.splitlines():
        with suppress(JsonError):
            yield loads(line)


def loads(text: str | bytes) -> Any:
    """The document that a text holds; NaN and infinity are null, which JSON has instead.

    Raises:
        JsonError: It is no JSON, or is beyond a limit.
    """
    if len(text) > LARGEST_DOCUMENT_BYTES:
        msg = f"larger than {LARGEST_DOCUMENT_BYTES >> 20} MiB"
        raise LimitError(msg)
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        document = json.JSONDecoder(parse_constant=lambda _: None).decode(
            _HALF.sub(lambda m: _REPLACEMENT if len(m[0]) == len(_REPLACEMENT) else m[0], decoded)
        )
    except (RecursionError, MemoryError) as error:
        raise LimitError(_TOO_DEEP) from error
    except ValueError as error:
        msg = f"cut short or damaged ({_fault(error)})"
        raise JsonError(msg) from error
    return _checked(document)


def _fault(error: Exception) -> str:
    """What a decoder says; each release of msgspec says in other words that a text is not UTF-8."""
    is_encoding = isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error)
    return "not UTF-8" if is_encoding else str(error)


def _checked(document: Any) -> Any:
    """The same document, whose depth later code need not fear."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(DEEPEST):
        values = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for of in values for inner in of if isinstance(inner, dict | list)]
        if not level:
            return document
    raise LimitError(_TOO_DEEP)


# Numbers stay as printed: a float would lose digits of a time.
_AS_PRINTED: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def first(text: str, begin: int) -> tuple[Any, int]:
    """The value that begins at a place of a text, its numbers as printed, and where it ends.

    Raises:
        json.JSONDecodeError: There is no whole value.
        JsonError: It is nested too deep.
    """
    try:
        value, end = _AS_PRINTED.raw_decode(text, begin)
    except (RecursionError, MemoryError) as error:
        raise LimitError(_TOO_DEEP) from error
    return _checked(value), end


def decode(data: bytes, expected: type[Decoded]) -> Decoded:
    """The parts of a JSON text that a type of msgspec asks for; the others are passed over.

    Raises:
        JsonError: It is no JSON, or is beyond a limit.
        ShapeError: A part is of another type than asked for.
    """
    import msgspec  # noqa: PLC0415 - most commands read no trace

    if len(data) > LARGEST_TRACE_BYTES:
        msg = f"larger than {LARGEST_TRACE_BYTES >> 30} GiB"
        raise LimitError(msg)
    _check_density(data, b"{")
    try:
        return _decode(data, expected)
    except msgspec.ValidationError as error:
        raise ShapeError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        raise LimitError(_TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"cut short or damaged ({_fault(error)}; {len(data)} bytes)"
        raise JsonError(msg) from error


def _check_density(data: bytes, mark: bytes) -> None:
    """See that a large text does not take many times its size of memory.

    Raises:
        LimitError: There is more of a mark than in any text of its size.
    """
    if len(data) <= _LARGE_BYTES:
        return
    parts = bytes(data).count(mark)  # msgspec's raw part of a text counts nothing
    if parts * _LEAST_BYTES[mark] > len(data):
        msg = f"made of {parts:,} parts in {len(data):,} bytes, unlike any recording"
        raise LimitError(msg)


def _decode(data: bytes, expected: type[Decoded]) -> Decoded:
    import msgspec  # noqa: PLC0415 - as above

    try:
        return msgspec.json.decode(data, type=expected)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended, count = _NO_NUMBER.subn(rb"\1null", data)
        if not count:
            raise
        return msgspec.json.decode(mended, type=expected)


def lenient(data: bytes, expected: type[Decoded]) -> Decoded:
    """As `decode`, but a field of another type than asked for has its default.

    Raises:
        JsonError: It is no JSON, or is beyond a limit.
        ShapeError: It is no object or list as asked for, or lacks what has no default.
    """
    try:
        return decode(data, expected)
    except ShapeError as error:
        values: Decoded = _salvaged(data, expected, error)
        return values


def _salvaged(data: bytes, expected: Any, error: ShapeError) -> Any:
    import msgspec  # noqa: PLC0415 - most commands read no trace

    _check_density(data, b",")
    if get_origin(expected) is list:
        (element,) = get_args(expected)
        return [lenient(raw, element) for raw in decode(data, list[msgspec.Raw])]
    if not isinstance(expected, type) or not issubclass(expected, msgspec.Struct):
        raise error
    raw = decode(data, dict[str, msgspec.Raw])
    fields = [f for f in msgspec.structs.fields(expected) if f.encode_name in raw]
    values = {f.name: _value(raw[f.encode_name], f) for f in fields}
    try:
        return expected(**{name: value for name, value in values.items() if value is not _ABSENT})
    except TypeError as lacking:
        raise error from lacking


def _value(data: bytes, field: Any) -> Any:
    import msgspec  # noqa: PLC0415 - as above

    try:
        return lenient(data, field.type)
    except ShapeError as error:
        if field.required:
            msg = f"{error} in {field.encode_name}"
            raise ShapeError(msg) from error
        if get_origin(field.type) is not list:
            return _ABSENT
        # The elements that have the expected type; none where the data are no list.
        elements = []
        with suppress(ShapeError):
            for raw in decode(data, list[msgspec.Raw]):
                with suppress(ShapeError):
                    elements.append(lenient(raw, *get_args(field.type)))
        return elements


# A number or a name as some tool may write it. No bool: as a key of a dict it equals 0 or 1.
Scalar: TypeAlias = int | float | str | None

_INT64: Final = range(-(1 << 63), 1 << 63)


def integer(value: object) -> int | None:
    """A number of JSON, or one in a text such as ``9216`` or ``0x0``; None for anything else.

    Raises:
        OverflowError: It is a number that no column of integers holds.
    """
    if isinstance(value, str):
        try:
            of_text = int(value, 16) if value[:2] in ("0x", "0X") else int(value)
        except ValueError:
            return None
        # A handle of 64 bits is not a number of anything.
        return of_text if of_text in _INT64 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if value not in _INT64:
        msg = "an integer is beyond 64 bits"
        raise OverflowError(msg)
    return value


def number(value: object) -> float | None:
    """A number of JSON, or one in a text; None for anything else, infinity included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        converted = float(value)
    except (ValueError, OverflowError):
        return None
    return converted if math.isfinite(converted) else None


def text(value: object) -> str | None:
    """A text of JSON, or a number as one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return str(value)


def texts(value: object) -> tuple[str, ...] | None:
    """A list of texts; None for anything else."""
    parts = [text(part) for part in value] if isinstance(value, list) else [None]
    return None if None in parts else tuple(part for part in parts if part is not None)


def mapping(value: object) -> dict[str, Any] | None:
    """An object; None for anything else."""
    return value if isinstance(value, dict) else None


def mappings(value: object) -> tuple[dict[str, Any], ...] | None:
    """A list of objects; None for anything else."""
    parts = [mapping(part) for part in value] if isinstance(value, list) else [None]
    return None if None in parts else tuple(part for part in parts if part is not None)


def words(value: object) -> dict[str, str] | None:
    """An object's texts by their names, without its other values; None for anything else."""
    if not isinstance(value, dict):
        return None
    named = {key: text(part) for key, part in value.items()}
    return {key: part for key, part in named.items() if part is not None}
