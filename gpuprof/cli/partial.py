"""Results without files that could not be read: what stderr says, and the exit status."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

import click

from gpuprof.base.units import counted

if TYPE_CHECKING:
    from gpuprof.model.profile import UnreadFiles

PARTIAL: Final = 4
# What the contexts of a command share: the files that are missing from its result.
_UNREAD: Final = "gpuprof.unread"


class Read(Protocol):
    """A recording, or a job that workers have read."""

    @property
    def unread(self) -> "UnreadFiles":
        """The files that are missing from it."""


def note_unread(profiles: Iterable[Read], *, shows_notes: bool = False) -> None:
    """Let the command end with the status of a partial result where files are missing from it.

    Args:
        profiles: The recordings that the result is made of.
        shows_notes: Whether the output itself lists the files that are left out.
    """
    context = click.get_current_context()
    for profile in profiles:
        if profile.unread.faults:
            context.meta.setdefault(_UNREAD, []).append((profile.unread, shows_notes))


def status_of(context: click.Context, status: object) -> object:
    """The exit status of a command that has written its outputs; stderr says what is missing."""
    partial = [say_unread(*unread) for unread in context.meta.get(_UNREAD, ())]
    return status or next(iter(partial), status)


def say_unread(unread: "UnreadFiles", shows_notes: bool) -> int:  # noqa: FBT001 - as it was noted
    """Say on stderr which files are missing from a result; the exit status.

    Args:
        unread: The files.
        shows_notes: Whether the output itself lists them.
    """
    from gpuprof.readers.job_notes import left_out  # noqa: PLC0415 - start-up time

    for note in [] if shows_notes else left_out(unread.faults):
        click.echo(f"Note: {note}", err=True)
    of_all = counted(unread.file_count, "file", "files")
    click.echo(f"Partial result: {len(unread.faults):,} of {of_all} could not be read.", err=True)
    return PARTIAL
