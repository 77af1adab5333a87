"""What an analysis is: a pure function from a recording to one table, and what it needs."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from gpuprof.profile import Profile
from gpuprof.schema import Schema


@dataclass(frozen=True)
class Analysis:
    """One question to a recording.

    Args:
        title: The question's name for people: "Transfers by kind".
        schema: The answer's columns; its name is the analysis' name, as in ``--table``.
        needs: Tables without which it cannot be answered.
        run: Answers it; rows conform to the schema. Called only where the needs are met.
    """

    title: str
    schema: Schema
    needs: tuple[str, ...]
    run: Callable[[Profile], pa.Table]

    @property
    def name(self) -> str:
        """As in ``--table`` and in the JSON's ``tables``."""
        return self.schema.name
