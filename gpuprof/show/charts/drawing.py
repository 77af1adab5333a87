"""Panels as pictures: figures with titles and legends, and how they become files."""

import io
from collections.abc import Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend_handler import HandlerTuple
from matplotlib.textpath import TextToPath

from gpuprof.base.short_texts import cut
from gpuprof.base.units import bound
from gpuprof.show.cells import clean
from gpuprof.show.charts.axes import DRAW, LONG_LABEL_WIDTH, WORK_WIDTH, bar_names, floors_of
from gpuprof.show.charts.figure import (
    Bars,
    Boxes,
    Columns,
    HeatMap,
    Lanes,
    Panel,
    Picture,
    scale_of,
)
from gpuprof.show.output import Output

_WIDTH: Final = 10.0
_DPI: Final = 150
_SCREEN_DPI, _PAGE_DPI = 192, 96  # Of screens with twice as many pixels as a page counts.
_LEGEND_WIDTH: Final = 110
_TITLE: Final = {"weight": "bold", "size": 12}
_TITLE_POINTS: Final = 0.94 * 72 * _WIDTH
_TITLE_LENGTH: Final = 336
_BAR_INCHES: Final = 0.34
_LINE_INCHES: Final = 0.16  # Of a name of a bar.
_LANE_INCHES: Final = 0.26
_BOX_INCHES: Final = 0.24
_HEAD_INCHES: Final = 1.25  # Of a figure: title, legend and the name of an axis.
_BESIDE: Final = 1.5  # Bars of several panels are so much higher.
_PANEL_INCHES: Final = 0.4  # Of each further panel: its title or the name of its axis.
_LEAST_INCHES: Final = 0.7  # Of a panel of bars: its title, and a bar.
_CLOSE: Final = 0.65  # Of their height have bars of several panels below each other on one axis.
# A label is not a formula, whatever dollars are in it.
_STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "gpuprof",
}
# Of the paper, of what is written and drawn on it, and of what is hardly there; as on pages.
_LIGHT: Final = {"grid.color": "#EEEEEE"}
_DARK: Final = (
    dict.fromkeys(("figure.facecolor", "axes.facecolor"), "#16181B")
    | dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), "#ECECEC"
    )
    | {"grid.color": "#3A3D42"}
)


class _NotebookFigure(Figure):
    """A figure that is shown when it is the value of a notebook's cell.

    Figures that pyplot does not know are shown as text otherwise.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and its width on a page."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=_SCREEN_DPI)
        return picture.getvalue(), {"width": round(_PAGE_DPI * self.get_figwidth())}


def figure_of(picture: Picture, *, is_dark: bool = False) -> Figure:
    """A picture as a figure of matplotlib, which is light where its user has no other style."""
    panels = picture.panels
    heights = [_inches(panel) for panel in panels]
    places: dict[str, Any]
    if picture.is_beside:
        is_shared = all(isinstance(panel, Bars) for panel in panels)
        height = _HEAD_INCHES + max(heights) * (_BESIDE if is_shared else 1)
        widths = [WORK_WIDTH if isinstance(p, Bars) and len(p.looks) > 1 else 1 for p in panels]
        places = {"ncols": len(panels), "sharey": is_shared, "width_ratios": widths}
    else:
        # One axis for all panels stands below the last one.
        is_shared = not any(
            isinstance(panel, Bars | Columns | Lanes) and panel.label for panel in panels[:-1]
        )
        gap = _PANEL_INCHES
        if is_shared and len(panels) > 1 and isinstance(panels[0], Bars):
            heights, gap = [max(_CLOSE * inches, _LEAST_INCHES) for inches in heights], 0
        height = _HEAD_INCHES + sum(heights) + gap * (len(panels) - 1)
        places = {"nrows": len(panels), "sharex": is_shared, "height_ratios": heights}
    with rc_context(_STYLE | (_DARK if is_dark else _LIGHT)):
        figure = _NotebookFigure(figsize=(_WIDTH, height), layout="constrained")
        all_axes = figure.subplots(squeeze=False, **places).ravel()
        for panel, axes in zip(panels, all_axes, strict=True):
            DRAW[type(panel)](axes, panel)
        if images := [image for axes in all_axes for image in axes.images]:
            scale = f"{panels[0].scale} [{scale_of(panels[0])[1]}]"  # type: ignore[union-attr, arg-type]
            bar = figure.colorbar(images[0], ax=[*all_axes], label=scale, pad=0.01)
            bar.outline.set_visible(False)
        _state(figure, picture.finding)
        _explain(figure, all_axes, panels)
    return figure


def save(picture: Picture, output: Output, *, is_dark: bool = False) -> None:
    """Draw a picture into a file of the kind that its ending names.

    Raises:
        OutputError: It cannot be written; no partial file is left behind.
    """
    form = output.path.suffix[1:].lower() if output.path else "png"
    # No date in the file: the same result is the same picture.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    figure = figure_of(picture, is_dark=is_dark)
    output.save(lambda file: figure.savefig(file, format=form, dpi=_DPI, metadata=dates))


def _inches(panel: Panel) -> float:
    """The height of a panel."""
    if isinstance(panel, Bars):
        lines = max(name.count("\n") + 1 for name in bar_names(panel.names, LONG_LABEL_WIDTH))
        return max(_BAR_INCHES, _LINE_INCHES * (lines + 0.6)) * len(panel.names) + 0.15
    if isinstance(panel, HeatMap):
        least, most = panel.inches
        return min(max(panel.row_inches * len(panel.rows), least), most)
    if isinstance(panel, Lanes):
        return _LANE_INCHES * floors_of(panel)[-1] + 0.4
    return _BOX_INCHES * panel.height + 0.2 if isinstance(panel, Boxes) else panel.inches


def _state(figure: Figure, finding: str) -> None:
    """Put the finding over a figure, in lines as long as the figure is wide."""
    look, path = FontProperties(**_TITLE), TextToPath()  # type: ignore[arg-type]

    def is_short(text: str) -> bool:
        return path.get_text_width_height_descent(text, look, ismath=False)[0] <= _TITLE_POINTS

    lines = [""]
    for word in bound(cut(clean(finding), _TITLE_LENGTH)).split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if is_short(longer):
            lines[-1] = longer
            continue
        lines.append("")
        for letter in word:  # A word that is longer than a line is broken.
            if not is_short(lines[-1] + letter):
                lines.append("")
            lines[-1] += letter
    text = "\n".join(line.replace("\N{NO-BREAK SPACE}", " ") for line in lines if line)
    figure.suptitle(text, x=0.01, ha="left", **_TITLE)


def _explain(figure: Figure, all_axes: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """Put one legend for all axes below a figure.

    Handles with the same name, such as a bar and a line, are one entry.
    """
    looks = [look for panel in panels if isinstance(panel, Bars) for look in panel.looks]
    looks += [look for panel in panels if isinstance(panel, Columns) for look, _ in panel.series]
    handles: dict[str, dict[type, Any]] = {look.name: {} for look in looks}
    for axes in all_axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, {}).setdefault(type(handle), handle)
    entries: dict[str, Any] = {
        name: tuple(ways.values()) if len(ways) > 1 else next(iter(ways.values()))
        for name, ways in handles.items()
        if ways
    }
    if entries:
        longest = max(len(line) for name in entries for line in name.split("\n")) + 6
        figure.legend(
            list(entries.values()),
            list(entries),
            handler_map={tuple: HandlerTuple(ndivide=None)},
            loc="outside lower left",
            ncols=max(1, min(len(entries), _LEGEND_WIDTH // longest)),
            frameon=False,
            fontsize=9,
        )
