"""Who does the work on a job."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Who does the work.

    Args:
        workers: How many processes of this machine; None for one per core.
        limit_bytes: The memory that each of them may take; None for any amount.
        scheduler: The address or scheduler file of a Dask cluster that does it instead.
        state: A folder that keeps partial results, and gives back those of a former run.
    """

    workers: int | None = None
    limit_bytes: int | None = None
    scheduler: str | None = None
    state: Path | None = None

    @property
    def are_usual(self) -> bool:
        """Whether the user has named none of them."""
        return self == Settings()
