"""The merged partial result of a job -> its report.

Numbers of devices and processes, ranks and the clock are those that
`gpuprof.readers.job_numbers` gives the same files when they are read as one recording.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.analyses.clock_offsets import clock_notes_of_job
from gpuprof.analyses.notes import OF_COLLECTIVES, OF_RANKS, missing_notes
from gpuprof.analyses.ranks import early_ends_of_job
from gpuprof.analyses.reports import Report
from gpuprof.base.errors import InputError
from gpuprof.base.units import listed
from gpuprof.facts.hosts import names_of_job
from gpuprof.model import schema
from gpuprof.model.analysis import FILE_PLACE, Analysis, JobStates
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Origin
from gpuprof.model.schema import Kind, Schema
from gpuprof.ranks.contract import Partial
from gpuprof.ranks.partial import FILES, NOTES, SMALL_TABLES, analyses_of, states_of
from gpuprof.readers import READERS, reader_named
from gpuprof.readers.job_notes import notes_of_files
from gpuprof.readers.job_numbers import JobNumbers, Numbers, ranks_of_names

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id", "peer_device_id")
_DEVICE_IN_TEXT: Final = re.compile(r"\bdevice (\d+)\b")


def report_of(
    partial: Partial, names: Sequence[str], source: Path, notes: Sequence[str] = ()
) -> Report:
    """The report of a job.

    Args:
        partial: Of all its files that could be read.
        names: The tables that are asked for, in their order.
        source: What people call the job.
        notes: What they must know beside what the files say, such as files that are left out.

    Raises:
        InputError: Two files are the same recording.
        UsageError: A table needs single activities of all files at once.
    """
    analyses = analyses_of(names)
    files = JobFiles(partial)
    states = files.states(analyses)
    missing = {analysis.name: analysis.missing(states) for analysis in analyses}
    tables = {
        analysis.name: None
        if missing[analysis.name] or analysis.merge is None
        else analysis.merge.answer(states)
        for analysis in analyses
    }
    origin = files.origin(source)
    limits = reader_named(origin.reader).cannot if origin.reader in READERS else ""
    all_notes = (
        *files.notes,
        *notes,
        *_of_ranks(states, tables),
        *files.own_notes,
        *missing_notes(states, missing, limits),
        *_accuracies(analyses, tables),
    )
    # Sentences of a job name ranks, and devices as each file does.
    return Report(origin, tables, tuple(dict.fromkeys(all_notes)), names_of_job(states))


def _of_ranks(states: JobStates, tables: Mapping[str, pa.Table | None]) -> list[str]:
    """What was done to compare ranks, and whose recordings end early."""
    asked_for = {name for name, table in tables.items() if table is not None}
    clocks = [] if OF_COLLECTIVES.isdisjoint(asked_for) else clock_notes_of_job(states)
    return clocks if OF_RANKS.isdisjoint(asked_for) else [*clocks, *early_ends_of_job(states)]


def _accuracies(analyses: Sequence[Analysis], tables: Mapping[str, pa.Table | None]) -> list[str]:
    """What of the tables is estimated."""
    alike: dict[str, list[str]] = {}
    for analysis in analyses:
        if analysis.merge and analysis.merge.accuracy and tables[analysis.name] is not None:
            alike.setdefault(analysis.merge.accuracy, []).append(analysis.name)
    return [f"{listed(names)}: {accuracy}" for accuracy, names in alike.items()]


@dataclass(frozen=True)
class _File:
    """What a job knows of one of its files."""

    place: int
    name: str
    rank: int | None
    world_size: int | None
    recorder: str
    host: str | None
    origin_ns: int | None
    end_ns: int
    pids: frozenset[int]
    used: frozenset[int]


class JobFiles(JobNumbers[_File]):
    """The files of a job and what workers made of them.

    Args:
        partial: The merged partial result.

    Raises:
        InputError: Two of them are the same recording.
    """

    def __init__(self, partial: Partial) -> None:
        self._partial = partial
        self.facts: list[dict[str, Any]] = partial[FILES].to_pylist()
        ranks: list[int | None] = [row["rank"] for row in self.facts]
        names = [Path(row["source"]).name for row in self.facts]
        if None in ranks:
            ranks = ranks_of_names(names)
        runs = partial[schema.RUNS.name].to_pylist()
        sizes = {row[FILE_PLACE]: row["world_size"] for row in runs}
        files = [
            _File(
                row[FILE_PLACE],
                name,
                rank,
                sizes.get(row[FILE_PLACE]),
                _recorder(row),
                row["host"],
                row["epoch_ns"],
                row["end_ns"],
                frozenset(row["pids"]),
                frozenset(row["devices"]),
            )
            for row, name, rank in zip(self.facts, names, ranks, strict=True)
        ]
        _refuse_duplicates(files)
        super().__init__(files)

    def origin(self, source: Path) -> Origin:
        """Where the job came from, in the terms of its first file."""
        first = self.facts[0]
        names = ("reader", "tool", "tool_version", "exporter_version")
        return Origin(source, **{n: first[n] for n in names}, epoch_ns=self.earliest_ns)

    @property
    def own_notes(self) -> list[str]:
        """What a reader must know of single files."""
        names = {file.place: file.name for file in self.files}
        rows = self._partial[NOTES].to_pylist()
        texts = [(names[row[FILE_PLACE]], row["text"]) for row in rows]
        return notes_of_files(texts, len(self.files))

    def states(self, analyses: Sequence[Analysis]) -> JobStates:
        """The states of all files, with the numbers and the clock of the job."""
        tables = {
            state.name: self._in_job(self._partial[state.name], state.schema, state.device_texts)
            if state.combine is None
            else self._partial[state.name]
            for state in states_of(analyses)
            if state.name in self._partial
        }
        small = {
            name: self._in_job(self._partial[name], spec) for name, spec in SMALL_TABLES.items()
        }
        small["devices"] = self._used_devices(small["devices"])
        recorded = [frozenset(row["recorded"]) | {"devices", "runs"} for row in self.facts]
        hosts = tuple((file.rank, file.host) for file in self.files)
        by_all = frozenset.intersection(*recorded)
        return JobStates(tables, small, frozenset.union(*recorded), by_all, hosts)

    def _used_devices(self, listed: pa.Table) -> pa.Table:
        """The devices that were used, with their ranks: files list all of their host."""
        by_number = {row["device_id"]: row for row in reversed(listed.to_pylist())}
        rows = [
            by_number.get(number, {})
            | {"device_id": number, "rank": file.rank}
            | ({"own_device_id": own, "file": name} if self.shares_devices else {})
            for file, numbers, name in zip(
                self.files, self.device_maps, self.names_of_files, strict=True
            )
            for own, number in sorted(numbers.items())
        ]
        return schema.DEVICES.table([*{row["device_id"]: row for row in reversed(rows)}.values()])

    def _in_job(self, table: pa.Table, spec: Schema, device_texts: Sequence[str] = ()) -> pa.Table:
        """Rows of all files in the order of ranks, with numbers and instants of the job."""
        order = {file.place: number for number, file in enumerate(self.files)}
        numbers = np.array([order[place] for place in table[FILE_PLACE].to_pylist()], np.int64)
        by_rank = np.argsort(numbers, kind="stable")
        table, numbers = table.take(pa.array(by_rank)), numbers[by_rank]
        for name in spec.columns:
            if name in _DEVICE_COLUMNS and self.shares_devices:
                table = _with(table, name, _renumbered(table[name], numbers, self.device_maps))
            elif name in device_texts and self.shares_devices:
                table = _with(table, name, _renamed(table[name], numbers, self.device_maps))
            elif name == "process_id" and self.process_maps is not None:
                table = _with(table, name, _renumbered(table[name], numbers, self.process_maps))
            elif spec.columns[name].kind == Kind.INSTANT and self.earliest_ns is not None:
                shifts_ns = pa.array(np.array(self.shifts_ns, np.int64)[numbers])
                table = _with(table, name, pc.add(table[name], shifts_ns))
        return table


def _refuse_duplicates(files: Sequence[_File]) -> None:
    """The same recording twice, as in a plain and a gzip file, would count twice."""
    earlier: dict[tuple[object, ...], _File] = {}
    for file in files:
        if file.origin_ns is None:
            continue
        contents = file.rank, file.origin_ns, file.end_ns, file.pids, file.used
        first = earlier.setdefault(contents, file)
        if first is not file:
            msg = f"{first.name} and {file.name} are the same recording"
            raise InputError(msg, "Leave one of them out.")


def _recorder(row: Mapping[str, Any]) -> str:
    version = row["tool_version"]
    return f"{row['tool']} {version}" if version else row["tool"]


def _in_words(text: str, numbers: Numbers) -> str:
    """A text with the job's numbers of the devices that it names."""

    def number(match: re.Match[str]) -> str:
        return f"device {numbers.get(int(match[1]), match[1])}"

    return _DEVICE_IN_TEXT.sub(number, text)


def _renamed(texts: pa.ChunkedArray, files: Int64s, maps: Sequence[Numbers]) -> pa.Array:
    """Texts of files with the job's numbers of devices."""
    return pa.array(
        [
            None if text is None else _in_words(text, maps[file])
            for text, file in zip(texts.to_pylist(), files.tolist(), strict=True)
        ],
        pa.string(),
    )


def _renumbered(values: pa.ChunkedArray, files: Int64s, maps: Sequence[Numbers]) -> pa.Array:
    """Numbers of files as those of the job; a number that a file does not use has none."""
    return pa.array(
        [
            maps[file].get(number)
            for number, file in zip(values.to_pylist(), files.tolist(), strict=True)
        ],
        pa.int64(),
    )


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
