"""What the options of several commands say: what is read, and which part of it.

The values of a command's options have the names of their parameters.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from gpuprof.api.options import PART, RANK, WORKERS
from gpuprof.base.units import counted
from gpuprof.cli.commands import UNREAD, values_of
from gpuprof.cli.terminal import watched
from gpuprof.facts.parts import RecordingPart
from gpuprof.model.profile import Profile, UnreadFiles
from gpuprof.readers import read_profile
from gpuprof.readers.job_notes import left_out
from gpuprof.show.output import Output, check_apart

if TYPE_CHECKING:
    from gpuprof.show.further_outputs import FurtherOutputs


def part(values: SimpleNamespace) -> RecordingPart:
    """The part of a recording that the options ask for."""
    return RecordingPart(**values_of(values, PART))


def is_job(values: SimpleNamespace) -> bool:
    """Whether the files may be those of a job: of one plain file nothing more needs to be known."""
    has_options = {*values_of(values, (RANK, *WORKERS)).values()} != {None}
    return has_options or len(values.files) != 1 or not Path(values.files[0]).is_file()


@contextmanager
def reading(
    values: SimpleNamespace, files: Sequence[str] | None = None, *, shows_notes: bool = False
) -> Iterator[Profile]:
    """Read a recording, and show how far the work on it has come; see `watched`.

    Args:
        values: ``files``, ``reader`` and ``section``.
        files: What is read in place of what the user names.
        shows_notes: Whether the output itself lists files that could not be read.
    """
    # What Arrow lets go of then serves NumPy's arrays, and theirs Arrow.
    pa.set_memory_pool(pa.system_memory_pool())
    files = values.files if files is None else files
    name = files[0] if len(files) == 1 else f"{len(files)} files"
    with watched(f"Reading {name}", files) as progress:
        profile = read_profile(files, values.reader, values.section)
        if profile.unread.faults:
            note_unread([profile.unread], shows_notes=shows_notes)
        if progress is not None:
            progress.events = profile.events
        yield profile


def note_unread(recordings: Iterable[UnreadFiles], *, shows_notes: bool = False) -> None:
    """Let the command end with the status of a partial result where files are missing from it.

    Args:
        recordings: What is missing from each recording that the result is made of.
        shows_notes: Whether the output itself lists the files that are left out.
    """
    notes = click.get_current_context().meta.setdefault(UNREAD, [])
    for unread in recordings:
        if unread.faults:
            notes += [] if shows_notes else [f"Note: {note}" for note in left_out(unread.faults)]
            of_all = counted(unread.file_count, "file", "files")
            notes.append(f"Partial result: {len(unread.faults):,} of {of_all} could not be read.")


def labelled_files(values: SimpleNamespace) -> list[str | Path | tuple[str, str]]:
    """Files in their order, under their labels where they have one; then files only labelled."""
    named = {file: name for name, file in reversed(values.labels)}
    files = [(named[file], file) if file in named else file for file in values.files]
    return [*files, *(pair for pair in values.labels if pair not in files)]


def further_outputs(
    values: SimpleNamespace, subject: str, inputs: Sequence[str], outputs: Sequence[Output | None]
) -> "FurtherOutputs | None":
    """The charts and the page that are asked for, found writable; None where none are.

    Args:
        values: Those of the command's options.
        subject: What the charts are about.
        inputs: What is read, which is never replaced.
        outputs: The other files that the command writes.

    Raises:
        GpuprofError: One cannot be written, or two are one file, or a chart is not about that.
    """
    if not (values.charts or values.page):
        check_apart(outputs)
        return None
    from gpuprof.show import further_outputs as asked_for  # noqa: PLC0415 - start-up time

    return asked_for.further_outputs(
        *(values.charts, values.data_format, values.page, subject),
        is_dark=values.is_dark,
        force=values.force,
        inputs=inputs,
        command_outputs=outputs,
    )
