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
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from gpuprof.model import schema
from gpuprof.model.analysis import PerFile
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.profile import Profile, RankRecording, Source
from gpuprof.model.table import NumberedNames, Part, Table, Window, as_arrow, in_memory, values
from gpuprof.model.words import ByNumber, Values
from gpuprof.readers.common.threads import in_turn
from gpuprof.readers.job_notes import notes_of_files
from gpuprof.readers.job_numbers import JobNumbers, ranks_of_names

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")
# The numbers that are only true within a file.
_RENUMBERED: Final = ("run_id", "process_id", *_DEVICE_COLUMNS)
_EXTENT_COLUMNS: Final = ("end_ns", "process_id", *_DEVICE_COLUMNS)
_DEVICES, _LINKS, _RUNS = schema.DEVICES.name, schema.LINKS.name, schema.RUNS.name
_NAME_ID: Final = "name_id"
# Files of more are read one by one, others a few at a time.
_FEW_EVENTS: Final = 1_000_000
# The number of a name that is not known, and what that is called.
_UNNAMED: Final = 0
_NO_NAME: Final = "unknown"
_NO_NAMES: Final = NumberedNames((), {"name": ()})


class Extent(NamedTuple):
    """What the activities of a file reach.

    Args:
        pids: Their processes.
        used: Their devices.
        end_ns: When the last of them ends; 0 where there is none.
    """

    pids: set[int]
    used: set[int]
    end_ns: int


@dataclass(frozen=True, eq=False)
class File:
    """One file.

    Args:
        runs: Its runs; a single one where the file records none.
    """

    profile: Profile
    rank: int | None
    runs: pa.Table

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.profile.origin.source.name

    @property
    def origin_ns(self) -> int | None:
        """When its clock began; None where it does not tell."""
        return self.profile.origin.epoch_ns

    @property
    def recorder(self) -> str:
        """The tool that recorded it, and its version."""
        return self.profile.origin.recorder

    def source(self, table: str) -> Source:
        """Its rows of a table; none where it has no such table."""
        rows = self.runs if table == _RUNS else self.profile.sources.get(table)
        return schema.BY_NAME[table].empty() if rows is None else rows

    def table(self, name: str) -> pa.Table:
        """A small table."""
        rows = self.source(name)
        return (
            schema.BY_NAME[name].conform(rows)
            if isinstance(rows, pa.Table)
            else self.profile.table(name)
        )

    def may_hold(self, table: str) -> bool:
        """Whether a table may have rows."""
        rows = self.source(table)
        return not isinstance(rows, pa.Table) or rows.num_rows > 0

    def extent(self, *names: str) -> Extent:
        """What its activities reach, as far as these columns tell, found in one pass over it."""
        numbers: dict[str, set[int]] = {name: set() for name in _EXTENT_COLUMNS}
        end_ns = 0
        for table in self.profile.sources:
            there = [n for n in names or _EXTENT_COLUMNS if n in schema.BY_NAME[table].columns]
            if not there or table in (_DEVICES, _LINKS, _RUNS):
                continue
            for piece in self.pieces(table, there):
                for name, (filled, is_null, _) in zip(there, piece, strict=True):
                    present = filled if is_null is None else filled[~is_null]
                    if name != "end_ns":
                        numbers[name].update(np.unique(present).tolist())
                    elif len(present):
                        end_ns = max(end_ns, int(present.max()))
        used = set().union(*(numbers[name] for name in _DEVICE_COLUMNS))
        return Extent(numbers["process_id"] - {UNKNOWN}, used - {UNKNOWN}, end_ns)

    @cached_property
    def pids(self) -> set[int]:
        """The processes of its activities."""
        return self.extent("process_id").pids

    @cached_property
    def used(self) -> set[int]:
        """The devices of its activities."""
        return self.extent(*_DEVICE_COLUMNS).used

    @cached_property
    def end_ns(self) -> int:
        """When its last activity ends."""
        return self.extent("end_ns").end_ns

    def pieces(self, table: str, names: Sequence[str]) -> Iterator[list[Values]]:
        """Columns of its rows, read for this alone."""
        if table == _RUNS:
            yield from in_memory(schema.RUNS, self.runs).pieces(names)
        elif self.may_hold(table):
            yield from self._alone(table).pieces(table, *names)

    def names(self, table: str) -> NumberedNames:
        """The names of a table by their numbers."""
        return self._alone(table).loaded(table).names if self.may_hold(table) else _NO_NAMES

    def _alone(self, table: str) -> Profile:
        """The recording; where it lies in a file, so that what is read of it goes with it."""
        is_here = isinstance(self.source(table), pa.Table)
        return self.profile if is_here else replace(self.profile)


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

    has_activities = True

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
            for function in functions:
                tables[function][number] = function.of(part, number)
        for function in functions:
            answer = self.combined(function, tables.pop(function))
            self._answers[function, profile.skip_steps] = answer

    @cached_property
    def sources(self) -> dict[str, Source]:
        """The tables of all files."""
        # Which devices were used takes a look at all files, which not every question needs.
        sources: dict[str, Source] = {_DEVICES: lambda: in_memory(schema.DEVICES, self.devices)}
        for name in self._tables:
            if name == _LINKS:
                sources[name] = self.links()
            elif name != _DEVICES:
                is_empty = not any(file.may_hold(name) for file in self.files)
                table = partial(self._table, name)
                sources[name] = schema.BY_NAME[name].empty() if is_empty else table
        return sources

    def _table(self, name: str) -> Table:
        """A table of all files."""
        spec = schema.BY_NAME[name]
        is_named = (
            "start_ns" in spec.columns and "name" in spec.columns and spec.columns["name"].required
        )
        columns = {column: column for column in spec.columns}
        if is_named:
            columns.pop("name")
            columns[_NAME_ID] = _NAME_ID
        part = Part(_JobRows(self, name), {**columns})

        def names() -> NumberedNames:
            # The same one as often as files have it.
            all_names = [text or _NO_NAME for _, texts in self._names(name) for text in texts]
            return NumberedNames(
                range(_UNNAMED, len(all_names) + 1), {"name": [_NO_NAME, *all_names]}
            )

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
            first = _UNNAMED + 1
            for numbers, columns in in_turn(lambda file: file.names(table), self.files):
                end = first + len(numbers)
                # What the file has no name for is `_UNNAMED`.
                names.append((ByNumber(numbers, range(first, end), _UNNAMED), columns["name"]))
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


def file_of(profile: Profile) -> File:
    """One file of a job by itself; its rank is None where it records none."""
    runs = profile.table(_RUNS) if profile.has(_RUNS) else schema.RUNS.empty()
    rank = runs["rank"][0].as_py() if runs.num_rows == 1 else None
    return File(profile, rank, runs)


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


def ranked_runs(runs: pa.Table, rank: int | None) -> pa.Table:
    """The runs of a file whose rank is known; a single one where it records none."""
    listed = runs.to_pylist() or [{"run_id": 0}]
    listed = [listed[0] | {"rank": rank}] if len(listed) == 1 else listed
    return schema.RUNS.table(listed)
