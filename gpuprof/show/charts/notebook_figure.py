"""A figure that a notebook shows without pyplot. Only `canvas` imports it: matplotlib is slow."""

import io
from typing import Final

from matplotlib.figure import Figure

_DPI: Final = 192  # Of screens with twice as many pixels as a page counts.
_PAGE_DPI: Final = 96


class NotebookFigure(Figure):
    """A figure that is shown when it is the value of a notebook's cell.

    Figures that pyplot does not know are shown as text otherwise.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and its width on a page."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=_DPI)
        return picture.getvalue(), {"width": round(_PAGE_DPI * self.get_figwidth())}
