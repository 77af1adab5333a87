"""Values of JSON as the types that are asked for, whichever a tool wrote; None for others."""

import math
from typing import Any, Final, TypeAlias

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
