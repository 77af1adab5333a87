"""A prediction as tables and JSON, and a plot of both critical paths of one step."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from gpuprof.base.short_texts import cut
from gpuprof.base.units import counted, say_ns, say_share
from gpuprof.model.origin import Origin
from gpuprof.predict.paths import CALL, HOST, LATENCY, WAIT
from gpuprof.predict.predict import SCHEMAS, Prediction
from gpuprof.show import Page, Row, csv, json, renderer_named
from gpuprof.show.cells import cell, headings, signed_ns
from gpuprof.show.charts.figure import (
    COMMUNICATION,
    DTOH,
    KERNELS,
    MANAGED,
    MEMSETS,
    NOTHING,
    PEER,
    Bars,
    Look,
    Part,
    Picture,
)
from gpuprof.show.charts.step_path import LABELS, names_for_people, sums_by_kind
from gpuprof.show.overview import Grid

_PARTS: Final = 12
_HEADER: Final = (
    "Time of", "Device", "Steps", "Measured", "Replayed", "Predicted", "Range", "Change", "Assumed",
)  # fmt: skip
_TIMES: Final = (
    "steps", "measured_ns", "replayed_ns", "predicted_ns", "low_ns", "high_ns", "change",
)  # fmt: skip
LOOKS: Final = {
    "kernel": KERNELS,
    "collective": COMMUNICATION,
    "copy": Look("copies", PEER.kind, "#D55E00", "///"),
    "memset": MEMSETS,
    CALL: Look("CUDA call", DTOH.kind, "#CC79A7", "xxx"),
    HOST: Look("host", MANAGED.kind, "#F0E442", "|||"),
    WAIT: Look("wait in MPI", MEMSETS.kind, "#BBBBBB", "..."),
    LATENCY: Look("latency or wait", NOTHING.kind, "#EEEEEE"),
}
_LABELS: Final = 3
# A bar wider than this share of the picture has room for its name.
_WIDE: Final = 0.12
# With more stretches than this, those of one kind are merged within each of as many slots.
_SLOTS: Final = 160


def prediction_text(result: Prediction, origin: Origin, form: str, page: Page) -> str:
    """A prediction in a format of ``--format``; csv has the table of times only."""
    if form == "json":
        return json.versioned_text(
            {
                "origin": origin.shown(),
                "what": result.changes,
                "headline": result.headline,
                "tables": {name: table.to_pylist() for name, table in result.tables.items()},
                "notes": result.notes,
            }
        )
    if form == "csv":
        table = result.tables["prediction"]
        return csv.rows_text(table.column_names, table.to_pylist())
    edges = result.tables["dependencies"]
    cells = _cells("dependencies", edges.to_pylist(), edges.column_names, page)
    heads = headings(SCHEMAS["dependencies"].columns, edges.column_names)
    grids = [
        _times_grid(result.tables["prediction"]),
        _path_grid(result, page),
        Grid("Dependencies: edges of the graph", heads, cells, name_columns=(0, 1)),
    ]
    return renderer_named(form).grids_text(result.headline, grids, result.notes, page)


def _times_grid(times: pa.Table) -> Grid:
    """A row for the recording and for each phase, on all devices and on each."""
    spec, rows = SCHEMAS["prediction"].columns, []
    for row in times.to_pylist():
        shown = {name: cell(spec[name], row[name]) for name in _TIMES}
        low, high = shown["low_ns"], shown["high_ns"]
        rows.append(
            (
                f'a step of "{row["phase"]}"' if row["phase"] else "the recording",
                "all" if row["device_id"] is None else str(row["device_id"]),
                "" if row["steps"] is None else shown["steps"],
                *(shown[f"{name}_ns"] for name in ("measured", "replayed", "predicted")),
                low if low == high else f"{low} to {high}",
                shown["change"],
                row["assumptions"],
            )
        )
    title, last = "Measured, replayed with usual latencies, and predicted", len(_HEADER) - 1
    return Grid(title, _HEADER, tuple(rows), (0, last), sentences=(last,))


def _cells(
    name: str, rows: Sequence[Row], columns: Sequence[str], page: Page
) -> tuple[tuple[str, ...], ...]:
    """Rows as text, kernels with short names."""
    spec = SCHEMAS[name].columns
    called = names_for_people(rows, has_full_names=page.has_full_names)
    return tuple(
        tuple(
            signed_ns(row[c])
            if c == "difference_ns"
            else cell(spec[c], called.get(row[c], row[c]) if c == "name" else row[c])
            for c in columns
        )
        for row in rows
    )


def _path_grid(result: Prediction, page: Page) -> Grid:
    """The largest parts of the critical path, and all others as one row."""
    table = result.tables["critical_path"]
    columns = ("kind", "name", "before_ns", "after_ns", "difference_ns")
    rows = table.to_pylist()
    count = len(rows) if page.is_wide else _PARTS
    cells = _cells("critical_path", rows[:count], columns, page)
    if hidden := rows[count:]:
        hidden_values = {c: [row[c] for row in hidden if row[c] is not None] for c in columns[2:]}
        sums = {c: sum(values) if values else None for c, values in hidden_values.items()}
        total = {"kind": "", "name": counted(len(hidden), "other", "others"), **sums}
        cells += _cells("critical_path", [total], columns, page)
    phase = phase_of(result)
    title = "Critical path"
    title += f' of a step of "{phase}", scaled to the median' if phase else ""
    heads = headings(SCHEMAS["critical_path"].columns, columns)
    return Grid(title, heads, cells, name_columns=(0, 1))


def critical_paths(result: Prediction) -> Picture:
    """Both critical paths over one step: a bar each, with names in the widest stretches."""
    table = result.tables["stretches"]
    rows = table.to_pylist()
    paths = list(dict.fromkeys(row["path"] for row in rows)) or ["before"]
    parts, figures = [], []
    for place, name in enumerate(paths):
        stretches = _joined([row for row in rows if row["path"] == name])
        end = max((row["end_ns"] for row in stretches), default=0)
        shown = stretches if len(stretches) <= _SLOTS else in_slots(stretches, end)
        parts += [Part(place, LOOKS[r["kind"]], r["start_ns"], r["end_ns"]) for r in shown]
        wide = [row for row in stretches if row["end_ns"] - row["start_ns"] > _WIDE * end]
        names = names_for_people(wide)
        for row in wide[:_LABELS]:
            room = int(90 * (row["end_ns"] - row["start_ns"]) / end)
            label = cut(names.get(row["name"], row["name"]), room)
            look = LOOKS[row["kind"]]
            parts.append(Part(place, look, row["start_ns"], row["end_ns"], label=label))
        figures.append(say_ns(end))
    bars = Bars(
        [LABELS[name] for name in paths],
        parts,
        tuple(LOOKS.values()),
        figures,
        "critical path of one step, time since its start",
    )
    of = "The recording" if phase_of(result) is None else "A step"
    before, *after = figures
    title = f"{of} would take {after[0]} instead of {before}" if after else f"{of} takes {before}"
    return Picture(title, table, [bars])


def path_in_words(result: Prediction) -> str:
    """What the critical path as recorded consists of."""
    sums = {kind: before for kind, (before, _) in sums_by_kind(result).items()}
    total = sum(sums.values()) or 1
    parts = (
        f"{LOOKS[kind].name} {say_ns(sums[kind])} ({say_share(sums[kind] / total)})"
        for kind in sorted(sums, key=lambda kind: -sums[kind])
    )
    of = "of the recording" if phase_of(result) is None else "per step"
    return f"Critical path {of}, {say_ns(total)}: {', '.join(parts)}."


def phase_of(result: Prediction) -> str | None:
    """The phase that the critical path is of; None for the whole recording."""
    phases: list[str | None] = result.tables["critical_path"].column("phase").to_pylist()
    return phases[0] if phases else None


def _joined(rows: Sequence[Row]) -> list[Row]:
    """Consecutive stretches of the same kind and name, merged."""
    joined: list[Row] = []
    for row in rows:
        last = joined[-1] if joined else None
        if last and (last["kind"], last["name"]) == (row["kind"], row["name"]):
            joined[-1] = last | {"end_ns": row["end_ns"]}
        elif row["end_ns"] > row["start_ns"]:
            joined.append(row)
    return joined


def in_slots(rows: Sequence[Row], end: int) -> list[Row]:
    """Stretches sorted by kind within each slot of time, so that none is too thin to see."""
    times: dict[tuple[int, str], int] = {}
    for row in rows:
        since = row["start_ns"]
        while since < row["end_ns"]:
            slot = since * _SLOTS // end
            until = min(row["end_ns"], -(-(slot + 1) * end // _SLOTS))
            times[slot, row["kind"]] = times.get((slot, row["kind"]), 0) + until - since
            since = until
    ordered, at = [], 0
    for slot, kind in sorted(times, key=lambda key: (key[0], list(LOOKS).index(key[1]))):
        ordered.append({"kind": kind, "name": "", "start_ns": at, "end_ns": at + times[slot, kind]})
        at += times[slot, kind]
    return _joined(ordered)
