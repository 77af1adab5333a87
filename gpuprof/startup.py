"""What a process that is gpuprof's alone does first."""

import gc
import sys
from typing import Final

_ROWS_BEFORE_COLLECTING: Final = 100_000


def prepare() -> None:
    """Keep Python and its libraries from work that no command needs."""
    sys.meta_path.insert(0, _NoPandas)
    # Rows of tables hold no cycles that the collector would find: it costs a tenth of the time
    # where there are twenty thousand of them.
    gc.set_threshold(_ROWS_BEFORE_COLLECTING)


class _NoPandas:
    """Lets pyarrow and DuckDB take pandas for not installed.

    Both import it as soon as they are handed a list or a table, only to see that it is none of
    its kinds: 0.3 s, more than most files take to be read. No command makes a DataFrame.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """End an import of pandas; leave any other to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
