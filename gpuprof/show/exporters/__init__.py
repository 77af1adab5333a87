"""Recordings for other tools: each exporter is one file and one line in `EXPORTERS`.

The file of an exporter of traces has the tables that it needs, ``NEEDS``; a function ``named`` from
a path and the number of a file to that file's path; and a function ``parts`` from a recording to
functions, each of which writes a file, and to what the files do not say, a sentence each.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final

from gpuprof.base.errors import OutputError, UsageError
from gpuprof.model.profile import Profile
from gpuprof.show.exporters import chakra, perfetto
from gpuprof.show.exporters.table_files import TABLES, TableTarget
from gpuprof.show.output import STDOUT, Output, prepare

TRACES: Final = {"chakra": chakra, "perfetto": perfetto}
EXPORTERS: Final[dict[str, Any]] = {**TRACES, **TABLES}


def target(
    name: str, output: str, inputs: Sequence[str], *, table: str | None, is_forced: bool
) -> "TraceTarget | TableTarget":
    """Where an export goes, found writable before the recording is read.

    Args:
        name: The exporter.
        output: A file or a folder.
        inputs: What is read: these are never replaced.
        table: The only table to export; None for all, and of traces.
        is_forced: Whether what exists may be replaced.

    Raises:
        UsageError: The arguments do not fit together.
        OutputError: The output cannot be written.
    """
    content, example = (
        (f"a {name} trace", TRACES[name].EXAMPLE) if name in TRACES else ("tables", "tables")
    )
    if output == STDOUT:
        msg = f"{content} cannot go to standard output"
        raise OutputError(msg, f"Give it a name: -o {example}")
    if name in TABLES:
        return TableTarget(name, output, inputs, table=table, is_forced=is_forced)
    if table is not None:
        msg = f"--table is for tables, and {name} writes a trace"
        raise UsageError(msg, f"Leave it out, or choose --to {' or '.join(TABLES)}.")
    return TraceTarget(name, output, inputs, is_forced=is_forced)


class TraceTarget:
    """The files of a trace, the first found writable.

    Args:
        name: The exporter.
        output: A file; an exporter may write several with similar names.
        is_forced: Whether files that exist may be replaced.
        inputs: What is read: these are never replaced.

    Raises:
        OutputError: The first file cannot be written.
    """

    def __init__(self, name: str, output: str, inputs: Sequence[str], *, is_forced: bool) -> None:
        self._exporter, self._path = TRACES[name], Path(output)
        self._inputs, self._is_forced = inputs, is_forced
        self._output(0)

    def _output(self, number: int) -> Output:
        path = self._exporter.named(self._path, number)
        return prepare(str(path), is_forced=self._is_forced, inputs=self._inputs)

    def write(self, profile: Profile) -> tuple[str, ...]:
        """Write a recording; all files whole, or none.

        Returns:
            What the files do not say, a sentence each.

        Raises:
            GpuprofError: The recording lacks what it takes, or a file cannot be written.
        """
        profile.require(*self._exporter.NEEDS)
        notes: tuple[str, ...]
        writers, notes = self._exporter.parts(profile)
        _save([(self._output(n), writer) for n, writer in enumerate(writers)])
        return notes


def _save(files: Sequence[tuple[Output, Callable[[IO[bytes]], None]]]) -> None:
    """Write files; none gets its name before all are whole."""
    (output, writer), *further = files

    def write(path: Path) -> None:
        with path.open("wb") as file:
            writer(file)
        if further:
            _save(further)

    output.save(write)
