"""The merged partial result of a job -> its report.

Numbers of devices and processes, ranks and the clock are those that
`gpuprof.readers.merged_ranks` gives the same files when they are read as one recording.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpuprof import schema
from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.merge import FILE_PLACE, JobStates
from gpuprof.analyses.transfers.clock_offsets import clock_notes_of_job
from gpuprof.errors import InputError
from gpuprof.jobs.contract import Partial
from gpuprof.jobs.partial import FILES, NOTES, SMALL_TABLES, analyses_of, states_of
from gpuprof.profile import Origin
from gpuprof.readers import READERS, reader_named
from gpuprof.readers.job_notes import FileOfJob, job_notes
from gpuprof.readers.merged_ranks import (
    NO_CLOCK,
    SHARED,
    coincide,
    device_maps,
    process_map,
    processes,
    ranks_of_names,
)
from gpuprof.reports import OF_COLLECTIVES, Report, missing_notes
from gpuprof.schema import Kind, Schema
from gpuprof.units import counted, listed

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id", "peer_device_id")
_DEVICE_IN_TEXT: Final = re.compile(r"\bdevice (\d+)\b")
_NUMBER: Final = re.compile(r"\d[\d,.]*")
_Numbers = Mapping[int | None, int]


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
        *_of_files(partial[NOTES], len(files.facts)),
        *missing_notes(states, missing, limits),
        *_accuracies(analyses, tables),
    )
    return Report(origin, tables, tuple(dict.fromkeys(all_notes)))


def _of_files(table: pa.Table, file_count: int) -> list[str]:
    """The notes of files; those that differ in numbers alone are one, in the words of the first."""
    alike: dict[str, list[str]] = {}
    for text in table["text"].to_pylist():
        alike.setdefault(_NUMBER.sub("#", text), []).append(text)
    return [_together(texts, file_count) for texts in alike.values()]


def _together(texts: Sequence[str], file_count: int) -> str:
    first = texts[0]
    if len(texts) == file_count and len({*texts}) == 1:
        return first
    differing = "" if len({*texts}) == 1 else ", with other numbers"
    return f"{first} (In {len(texts):,} of {counted(file_count, 'file', 'files')}{differing}.)"


def _of_ranks(states: JobStates, tables: Mapping[str, pa.Table | None]) -> list[str]:
    """What was done to compare ranks."""
    asked_for = {name for name, table in tables.items() if table is not None}
    return [] if OF_COLLECTIVES.isdisjoint(asked_for) else clock_notes_of_job(states)


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
    host: str | None
    origin_ns: int | None
    end_ns: int
    pids: frozenset[int]
    devices: frozenset[int]


class JobFiles:
    """The files of a job: what their numbers mean among all of them.

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
        files = [
            _File(
                row[FILE_PLACE],
                name,
                rank,
                row["host"],
                row["epoch_ns"],
                row["end_ns"],
                frozenset(row["pids"]),
                frozenset(row["devices"]),
            )
            for row, name, rank in zip(self.facts, names, ranks, strict=True)
        ]
        _refuse_duplicates(files)
        self.files = sorted(files, key=lambda file: (file.rank is None, file.rank or 0, file.name))

    @cached_property
    def earliest_ns(self) -> int | None:
        """When the first file begins; None where they have no common clock."""
        origins_ns = [file.origin_ns for file in self.files if file.origin_ns is not None]
        return min(origins_ns) if len(origins_ns) == len(self.files) else None

    @cached_property
    def _processes(self) -> list[int]:
        return processes(self.files)

    @cached_property
    def _shares_devices(self) -> bool:
        return coincide((set(file.devices) for file in self.files), self._processes)

    @cached_property
    def _device_maps(self) -> dict[int, _Numbers] | None:
        """What devices are called, by the place of the file; None where all keep their number."""
        if not self._shares_devices:
            return None
        maps = device_maps([set(file.devices) for file in self.files], self._processes)
        return {file.place: numbers for file, numbers in zip(self.files, maps, strict=True)}

    @cached_property
    def _process_maps(self) -> dict[int, _Numbers] | None:
        """What processes are called, by the place of the file; None where all keep theirs."""
        pids = [set(file.pids) for file in self.files]
        if all(pids) and not coincide(pids, self._processes):
            return None
        return {
            file.place: process_map(file.pids, place)
            for file, place in zip(self.files, self._processes, strict=True)
        }

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the files together."""
        notes = [SHARED] if self._shares_devices else []
        notes += [] if self.earliest_ns is not None else [NO_CLOCK]
        tools = {row[FILE_PLACE]: _recorder(row) for row in self.facts}
        described = [
            FileOfJob(file.name, file.rank, tools[file.place], file.origin_ns, process)
            for file, process in zip(self.files, self._processes, strict=True)
        ]
        return [*notes, *job_notes(described)]

    def origin(self, source: Path) -> Origin:
        """Where the job came from, in the terms of its first file."""
        first = self.facts[0]
        names = ("reader", "tool", "tool_version", "exporter_version")
        return Origin(source, **{n: first[n] for n in names}, epoch_ns=self.earliest_ns)

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
        recorded = frozenset(name for row in self.facts for name in row["recorded"])
        hosts = tuple((file.rank, file.host) for file in self.files)
        return JobStates(tables, small, recorded | {"devices", "runs"}, hosts)

    def _used_devices(self, listed: pa.Table) -> pa.Table:
        """The devices that were used, with their ranks: files list all of their host."""
        by_number = {row["device_id"]: row for row in reversed(listed.to_pylist())}
        rows = [
            by_number.get(number, {}) | {"device_id": number, "rank": file.rank}
            for file in self.files
            for number in self._numbers_of(file)
        ]
        return schema.DEVICES.table([*{row["device_id"]: row for row in reversed(rows)}.values()])

    def _numbers_of(self, file: _File) -> list[int]:
        maps = self._device_maps
        return sorted(file.devices if maps is None else maps[file.place].values())

    def _in_job(self, table: pa.Table, spec: Schema, device_texts: Sequence[str] = ()) -> pa.Table:
        """Rows of all files in the order of ranks, with numbers and instants of the job."""
        table = self._by_rank(table)
        place = table[FILE_PLACE].to_numpy()
        for name in spec.columns:
            if name in _DEVICE_COLUMNS and self._device_maps is not None:
                table = _with(table, name, _renumbered(table[name], place, self._device_maps))
            elif name in device_texts and self._device_maps is not None:
                table = _with(table, name, self._renamed(table[name], place))
            elif name == "process_id" and self._process_maps is not None:
                table = _with(table, name, _renumbered(table[name], place, self._process_maps))
            elif spec.columns[name].kind == Kind.INSTANT and self.earliest_ns is not None:
                table = _with(table, name, pc.add(table[name], pa.array(self._shifts_ns(place))))
        return table

    def _by_rank(self, table: pa.Table) -> pa.Table:
        order = {file.place: number for number, file in enumerate(self.files)}
        numbers = np.array([order[place] for place in table[FILE_PLACE].to_pylist()], np.int64)
        return table.take(pa.array(np.argsort(numbers, kind="stable")))

    def _shifts_ns(self, place: Any) -> Any:  # noqa: ANN401 - arrays of integers
        shift_ns = {
            file.place: (file.origin_ns or 0) - (self.earliest_ns or 0) for file in self.files
        }
        return np.array([shift_ns[number] for number in place.tolist()], np.int64)

    def _renamed(self, texts: pa.ChunkedArray, place: Any) -> pa.Array:  # noqa: ANN401
        maps = self._device_maps or {}
        return pa.array(
            [
                None if text is None else _in_words(text, maps[number])
                for text, number in zip(texts.to_pylist(), place.tolist(), strict=True)
            ],
            pa.string(),
        )


def _refuse_duplicates(files: Sequence[_File]) -> None:
    """The same recording twice, as in a plain and a gzip file, would count twice."""
    earlier: dict[tuple[object, ...], _File] = {}
    for file in files:
        if file.origin_ns is None:
            continue
        contents = file.rank, file.origin_ns, file.end_ns, file.pids, file.devices
        first = earlier.setdefault(contents, file)
        if first is not file:
            msg = f"{first.name} and {file.name} are the same recording"
            raise InputError(msg, "Leave one of them out.")


def _recorder(row: Mapping[str, Any]) -> str:
    version = row["tool_version"]
    return f"{row['tool']} {version}" if version else row["tool"]


def _in_words(text: str, numbers: _Numbers) -> str:
    """A text with the job's numbers of the devices that it names."""

    def number(match: re.Match[str]) -> str:
        return f"device {numbers.get(int(match[1]), match[1])}"

    return _DEVICE_IN_TEXT.sub(number, text)


def _renumbered(
    values: pa.ChunkedArray,
    place: Any,  # noqa: ANN401 - an array of integers
    maps: Mapping[int, _Numbers],
) -> pa.Array:
    """Numbers of files as those of the job; a number that a file does not use has none."""
    return pa.array(
        [
            maps[of_file].get(number)
            for number, of_file in zip(values.to_pylist(), place.tolist(), strict=True)
        ],
        pa.int64(),
    )


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
