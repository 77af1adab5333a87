"""Parse and format times, sizes and rates: the only file that knows 1e3, 1e6 and 1024."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

_NS_PER_UNIT: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,  # micro sign, U+00B5
    "μs": NS_PER_US,  # Greek mu, U+03BC, as the Nsight Systems window copies it
    "ms": NS_PER_MS,
    "s": NS_PER_S,
}

# No profiler prints these.
_NS_PER_LONG_UNIT: Final = {"m": 60 * NS_PER_S, "min": 60 * NS_PER_S, "h": 3600 * NS_PER_S}

_DECIMAL_BYTES: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY_BYTES: Final = {
    "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip

# Digits of 2**63, and some.
_LONGEST: Final = 24

_QUANTITY: Final = re.compile(r"^([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-zµμ]+)$")


def parse_ns(text: str) -> int:
    """Turn ``13.0696s``, ``137.90us`` or ``544ns`` into integer nanoseconds.

    Raises:
        ValueError: The text is no number with one of the units ns, us, ms and s.
    """
    return to_ns(*_split(text))


def duration_ns(text: str) -> int:
    """Turn what a person asks for, as ``2h``, ``10m``, ``90s`` or ``300us``, into nanoseconds.

    Raises:
        ValueError: The text is no number with a unit of time.
    """
    number, unit = _split(text)
    return _integer(number, (_NS_PER_UNIT | _NS_PER_LONG_UNIT).get(unit), unit)


def instant_ns(text: str) -> int:
    """Turn ``1.5s`` or ``-20ms``, counted from an origin, into nanoseconds.

    Raises:
        ValueError: The text is no number with a unit of time.
    """
    return -duration_ns(text[1:]) if text.startswith("-") else duration_ns(text)


def to_ns(number: str, unit: str) -> int:
    """Nanoseconds of a decimal number in a unit of time, exact before the last rounding.

    Raises:
        ValueError: It is no number, larger than 64 bits hold, or of an unknown unit.
    """
    return _integer(number, _NS_PER_UNIT.get(unit), unit)


def parse_binary_bytes(text: str) -> int:
    """Bytes of ``28.902KB`` as nvprof writes it, where a KB is 1024 bytes.

    Raises:
        ValueError: The text is no number with a unit of bytes.
    """
    number, unit = _split(text)
    return _integer(number, _BINARY_BYTES.get(unit), unit)


def parse_decimal_bytes(text: str) -> int:
    """Bytes of ``300MB`` or ``1.5GB``, where a MB is 10**6; a MiB is 1024 times 1024.

    Raises:
        ValueError: The text is no number with a unit of bytes.
    """
    return to_decimal_bytes(*_split(text))


def to_decimal_bytes(number: str, unit: str) -> int:
    """Bytes of a decimal number in Nsight Systems' units: MB is 10**6, KiB is 1024 bytes."""
    return _integer(number, _DECIMAL_BYTES.get(unit, _BINARY_BYTES.get(unit)), unit)


def parse_count(text: str) -> int:
    """A whole number, such as how often a kernel ran.

    Raises:
        ValueError: It is none, or larger than 64 bits hold.
    """
    return _within_64_bits(int(text[:_LONGEST]), text)


def _split(text: str) -> tuple[str, str]:
    match = _QUANTITY.match(text.strip())
    if match is None:
        msg = f'expected a number with a unit, found "{text}"'
        raise ValueError(msg)
    return match[1], match[2]


def _integer(number: str, factor: int | None, unit: str) -> int:
    if factor is None:
        msg = f'unknown unit "{unit}"'
        raise ValueError(msg)
    try:
        exact = Decimal(number)
    except InvalidOperation as error:
        msg = f'expected a number, found "{number}"'
        raise ValueError(msg) from error
    if not exact.is_finite() or exact.adjusted() > _LONGEST:
        return _within_64_bits(1 << 64, number)
    return _within_64_bits(round(exact * factor), number)


def _within_64_bits(value: int, text: str) -> int:
    if abs(value) >= 1 << 63:
        msg = f'"{text[:_LONGEST]}" is too large a number'
        raise ValueError(msg)
    return value


_TIME_UNITS: Final = (("s", NS_PER_S), ("ms", NS_PER_MS), ("µs", NS_PER_US), ("ns", 1))
_BYTE_UNITS: Final = tuple(reversed(_DECIMAL_BYTES.items()))
_FLOP_UNITS: Final = tuple(
    (f"{x}FLOP/s", 10**n) for x, n in (("P", 15), ("T", 12), ("G", 9), ("M", 6), ("", 0))
)
_STEP: Final = 1_000  # From one unit to the next.
# From this growth on a factor says more than a share.
MANYFOLD: Final = 10
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[nuµm]?s|[KMGT]?i?B(?:/s)?)(?!\w))")


def bound(text: str) -> str:
    """Text whose figures stay with their units where lines are broken: no-break spaces."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)


def encodable(text: str) -> str:
    """A file's name as text: bytes that are no UTF-8 are spelled out."""
    return text.encode(errors="backslashreplace").decode()


def format_ns(value: float | None) -> str:
    """Show nanoseconds to a person: ``13.070 s``, ``137.9 µs``; ``n/a`` where unknown."""
    return _scaled(value, _TIME_UNITS)


def format_instant(value: float | None) -> str:
    """Show when something was, to the microsecond: ``2.075412 s``; ``n/a`` where unknown."""
    if value is None or abs(value) < NS_PER_MS:
        return format_ns(value)
    if abs(value) < NS_PER_S:
        return f"{value / NS_PER_MS:.3f} ms"
    return f"{value / NS_PER_S:.6f} s"


def format_bytes(value: float | None) -> str:
    """Show bytes to a person in decimal units: ``26.588 MB``; ``n/a`` where unknown."""
    return _scaled(value, _BYTE_UNITS)


def say_ns(value: float | None) -> str:
    """Nanoseconds in a sentence, three digits: ``13.1 s``, ``138 µs``; ``n/a`` where unknown."""
    return _scaled(value, _TIME_UNITS, _three_digits)


def say_signed_ns(value: int) -> str:
    """A difference in time in a sentence, with its sign: ``+13.1 s``."""
    return f"{'+' if value > 0 else ''}{say_ns(value)}"


def say_bytes(value: float | None) -> str:
    """Bytes in a sentence, three digits: ``26.6 MB``; ``n/a`` where unknown."""
    return _scaled(value, _BYTE_UNITS, _three_digits)


def say_rate(value: float | None) -> str:
    """Bytes per second in a sentence, three digits: ``10.5 GB/s``; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{say_bytes(value)}/s"


def say_ratio(value: float) -> str:
    """A factor in a sentence, three digits: ``1.29``."""
    return f"{value:,.{_three_digits(value)}f}"


def say_seconds(value: float | None) -> str:
    """Seconds in a sentence, three digits: ``20.5 s``; ``n/a`` where unknown."""
    return say_ns(None if value is None else value * NS_PER_S)


def say_binary_bytes(value: int) -> str:
    """Bytes in a sentence where sizes are powers of two: ``64 KiB``."""
    steps = tuple((name, size) for name, size in _BINARY_BYTES.items() if "i" in name or size == 1)
    unit, size = max((step for step in steps if step[1] <= max(value, 1)), key=lambda step: step[1])
    return f"{round(value / size, _three_digits(value / size)):,g} {unit}"


def say_share(value: float | None) -> str:
    """A fraction of 0 to 1 in a sentence: ``27.5 %``, ``100 %``; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{value * 100:.1f} %".replace("100.0", "100")


def say_growth(value: float) -> str:
    """A relative difference in a sentence, without its sign: ``27.5 %``; ``x20.2`` from ten on.

    What is not quite gone is never rounded to all of it.
    """
    if value >= MANYFOLD:
        return f"x{1 + value:,.1f}"
    shown = say_share(abs(value))
    return "over 99.9 %" if value > -1 and shown == "100 %" and value < 0 else shown


def time_axis(largest_ns: float) -> tuple[float, str]:
    """How many nanoseconds one step of an axis' unit has, and the unit, for a largest value."""
    return _axis(largest_ns, _TIME_UNITS)


def tick_ns(value: float) -> str:
    """Nanoseconds at a tick of an axis, as short as can be: ``10 µs``."""
    factor, unit = _axis(value, _TIME_UNITS)
    return f"{value / factor:.12g} {unit}"


def bytes_axis(largest_bytes: float) -> tuple[float, str]:
    """How many bytes one step of an axis' unit has, and the unit, for a largest value."""
    return _axis(largest_bytes, _BYTE_UNITS)


def _axis(largest: float, steps: tuple[tuple[str, int], ...]) -> tuple[float, str]:
    unit, factor = next((step for step in steps if largest >= step[1]), steps[-1])
    return float(factor), unit


def format_rate(value: float | None) -> str:
    """Show bytes per second to a person: ``10.5 GB/s``; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{format_bytes(value)}/s"


def format_flops(value: float | None) -> str:
    """Show floating-point operations per second: ``14.2 TFLOP/s``; ``n/a`` where unknown."""
    return _scaled(value, _FLOP_UNITS, _three_digits)


# What a number may be given in, by the unit of the column that it is compared with.
BASE_UNITS: Final = {
    "ns": {unit: float(factor) for unit, factor in _NS_PER_UNIT.items()},
    "s": {unit: factor / NS_PER_S for unit, factor in _NS_PER_UNIT.items()},
    "B": {unit: float(factor) for unit, factor in _DECIMAL_BYTES.items()},
    "1": {"%": 0.01},
}


def format_base(value: float, unit: str) -> str:
    """Show a number of a column to a person, by the column's unit."""
    shown = {"ns": format_ns, "s": format_seconds, "B": format_bytes}.get(unit)
    return f"{value:,.4g}" if shown is None else shown(value)


def format_clock(hertz: float | None) -> str:
    """Show a clock's rate to a person: ``1410 MHz``; ``n/a`` where unknown."""
    return "n/a" if hertz is None else f"{hertz / 1e6:.0f} MHz"


def format_count(value: float | None) -> str:
    """Show a count with thousands separators; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{value:,.0f}"


def counted(number: int, singular: str, plural: str) -> str:
    """A number with its noun: ``1 copy``, ``1,200 copies``."""
    return f"{number:,} {singular if number == 1 else plural}"


def capital(sentence: str) -> str:
    """A sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]


def format_seconds(value: float | None) -> str:
    """Show seconds to a person: ``20.455 s``; ``n/a`` where unknown."""
    return format_ns(None if value is None else value * NS_PER_S)


def format_ratio(value: float | None) -> str:
    """Show a ratio to a person: ``0.286``; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{value:,.3f}"


def format_change(percent: float | None) -> str:
    """Show a difference in percent to a person: ``+27.5 %``, ``x20.2``; ``n/a`` where unknown."""
    if percent is not None and percent >= 100 * MANYFOLD:
        return f"x{1 + percent / 100:,.1f}"
    return format_signed(percent)


def format_signed(percent: float | None) -> str:
    """Show percent with their sign, however many, to a person: ``-3,320.3 %``."""
    if percent is None:
        return "n/a"
    shown = f"{percent:+,.1f} %"
    return shown[1:] if shown[1:] == "0.0 %" else shown


def format_share(value: float | None) -> str:
    """Show a fraction of 0 to 1 as percent: ``24.53 %``; ``n/a`` where unknown."""
    return "n/a" if value is None else f"{value * 100:.2f} %"


def _three_digits(scaled: float) -> int:
    """How many decimals three digits leave, rounding counted: 9.996 is ``10.0``."""
    return 2 - bisect_right((9.995, 99.95), abs(scaled))


def _decimals(scaled: float) -> int:
    """Three after the point below 100, none from 1,000 on."""
    return (3, 1, 0)[bisect_right((100, 1000), scaled)]


def _scaled(
    value: float | None,
    units: tuple[tuple[str, int], ...],
    decimals: Callable[[float], int] = _decimals,
) -> str:
    if value is None:
        return "n/a"
    shown = ""
    for name, factor in reversed(units):
        scaled = value / factor
        number = f"{scaled:.{decimals(abs(scaled)) if factor > 1 else 0}f}"
        shown = f"{number} {name}"
        # What is rounded to 1,000 of a unit is 1 of the next.
        if not abs(float(number)) >= _STEP:
            break
    return shown


def number_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``0 to 6, 8 and 9``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [
        f"{low} to {high}" if high > low + 1 else f"{number}"
        for low, high in runs
        for number in ([low] if high > low + 1 else range(low, high + 1))
    ]
    return listed(words)


def listed(texts: Sequence[str], word: str = "and") -> str:
    """``a, b and c``, or with another word before the last."""
    return f" {word} ".join(part for part in (", ".join(texts[:-1]), *texts[-1:]) if part)
