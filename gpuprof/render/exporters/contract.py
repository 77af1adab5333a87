"""What an exporter is: another tool's format, and how a recording becomes a file of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from gpuprof.profile import Profile


@dataclass(frozen=True)
class Exporter:
    """One format of another tool.

    Args:
        name: As in ``--to``.
        title: What reads it, in a line.
        needs: Tables without which there is nothing to export.
        write: Writes a recording into an open binary file.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    write: Callable[[Profile, IO[bytes]], None]
