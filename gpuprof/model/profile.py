"""One recording: where it came from, and its tables.

A reader gives each table either as Arrow data or as a `Table` over its own file, so that an
analysis reads from a large file only the columns it needs, and never knows which format it reads.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from gpuprof.base import machine, startup
from gpuprof.base.errors import ROOM, CorruptFileError, InputError, MissingTableError
from gpuprof.base.machine import SecondThread
from gpuprof.model import data_model, schema
from gpuprof.model.borders import BeyondBoundsError
from gpuprof.model.origin import Origin
from gpuprof.model.table import EVERYTHING, NO_TEXTS, Choice, Selection, Table, in_memory
from gpuprof.model.words import Values, Words

if TYPE_CHECKING:
    import pandas as pd


# A table in memory, or what opens one of a file.
Source: TypeAlias = pa.Table | Callable[[], Table]
_Result = TypeVar("_Result")
_TWO = 2  # threads
# Of fewer events, two threads of Python take longer than one.
_MANY_EVENTS = 1_000_000


@dataclass(frozen=True)
class Section:
    """One of several recordings that follow one another in a file.

    Args:
        name: The command, comment or file by which the file tells it from the others; empty
            where it has none.
        process_id: Its process, where it is known.
        profile: This recording alone.
    """

    name: str
    process_id: int | None
    profile: "Profile" = field(repr=False)


class RankRecording(NamedTuple):
    """One of the recordings of a job that are read as one.

    Args:
        rank: Its rank; None where unknown.
        profile: The recording alone, on its own clock.
    """

    rank: int | None
    profile: "Profile"


def absent_ranks(ranks: Iterable[int | None], world_sizes: Iterable[int | None]) -> list[int]:
    """Ranks of a job without a recording: those between its ranks where its size is unknown.

    None where its size is unknown and most are absent: numbers in names of files may be no ranks.

    Args:
        ranks: Those of the recordings; None where unknown.
        world_sizes: How many ranks the job has, as each recording tells it; None where it does not.
    """
    numbered = {rank for rank in ranks if rank is not None}
    size = max((size for size in world_sizes if size is not None), default=0)
    if numbered and max(numbered) < size:
        return sorted({*range(size)} - numbered)
    absent = sorted({*range(min(numbered, default=0), max(numbered, default=0))} - numbered)
    return absent if len(absent) < len(numbered) else []


class Job(Protocol):
    """Answers for the recordings of a job, each of which is analysed by itself."""

    def rows(self, function: Any, profile: "Profile") -> pa.Table:
        """What a `gpuprof.model.analysis.PerFile` makes of all of them together.

        Args:
            function: It.
            profile: The job, with what is asked of it beside the recordings.
        """

    def prepare(
        self,
        functions: Collection[Any],
        profile: "Profile",
        columns: "Callable[[Profile], Mapping[str, Collection[str]]]",
    ) -> None:
        """Compute several such functions of one recording after the other, each read once.

        Args:
            functions: They.
            profile: As for `rows`.
            columns: What they ask for of a recording, as for `Profile.expect`.
        """


class UnreadFiles(NamedTuple):
    """The files of a job that could not be read.

    Args:
        faults: Each with a message on it, which names the file first.
        file_count: How many files the job has.
    """

    faults: tuple[tuple[Path, str], ...] = ()
    file_count: int = 0


_ALL_READ = UnreadFiles()


def _notebook() -> Any:
    """What shows a recording, in a room that stands on this one: only people need it."""
    return import_module("gpuprof.show.notebook")


@dataclass(frozen=True)
class Profile:
    """One recording, as every reader gives it and every analysis takes it.

    Args:
        origin: Where it came from.
        sources: Table name to Arrow data, or to what opens the table. An absent table was not
            recorded; a table with no rows was recorded, and nothing happened. Arrow data may be of
            narrower types than the schema's, and lack columns that are null (see `Schema.narrow`).
        selection: Which activities its tables show.
        stored: About how many events lie in the reader's file, where that is known.
        sections: The recordings of a file that holds several, which this one then adds up; see
            `gpuprof.readers.sections`.
        skip_steps: Steps at the beginning of each phase that are set aside; None for those that
            are found to be warm-up.
        parts: The recordings that it joins, in the order of ranks; none where it joins none.
        unread: The files that it would join, too, if they could be read.
        file_count: How many files its job has.
        job: Answers for `parts`, where all activities of these are looked at; else None.
    """

    origin: Origin
    sources: Mapping[str, Source] = field(repr=False)
    selection: Selection = EVERYTHING
    stored: int = 0
    sections: tuple[Section, ...] = field(default=(), repr=False)
    skip_steps: int | None = None
    parts: "tuple[RankRecording, ...]" = field(default=(), repr=False)
    unread: UnreadFiles = _ALL_READ
    file_count: int = 1
    job: Job | None = field(default=None, repr=False)
    _unrestricted: "Profile | None" = field(default=None, repr=False)
    # What it has read and computed, which no other that is made of it shares.
    _tables: dict[str, Table] = field(default_factory=dict, init=False, repr=False, compare=False)
    _results: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _locks: dict[Any, "threading.RLock"] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Let the whole recording leave out as many steps as a part of it."""
        recording = self._unrestricted
        if recording is not None and recording.skip_steps != self.skip_steps:
            recording = replace(recording, skip_steps=self.skip_steps)
            object.__setattr__(self, "_unrestricted", recording)

    def __repr__(self) -> str:
        """What it is a recording of, in a few lines; the first sentence of its report."""
        text: str = _notebook().summary_text(_notebook().profile_summary(self))
        return text

    def _repr_html_(self) -> str:
        fragment: str = _notebook().summary_html(_notebook().profile_summary(self))
        return fragment

    @property
    def unrestricted(self) -> "Profile":
        """The recording with all its activities; itself where it shows all of them."""
        return self._unrestricted or self

    @property
    def events(self) -> int:
        """About how many events it holds; 0 where that is not known without reading them."""
        return self.stored + sum(
            int(rows.num_rows)
            for name, rows in self.sources.items()
            if isinstance(rows, pa.Table) and name not in _PLACES
        )

    def has(self, *names: str) -> bool:
        """Whether all these tables were recorded."""
        return self.sources.keys() >= {*names}

    @property
    def is_large(self) -> bool:
        """Whether it has so many events that it is worth to let go of some, or to use threads."""
        return self.unrestricted.events >= _MANY_EVENTS

    @property
    def absent_ranks(self) -> list[int]:
        """Ranks of the job that it joins without a recording, as far as they are known."""
        if not self.parts:
            return []
        sizes = self.table("runs")["world_size"].to_pylist()
        return absent_ranks((part.rank for part in self.parts), sizes)

    def all_have(self, *names: str) -> bool:
        """Whether all these tables were recorded in every file that the recording joins."""
        files = [part.profile for part in self.unrestricted.parts]
        return self.has(*names) and all(file.has(*names) for file in files)

    def require(self, *names: str) -> None:
        """Check that these tables were recorded.

        Raises:
            MissingTableError: One was not.
        """
        for name in names:
            if name not in self.sources:
                msg = f"{self.origin.source} has no {name} table (read as {self.origin.reader})"
                raise MissingTableError(
                    msg, "Record with `gpuprof record`, which keeps every activity."
                )

    def with_table(self, name: str, table: pa.Table) -> "Profile":
        """The same recording with one more table, or another in its place."""
        return replace(self, sources={**self.sources, name: table}, job=None)

    def restricted(self, selection: Selection) -> "Profile":
        """Some activities of the recording, with only the tables that these have.

        Of a part, what is in both. What launched an activity may have happened earlier:
        `unrestricted` has all of them.
        """
        selection = self.selection.within(selection)
        excluded = _TIMELESS if selection.windows is not None else _OF_ALL_DEVICES
        sources = {name: source for name, source in self.sources.items() if name not in excluded}
        return replace(
            self,
            sources=sources,
            selection=selection,
            parts=(),
            job=None,
            _unrestricted=self.unrestricted,
        )

    def expect(self, reads: Mapping[str, Collection[str]]) -> None:
        """Announce columns by table that will be asked for, so that they are read in one pass."""
        for name in reads.keys() & self.sources.keys():
            if not isinstance(self.sources[name], pa.Table):
                self.loaded(name).expect(reads[name])

    def release(self, but: Mapping[str, Collection[str]]) -> None:
        """Let go of what was read of its file but for columns by table that will be asked for.

        Who asks for another column has it read anew.
        """
        for name, table in self.unrestricted._tables.items():  # noqa: SLF001 - of the same class
            table.release(but.get(name, ()))
        startup.give_back_freed_memory()

    def let_go(self, table: str, *names: str) -> None:
        """Let go of columns of a large table that hardly anything asks for from now on, or of all.

        What comes next takes their place, as memory that is new to a process is cleared first.
        """
        if self.is_large:
            of = self.loaded(table)
            of.release({*of.schema.columns, "name_id"}.difference(names) if names else ())

    def give_back(self) -> None:
        """Give back to the system what was let go, where what comes next takes less."""
        if self.is_large:
            startup.give_back_freed_memory()

    def query(self, sql: str) -> pa.Table:
        """What a SELECT in DuckDB's dialect answers about the recording; see `gpuprof.sql`.

        Raises:
            QueryError: It is no single SELECT, names what there is not, or reads a file.
            GpuprofError: The recording lacks a table, or is damaged.
        """
        answer: pa.Table = import_module("gpuprof.sql").query_table(self, sql)
        return answer

    def columns(
        self,
        table: str,
        *names: str,
        texts: Mapping[str, Words] = NO_TEXTS,
        choice: Choice | None = None,
    ) -> Iterator[list[Any]]:
        """Columns of a table, in pieces of arrays that are as narrow as may be.

        Nulls are `derived.UNKNOWN`. Beside the columns of the schema there is ``name_id``, the
        number of a name: `loaded` has the `names` by these.

        Args:
            table: The table.
            names: Its columns of numbers, and those of words that are numbered.
            texts: What numbers the words of the latter.
            choice: Which rows are meant, so that columns need not be made of others; None for all.

        Raises:
            GpuprofError: The reader's file breaks its format's rules.
        """
        with self._faults_told(table):
            for piece in self.loaded(table).pieces(names, self.selection, choice=choice):
                yield [
                    texts[name].numbers(column) if name in texts else column.filled
                    for name, column in zip(names, piece, strict=True)
                ]

    def pieces(self, table: str, *names: str) -> Iterator[list[Values]]:
        """The same with which numbers are null, and words as the reader numbers them."""
        with self._faults_told(table):
            yield from self.loaded(table).pieces(names, self.selection)

    @contextmanager
    def _faults_told(self, table: str) -> Iterator[None]:
        """Tell what is wrong with a table while it is read, or with the room for it."""
        try:
            yield
        except BeyondBoundsError as error:
            fault = self.loaded(table).fault() or "its values are impossible"
            raise corrupt(self.origin.source, f"table {table}: {fault}") from error
        except MemoryError as error:
            msg = f"{self.origin.source} needs more memory, or more room for temporary files"
            raise InputError(msg, ROOM) from error

    def loaded(self, table: str) -> Table:
        """A table as its reader gives it, whatever is selected."""
        source, unrestricted = self.sources[table], self.unrestricted
        if unrestricted is not self and unrestricted.sources.get(table) is source:
            return unrestricted.loaded(table)
        if table not in self._tables:
            is_here = isinstance(source, pa.Table)
            of = in_memory(data_model.BY_NAME[table], source) if is_here else source()
            # Of two threads that ask at once, both get the first one.
            self._tables.setdefault(table, of)
        return self._tables[table]

    def is_read(self, table: str) -> bool:
        """Whether anyone has asked for a table of this recording itself."""
        return table in self._tables

    def once(self, function: "Callable[[Profile], _Result]") -> _Result:
        """What a pure function makes of this recording, computed once for all who ask.

        Raises:
            CorruptFileError: Its numbers add up to more than 64 bits hold.
        """
        if function not in self._results:
            # Of two threads that ask at once, the later one waits for the earlier one.
            with self._locks.setdefault(function, threading.RLock()):
                if function not in self._results:
                    try:
                        self._results[function] = function(self)
                    except OverflowError as error:
                        fault = f"its numbers are too large to add up ({error})"
                        raise corrupt(self.origin.source, fault) from error
        result: _Result = self._results[function]
        return result

    def forget(self, *functions: "Callable[[Profile], object]") -> None:
        """Let go of what functions made once: who asks again has it computed anew."""
        for function in functions:
            # Who computes ahead knows a function by its decorated name.
            for name in (function, getattr(function, "__wrapped__", function)):
                self._results.pop(name, None)

    def compute_ahead(
        self, functions: "Sequence[Callable[[Profile], object]]", *, is_first: bool = False
    ) -> None:
        """Start to compute what functions make of this recording once, on a second thread.

        Who asks for one meanwhile waits for it. What fails is left to who asks, and fails again.
        On a single core, and of small recordings, nothing is computed ahead: threads would only
        wait for each other.

        Args:
            functions: They are computed in this order.
            is_first: Whether they come before those that are waiting.
        """
        if not self.is_large or machine.thread_count(_TWO) < _TWO:
            return
        tasks = (partial(self.once, function) for function in functions)
        self._second_thread.add(tasks, is_first=is_first)

    def end_second_thread(self, *, is_done: bool = False) -> None:
        """Wait for the function that the second thread computes, or for all; drop the others."""
        if self.is_large:
            self._second_thread.finish(is_all=is_done)

    def table(self, name: str) -> pa.Table:
        """A whole table as Arrow data with all columns of its schema, sorted by start.

        Raises:
            MissingTableError: It was not recorded.
        """
        self.require(name)
        source, spec = self.sources[name], data_model.BY_NAME[name]
        if isinstance(source, pa.Table) and not self.selection.columns(spec):
            return spec.conform(source)
        return spec.conform(self.arrow(name, [*spec.columns]))

    def arrow(
        self, name: str, columns: Sequence[str], *, has_dictionaries: bool = False
    ) -> pa.Table:
        """Some columns of a table as Arrow data by start, texts as dictionaries if asked for."""
        spec = data_model.BY_NAME[name]
        by_start = ["start_ns"] if "start_ns" in spec.columns and "start_ns" not in columns else []
        with self._faults_told(name):
            table = self.loaded(name).arrow(
                [*columns, *by_start], self.selection, has_dictionaries=has_dictionaries
            )
        if "start_ns" in spec.columns:
            start = np.concatenate(
                [np.empty(0, np.int64), *(part.to_numpy() for part in table["start_ns"].chunks)]
            )
            if (start[1:] < start[:-1]).any():
                table = table.take(np.argsort(start, kind="stable"))
        return table.select([*columns])

    @property
    def tables(self) -> "Mapping[str, pd.DataFrame]":
        """Every recorded table as a DataFrame (Arrow-backed), made when it is asked for."""
        return _Frames(self)

    @cached_property
    def _second_thread(self) -> SecondThread:
        return SecondThread()


# Where and by whom something was done, not what.
_PLACES = {"devices", "links", "runs", "host_clocks"}
# Neither restricted to a window nor true of one.
_TIMELESS = {
    name
    for name, spec in data_model.BY_NAME.items()
    if "start_ns" not in spec.columns and name not in _PLACES
}
# Sums over devices, or of devices that have other names.
_OF_ALL_DEVICES = {
    "activity_summary", "tensor_copies", "operations", "operation_inputs", "variables",
    "functions",
}  # fmt: skip


class _Frames(Mapping[str, Any]):
    """The tables of a profile as DataFrames, each made on first use of its name."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self._profile.sources:
            raise KeyError(name)
        return to_frame(self._profile.table(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._profile.sources)

    def __len__(self) -> int:
        return len(self._profile.sources)


def to_frame(table: pa.Table) -> "pd.DataFrame":
    """A table as a DataFrame with Arrow-backed columns, so that integers stay integers."""
    import pandas as pd  # 0.4 s that only the Python API needs

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def corrupt(source: Path, fault: str) -> CorruptFileError:
    """The error of a file that holds what no recording can."""
    return CorruptFileError(f"{source}, {fault}", schema.EDITED)


def once_per_profile(function: Callable[[Profile], _Result]) -> Callable[[Profile], _Result]:
    """Make a pure function of a profile compute its result once for all who ask."""

    @wraps(function)
    def computed(profile: Profile) -> _Result:
        return profile.once(function)

    return computed


def once_per_recording(function: Callable[[Profile], _Result]) -> Callable[[Profile], _Result]:
    """The same for all parts of a recording: it is given the whole of it."""

    @wraps(function)
    def computed(profile: Profile) -> _Result:
        return profile.unrestricted.once(function)

    return computed
