"""What numbers of files mean among all files of a job: devices, processes, and the clock.

Of one process, files may be several stretches. `gpuprof.readers.merged_ranks` joins files by these
numbers, and the tables that are computed of each; `gpuprof.ranks.partial` those of workers.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from gpuprof.base.errors import InputError
from gpuprof.model import data_model, schema
from gpuprof.model.analysis import DEVICE_COLUMNS, FILE_PLACE, PerFile
from gpuprof.readers.job_files import File
from gpuprof.readers.job_notes import FileOfJob, job_notes

_SHARED: Final = (
    "Several processes number their devices from 0. They are taken for different devices, and"
    " numbered in the order of ranks."
)
_NO_CLOCK: Final = "The files have no common clock: each begins at 0."

_DEVICE_IN_TEXT: Final = re.compile(r"\bdevice (\d+)\b")

Numbers = Mapping[int | None, int]
Column: TypeAlias = pa.Array | pa.ChunkedArray


_File = TypeVar("_File", bound=File)


class JobNumbers(Generic[_File]):
    """The files of a job in the order of ranks, and what their numbers mean among all of them.

    Args:
        files: As they were given.

    Raises:
        InputError: Two of them are the same recording.
    """

    def __init__(self, files: Iterable[_File]) -> None:
        self.files = sorted(files, key=lambda file: (file.rank is None, file.rank or 0, file.name))
        # The same recording twice, as in a plain and a gzip file, would count twice.
        alike: dict[tuple[object, ...], list[_File]] = {}
        for file in self.files:
            earlier_files = alike.setdefault((file.rank, file.origin_ns), [])
            for earlier in earlier_files if file.origin_ns is not None else ():
                ours, theirs = (
                    (of.runs.num_rows, of.end_ns, {*of.pids}, {*of.used}) for of in (file, earlier)
                )
                if ours == theirs:
                    msg = f"{earlier.name} and {file.name} are the same recording"
                    raise InputError(msg, "Leave one of them out.")
            earlier_files.append(file)

    @cached_property
    def earliest_ns(self) -> int | None:
        """When the first file begins; None where they have no common clock."""
        origins_ns = [file.origin_ns for file in self.files if file.origin_ns is not None]
        return min(origins_ns) if len(origins_ns) == len(self.files) else None

    @cached_property
    def shifts_ns(self) -> list[int]:
        """What instants of each file are later by among all files."""
        earliest_ns = self.earliest_ns
        if earliest_ns is None:
            return [0] * len(self.files)
        return [(file.origin_ns or 0) - earliest_ns for file in self.files]

    @cached_property
    def _processes(self) -> list[int]:
        """For each file the place of its process: that of the first file of the same process."""
        places: list[int] = []
        earlier_of_rank: dict[int | None, list[int]] = {}
        for number, file in enumerate(self.files):
            earlier = earlier_of_rank.setdefault(file.rank, [])
            followed = (place for place in earlier if _continues(file, self.files[place]))
            first = next(followed, None)
            places.append(number if first is None else places[first])
            earlier.append(number)
        return places

    @cached_property
    def process_maps(self) -> list[Numbers] | None:
        """What processes are called; None where their numbers tell them apart."""
        pids = [file.pids for file in self.files]
        if all(pids) and not _coincide(pids, self._processes):
            return None
        bases = [(place + 1) << data_model.PROCESS_BITS for place in self._processes]
        return [
            {None: base, **{pid: base | pid for pid in of_file}}
            for of_file, base in zip(pids, bases, strict=True)
        ]

    @cached_property
    def shares_devices(self) -> bool:
        """Whether two processes use devices of one number."""
        # Where they coincide, a few files tell.
        return _coincide((file.used for file in self.files), self._processes)

    @cached_property
    def device_maps(self) -> list[Numbers]:
        """What the devices are called that each file uses."""
        used = [file.used for file in self.files]
        if not self.shares_devices:
            return [{number: number for number in numbers} for numbers in used]
        of_process: dict[int, set[int]] = {place: set() for place in sorted({*self._processes})}
        for numbers, place in zip(used, self._processes, strict=True):
            of_process[place].update(numbers)
        maps: dict[int, Numbers] = {}
        count = 0
        for place, devices in of_process.items():
            maps[place] = {device: new for new, device in enumerate(sorted(devices), count)}
            count += len(devices)
        return [maps[place] for place in self._processes]

    @cached_property
    def devices(self) -> pa.Table:
        """The devices that were used, with their ranks: files list all of their host."""
        rows = []
        for file, numbers, first in zip(self.files, self.device_maps, self._processes, strict=True):
            listed = {row["device_id"]: row for row in file.table("devices").to_pylist()[::-1]}
            # Without a rank, people know a device by its file.
            name = self.files[first].name if file.rank is None else None
            for in_file, number in sorted(numbers.items(), key=lambda pair: pair[1]):
                row = listed.get(in_file, {}) | {"device_id": number, "rank": file.rank}
                rows.append(
                    row | ({"own_device_id": in_file, "file": name} if self.shares_devices else {})
                )
        return _different(data_model.DEVICES.table(rows))

    def links(self) -> pa.Table:
        """The links between devices that were used; null is the host."""
        maps = self.device_maps
        if not self.shares_devices:
            # Where a number means the same device to all, a link may join those of two processes.
            maps = [{key: new for numbers in maps for key, new in numbers.items()}] * len(maps)
        ends = ("device_id", "peer_device_id")
        rows = [
            row | {end: new[row[end]] for end in ends}
            for file, numbers in zip(self.files, maps, strict=True)
            for new in [{None: None, **numbers}]
            for row in file.table("links").to_pylist()
            if all(row[end] in new for end in ends)
        ]
        return _different(data_model.LINKS.table(rows))

    def in_job(self, number: int, name: str, values: Column) -> Column:
        """A column of the file of this place with the job's numbers of processes, devices, runs."""
        if name == "process_id" and self.process_maps is not None:
            return _renamed(values, self.process_maps[number])
        if name in DEVICE_COLUMNS and self.shares_devices:
            return _renamed(values, self.device_maps[number])
        if name == "run_id" and values.null_count < len(values):
            return pc.add(values.cast(pa.int64()).fill_null(0), self._first_runs[number])
        return values

    @cached_property
    def _first_runs(self) -> list[int]:
        return [0, *accumulate(file.runs.num_rows for file in self.files)]

    def small(self, name: str) -> pa.Table:
        """The ``runs`` of all files, or what tools have summed up in them."""
        tables = [
            pa.table({n: self.in_job(number, n, rows[n]) for n in rows.column_names})
            for number, file in enumerate(self.files)
            for rows in [file.runs if name == "runs" else file.table(name)]
        ]
        return data_model.BY_NAME[name].conform(pa.concat_tables(tables))

    def later(self, number: int, values: Column) -> Column:
        """Instants of the file of this place on the clock of the job."""
        shift_ns = self.shifts_ns[number]
        return pc.add(values.cast(pa.int64()), shift_ns) if shift_ns else values

    def combined(self, function: PerFile, tables: Mapping[int, pa.Table]) -> pa.Table:
        """What a function of each file makes of all of them.

        Args:
            function: The function.
            tables: What it made of the files, by their places in `files`.
        """
        if not tables:
            return function.schema.empty()
        rows = [table for _, table in sorted(tables.items())]
        if function.is_of_files:
            rows = [
                self._in_job(function, number, table) for number, table in sorted(tables.items())
            ]
        return function.combined(pa.concat_tables(rows))

    def _in_job(self, function: PerFile, number: int, table: pa.Table) -> pa.Table:
        """Rows of the file of this place with numbers and instants of the job."""

        def named(match: re.Match[str]) -> str:
            return f"device {self.device_maps[number].get(int(match[1]), match[1])}"

        columns: dict[str, Column] = {}
        for name in table.column_names:
            values = self.in_job(number, name, table[name])
            if name == FILE_PLACE:
                values = pa.array([number] * table.num_rows, pa.int64())
            elif name in function.device_texts and self.shares_devices:
                texts = [t and _DEVICE_IN_TEXT.sub(named, t) for t in values.to_pylist()]
                values = pa.array(texts, pa.string())
            elif function.schema.columns[name].kind == schema.Kind.INSTANT:
                values = self.later(number, values)
            columns[name] = values
        return pa.table(columns)

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the files together."""
        notes = [_SHARED] if self.shares_devices else []
        notes += [] if self.earliest_ns is not None else [_NO_CLOCK]
        described = [
            FileOfJob(
                file.name,
                file.rank,
                pc.max(file.runs["world_size"]).as_py(),
                file.profile.origin.recorder,
                file.origin_ns,
                process,
            )
            for file, process in zip(self.files, self._processes, strict=True)
        ]
        return [*notes, *job_notes(described)]


def _continues(file: File, following: File) -> bool:
    """Whether two files of one rank are stretches of one process, one after another."""
    if file.origin_ns is None or following.origin_ns is None:
        return False
    is_later = file.origin_ns >= following.origin_ns + following.end_ns
    is_apart = is_later or following.origin_ns >= file.origin_ns + file.end_ns
    return is_apart and bool(file.pids) and file.pids == following.pids


def _coincide(numbers: Iterable[Collection[int]], processes: Sequence[int]) -> bool:
    """Whether two processes have one number; no more is read than tells."""
    process_of: dict[int, int] = {}
    return any(
        process_of.setdefault(number, process) != process
        for of_file, process in zip(numbers, processes, strict=True)
        for number in of_file
    )


def _renamed(values: Column, numbers: Numbers) -> Column:
    """Other numbers in the place of those of a file; where it has none, what None is called."""
    file_numbers = [number for number in numbers if number is not None]
    new = pa.array([numbers[number] for number in file_numbers], pa.int64())
    places = pc.index_in(values.cast(pa.int64()), value_set=pa.array(file_numbers, pa.int64()))
    renamed = new.take(places) if isinstance(places, pa.Array) else pc.take(new, places)
    return renamed.fill_null(numbers[None]) if None in numbers else renamed


def _different(table: pa.Table) -> pa.Table:
    """The rows of a small table: two stretches of one process list the same devices."""
    return table.group_by(table.column_names, use_threads=False).aggregate([])
