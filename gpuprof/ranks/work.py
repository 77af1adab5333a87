"""What is done with each file of a job, and what comes of all of them.

A `Work` reduces one file to a partial result and merges partial results. `gpuprof.ranks.engine.run`
runs it over all files, on processes of this machine or on a Dask cluster.

A partial result is Arrow tables by name, as small as can be: it travels from worker to client and
lies on disk for ``--resume``. Scalars and notes are tables of one row, or metadata of a schema.
Columns keep their types, so numbers arrive as they were sent.

Partial results merge in a tree whose shape depends on the number of files alone: a node is the
merge of up to `FAN_IN` neighbours. Whatever runs the work, however tasks are cut, and whoever
retries, the same calls of ``merge`` are made on the same tables in the same order. So a merge need
not be associative to give the same result every time, and rows may be kept in the order of files.
A file that cannot be read is left out of its node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

# How many neighbours a node of the tree merges.
FAN_IN: Final = 4

Partial = Mapping[str, pa.Table]


@dataclass(frozen=True)
class JobFile:
    """One file of a job, or one folder that is a recording.

    Args:
        path: Where it is, as the user gave it.
        place: Its place among the files of the job, from 0, in the order in which they were given.
        rank: What its name says: ``rank3``, ``worker3``, or the one number in which the names
            differ. None where the names do not say it; the file itself knows better.
        size_bytes: 0 where it is not there.
        modified_ns: When it was last written, since 1970; 0 where it is not there.
    """

    path: Path
    place: int
    rank: int | None
    size_bytes: int
    modified_ns: int


class Work(Protocol):
    """What is done. Objects are sent to workers by pickle: dataclasses of plain values."""

    @property
    def key(self) -> str:
        """What partial results depend on beside the file: the analyses and options, as text.

        ``--resume`` takes up only what was made under the same key.
        """
        ...

    def reduce(self, file: JobFile) -> Partial:
        """What is kept of one file; called in a worker process, one file at a time.

        Raises:
            EmptyRecordingError: Nothing was recorded in it, which is normal for some ranks.
            GpuprofError: It cannot be read: the reason that people are told.
        """
        ...

    def merge(self, partials: Sequence[Partial]) -> Partial:
        """One partial result of 2 to `FAN_IN` of them, in the order of their files."""
        ...


@dataclass(frozen=True)
class Fault:
    """A file that is not in the result.

    Args:
        path: Its path.
        reason: Why, in one line; it may begin with the path.
        is_empty: Whether it was read and nothing was recorded in it, so that the result is whole.
        is_lasting: Whether the file itself is at fault, and not the machine or the moment.
    """

    path: Path
    reason: str
    is_empty: bool = False
    is_lasting: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of the work on all files.

    Args:
        partial: The merge of all files that could be read; None where there is none.
        faults: The files that are not in it, in the order in which they were given.
        file_count: How many files were given.
        resumed_count: How many of them were taken from a former run.
        peak_bytes: The most memory that a worker took; 0 where unknown.
    """

    partial: Partial | None
    faults: tuple[Fault, ...]
    file_count: int
    resumed_count: int = 0
    peak_bytes: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every file that could hold something is in the result."""
        return all(fault.is_empty for fault in self.faults)


@dataclass(frozen=True)
class Settings:
    """Who does the work.

    Args:
        workers: How many processes of this machine; None for one per core.
        limit_bytes: The memory that each of them may take; None for any amount.
        scheduler: The address or scheduler file of a Dask cluster that does it instead.
        state: A folder that keeps partial results, and gives back those of a former run.
    """

    workers: int | None = None
    limit_bytes: int | None = None
    scheduler: str | None = None
    state: Path | None = None

    @property
    def are_usual(self) -> bool:
        """Whether the user has named none of them."""
        return self == Settings()


def pack(partial: Partial) -> bytes:
    """A partial result as Arrow writes it: a row for each table, its name and its own stream.

    Any version of Python or Arrow reads it.
    """
    streams = [_stream(table) for table in partial.values()]
    outer = pa.table(
        {"name": pa.array(partial.keys(), pa.string()), "stream": pa.array(streams, pa.binary())}
    )
    return _stream(outer)


def unpack(packed: bytes) -> Partial:
    """The tables of `pack`.

    Raises:
        pa.ArrowInvalid: The bytes are something else.
    """
    outer = _table(packed)
    streams = zip(outer["name"].to_pylist(), outer["stream"], strict=True)
    return {name: _table(stream.as_buffer()) for name, stream in streams}


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _table(stream: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()
