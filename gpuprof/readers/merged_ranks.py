"""Several files of one job, one per process or per profiled stretch, as one recording.

Ranks come from the files themselves, else from their names (``rank3``, ``worker3``, or the one
number in which the names differ). Rows of all files stand in the same tables, on one clock.

What numbers say is only true within a file: a correlation id within its process, a device's
ordinal on its host. So processes whose numbers coincide get new ones, and so do devices:
ordinals stay as they are where no two processes use the same one (the ranks of one host);
where they do (ranks on several hosts, or with CUDA_VISIBLE_DEVICES), every process' devices are
taken for different ones and counted on in the order of ranks, which ``devices.rank`` tells.

Each file is read by itself: columns go through one file after another, and none of them stays.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa

from gpuprof.base import startup
from gpuprof.base.machine import in_turn
from gpuprof.model import data_model
from gpuprof.model.analysis import PerFile
from gpuprof.model.arrow_values import as_arrow, values
from gpuprof.model.profile import Profile, RankRecording, Source
from gpuprof.model.stored import Window
from gpuprof.model.table import Part, Table, in_memory
from gpuprof.model.words import UNNAMED, ByNumber, Names, Values
from gpuprof.readers.job_files import File, file_of, ranked_runs, ranks_of_names
from gpuprof.readers.job_notes import notes_of_files
from gpuprof.readers.job_numbers import JobNumbers

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")
# The numbers that are only true within a file.
_RENUMBERED: Final = ("run_id", "process_id", *_DEVICE_COLUMNS)
_DEVICES, _LINKS, _RUNS = data_model.DEVICES.name, data_model.LINKS.name, data_model.RUNS.name
_NAME_ID: Final = "name_id"
# Files of more are read one by one, others a few at a time.
_FEW_EVENTS: Final = 1_000_000
# Fewer rows are not worth adding up before all files are there.
_MANY_ROWS: Final = 500_000
# To give back memory after each file would take longer than to read it.
_FILES_AT_ONCE: Final = 16
# The number of a name that is not known.
_NO_NUMBER: Final = 0


def joined(profiles: Sequence[Profile], file_count: int | None = None) -> Profile:
    """One recording of several, each from a process of its own.

    Args:
        profiles: The recordings.
        file_count: How many files the job has, with those that cannot be read.

    Raises:
        InputError: Two of them are the same recording.
    """
    job = _JoinedFiles(profiles)
    texts = [(file.name, text) for file in job.files for text in file.profile.origin.warnings]
    warnings = (*job.notes, *notes_of_files(texts, len(profiles)))
    first = profiles[0].origin
    origin = replace(first, epoch_ns=job.earliest_ns, warnings=warnings, host=None)
    events = sum(profile.events for profile in profiles)
    parts = tuple(RankRecording(file.rank, file.profile) for file in job.files)
    return Profile(
        origin,
        job.sources,
        stored=events,
        parts=parts,
        file_count=file_count or len(profiles),
        job=job,
    )


class _JoinedFiles(JobNumbers[File]):
    """The files of a job and their tables.

    Raises:
        InputError: Two of them are the same recording.
    """

    def __init__(self, profiles: Sequence[Profile]) -> None:
        super().__init__(_files(profiles))
        names = (name for file in self.files for name in file.profile.sources)
        self._tables = [*dict.fromkeys((*names, _RUNS, _DEVICES))]
        self._names_of: dict[str, list[tuple[ByNumber, Sequence[str | None]]]] = {}
        self._answers: dict[tuple[PerFile, int | None], pa.Table] = {}

    def rows(self, function: PerFile, profile: Profile) -> pa.Table:
        """As `gpuprof.model.profile.Job` has it."""
        if (function, profile.skip_steps) not in self._answers:
            self.prepare([function], profile, lambda _: {})
        return self._answers[function, profile.skip_steps]

    def prepare(
        self,
        functions: Collection[PerFile],
        profile: Profile,
        columns: Callable[[Profile], Mapping[str, Collection[str]]],
    ) -> None:
        """As `gpuprof.model.profile.Job` has it; nothing else of a file stays in memory."""
        tables: dict[PerFile, dict[int, pa.Table]] = {function: {} for function in functions}
        for number, file in enumerate(self.files):
            part = replace(
                file.profile, skip_steps=profile.skip_steps, file_count=profile.file_count
            )
            part.expect(columns(part))
            for function, of_files in tables.items():
                of_files[number] = function.of(part, number)
                first, *later = map(len, of_files.values())
                # The tables so far as one, where they have many rows.
                if not function.is_of_files and sum(later) > max(first, _MANY_ROWS):
                    place, rows = min(of_files), function.together([*of_files.values()])
                    of_files.clear()
                    of_files[place] = rows
            if not number % _FILES_AT_ONCE:  # what was decoded of the files before is let go
                startup.give_back_freed_memory()
        for function in functions:
            answer = self.combined(function, tables.pop(function))
            self._answers[function, profile.skip_steps] = answer

    @cached_property
    def sources(self) -> dict[str, Source]:
        """The tables of all files."""
        # Which devices were used takes a look at all files, which not every question needs.
        sources: dict[str, Source] = {_DEVICES: lambda: in_memory(data_model.DEVICES, self.devices)}
        for name in self._tables:
            if name == _LINKS:
                sources[name] = self.links()
            elif name != _DEVICES:
                is_empty = not any(file.may_hold(name) for file in self.files)
                table = partial(self._table, name)
                sources[name] = data_model.BY_NAME[name].empty() if is_empty else table
        return sources

    def _table(self, name: str) -> Table:
        """A table of all files."""
        spec = data_model.BY_NAME[name]
        is_named = (
            "start_ns" in spec.columns and "name" in spec.columns and spec.columns["name"].required
        )
        columns = {column: column for column in spec.columns}
        if is_named:
            columns.pop("name")
            columns[_NAME_ID] = _NAME_ID
        part = Part(_JobRows(self, name), {**columns})

        def names() -> Names:
            # The same one as often as files have it.
            all_names = [text or UNNAMED for _, texts in self._names(name) for text in texts]
            return Names(range(_NO_NUMBER, len(all_names) + 1), {"name": [UNNAMED, *all_names]})

        return Table(spec, [part], names if is_named else None)

    def column(self, number: int, table: str, name: str, column: Values) -> Values:
        """A column of the file of this place with times and numbers as among all files."""
        if name == _NAME_ID:
            by_number, _ = self._names(table)[number]
            return Values(by_number.of(column.filled))
        if name in {"start_ns", "end_ns"}:
            shift_ns = self.shifts_ns[number]
            return Values(column.numbers.astype(np.int64) + shift_ns) if shift_ns else column
        if name not in _RENUMBERED:
            return column
        return values(self.in_job(number, name, as_arrow(column)))

    def look_through(self, table: str, names: Collection[str]) -> None:
        """Find out what columns mean among all files, which several threads would ask at once."""
        if _NAME_ID in names:
            self._names(table)
        if "process_id" in names:
            self.process_maps  # noqa: B018 - found once
        if not {*_DEVICE_COLUMNS}.isdisjoint(names):
            self.device_maps  # noqa: B018 - found once

    def _names(self, table: str) -> list[tuple[ByNumber, Sequence[str | None]]]:
        """Of each file what its numbers of names are among all files, and its names."""
        if table not in self._names_of:
            names: list[tuple[ByNumber, Sequence[str | None]]] = []
            first = _NO_NUMBER + 1
            for of_file in in_turn(lambda file: file.names(table), self.files):
                numbers, end = of_file.numbers, first + len(of_file.numbers)
                # What the file has no name for is `_NO_NUMBER`.
                of_all = ByNumber(numbers, range(first, end), _NO_NUMBER)
                names.append((of_all, of_file.columns["name"]))
                first = end
            self._names_of[table] = names
        return self._names_of[table]


class _JobRows:
    """A table of all files; none of what is read stays in memory."""

    def __init__(self, job: _JoinedFiles, table: str) -> None:
        self._job, self._table = job, table
        self._files = [(n, file) for n, file in enumerate(job.files) if file.may_hold(table)]

    def rows_known(self) -> int:
        """How many rows it has at most: unknown."""
        return 0

    def expect(self, names: Collection[str]) -> None:
        """Nothing: what is read is not there for the next."""

    def release(self, but: Collection[str]) -> None:
        """Nothing: none is kept."""

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[list[Values]]:
        """Columns of all rows, one file after another."""
        if sum(file.profile.events for _, file in self._files) > _FEW_EVENTS * len(self._files):
            for number, file in self._files:
                yield from self._of_file(names, number, file)
            return
        self._job.look_through(self._table, names)
        for pieces in in_turn(lambda of: [*self._of_file(names, *of)], self._files):
            yield from pieces

    def _of_file(self, names: Sequence[str], number: int, file: File) -> Iterator[list[Values]]:
        for piece in file.pieces(self._table, names):
            columns = zip(names, piece, strict=True)
            yield [self._job.column(number, self._table, name, column) for name, column in columns]


def _files(profiles: Sequence[Profile]) -> list[File]:
    """The files as they were given, with their ranks."""
    files = [*map(file_of, profiles)]
    ranks = [file.rank for file in files]
    if None in ranks:
        ranks = ranks_of_names([file.name for file in files])
    return [
        File(file.profile, rank, ranked_runs(file.runs, rank))
        for file, rank in zip(files, ranks, strict=True)
    ]
