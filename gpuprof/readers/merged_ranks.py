"""Several files of one job, one per process or per profiled stretch, as one recording.

Ranks come from the files themselves, else from their names (``rank3``, ``worker3``, or the one
number in which the names differ). Rows of all files stand in the same tables, on one clock.

What numbers say is only true within a file: a correlation id within its process, a device's
ordinal on its host. So processes whose numbers coincide get new ones, and so do devices:
ordinals stay as they are where no two processes use the same one (the ranks of one host);
where they do (ranks on several hosts, or with CUDA_VISIBLE_DEVICES), every process' devices are
taken for different ones and counted on in the order of ranks, which ``devices.rank`` tells.

Each file is read by itself. Columns of integers go through one file after another, and none of
them stays; what a query in SQL names is read once and stays, as narrow as it can be.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base.cuda import UNKNOWN
from gpuprof.model import schema, spilling
from gpuprof.model.analysis import PerFile
from gpuprof.model.columns import Columns, Kinds, Streamed, Table, Tables, Window
from gpuprof.model.profile import Profile, RankRecording
from gpuprof.model.spilling import BATCH_ROWS
from gpuprof.model.views import Select, StoredColumn, StoredRows, View, names_of
from gpuprof.readers.alike import Recordings
from gpuprof.readers.common.changes import changed
from gpuprof.readers.common.compact_columns import arrow, narrow_column
from gpuprof.readers.common.threads import in_turn
from gpuprof.readers.job_notes import notes_of_files
from gpuprof.readers.job_numbers import Column, JobNumbers, ranks_of_names

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")
_EXTENT_COLUMNS: Final = ("end_ns", "process_id", *_DEVICE_COLUMNS)
_DEVICES, _LINKS, _RUNS = schema.DEVICES.name, schema.LINKS.name, schema.RUNS.name
_NAME_ID: Final = "name_id"
_NAMED: Final = (_NAME_ID, "name")
# Files of more are read one by one, others a few at a time.
_FEW_EVENTS: Final = 1_000_000
# The number of a name that is not known.
_UNNAMED: Final = 0

_Pieces = Iterator[list[pa.Array | pa.ChunkedArray]]


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
        recordings: Answers queries to it.
    """

    profile: Profile
    rank: int | None
    runs: pa.Table
    recordings: Recordings

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

    def source(self, table: str) -> pa.Table | View:
        """Its rows of a table; none where it has no such table."""
        rows = self.runs if table == _RUNS else self.profile.sources.get(table)
        return schema.BY_NAME[table].empty() if rows is None else rows

    def table(self, name: str) -> pa.Table:
        """A small table."""
        rows, spec = self.source(name), schema.BY_NAME[name]
        if isinstance(rows, View):
            rows = self.query(f'SELECT {", ".join(spec.columns)} FROM "{name}"')
        return spec.conform(rows)

    def recorded_runs(self) -> pa.Table:
        """The runs that the file records."""
        has_runs = self.profile.has(_RUNS)
        rows = self.profile.sources[_RUNS] if has_runs else schema.RUNS.empty()
        if isinstance(rows, View):
            rows = self.query(f'SELECT {", ".join(schema.RUNS.columns)} FROM "{_RUNS}"')
        return schema.RUNS.conform(rows)

    def query(self, sql: str) -> pa.Table:
        """The result of a query."""
        return self.recordings.query(self.profile, sql)

    def names(self, table: str) -> pa.Table:
        """The names of a table by their numbers, where the file numbers them."""
        kinds = pa.schema([(_NAME_ID, pa.int64()), ("name", pa.string())])
        if not self.may_hold(table):
            return pa.Table.from_batches([], kinds)
        source = self.source(table)
        if isinstance(source, View) and source.names and source.names.columns.keys() == {*_NAMED}:
            return replace(self.profile).numbered_names(table).cast(kinds)
        return self.query(f"SELECT * FROM unrestricted.{names_of(table)}")

    def may_hold(self, table: str) -> bool:
        """Whether a table may have rows."""
        rows = self.source(table)
        return isinstance(rows, View) or rows.num_rows > 0

    def extent(self) -> "Extent":
        """`pids`, `used` and `end_ns`, found in one pass over the file."""
        numbers: dict[str, set[int]] = {name: set() for name in _EXTENT_COLUMNS}
        end_ns = 0
        for table in self.profile.sources:
            columns = schema.BY_NAME[table].columns
            names = [name for name in numbers if name in columns]
            if not names or table in (_DEVICES, _LINKS, _RUNS):
                continue
            for piece in self.pieces(table, names):
                for name, values in zip(names, piece, strict=True):
                    if name != "end_ns":
                        # A null may be a value of a dictionary.
                        different = values.unique().to_pylist()
                        numbers[name].update(n for n in different if n is not None)
                    elif len(values):
                        end_ns = max(end_ns, pc.max(values).as_py() or 0)
        used = set().union(*(numbers[name] for name in _DEVICE_COLUMNS))
        return Extent(numbers["process_id"], used, end_ns)

    def numbers(self, *columns: str) -> set[int]:
        """The numbers that its activities have in these columns."""
        numbers: set[int] = set()
        for table in self.profile.sources:
            names = [name for name in columns if name in schema.BY_NAME[table].columns]
            if names and table not in (_DEVICES, _LINKS, _RUNS):
                for piece in self.pieces(table, names):
                    numbers.update(*(values.unique().to_pylist() for values in piece))
        return numbers - {None}

    @cached_property
    def pids(self) -> set[int]:
        """The processes of its activities."""
        return self.numbers("process_id")

    @cached_property
    def used(self) -> set[int]:
        """The devices of its activities."""
        return self.numbers(*_DEVICE_COLUMNS)

    @cached_property
    def ends(self) -> Mapping[str, tuple[int, int]]:
        """How many rows each table of activities has, and when the last of them ends."""
        ends = {}
        for table in self.profile.sources:
            if "end_ns" in schema.BY_NAME[table].columns:
                pieces = [column for (column,) in self.pieces(table, ["end_ns"])]
                last = [pc.max(column).as_py() for column in pieces if len(column)]
                ends[table] = sum(map(len, pieces)), max(last, default=0)
        return ends

    @property
    def end_ns(self) -> int:
        """When its last activity ends."""
        return max((end_ns for _, end_ns in self.ends.values()), default=0)

    def pieces(self, table: str, names: Sequence[str]) -> _Pieces:
        """Columns of its rows, as narrow as they are, read for this alone."""
        rows = self.source(table)
        if isinstance(rows, pa.Table):
            if rows.num_rows:
                column_names, kinds = {*rows.column_names}, schema.BY_NAME[table].kinds
                count = rows.num_rows
                yield [rows[n] if n in column_names else pa.nulls(count, kinds[n]) for n in names]
        elif self._needs_query(table, names):
            yield self._queried(table, names)
        else:
            # Of its own, so that what it reads of the file goes with it.
            for part in replace(self.profile).values(table, *names):
                yield [arrow(*column) for column in part]

    def _needs_query(self, table: str, names: Sequence[str]) -> bool:
        kinds = schema.BY_NAME[table].kinds
        if any(kinds.get(name, pa.int64()) != pa.int64() for name in names):
            return True
        return replace(self.profile).needs_query(table, *names)

    def _queried(self, table: str, names: Sequence[str]) -> list[pa.ChunkedArray]:
        rows = self.query(f'SELECT {", ".join(names)} FROM "{table}"')
        kinds = schema.BY_NAME[table].kinds
        return [narrow_column(rows[name], kinds.get(name, pa.int64())) for name in names]

    def keeps_order(self, table: str) -> bool:
        """Whether two queries see its rows in the same order."""
        rows = self.source(table)
        return isinstance(rows, pa.Table) or rows.keeps_order


def joined(profiles: Sequence[Profile], file_count: int | None = None) -> Profile:
    """One recording of several, each from a process of its own.

    Args:
        profiles: The recordings.
        file_count: How many files the job has, with those that cannot be read.

    Raises:
        InputError: Two of them are the same recording.
    """
    job = _Job(profiles)
    texts = [(file.name, text) for file in job.files for text in file.profile.origin.warnings]
    warnings = (*job.notes, *notes_of_files(texts, len(profiles)))
    first = profiles[0].origin
    origin = replace(first, epoch_ns=job.earliest_ns, warnings=warnings, host=None)
    events = sum(profile.events for profile in profiles)
    parts = tuple(RankRecording(file.rank, file.profile) for file in job.files)
    return Profile(
        origin,
        job.sources,
        Tables(job.tables),
        stored=events,
        parts=parts,
        file_count=file_count or len(profiles),
        job=job,
    )


class _Job(JobNumbers[File]):
    """The files of a job and their tables.

    Raises:
        InputError: Two of them are the same recording.
    """

    def __init__(self, profiles: Sequence[Profile]) -> None:
        super().__init__(_files(profiles))
        names = (name for file in self.files for name in file.profile.sources)
        self._tables = [*dict.fromkeys((*names, _RUNS, _DEVICES))]
        self.loaded: dict[str, list[dict[str, spilling.Column]]] = {}
        self._ids_of: dict[str, list[_Ids]] = {}
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
    def sources(self) -> dict[str, pa.Table | View]:
        """The tables of all files."""
        # Which of them were used takes a look at all files, which not every question needs.
        devices: dict[str, str] = {name: StoredColumn(name) for name in schema.DEVICES.columns}
        sources: dict[str, pa.Table | View] = {}
        sources[_DEVICES] = View((Select(devices, StoredRows(_DEVICES)),))
        for name in self._tables:
            if name == _LINKS:
                sources[name] = self.links()
            elif name != _DEVICES:
                is_empty = not any(file.may_hold(name) for file in self.files)
                sources[name] = schema.BY_NAME[name].empty() if is_empty else self._view(name)
        return sources

    def tables(self) -> dict[str, Table]:
        """What the views of `sources` select from."""
        tables: dict[str, Table] = {}
        for name, source in self.sources.items():
            if name == _DEVICES:
                kinds = schema.DEVICES.kinds
                tables[name] = Columns(kinds, self._devices_in, lambda: self.devices.num_rows)
            elif isinstance(source, View):
                tables[name] = _Rows(self, name, source.columns)
            if isinstance(source, View) and source.names is not None:
                tables[names_of(name)] = self._names(name)
        return tables

    def column(self, number: int, table: str, name: str, values: Column) -> Column:
        """A column of the file of this place with times and numbers as among all files."""
        if name in {"start_ns", "end_ns"}:
            return self.later(number, values)
        if name == _NAME_ID:
            return self._ids(table)[number].renamed(values)
        return self.in_job(number, name, values)

    def look_through(self, table: str, names: Collection[str]) -> None:
        """Find out what columns mean among all files, which several threads would ask at once."""
        if _NAME_ID in names:
            self._ids(table)
        if "process_id" in names:
            self.process_maps  # noqa: B018 - found once
        if not {*_DEVICE_COLUMNS}.isdisjoint(names):
            self.device_maps  # noqa: B018 - found once

    def names_of(self, table: str) -> list[str]:
        """The columns that depend on the name alone, where all files number names."""
        sources = [file.source(table) for file in self.files if file.may_hold(table)]
        names = [source.names if isinstance(source, View) else None for source in sources]
        columns = {frozenset(() if of is None else of.columns) for of in names}
        return sorted(columns.pop() - {_NAME_ID}) if len(columns) == 1 else []

    def _view(self, table: str) -> View:
        """A table of all files, whose columns can be read without a query."""
        of_name = self.names_of(table)
        columns = [name for name in schema.BY_NAME[table].columns if name not in of_name]
        columns += [_NAME_ID] if of_name else []
        rows = Select({name: StoredColumn(name) for name in columns}, StoredRows(table))
        stored: dict[str, str] = {name: StoredColumn(name) for name in (_NAME_ID, *of_name)}
        names = Select(stored, StoredRows(names_of(table)))
        return View((rows,), names if of_name else None)

    def _names(self, table: str) -> Columns:
        """The names of all files, the same one as often as files have it."""
        texts = self.names_of(table)
        kinds = {_NAME_ID: pa.int64(), **{name: pa.string() for name in texts}}

        def read(column_kinds: Kinds) -> dict[str, pa.ChunkedArray]:
            unnamed = pa.Table.from_pylist([{_NAME_ID: _UNNAMED, "name": UNKNOWN}])
            named = [ids.renumbered for ids in self._ids(table)]
            rows = pa.concat_tables([unnamed, *named], promote_options="permissive")
            return {name: rows[name].cast(kind) for name, kind in column_kinds.items()}

        return Columns(kinds, read, lambda: len(read(kinds)[_NAME_ID]))

    def _ids(self, table: str) -> "list[_Ids]":
        """What each file's numbers of names are among all files."""
        if table not in self._ids_of:
            ids: list[_Ids] = []
            for names in in_turn(lambda file: file.names(table), self.files):
                ids.append(_Ids(names, ids[-1].end if ids else _UNNAMED + 1))
            self._ids_of[table] = ids
        return self._ids_of[table]

    def _devices_in(self, column_kinds: Kinds) -> dict[str, pa.ChunkedArray]:
        return {name: self.devices[name] for name in column_kinds}


@dataclass(frozen=True)
class _Ids:
    """The names of a file among those of all files.

    Args:
        names: Its names by its own numbers, in the column ``name_id``.
        first: The number of its first name.
    """

    names: pa.Table
    first: int

    @property
    def end(self) -> int:
        """The first number after those of its names."""
        return self.first + int(self.names.num_rows)

    @property
    def renumbered(self) -> pa.Table:
        """Its names by their numbers among all files."""
        names = _with(self.names, "name", self.names["name"].fill_null(UNKNOWN))
        return _with(names, _NAME_ID, arrow(np.arange(self.first, self.end)))

    def renamed(self, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Its numbers as those among all files; where it has no name of that number `_UNNAMED`."""
        name_ids = self.names[_NAME_ID].combine_chunks()
        places = pc.index_in(values.cast(pa.int64()), value_set=name_ids)
        return pc.add(places.cast(pa.int64()), self.first).fill_null(_UNNAMED)


class _Rows(Streamed):
    """A table of all files.

    What queries in SQL named stays, as the files have it.
    """

    def __init__(self, job: _Job, table: str, columns: Collection[str]) -> None:
        kinds = {_NAME_ID: pa.int64(), **schema.BY_NAME[table].kinds}
        kinds = {name: kind for name, kind in kinds.items() if name in columns}
        coded = pa.dictionary(pa.int32(), pa.string())
        types = {name: coded if kind == pa.string() else kind for name, kind in kinds.items()}
        super().__init__(kinds, types)
        self._job, self._table = job, table
        self._expected: set[str] = set()
        # By file; what one connection reads others need not read again.
        self._columns_of_files = job.loaded.setdefault(table, [{} for _ in job.files])

    def expect(self, names: Collection[str]) -> None:
        """Note columns that are read together with the first that is needed."""
        self._expected.update(names)

    def load(self, names: Collection[str], _: Window | None = None) -> None:
        """Read the columns that are not there yet, of one file after another."""
        super().load(names)
        self._names = self._names or [*self.kinds][:1]
        for file, loaded in zip(self._job.files, self._columns_of_files, strict=True):
            if any(name not in loaded for name in self._names):
                needed = {*self._names, *self._expected}
                needed = needed if file.keeps_order(self._table) else {*self.kinds}
                missing = [name for name in self.kinds if name in needed and name not in loaded]
                rows = _gathered(file.pieces(self._table, missing), missing, self.kinds)
                loaded.update(spilling.within_budget(rows))
            if len({len(column) for column in loaded.values()}) > 1:
                raise changed(file.profile.origin.source)
        if "process_id" in self._names:
            self._job.process_maps  # noqa: B018 - asks the files, which no stream can

    def pieces(self, names: Sequence[str], _: Window | None = None) -> Iterator[pa.RecordBatch]:
        """Columns of all rows, one file after another; none stays in memory."""
        files = enumerate(zip(self._job.files, self._columns_of_files, strict=True))
        numbered = [(n, f, loaded) for n, (f, loaded) in files if loaded or f.may_hold(self._table)]
        if sum(file.profile.events for _, file, _ in numbered) > _FEW_EVENTS * len(numbered):
            for of_file in numbered:
                yield from self._of_file(names, *of_file)
            return
        self._job.look_through(self._table, names)
        for batches in in_turn(lambda of_file: [*self._of_file(names, *of_file)], numbered):
            yield from batches

    def _of_file(
        self, names: Sequence[str], number: int, file: File, loaded: Mapping[str, spilling.Column]
    ) -> Iterator[pa.RecordBatch]:
        is_loaded = all(name in loaded for name in names)
        rows = _rows_read(loaded, names) if is_loaded else file.pieces(self._table, names)
        for piece in rows:
            yield from self._batches(number, names, [*map(_plain, piece)])

    def _loaded(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for number, loaded in enumerate(self._columns_of_files):
            for piece in _rows_read(loaded, names):
                yield from self._batches(number, names, piece)

    def _batches(
        self,
        number: int,
        names: Sequence[str],
        values: Sequence[pa.Array | pa.ChunkedArray],
    ) -> Iterator[pa.RecordBatch]:
        columns = [
            self._job.column(number, self._table, name, column)
            for name, column in zip(names, values, strict=True)
        ]
        table = pa.Table.from_arrays(columns, [*names])
        yield from table.to_batches(max_chunksize=BATCH_ROWS)


def _rows_read(loaded: Mapping[str, spilling.Column], names: Sequence[str]) -> _Pieces:
    columns = {name: loaded[name] for name in names}
    return (batch.columns for batch in spilling.batches(columns, len(loaded[names[0]])))


def _gathered(pieces: _Pieces, names: Sequence[str], kinds: Kinds) -> dict[str, pa.ChunkedArray]:
    """Columns of all pieces; no rows where there is none."""
    tables = [pa.Table.from_arrays(piece, [*names]) for piece in pieces]
    if not tables:
        return {name: pa.chunked_array([], kinds[name]) for name in names}
    # Numbers of one column are of 8 bits in one piece and of 32 in another.
    table = pa.concat_tables(tables, promote_options="permissive")
    return {name: _of_wide_codes(table[name]) for name in names}


def _of_wide_codes(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as a dictionary whose codes are of the width that all files have."""
    if pa.types.is_string(values.type):
        return values.dictionary_encode()
    if not (pa.types.is_dictionary(values.type) and pa.types.is_string(values.type.value_type)):
        return values
    coded = pa.dictionary(pa.int32(), pa.string())
    parts = [
        pa.DictionaryArray.from_arrays(part.indices.cast(pa.int32()), part.dictionary)
        for part in values.chunks
    ]
    return pa.chunked_array(parts, coded)


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Integers that may be codes as they are."""
    is_coded = pa.types.is_dictionary(values.type)
    return values.cast(values.type.value_type) if is_coded else values


@cache
def _recordings() -> Recordings:
    """Answers queries to files that a process reads one after another."""
    return Recordings()


def file_of(profile: Profile) -> File:
    """One file of a job by itself; its rank is None where it records none."""
    file = File(profile, None, schema.RUNS.empty(), _recordings())
    runs = file.recorded_runs()
    rank = runs["rank"][0].as_py() if runs.num_rows == 1 else None
    return replace(file, rank=rank, runs=runs)


def _files(profiles: Sequence[Profile]) -> list[File]:
    """The files as they were given, with their ranks."""
    recordings = Recordings()
    files = [File(p, None, schema.RUNS.empty(), recordings) for p in profiles]
    runs = [file.recorded_runs() for file in files]
    ranks = [rows["rank"][0].as_py() if rows.num_rows == 1 else None for rows in runs]
    if None in ranks:
        ranks = ranks_of_names([file.name for file in files])
    ranked = []
    for file, rows, rank in zip(files, runs, ranks, strict=True):
        ranked.append(replace(file, rank=rank, runs=ranked_runs(rows, rank)))
    return ranked


def ranked_runs(runs: pa.Table, rank: int | None) -> pa.Table:
    """The runs of a file whose rank is known; a single one where it records none."""
    listed = runs.to_pylist() or [{"run_id": 0}]
    listed = [listed[0] | {"rank": rank}] if len(listed) == 1 else listed
    return schema.RUNS.table(listed)


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
