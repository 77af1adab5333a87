"""What a chart is: the result tables it takes, what of them it shows, and how it is drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from gpuprof.facts.hosts import NO_NAMES, DeviceNames

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Results:
    """Result tables to draw from.

    Args:
        tables: Name to table; None where the recording cannot tell.
        headline: The finding, where the command states one itself.
        baseline: What a comparison is with.
        device_names: What people know the devices by.
    """

    tables: Mapping[str, pa.Table | None]
    headline: str = ""
    baseline: str = ""
    device_names: DeviceNames = NO_NAMES

    def table(self, name: str) -> pa.Table:
        """A table that is known to be there."""
        table = self.tables[name]
        assert table is not None, name  # noqa: S101 - `picture_of` has looked
        return table


class Picture(NamedTuple):
    """What a chart shows.

    Args:
        finding: What there is to see, in a sentence: the title.
        rows: What is drawn, in base units: the data beside the picture.
        device_names: What people know the devices by.
    """

    finding: str
    rows: pa.Table
    device_names: DeviceNames = NO_NAMES


class Chart(NamedTuple):
    """One kind of chart.

    Args:
        name: As in ``gpuprof plot NAME``.
        title: What it shows, in a line.
        subject: `RECORDING`, `COMPARISON` or `SWEEP`.
        tables: The result tables it is drawn from.
        picture: Result tables -> what is drawn; no rows where there is nothing to draw.
        draw: Draws it.
    """

    name: str
    title: str
    subject: str
    tables: tuple[str, ...]
    picture: Callable[[Results], Picture]
    draw: "Callable[[Picture], Figure]"
