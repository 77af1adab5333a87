"""What an analysis is: a pure function from a recording to one table, and what it needs.

Of several files that are one recording, each is analysed by itself: what `per_file` declares is
computed of every file, and its ``combine`` makes one table of theirs. So one process, worker
processes and a cluster give the same figures, and no analysis is written twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Final

import pyarrow as pa

from gpuprof.model.profile import Profile
from gpuprof.model.schema import Kind, Schema

# The column of tables that stay those of their files: the place of the file in the job.
FILE_PLACE: Final = "file_place"
DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id", "peer_device_id")

# Table -> names of columns.
Reads = Mapping[str, frozenset[str]]
Combine = Callable[[pa.Table], pa.Table]


def reads(*facts: Reads, **columns: str) -> Reads:
    """What is read of a recording: all that others read, and columns by table.

    Args:
        facts: What the facts read that an analysis takes.
        columns: By table, names with spaces between them.
    """
    all_reads: dict[str, frozenset[str]] = {}
    for read in facts:
        for table, names in read.items():
            all_reads[table] = all_reads.get(table, frozenset()) | names
    for table, words in columns.items():
        all_reads[table] = all_reads.get(table, frozenset()).union(words.split())
    return all_reads


class PerFile:
    """A function of a recording that is computed of each file by itself: see `per_file`."""

    def __init__(
        self,
        of_file: Callable[[Profile], pa.Table],
        schema: Schema,
        combine: Combine | None,
        needs: tuple[str, ...],
        device_texts: tuple[str, ...],
    ) -> None:
        self.of_file, self.schema, self.needs = of_file, schema, needs
        self.device_texts = device_texts
        self._combine = combine
        update_wrapper(self, of_file)
        numbers = {"process_id", FILE_PLACE, *DEVICE_COLUMNS} & {*schema.columns}
        kinds = {column.kind for column in schema.columns.values()}
        self.is_of_files = bool(numbers or device_texts) or Kind.INSTANT in kinds

    def __call__(self, profile: Profile) -> pa.Table:
        """The table of a recording."""
        return self.of_file(profile) if profile.job is None else profile.job.rows(self, profile)

    def analysis(self, title: str, read: Reads, **further: Any) -> "Analysis":
        """The question that it answers; ``further`` are other fields of `Analysis` by name."""
        return Analysis(title, self.schema, self.needs, self, read, **further)

    def of(self, profile: Profile, place: int) -> pa.Table:
        """The table of one file of a job, which has this place in it."""
        names = [name for name in self.schema.columns if name != FILE_PLACE]
        has_all = profile.has(*self.needs)
        table = (profile.once(self) if has_all else self.schema.empty()).select(names)
        if not self.is_of_files:
            return table
        return table.append_column(FILE_PLACE, pa.repeat(pa.scalar(place, pa.int64()), len(table)))

    def together(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One table of several, in the order of their files; may be called again and again."""
        table = pa.concat_tables(tables)
        return table if self.is_of_files else self.combined(table)

    def combined(self, table: pa.Table) -> pa.Table:
        """The answer from the rows of all files, with numbers and instants of the job."""
        names = [*self.schema.columns]
        return (table if self._combine is None else self._combine(table)).select(names)


def per_file(
    schema: Schema,
    combine: Combine | None = None,
    *,
    needs: tuple[str, ...] = (),
    device_texts: tuple[str, ...] = (),
) -> Callable[[Callable[[Profile], pa.Table]], PerFile]:
    """Have a function computed of each file of a job by itself.

    Args:
        schema: Its columns, and its name, which no other has.
        combine: Makes one table of the rows of several files; None leaves them as they are, in the
            order of ranks. Of rows about devices, processes or instants it is called once, when
            these have the numbers and the clock of the job; of others again and again, and gives
            the same whatever the order.
        needs: Tables of the data model; a file without one of them has no rows.
        device_texts: Columns whose texts name devices, as in ``device 3``.
    """
    return lambda of_file: PerFile(of_file, schema, combine, needs, device_texts)


def by(**order: str) -> Combine:
    """All rows by some columns, each ``ascending`` or ``descending``; nulls come last."""
    return lambda table: ordered(table, [*order.items()])


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
        reads_of_small: What it asks for beside that where a recording is not large, and hardly
            ever where that is a file of a job.
        needs_any_of: Tables beside the needs; any one is enough. Empty for none.
        instead: Tables of which any one answers it in place of the needs. Empty for none.
        of_files: All that it takes of a job of several files. None where it needs single
            activities of all of them at once; ``run`` alone where that is computed per file.
        accuracy: What a reader must know of its answer for several files; empty for nothing.
    """

    title: str
    schema: Schema
    needs: tuple[str, ...]
    run: Callable[[Profile], pa.Table]
    reads: Reads
    reads_of_small: Reads = field(default_factory=dict)
    needs_any_of: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    of_files: tuple[PerFile, ...] | None = None
    accuracy: str = ""

    def __post_init__(self) -> None:
        """Take what is computed per file for all that it takes of a job."""
        if self.of_files is None and isinstance(self.run, PerFile):
            object.__setattr__(self, "of_files", (self.run,))

    @property
    def name(self) -> str:
        """As in ``--table`` and in the JSON's ``tables``."""
        return self.schema.name

    def missing(self, profile: Profile) -> str:
        """What the recording lacks to answer it, in words; empty where it can be answered."""
        recorded = profile.sources.keys()
        if not recorded.isdisjoint(self.instead):
            return ""
        if not recorded >= {*self.needs}:
            return " and ".join(name for name in self.needs if name not in recorded)
        is_met = not self.needs_any_of or not recorded.isdisjoint(self.needs_any_of)
        return "" if is_met else " or ".join(self.needs_any_of)
