"""What an analysis is: a pure function from a recording to one table, and what it needs.

For a job whose files are analysed one by one, each file is reduced to *states*: small tables of
sums, histograms, steps or calls. States of several files become one: rows are summed up by what
they are about, or stay those of their files. From the states of all files an analysis computes its
table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import pyarrow as pa

from gpuprof.model.profile import Profile, absent_ranks
from gpuprof.model.schema import Schema

_Result = TypeVar("_Result")

# The column of states that stay those of their files: the place of the file in the job.
FILE_PLACE: Final = "file_place"

# Table -> names of columns, among them those of `gpuprof.model.derived`.
Reads = Mapping[str, frozenset[str]]


def reads(*facts: Reads, **columns: str) -> Reads:
    """What is read of a recording: all that others read, and columns by table.

    Args:
        facts: What the facts read that an analysis takes.
        columns: By table, names with spaces between them.
    """
    all_reads = (*facts, {table: frozenset(names.split()) for table, names in columns.items()})
    tables = dict.fromkeys(table for read in all_reads for table in read)
    return {
        table: frozenset().union(*(read.get(table, ()) for read in all_reads)) for table in tables
    }


@dataclass(frozen=True, eq=False)
class State:
    """What one file is reduced to for one or several analyses.

    Args:
        schema: Its columns, and its name. Device and process numbers and instants are the file's.
        of_file: Makes it of one file.
        combine: Makes one table of those of several files, whose rows follow one another; called
            again and again, and the same whatever the order. None where rows stay those of their
            files; then numbers and instants become those of the job in the end.
        device_texts: Columns whose texts name devices, as in ``device 3``.
    """

    schema: Schema
    of_file: Callable[[Profile], pa.Table]
    combine: Callable[[pa.Table], pa.Table] | None = None
    device_texts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As in a partial result."""
        return self.schema.name


@dataclass(frozen=True, eq=False)
class JobStates:
    """The states of all files of a job, with the job's numbers of devices and processes.

    Args:
        tables: By the name of the state.
        sources: The small tables of the data model by name: devices, links and runs.
        recorded: The tables of the data model that some file recorded.
        recorded_by_all: Those that every file recorded.
        hosts: The rank and the host of each file; None where it does not tell.
    """

    tables: Mapping[str, pa.Table]
    sources: Mapping[str, pa.Table]
    recorded: frozenset[str]
    recorded_by_all: frozenset[str]
    hosts: tuple[tuple[int | None, str | None], ...] = ()

    def has(self, *names: str) -> bool:
        """Whether all these tables of the data model were recorded."""
        return self.recorded.issuperset(names)

    @property
    def absent_ranks(self) -> list[int]:
        """Ranks of the job without a file, as far as they are known."""
        sizes = self.sources["runs"]["world_size"].to_pylist()
        return absent_ranks((rank for rank, _ in self.hosts), sizes)

    def all_have(self, *names: str) -> bool:
        """Whether all these tables were recorded in every file."""
        return self.recorded_by_all.issuperset(names)

    def rows(self, state: State) -> pa.Table:
        """A state of all files; no rows where no file has any."""
        table = self.tables.get(state.name)
        return state.schema.empty() if table is None else table

    def once(self, function: "Callable[[JobStates], _Result]") -> _Result:
        """What a pure function makes of these states, computed once for all who ask."""
        if function not in self._results:
            self._results[function] = function(self)
        result: _Result = self._results[function]
        return result

    @cached_property
    def _results(self) -> dict[Any, Any]:
        return {}

    def device_ranks(self) -> dict[int | None, int]:
        """The rank of each device that has one."""
        rows = self.sources["devices"].select(["device_id", "rank"]).to_pylist()
        return {row["device_id"]: row["rank"] for row in rows if row["rank"] is not None}


@dataclass(frozen=True, eq=False)
class Merge:
    """How an analysis answers for a job.

    Args:
        states: What it needs of each file.
        answer: Makes its table of them.
        accuracy: How it may differ from the answer for a joined recording of the same files; empty
            where it never does.
    """

    states: tuple[State, ...]
    answer: Callable[[JobStates], pa.Table]
    accuracy: str = ""


def of_files(
    schema: Schema,
    run: Callable[[Profile], pa.Table],
    *sort_keys: tuple[str, str],
    accuracy: str = "",
    device_texts: tuple[str, ...] = (),
) -> Merge:
    """The rows of all files, for an analysis whose rows are each about one process or device.

    Args:
        schema: Columns of the answer.
        run: The analysis.
        sort_keys: Columns, and ``ascending`` or ``descending``; nulls come last.
        accuracy: As in `Merge`.
        device_texts: As in `State`.
    """
    state = State(schema, run, device_texts=device_texts)

    def answer(job: JobStates) -> pa.Table:
        return schema.conform(ordered(job.rows(state), sort_keys))

    return Merge((state,), answer, accuracy)


def ordered(table: pa.Table, sort_keys: Sequence[tuple[str, str]]) -> pa.Table:
    """Rows by some columns, nulls last; of alike ones the first stays first."""
    import pyarrow.compute as pc  # noqa: PLC0415 - start-up time

    return table.take(pc.sort_indices(table, sort_keys=[*sort_keys]))


def summed(
    table: pa.Table,
    keys: Sequence[str],
    sums: Sequence[str],
    least: Sequence[str] = (),
    most: Sequence[str] = (),
) -> pa.Table:
    """Rows that are alike in some columns as one; a sum is null where a part of it is unknown.

    Args:
        table: The rows; all other columns are left out.
        keys: What tells rows apart.
        sums: Columns that are added up.
        least: Columns whose least is kept; nulls say nothing.
        most: Columns whose greatest is kept; nulls say nothing.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - start-up time

    strict = pc.ScalarAggregateOptions(skip_nulls=False)
    aggregates: list[Any] = [
        *((name, "sum", strict) for name in sums),
        *((name, "min") for name in least),
        *((name, "max") for name in most),
    ]
    groups = table.group_by([*keys], use_threads=False).aggregate(aggregates)
    suffixed = {f"{name}_{function}": name for name, function, *_ in aggregates}
    return groups.rename_columns([suffixed.get(name, name) for name in groups.column_names])


@dataclass(frozen=True)
class Analysis:
    """One question to a recording.

    Args:
        title: The question's name for people: "Transfers by kind".
        schema: The answer's columns; its name is the analysis' name, as in ``--table``.
        needs: Tables without which it cannot be answered.
        run: Answers it; rows conform to the schema. Called only where the needs are met.
        reads: The columns that it may ask for, of these and other tables, so that all that
            answers take from one table of a file is read in one pass.
        reads_of_small: What it asks for beside that where a recording is not large.
        needs_any_of: Tables beside the needs; any one is enough. Empty for none.
        instead: Tables of which any one answers it in place of the needs. Empty for none.
        merge: How it answers for a job whose files are analysed one by one; None where it needs
            single activities of all of them at once.
    """

    title: str
    schema: Schema
    needs: tuple[str, ...]
    run: Callable[[Profile], pa.Table]
    reads: Reads
    reads_of_small: Reads = field(default_factory=dict)
    needs_any_of: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    merge: Merge | None = None

    @property
    def name(self) -> str:
        """As in ``--table`` and in the JSON's ``tables``."""
        return self.schema.name

    def missing(self, profile: Profile | JobStates) -> str:
        """What the recording lacks to answer it, in words; empty where it can be answered."""
        if any(profile.has(name) for name in self.instead):
            return ""
        absent = [name for name in self.needs if not profile.has(name)]
        if absent:
            return " and ".join(absent)
        if self.needs_any_of and not any(profile.has(name) for name in self.needs_any_of):
            return " or ".join(self.needs_any_of)
        return ""
