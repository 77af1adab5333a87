"""A step as recorded and as proposed: what each GPU would do when, by estimates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpuprof.base.units import NS_PER_S, time_axis
from gpuprof.place.proposal import Proposal, TimedProposal
from gpuprof.place.schedules import Timed
from gpuprof.place.simulate import Span
from gpuprof.place.step_graph import FORWARD, GRADIENT, UPDATE
from gpuprof.show.charts import canvas
from gpuprof.show.charts.canvas import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKS: Final = {
    FORWARD: Look("forward pass", "", "#0072B2"),
    GRADIENT: Look("gradients", "", "#E69F00", "\\\\\\"),
    UPDATE: Look("updates", "", "#009E73", "..."),
    "copy": canvas.PEER,
}
_LANE_INCHES: Final = 0.32
_PANEL_INCHES: Final = 0.7


def schedule_figure(proposal: Proposal, times: TimedProposal, sentence: str) -> "Figure":
    """A lane for each GPU, and for each way that is copied; both panels to one scale.

    Args:
        proposal: The step.
        times: Its estimates; of the ranges the middle is drawn.
        sentence: What it shows.
    """
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only charts need

    panels = list(
        {id(candidate): candidate for candidate in (times.today, times.best) if candidate}.values()
    )
    lanes = [_lanes(candidate, len(times.machine.gpus)) for candidate in panels]
    height = sum(len(some) * _LANE_INCHES + _PANEL_INCHES for some in lanes) + 1.0
    longest_ns = max((candidate.middle.seconds for candidate in panels), default=0.0) * NS_PER_S
    factor, unit = time_axis(longest_ns)
    with mpl.rc_context(canvas.STYLE):
        figure = canvas.new_figure(height)
        ratios = [len(some) + 1 for some in lanes]
        axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=ratios)
        for candidate, names, panel in zip(panels, lanes, axes[:, 0], strict=True):
            _draw(panel, proposal, candidate, names, factor)
        axes[-1, 0].set_xlabel(f"time of the step, estimated ({unit})")
        canvas.state(figure, sentence)
        canvas.explain(figure, axes[:, 0].tolist(), [look.name for look in _LOOKS.values()])
    return figure


def _lanes(candidate: Timed, gpus: int) -> list[tuple[int | None, int]]:
    """The source (None: no copy) and the device of each lane."""
    copies = sorted({(s.src, s.device) for s in candidate.middle.spans if s.src is not None})
    return [*((None, device) for device in range(gpus)), *copies]


def _draw(
    axes: "Axes",
    proposal: Proposal,
    candidate: Timed,
    lanes: Sequence[tuple[int | None, int]],
    factor: float,
) -> None:
    for name, look in _LOOKS.items():
        spans = [
            s for s in candidate.middle.spans if s.end_s > s.start_s and _kind(proposal, s) == name
        ]
        axes.barh(
            [lanes.index((span.src, span.device)) for span in spans],
            [(span.end_s - span.start_s) * NS_PER_S / factor for span in spans],
            left=[span.start_s * NS_PER_S / factor for span in spans],
            height=0.8,
            label=look.name,
            **look.bar,
        )
    texts = [f"GPU {to}" if src is None else f"{src} > {to}" for src, to in lanes]
    axes.set_yticks(range(len(lanes)), texts)
    axes.invert_yaxis()
    axes.set_title(candidate.name, loc="left", fontsize=10)


def _kind(proposal: Proposal, span: Span) -> str:
    return "copy" if span.src is not None else proposal.graph.operations[span.number].role
