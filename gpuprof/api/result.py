"""What all result objects have in common: tables by name, a page, and how a notebook shows them."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from gpuprof.base.errors import TableNameError, one_of
from gpuprof.model.profile import to_frame
from gpuprof.readers.inputs import AnyPath
from gpuprof.show.notebook import Summary, summary_html, summary_text
from gpuprof.show.output import prepare

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Tables(Mapping[str, "pd.DataFrame"]):
    """Result tables by name, as DataFrames with Arrow-backed columns.

    Times are integer nanoseconds, sizes bytes, shares 0 to 1; what is unknown is NA. A table is
    computed when its name is first used, and each use makes a new DataFrame.

    Args:
        names: The tables that there are.
        compute: Makes one of them.
        why_absent: Gives, for any other name, why there is no such table and what to do.
    """

    def __init__(
        self,
        names: Sequence[str],
        compute: Callable[[str], pa.Table],
        why_absent: Callable[[str], tuple[str, str | None]] | None = None,
    ) -> None:
        self._names = tuple(names)
        self._compute = compute
        self._why_absent = why_absent or (
            lambda name: (f"there is no table {name}", one_of("Tables", name, self._names))
        )

    def arrow(self, name: str) -> pa.Table:
        """A table as Arrow data.

        Raises:
            TableNameError: There is no such table. It is a KeyError, too.
            GpuprofError: The recording breaks its format's rules.
            TypeError: The name is not text.
        """
        if not isinstance(name, str):
            msg = f"a table name must be text, not {type(name).__name__}"
            raise TypeError(msg)
        if name not in self._names:
            raise TableNameError(*self._why_absent(name))
        return self._compute(name)

    def __getitem__(self, name: str) -> "pd.DataFrame":
        """A table as a DataFrame.

        Raises:
            GpuprofError: As of `arrow`.
        """
        return to_frame(self.arrow(name))

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of this name; none is computed."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many tables there are."""
        return len(self._names)

    def __repr__(self) -> str:
        """The names; no table is computed."""
        return f"Tables: {', '.join(self._names)}"


class Shown(ABC):
    """What a notebook and an interactive Python show as a summary."""

    @abstractmethod
    def _summary(self) -> Summary:
        """What is shown before anything is asked for."""

    def _repr_html_(self) -> str:
        return summary_html(self._summary())

    def __repr__(self) -> str:
        """The summary as text."""
        return summary_text(self._summary())


class Result(Shown):
    """A result that a notebook shows as sentences and tables.

    ``result["NAME"]`` is a table as a DataFrame. The last line of a notebook's cell shows the
    summary; `to_html` gives the whole page.
    """

    @property
    @abstractmethod
    def tables(self) -> Tables:
        """Every table by its name, computed when it is asked for."""

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to trust the figures, one sentence each."""

    @abstractmethod
    def plot(self, name: str) -> "Figure":
        """A chart as a figure of matplotlib, without the state of pyplot."""

    def __getitem__(self, name: str) -> "pd.DataFrame":
        """A table as a DataFrame.

        Raises:
            TableNameError: There is no such table. It is a KeyError, too.
        """
        return self.tables[name]

    def _ipython_key_completions_(self) -> list[str]:
        """The names that a notebook offers after ``result["``."""
        return list(self.tables)

    def arrow(self, name: str) -> pa.Table:
        """A table as Arrow data.

        Raises:
            TableNameError: There is no such table. It is a KeyError, too.
        """
        return self.tables.arrow(name)

    @overload
    def to_html(self) -> str: ...
    @overload
    def to_html(self, path: AnyPath) -> None: ...
    def to_html(self, path: AnyPath | None = None) -> str | None:
        """The page for a browser, one file that loads nothing else.

        Args:
            path: File to write, which is replaced if it exists; None to get the text.

        Raises:
            OutputError: The file cannot be written, or is an input.
        """
        if path is None:
            return self._page()
        output = prepare(os.fspath(path), is_forced=True, inputs=self._inputs())
        output.write_text(self._page())
        return None

    @abstractmethod
    def _page(self) -> str:
        """The page as HTML."""

    @abstractmethod
    def _inputs(self) -> tuple[str, ...]:
        """The files that were read, which are never replaced."""
