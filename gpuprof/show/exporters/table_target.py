"""Where an export of tables goes: a folder with a file for each table, or one file."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gpuprof.base.errors import UsageError, one_of
from gpuprof.model import schema
from gpuprof.model.profile import Profile
from gpuprof.show.exporters.table_rows import described, table_rows
from gpuprof.show.output import prepare, prepare_folder


class TableTarget:
    """A folder or a file, checked before the recording is read.

    Args:
        exporter: Writes one table; its ``SUFFIX`` ends the names of files.
        output: A folder, or the file of the one table.
        table: The one table; None for all.
        is_forced: Whether what exists may be replaced: of a folder only one of such tables.
        inputs: What is read: these are never replaced.

    Raises:
        UsageError: There is no such table, or a file's name is given for all tables.
        OutputError: The output cannot be written.
    """

    def __init__(
        self,
        exporter: Any,
        output: str,
        inputs: Sequence[str],
        *,
        table: str | None,
        is_forced: bool,
    ) -> None:
        self._exporter, self._table = exporter, table
        if table is not None:
            _check_table(table)
            self._file = prepare(output, is_forced=is_forced, inputs=inputs)
            return
        if Path(output).suffix == exporter.SUFFIX:
            msg = f"{output} is one file, and a recording has a file for each table"
            raise UsageError(msg, "Give a folder, or one table: --table kernels")
        self._folder = prepare_folder(
            output, partial(_is_of_tables, exporter.SUFFIX), is_forced=is_forced, inputs=inputs
        )

    def write(self, profile: Profile) -> tuple[str, ...]:
        """Write the table, or all that were recorded; all files whole, or none.

        Raises:
            GpuprofError: The table was not recorded, or a file cannot be written.
        """
        if self._table is None:
            self._folder.save(lambda folder: self._write_all(profile, folder))
            return ()
        profile.require(self._table)
        table = self._table
        self._file.save(lambda path: self._write_table(profile, table, path), "a table")
        return ()

    def _write_all(self, profile: Profile, folder: Path) -> None:
        for name in schema.BY_NAME:
            if profile.has(name):
                self._write_table(profile, name, folder / f"{name}{self._exporter.SUFFIX}")

    def _write_table(self, profile: Profile, name: str, path: Path) -> None:
        columns = described(schema.BY_NAME[name])
        self._exporter.write_table(table_rows(profile, name), columns, path)


def _is_of_tables(suffix: str, folder: Path) -> bool:
    """Whether a folder holds nothing but tables of a recording."""
    names = {f"{name}{suffix}" for name in schema.BY_NAME}
    return {entry.name for entry in folder.iterdir()} <= names


def _check_table(name: str) -> None:
    if name not in schema.BY_NAME:
        msg = f"there is no table {name}"
        raise UsageError(msg, one_of("Tables", name, [*schema.BY_NAME]))
