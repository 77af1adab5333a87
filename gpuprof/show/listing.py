"""Formats, tables, analyses and charts, listed from their declarations."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gpuprof.base.units import counted, format_bytes, say_bytes
from gpuprof.facts import derived_tables
from gpuprof.model.analysis import Analysis
from gpuprof.model.schema import Column, Kind, Schema
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys.export_cache import LIMIT_BYTES, Entry, location
from gpuprof.show.charts.figure import Chart


def formats_text(readers: Sequence[Reader]) -> str:
    """Every input format: name, what it is, versions, limits."""
    described = {}
    for reader in readers:
        lines = [f"{reader.title}; {reader.versions}", f"Tables: {', '.join(reader.gives)}"]
        described[reader.name] = [*lines, *([f"Limits: {reader.cannot}"] if reader.cannot else [])]
    return _entries(described)


def formats_table(readers: Sequence[Reader]) -> str:
    """The same as a markdown table, as the README shows it."""
    rows = [f"| `{r.name}` | {r.title} | {r.versions} | {r.cannot} |" for r in readers]
    return "\n".join(["| name | what it is | versions | limits |", "|---|---|---|---|", *rows, ""])


def schemas_text(schemas: Sequence[Schema]) -> str:
    """Every table: its name, what a row is, and each column's unit and meaning.

    Derived relations and columns, which queries have besides the recorded ones, come last.
    """
    relations = {
        f"{name}: derived from {derived_tables.SOURCE}": {
            column: spec.meaning for column, spec in derived.columns.items()
        }
        for name, (derived, _) in derived_tables.TABLES.items()
    }
    documented = {}
    for schema in schemas:
        columns = {
            name: f"[{unit}] {column.meaning}" if (unit := unit_of(column)) else column.meaning
            for name, column in schema.columns.items()
        }
        derived = derived_tables.COLUMNS.get(schema.name, {})
        columns |= {name: f"[derived] {column.meaning}" for name, column in derived.items()}
        documented[f"{schema.name}: {schema.row}"] = columns
    return "\n".join(
        f"{head}\n{_entries({f'  {name}': [text] for name, text in columns.items()})}"
        for head, columns in (documented | relations).items()
    )


def unit_of(column: Column) -> str:
    """The unit of a quantity, and of other numbers what they are: counts, shares, ids, ..."""
    is_quantity = column.unit != "1" and column.kind not in {Kind.ID, Kind.PROCESS}
    return column.unit if is_quantity else column.kind


def analyses_text(analyses: Sequence[Analysis]) -> str:
    """Every analysis: name, title, and the tables that it needs."""
    described = {}
    for analysis in analyses:
        needs = " and ".join(analysis.needs), " or ".join(analysis.needs_any_of)
        needed = ", and ".join(filter(None, needs)) or "nothing"
        described[analysis.name] = [analysis.title, f"Needs {needed}"]
    return _entries(described)


def charts_text(charts: Sequence[Chart]) -> str:
    """Every chart: name, title, what it is about, and the tables that it is drawn from."""
    return _entries(
        {
            c.name: [c.title, f"Of a {c.subject}: {' and '.join(c.tables) or 'its recordings'}"]
            for c in charts
        }
    )


def cache_text(entries: Sequence[Entry]) -> str:
    """The exports and pages in the cache, a line each, and what they take together."""
    lines = [
        f"{format_bytes(e.size_bytes):>10}  {_used(e)[:16]}  {e.source or e.folder.name}"
        for e in entries
    ]
    head = [f"{'Size':>10}  {'Last used (UTC)':16}  Of"] if lines else []
    total = sum(entry.size_bytes for entry in entries)
    room = f"{say_bytes(total)} of at most {say_bytes(LIMIT_BYTES)}"
    count = counted(len(entries), "entry", "entries")
    return "\n".join([*head, *lines, f"{count} in {location()}, {room}", ""])


def cleared_text(removed: Sequence[Entry], in_use: Sequence[Entry]) -> str:
    """What was removed from the cache, and what is in use."""
    total = say_bytes(sum(entry.size_bytes for entry in removed))
    text = f"Removed {counted(len(removed), 'entry', 'entries')}, {total}.\n"
    return text + (f"Kept {len(in_use)} that a running gpuprof reads.\n" if in_use else "")


def cache_json(**groups: Sequence[Entry]) -> str:
    """The cache's folder and limit, and groups of its exports, for programs."""
    rows: dict[str, list[dict[str, Any]]] = {
        name: [
            {
                "source": entry.source,
                "folder": str(entry.folder),
                "bytes": entry.size_bytes,
                "last_used": _used(entry),
            }
            for entry in entries
        ]
        for name, entries in groups.items()
    }
    head = {"folder": str(location()), "limit_bytes": LIMIT_BYTES}
    return json.dumps({**head, **rows}, indent=2) + "\n"


def _used(entry: Entry) -> str:
    return datetime.fromtimestamp(entry.used_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entries(described: Mapping[str, Sequence[str]]) -> str:
    """Names, each beside what is said of it."""
    width, text = max(map(len, described)) + 2, ""
    for name, lines in described.items():
        first, *further_lines = (part for line in lines for part in textwrap.wrap(line, 80 - width))
        text += f"{name:<{width}}{first}\n"
        text += "".join(f"{'':<{width}}{line}\n" for line in further_lines)
    return text
