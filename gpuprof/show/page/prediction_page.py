"""The page of a prediction: the critical path of a step before and after, and its tables."""

from typing import Final

import pyarrow as pa

from gpuprof.facts.hosts import names_of
from gpuprof.model.profile import Profile
from gpuprof.model.schema import texts
from gpuprof.predict.predict import SCHEMAS, Prediction
from gpuprof.show.cells import clean
from gpuprof.show.charts.figure import stacked
from gpuprof.show.charts.step_path import LABELS, names_for_people, step_path, sums_by_kind
from gpuprof.show.page.document import Document, html
from gpuprof.show.page.figures import Figure, figure
from gpuprof.show.page.tables import page_table
from gpuprof.show.prediction import LOOKS, phase_of

_TITLES: Final = {
    "prediction": "Measured, replayed with usual latencies, and predicted",
    "critical_path": "Critical path",
    "dependencies": "Dependencies: edges of the graph",
}
_COMMAND: Final = "gpuprof predict FILE --format json"
_CAPTION: Final = (
    "On one axis from the start of the step; a lane for each stream, a colour for each name."
    " Striped, \N{BLACK DIAMOND}: on the critical path, which is what the step waits for; pale: not"
    " on it. What the path spends on the host and in waits has a lane of its own. Point at one for"
    " its times; Find marks names, and Enter shows each."
)


def prediction_page(result: Prediction, profile: Profile, *, has_full_names: bool = False) -> str:
    """A prediction as one HTML file, kernels with their short or their full names."""
    origin = profile.origin
    devices = names_of(profile.unrestricted)
    changed = " ".join(result.changes) or "nothing"
    figures = [_kinds(result)] if result.tables["critical_path"].num_rows else []
    if result.step.num_rows:
        data = step_path(result, devices, has_full_names=has_full_names)
        data |= {"of_largest": "Longest parts of the critical path", "of_none": ""}
        subject = "the recording" if phase_of(result) is None else "a typical step"
        lower = " and as predicted" * bool(data["candidates"][0]["lanes"])
        title = f"The critical path of {subject}, as recorded{lower}"
        caption = _CAPTION
        caption += f" The shortest {data['left_out']:,} are left out." * bool(data["left_out"])
        figures.insert(0, Figure("step-path", title, caption, "operations", data, "critical_path"))
    first, assuming, assumed = clean(result.headline).partition(", assuming that ")
    assumptions = (f"Assumed: {assumed}",) if assuming else ()
    return html(
        Document(
            title=f"{clean(str(origin.source.name))} - gpuprof",
            heading=clean(f"{origin.source}; changed: {changed}"),
            verdict=(f"{first}." if assuming else first, *assumptions),
            figures=tuple(figures),
            tables=tuple(
                page_table(
                    (name, title),
                    _named(result.tables[name], has_full_names=has_full_names),
                    SCHEMAS[name].columns,
                    _COMMAND,
                    devices,
                    is_open=name == "prediction",
                )
                for name, title in _TITLES.items()
                if result.tables[name].num_rows
            ),
            notes=tuple(map(clean, result.notes)),
            provenance=(("File", clean(str(origin.source))), ("Tool", clean(origin.tool))),
        )
    )


def _named(table: pa.Table, *, has_full_names: bool) -> pa.Table:
    """A table with what people call its operations."""
    if "kind" not in table.column_names:
        return table
    rows = table.to_pylist()
    called = names_for_people(rows, has_full_names=has_full_names)
    place = table.column_names.index("name")
    return table.set_column(place, "name", texts([called.get(r["name"], r["name"]) for r in rows]))


def _kinds(result: Prediction) -> Figure:
    """How long the critical path goes through what."""
    sums = sums_by_kind(result)
    count = 2 if result.step.num_rows and any(after for _, after in sums.values()) else 1
    bars = stacked(
        [*LABELS.values()][:count],
        [[(LOOKS[kind], times[side]) for kind, times in sums.items()] for side in range(count)],
        [sum(times[side] for times in sums.values()) for side in range(count)],
    )
    caption = (
        "Of one step, or of the recording: the mean over the steps, scaled to the measured and the"
        " predicted time."
    )
    return figure("kinds", "What the critical path goes through", caption, [bars], "critical_path")
