"""`gpuprof.plot`: one chart of one recording, of a comparison, or of measured times."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gpuprof.api.arguments import Recording, Time, Variants, part, read
from gpuprof.api.compare import ComparisonResult, compare
from gpuprof.api.options import PLOT_OPTIONS
from gpuprof.api.values import keyword
from gpuprof.base.errors import UsageError
from gpuprof.base.units import listed
from gpuprof.readers.inputs import path_of
from gpuprof.show import COMPARISON, SWEEP
from gpuprof.show.charts.catalogue import chart_named, drawn, of_recording, of_times
from gpuprof.show.charts.figure import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The keywords that charts take, by what they show.
_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    subject: frozenset(map(keyword, options)) for subject, (options, _) in PLOT_OPTIONS.items()
}


def plot(  # noqa: PLR0913 - the options of the command
    chart: str,
    *recordings: Recording | Variants | ComparisonResult,
    baseline: str | None = None,
    reader: str | None = None,
    section: str | int | None = None,
    from_: Time | None = None,
    to: Time | None = None,
    range: str | None = None,  # noqa: A002 - the command's word
    occurrence: int | None = None,
    device: int | None = None,
    skip_steps: int | None = None,
) -> "Figure":
    """Draw a chart, as `gpuprof plot` does.

    Args:
        chart: A chart that `gpuprof plot --list` lists.
        recordings: For a chart of a recording, what `gpuprof.report` takes. For a chart of a
            comparison, what `gpuprof.compare` takes or has returned. For a chart of a sweep, its
            result or folder, or a table of measured times.
        baseline: As in `gpuprof.compare`.
        reader: As in `gpuprof.report`, like all that follow; comparisons take ``section``,
            ``range`` and ``skip_steps``.
        section: Recording to read from a file that holds several.
        from_: Start of the part to look at.
        to: End of the part, exclusive.
        range: NVTX ranges or operations to look at.
        occurrence: Only one of these ranges.
        device: Only this device.
        skip_steps: Steps to leave out at the start of each phase.

    Returns:
        A figure of matplotlib, without the state of pyplot.

    Raises:
        GpuprofError: There is no such chart, a recording cannot be read, there is nothing to
            draw, or the chart does not take an option.
        TypeError: An argument is of another type.
    """
    requested = {
        "baseline": baseline, "reader": reader, "section": section, "from_": from_, "to": to,
        "range": range, "occurrence": occurrence, "device": device, "skip_steps": skip_steps,
    }  # fmt: skip
    options: dict[str, Any] = {n: value for n, value in requested.items() if value is not None}
    shown = chart_named(chart)
    _check(shown, recordings, options)
    inputs: Any = recordings
    if shown.subject == COMPARISON:
        is_made = isinstance(inputs[-1], ComparisonResult)
        return (inputs[-1] if is_made else compare(*inputs, **options)).plot(chart)
    if shown.subject == SWEEP:
        return drawn(shown, of_times(path_of(inputs[0])))
    of_part = part(from_, to, range, occurrence, device)
    recording = inputs[0] if len(inputs) == 1 else inputs
    profile = read(recording, of_part, reader=reader, section=section, skip_steps=skip_steps)
    return drawn(shown, of_recording(profile, shown))


def _check(chart: Chart, recordings: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    if not recordings:
        msg = f"chart {chart.name} shows a {chart.subject}, and none is given"
        raise UsageError(msg, f'Give it: gpuprof.plot("{chart.name}", "train.sqlite")')
    refused = [name for name in options if name not in _KEYWORDS[chart.subject]]
    if refused:
        taken = listed(sorted(_KEYWORDS[chart.subject])) or "no options"
        msg = f"chart {chart.name} does not take {listed(refused)}"
        raise UsageError(msg, f"It takes {taken}.")
    if chart.subject == SWEEP and len(recordings) > 1:
        msg = f"chart {chart.name} takes one table of measured times, not {len(recordings)}"
        raise UsageError(msg, "Give the folder of a sweep, or a table of times.")
