"""How a figure is shown to people: by its column's kind, and names where room is short."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, Final, TypeVar

import pyarrow as pa

from gpuprof.analyses import analysis_named
from gpuprof.base import units
from gpuprof.base.kernel_names import short_names
from gpuprof.base.labels import label
from gpuprof.facts.hosts import NO_NAMES, DeviceNames
from gpuprof.model.data_model import PROCESS_BITS
from gpuprof.model.schema import Column, Kind, Text, texts

Shown = TypeVar("Shown")

_PIECES: Final = re.compile(r"[^-_/.,:=<( ]*(?:\.\.|::|[-_/.,:=<( ])?")
# Long words of labels, with the places where a hyphen may break them.
_HYPHENATED: Final = {"communication": ("communi-", "cation")}
# Columns of keys. CSV, JSON and Parquet have the keys, people read their labels.
_KEYS: Final = {"activity_group", "part_of", "memcpy_kind", "path", "lane", "part", "cause"}
_DEVICES: Final = {"device_id", "peer_device_id", "src_device_id", "dst_device_id"}
# Columns that hold devices as texts, such as ``device 3``.
_ENDS: Final = {"src", "dst", "via"}
# Columns of steps and phases that name the kernel that opens them, or their range.
_OPENERS: Final = {"name", "text", "phase"}
# What steers a terminal, and what turns the direction of the text around it or ends its line.
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


def cell(spec: Column, value: Any) -> str:
    """A value as people read it; ``n/a`` where unknown."""
    if spec.kind == Kind.TEXT:
        return "" if value is None else clean(value)
    if value is None:
        return "n/a"
    if spec.kind in _SHOW:
        return _SHOW[spec.kind](value)
    number = f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
    return f"{number} {spec.unit}".strip()


def cell_of(
    name: str,
    spec: Column,
    value: Any,
    device_names: DeviceNames = NO_NAMES,
) -> str:
    """A value of a named column as people read it: the label of a key, such as PtoP_staged.

    Devices have the names that people know them by where their numbers are those of a job alone.
    """
    if name in _DEVICES and value in device_names.names_of_files:
        return clean(device_names.names_of_files[value])
    if name in _ENDS and value is not None:
        return clean(device_names.in_text(value))
    if name not in _KEYS or value is None:
        return cell(spec, value)
    return cell(spec, label(value).replace("_", " "))


def shown_once(values: Iterable[Any], show: Callable[[Any], Shown]) -> list[Shown]:
    """How each of some values is shown, found once for those that are alike."""
    values = [*values]
    shown = {value: show(value) for value in dict.fromkeys(values)}
    return [*map(shown.__getitem__, values)]


def _process(number: int) -> str:
    """``150``; ``150 #2`` where processes of several files have the same number."""
    file, process_id = divmod(number, 1 << PROCESS_BITS)
    return f"{process_id} #{file}" if file else f"{process_id}"


_SHOW: Final[Mapping[Kind, Callable[[Any], str]]] = {
    Kind.FLAG: {True: "yes", False: "no"}.__getitem__,
    Kind.ID: str,
    Kind.PROCESS: _process,
    # Of a step it may be a part of one.
    Kind.COUNT: lambda value: (units.format_ratio if value % 1 else units.format_count)(value),
    Kind.MEAN: units.format_ratio,
    Kind.SHARE: units.format_share,
    Kind.RATIO: units.format_ratio,
    Kind.CHANGE: units.format_change,
    Kind.INSTANT: units.format_instant,
    Kind.DURATION: units.format_ns,
    Kind.SECONDS: units.format_seconds,
    Kind.BYTES: units.format_bytes,
    Kind.RATE: units.format_rate,
    Kind.CLOCK: units.format_clock,
    Kind.FLOPS: units.format_flops,
}


def headings(columns: Mapping[str, Column], names: Sequence[str]) -> tuple[str, ...]:
    """What people see above some of a table's columns."""
    return tuple(columns[name].heading(name) for name in names)


def signed_ns(value: float | None) -> str:
    """A difference in time with its sign: ``+1.550 µs``; ``n/a`` where unknown."""
    shown = units.format_ns(value)
    return f"+{shown}" if value is not None and value > 0 else shown


def percent(share: float | None) -> str:
    """A signed share in percent, which many times may be: ``+4,501.2 %``; ``n/a`` where unknown."""
    return units.format_signed(None if share is None else 100 * share)


def clean(text: str) -> str:
    """Text from a recording without what would steer a terminal or turn the text around it."""
    return text if text.isprintable() else CONTROL.sub(" ", text)


def without_common_ends(labels: Sequence[str]) -> dict[str, str]:
    """Labels without the words with which all of them begin or end.

    ``runs/deepconn-single`` beside ``runs/deepconn-dual`` is ``single`` beside ``dual``. What is
    left of each begins with a letter, and no two of them are the same; else they stay as they are.
    """
    names = list(dict.fromkeys(labels))
    words = {name: pieces(name) for name in names}
    first = _common([words[name] for name in names], names)
    for begin in range(first, -1, -1):
        remaining = {name: words[name][begin:] for name in names}
        last = _common([parts[::-1] for parts in remaining.values()], names)
        for end in range(last, -1, -1):
            shortened = ("".join(parts[: len(parts) - end]) for parts in remaining.values())
            # Without what parted them from the words that are left out.
            cut = [text.rstrip("-_/., ") if end else text for text in shortened]
            if all(text[:1].isalpha() for text in cut) and len({*cut}) == len(cut):
                return dict(zip(remaining, cut, strict=True))
    return {name: name for name in names}


def _common(parts: Sequence[Sequence[str]], names: Sequence[str]) -> int:
    """How many words all begin with, so that each keeps one at least; none of a single name."""
    if len(names) <= 1:
        return 0
    alike = takewhile(lambda words: len({*words}) == 1, zip(*parts, strict=False))
    return min(sum(1 for _ in alike), min(map(len, parts)) - 1)


def pieces(text: str) -> list[str]:
    """A text in the parts that it may be broken into: each ends with ``_``, ``-``, ``=`` or so."""
    return list(filter(None, _PIECES.findall(text)))


def folded(text: str, width: int) -> str:
    """Text in lines of at most a width, broken after ``_``, ``-``, ``/`` or a dot where it can."""
    lines = [""]
    words = ((w,) if len(w) <= width else _HYPHENATED.get(w, (w,)) for w in pieces(text))
    for piece in chain.from_iterable(words):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width) or [""])


def with_short_names(
    table: pa.Table, column_name: str = "name", most: int | None = None
) -> pa.Table:
    """A table of kernels with short names, each of the first ``most`` unlike any other of them."""
    names = table.column(column_name).slice(0, most).to_pylist()
    shown = short_names(name for name in names if name is not None)
    column = pa.chunked_array([texts([*map(shown.get, names)])])
    if len(names) < table.num_rows:
        remaining = table.column(
            "short_name" if "short_name" in table.column_names else column_name
        )
        column = pa.chunked_array([*column.chunks, *remaining.slice(len(names)).chunks])
    return table.set_column(table.column_names.index(column_name), column_name, column)


def with_one_name(
    table: pa.Table, most: int | None = None, *, has_full_names: bool = False
) -> pa.Table:
    """A result table for people: with the short or the full names of kernels, not both.

    The tables of pauses and steps have full names alone, and people see short ones there, too.

    Args:
        table: The table.
        most: How many of its rows are seen beside each other; all where None.
        has_full_names: Whether the full names are shown.
    """
    if "ended_by" in table.column_names and not has_full_names:
        return with_short_names(table, "ended_by", most)
    if "source" in table.column_names and not has_full_names:
        return _with_short_openers(table)
    if "short_name" not in table.column_names:
        return table
    named = table if has_full_names else with_short_names(table, most=most)
    return named.drop_columns("short_name")


def _with_short_openers(table: pa.Table) -> pa.Table:
    """A table of steps or phases, those that kernels open under the short names of these."""
    from gpuprof.facts.step_windows import DETECTED  # noqa: PLC0415 - start-up time

    is_detected = [source == DETECTED for source in table.column("source").to_pylist()]
    for place, column in enumerate(table.column_names):
        if column in _OPENERS:
            names = table.column(column).to_pylist()
            openers = [*zip(names, is_detected, strict=True)]
            shown = short_names({name for name, is_opener in openers if is_opener and name})
            looks = [shown.get(name, name) if is_opener else name for name, is_opener in openers]
            table = table.set_column(place, column, pa.chunked_array([texts(looks)]))
    return table


def schema_columns(name: str, table: pa.Table) -> Mapping[str, Column]:
    """The documented columns of an analysis' table; plain text ones where it declares none."""
    declared = analysis_named(name).schema.columns
    return {column: declared.get(column, Text("")) for column in table.column_names}
