"""A typical step of the baseline above one of a candidate, with what differs in colour."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import say_ns
from gpuprof.show import COMPARISON, Row
from gpuprof.show.charts.figure import (
    DTOH,
    HTOD,
    MEMSETS,
    PEER,
    Bars,
    Chart,
    Part,
    Picture,
    Results,
)

# In the order of the numbers of `step_operations.marks`.
_LOOKS: Final = (
    replace(MEMSETS, name="no difference", hatch=""),
    replace(PEER, name="longer below", kind="worse"),
    replace(HTOD, name="shorter below", kind="better"),
    replace(DTOH, name="only in one of them"),
)
_ROWS: Final = pa.schema(
    [
        ("variant", pa.string()),
        ("lane", pa.string()),
        ("name", pa.string()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("usual_ns", pa.int64()),
        ("other_usual_ns", pa.int64()),
        ("difference", pa.string()),
    ]
)


def picture(results: Results) -> Picture:
    """The operations of both steps, of several candidates that whose step differs most."""
    steps = results.steps()
    if steps is None:
        return Picture("", pa.Table.from_batches([], schema=_ROWS), [])
    base = steps["baseline"]
    candidate = max(steps["candidates"], key=lambda side: abs(side["length"] - base["length"]))
    marks = [np.array(lane).reshape(-1, 2).T for lane in candidate["marks"]]
    of_sides = [marks[: len(base["lanes"])], marks[len(base["lanes"]) :]]
    rows = [
        _operations(side, of_side, steps["names"])
        for side, of_side in zip((base, candidate), of_sides, strict=True)
    ]
    last = max(base["length"], candidate["length"])
    looks, panels = {look.name: look for look in _LOOKS}, []
    for side, of_side in zip((base, candidate), rows, strict=True):
        lanes = [lane["name"] for lane in side["lanes"]]
        parts = [
            Part(lanes.index(row["lane"]), looks[row["difference"]], row["start_ns"], row["end_ns"])
            for row in of_side
        ]
        title = f"{side['label']}: {say_ns(side['length'])}"
        panels.append(Bars(lanes, parts, _LOOKS, title=title, last=last))
    panels[1] = replace(panels[1], label="time since the start of each")
    finding = f"{candidate['label']} differs from {base['label']} by no more than it varies"
    if candidate["largest"]:
        largest = candidate["largest"][0]
        finding = f"{largest['name']} differs most, {largest['words']}"
    table = pa.Table.from_pylist([row for of_side in rows for row in of_side], _ROWS)
    return Picture(finding, table, panels)


def _operations(side: Row, marks: list[Any], names: list[str]) -> list[Row]:
    """One side's operations, lane by lane."""
    rows = []
    for lane, (mark, other_ns) in zip(side["lanes"], marks, strict=True):
        since_last, length, name = np.array(lane["operations"]).reshape(-1, 3).T
        start = np.cumsum(since_last)
        columns = (start, start + length, name, lane["usual"], mark, other_ns)
        for start_ns, end_ns, name_place, usual_ns, how, its_ns in zip(
            *(np.asarray(column).tolist() for column in columns), strict=True
        ):
            if end_ns == start_ns:
                continue  # it is none, but the end of the step
            times = {"start_ns": start_ns, "end_ns": end_ns, "usual_ns": usual_ns}
            its = {"other_usual_ns": its_ns or None}
            words = {"name": names[name_place], "difference": _LOOKS[how].name}
            rows.append({"variant": side["label"], "lane": lane["name"], **words, **times, **its})
    return rows


CHART: Final = Chart(
    "two_steps",
    "A typical step of the baseline above one of a candidate, with what differs",
    COMPARISON,
    (),
    picture,
)
