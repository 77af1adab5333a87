"""The tables of a result by name: DataFrames, made when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gpuprof.base.errors import TableNameError, one_of
from gpuprof.model.profile import to_frame

if TYPE_CHECKING:
    import pandas as pd


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
        self._why_absent = why_absent or self._no_such_table

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

    def _no_such_table(self, name: str) -> tuple[str, str]:
        return f"there is no table {name}", one_of("Tables", name, self._names)
