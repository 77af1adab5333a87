"""What an exporter makes of a recording."""

from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

Writer = Callable[[IO[bytes]], None]


class Parts(NamedTuple):
    """The files of an export.

    Args:
        writers: By file, a function that writes it.
        notes: What the files do not say, a sentence each.
    """

    writers: Sequence[Writer]
    notes: tuple[str, ...] = ()
