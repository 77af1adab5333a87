"""How all charts look: colours, hatches, axes, titles, and how they become files.

Colours are those of Okabe and Ito, which colour-blind people tell apart; hatching tells them
apart in grey. Source: https://jfly.uni-koeln.de/color/
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprof.errors import UsageError
from gpuprof.render.cells import clean, folded, shortened
from gpuprof.render.output import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".svg", ".pdf")
WIDTH: Final = 10.0
_LABEL_WIDTH: Final = 24
DARK: Final = "#333333"
_TITLE_WIDTH: Final = 84
_LINES: Final = 4  # That a title or a name may take.
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
    """How one kind of activity is shown: its name in the legend, its colour, its hatch."""

    name: str
    colour: str
    hatch: str = ""


KERNELS: Final = Look("kernels", "#0072B2")
COMMUNICATION: Final = Look("communication", "#56B4E9", "---")
PEER: Final = Look("PtoP", "#D55E00", "///")
HTOD: Final = Look("HtoD", "#009E73", "...")
DTOH: Final = Look("DtoH", "#CC79A7", "xxx")
MANAGED: Final = Look("managed memory", "#F0E442", "|||")
LOCAL: Final = Look("local copies", "#E69F00", "\\\\\\")
MEMSETS: Final = Look("memsets", "#999999", "ooo")
UNKNOWN: Final = Look("unknown copies", "#555555", "+++")
NOTHING: Final = Look("idle", "#EEEEEE")
# Lines of a chart, each with a marker that tells it apart in grey.
LINES: Final[tuple[dict[str, Any], ...]] = tuple(
    {"color": colour, "marker": marker, "markeredgecolor": DARK}
    for colour, marker in (
        ("#0072B2", "o"),
        ("#D55E00", "s"),
        ("#009E73", "^"),
        ("#CC79A7", "D"),
        ("#E69F00", "v"),
        ("#56B4E9", "P"),
    )
)


def check_suffix(path: str) -> str:
    """The path itself, where its ending names a kind of picture.

    Raises:
        UsageError: It does not.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        msg = f"{path} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise UsageError(msg, "The ending says what kind of picture it becomes.")
    return path


def new_figure(height: float) -> "Figure":
    """An empty figure of the width that all have; the height is in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only charts need

    return Figure(figsize=(WIDTH, height), layout="constrained")


def label(text: str, width: int = _LABEL_WIDTH) -> str:
    """A name in a few lines, shortened in its middle where it is longer."""
    return folded(shortened(clean(text), _LINES * width), width)


def state(figure: "Figure", finding: str) -> None:
    """Put the finding over a figure."""
    title = textwrap.fill(shortened(clean(finding), _LINES * _TITLE_WIDTH), _TITLE_WIDTH)
    figure.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=12)


def explain(figure: "Figure", axes: "Sequence[Axes]") -> None:
    """Put one legend for all axes below a figure."""
    found = {
        name: handle
        for one in axes
        for handle, name in zip(*one.get_legend_handles_labels(), strict=True)
    }
    if found:
        longest = max(map(len, found)) + 6
        figure.legend(
            list(found.values()),
            list(found),
            loc="outside lower left",
            ncols=max(1, min(len(found), _LEGEND_WIDTH // longest)),
            frameon=False,
            fontsize=9,
        )


def save(figure: "Figure", output: Output) -> None:
    """Write a figure into a file of the kind that its ending names.

    Raises:
        OutputError: It cannot be written; nothing of it is left behind.
    """
    form = output.path.suffix[1:].lower() if output.path else "png"
    # No date in the file: the same result is the same picture.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    output.save(lambda file: figure.savefig(file, format=form, dpi=_DPI, metadata=dates))
