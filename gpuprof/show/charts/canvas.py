"""How all charts look: colours, hatches, axes, titles, and how they become files.

Colours are those of Okabe and Ito, which colour-blind people tell apart; hatching tells them
apart in grey. Source: https://jfly.uni-koeln.de/color/
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprof.base.errors import UsageError
from gpuprof.base.short_texts import cut, shortened
from gpuprof.base.units import bound
from gpuprof.show.cells import clean, folded
from gpuprof.show.output import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg", ".pdf")
WIDTH: Final = 10.0
_LABEL_WIDTH: Final = 24
DARK: Final = "#333333"
# Of an axis whose times can be given to --from and --to.
SINCE_ORIGIN: Final = "time since the recording's origin"
_TITLE_POINTS: Final = 0.97 * 72 * WIDTH
_TITLE_SIZE: Final = 12
_TITLE_LENGTH: Final = 336
_LABEL_LINES: Final = 3
_LEGEND_WIDTH: Final = 110
_DPI: Final = 150
# A label is not a formula, whatever dollars are in it.
STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "gpuprof",
}


@dataclass(frozen=True)
class Look:
    """How one kind of activity is shown: in the legend, on pages (``kind``), and in a picture."""

    name: str
    kind: str
    colour: str
    hatch: str = ""

    @property
    def bar(self) -> dict[str, Any]:
        """What matplotlib calls the colours, hatch and border of its bars."""
        return {
            "color": self.colour,
            "hatch": self.hatch,
            "edgecolor": DARK,
            "linewidth": 0.4,
        }


KERNELS: Final = Look("compute kernels", "compute", "#0072B2")
COMMUNICATION: Final = Look("communication kernels", "communication", "#56B4E9", "---")
PEER: Final = Look("PtoP", "peer", "#D55E00", "///")
HTOD: Final = Look("HtoD", "htod", "#009E73", "...")
DTOH: Final = Look("DtoH", "dtoh", "#CC79A7", "xxx")
MANAGED: Final = Look("managed memory", "managed", "#F0E442", "|||")
LOCAL: Final = Look("local copies", "local", "#E69F00", "\\\\\\")
MEMSETS: Final = Look("memsets", "memset", "#999999", "ooo")
UNKNOWN: Final = Look("unknown copies", "unknown", "#555555", "+++")
NOTHING: Final = Look("idle", "idle", "#EEEEEE")
_LINE_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# Lines of a chart, each with a marker that tells it apart in grey; the last six are open ones.
LINES: Final[tuple[dict[str, Any], ...]] = tuple(
    {"color": colour, "marker": marker, "markeredgecolor": edge, **more}
    for markers, edges, more in (
        ("os^DvP", [DARK] * 6, {}),
        ("X*<>ph", _LINE_COLOURS, {"markerfacecolor": "white", "linestyle": "-.", "markersize": 7}),
    )
    for colour, marker, edge in zip(_LINE_COLOURS, markers, edges, strict=True)
)


def check_suffix(path: str) -> str:
    """The path itself, where its ending names a kind of picture.

    Raises:
        UsageError: It does not.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        msg = f"{path} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(msg, "The suffix selects the format of the picture.")
    return path


def new_figure(height: float) -> "Figure":
    """An empty figure of the width that all have; the height is in inches."""
    # Half a second that only charts need.
    from gpuprof.show.charts.notebook_figure import NotebookFigure  # noqa: PLC0415

    return NotebookFigure(figsize=(WIDTH, height), layout="constrained")


def label(text: str, width: int = _LABEL_WIDTH, lines: int = _LABEL_LINES) -> str:
    """A name in a few lines, shortened in its middle where it is longer."""
    name, room = clean(text), lines * width
    while (shown := folded(shortened(name, room), width)).count("\n") >= lines:
        room -= 1
    return shown


def state(figure: "Figure", finding: str) -> None:
    """Put the finding over a figure, in lines as long as the figure is wide."""
    lines = _fitted(cut(clean(finding), _TITLE_LENGTH), _title_measure())
    figure.suptitle("\n".join(lines), x=0.01, ha="left", weight="bold", fontsize=_TITLE_SIZE)


def _title_measure() -> Callable[[str], float]:
    """How long a text is as a title, in points."""
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415 - only charts need it
    from matplotlib.textpath import TextToPath  # noqa: PLC0415 - only charts need it

    look, path = FontProperties(weight="bold", size=_TITLE_SIZE), TextToPath()
    return lambda text: float(path.get_text_width_height_descent(text, look, ismath=False)[0])


def _fitted(text: str, measure: Callable[[str], float]) -> list[str]:
    """Text in lines that fit; a word that is longer than a line is broken."""
    lines = [""]
    for word in bound(text).split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if measure(longer) <= _TITLE_POINTS:
            lines[-1] = longer
            continue
        lines.append("")
        for letter in word:
            if measure(lines[-1] + letter) > _TITLE_POINTS:
                lines.append("")
            lines[-1] += letter
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines if line]


def explain(figure: "Figure", axes: "Sequence[Axes]", order: Iterable[str] = ()) -> None:
    """Put one legend for all axes below a figure.

    Handles with the same name, such as a bar and a line, are one entry.
    """
    from matplotlib.legend_handler import HandlerTuple  # noqa: PLC0415 - only charts need it

    handles: dict[str, dict[type, Any]] = {name: {} for name in order}
    for panel in axes:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
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


def show_instants(axes: "Axes", first: float, last: float) -> None:
    """Let an axis of time reach from one instant to another, each tick with all its digits."""
    axes.set_xlim(first, last)
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)


def annotate(axes: "Axes", text: str, end: tuple[float, float]) -> None:
    """Put a figure behind the end of a bar."""
    axes.annotate(text, end, xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)


def save(figure: "Figure", output: Output) -> None:
    """Write a figure into a file of the kind that its ending names.

    Raises:
        OutputError: It cannot be written; no partial file is left behind.
    """
    form = output.path.suffix[1:].lower() if output.path else "png"
    # No date in the file: the same result is the same picture.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    output.save(lambda file: figure.savefig(file, format=form, dpi=_DPI, metadata=dates))
