"""Recordings for other tools: each exporter is one file and one line in `EXPORTERS`.

An exporter's file has the tables that it needs, ``NEEDS``; a function ``named`` from a path and
the number of a file to that file's path; and a function ``parts`` from a recording to `Parts`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuprof.errors import OutputError
from gpuprof.profile import Profile
from gpuprof.render.exporters import chakra, perfetto
from gpuprof.render.exporters.contract import Parts, Writer
from gpuprof.render.output import STDOUT, Output, prepare

EXPORTERS: Final = {"chakra": chakra, "perfetto": perfetto}


class Target:
    """Where an export goes, found writable before the recording is read.

    Args:
        name: The exporter.
        output: A file; an exporter may write several with similar names.
        is_forced: Whether files that exist may be replaced.
        inputs: What is read: these are never replaced.

    Raises:
        OutputError: The first file cannot be written.
    """

    def __init__(self, name: str, output: str, inputs: Sequence[str], *, is_forced: bool) -> None:
        if output == STDOUT:
            msg = f"a {name} trace cannot go to standard output"
            raise OutputError(msg, f"Give it a file name: -o {EXPORTERS[name].EXAMPLE}")
        self._exporter, self._path = EXPORTERS[name], Path(output)
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
        parts: Parts = self._exporter.parts(profile)
        _save([(self._output(n), writer) for n, writer in enumerate(parts.writers)])
        return parts.notes


def _save(files: Sequence[tuple[Output, Writer]]) -> None:
    """Write files; none gets its name before all are whole."""
    (output, writer), *further = files

    def write(path: Path) -> None:
        with path.open("wb") as file:
            writer(file)
        if further:
            _save(further)

    output.save(write)
