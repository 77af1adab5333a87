"""What numbers of files mean among all files of a job: devices, processes, and the clock.

Of one process, files may be several stretches. `gpuprof.readers.merged_ranks` joins files by these
numbers, and `gpuprof.ranks.merged` what workers made of each.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

from gpuprof.model import schema
from gpuprof.readers.job_notes import FileOfJob, job_notes

_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
# A larger number in a file's name is a time or a process.
_LARGEST_RANK: Final = 1_000_000
_SHARED: Final = (
    "Several processes number their devices from 0. They are taken for different devices, and"
    " numbered in the order of ranks."
)
_NO_CLOCK: Final = "The files have no common clock: each begins at 0."

Numbers = Mapping[int | None, int]


class NumberedFile(Protocol):
    """What is to be known of a file of a job."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    @property
    def rank(self) -> int | None:
        """Its rank, where known."""

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has; None where it does not tell."""

    @property
    def recorder(self) -> str:
        """The tool that recorded it, and its version."""

    @property
    def origin_ns(self) -> int | None:
        """When its clock began; None where it does not tell."""

    @property
    def end_ns(self) -> int:
        """When its last activity ends."""

    @property
    def pids(self) -> Collection[int]:
        """The processes of its activities."""

    @property
    def used(self) -> Collection[int]:
        """The devices of its activities."""


_File = TypeVar("_File", bound=NumberedFile)


class JobNumbers(Generic[_File]):
    """The files of a job in the order of ranks, and what their numbers mean among all of them.

    Args:
        files: As they were given.
    """

    def __init__(self, files: Iterable[_File]) -> None:
        self.files = sorted(files, key=lambda file: (file.rank is None, file.rank or 0, file.name))

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
        return _processes(self.files)

    @cached_property
    def process_maps(self) -> list[Numbers] | None:
        """What processes are called; None where their numbers tell them apart."""
        pids = [file.pids for file in self.files]
        if all(pids) and not _coincide(pids, self._processes):
            return None
        return [_process_map(ids, place) for ids, place in zip(pids, self._processes, strict=True)]

    @cached_property
    def shares_devices(self) -> bool:
        """Whether two processes use devices of one number."""
        # Where they coincide, a few files tell.
        return _coincide((file.used for file in self.files), self._processes)

    @cached_property
    def device_maps(self) -> list[Numbers]:
        """What the devices are called that each file uses."""
        used = [file.used for file in self.files]
        if self.shares_devices:
            return _device_maps(used, self._processes)
        return [{number: number for number in numbers} for numbers in used]

    @property
    def names_of_files(self) -> list[str | None]:
        """What people know each file's devices by where it has no rank: its process' first file."""
        return [
            self.files[place].name if file.rank is None else None
            for file, place in zip(self.files, self._processes, strict=True)
        ]

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the files together."""
        notes = [_SHARED] if self.shares_devices else []
        notes += [] if self.earliest_ns is not None else [_NO_CLOCK]
        described = [
            FileOfJob(file.name, file.rank, file.world_size, file.recorder, file.origin_ns, process)
            for file, process in zip(self.files, self._processes, strict=True)
        ]
        return [*notes, *job_notes(described)]


def ranks_of_names(names: Sequence[str]) -> list[int | None]:
    """``rank3``, ``worker3``, or the one number in which the names differ; else unknown.

    Some ranks may have several files, as those that were recorded anew; where most have, the
    numbers may be those of the ranks of a host.
    """
    matches = [_RANK_IN_NAME.search(name) for name in names]
    ranks = [int(match[1]) for match in matches if match]
    if len(ranks) == len(names) and 2 * len({*ranks}) > len(names) and max(ranks) <= _LARGEST_RANK:
        return list(ranks)
    if len(set(ranks)) != len(names):
        numbers = [_NUMBER.findall(name) for name in names]
        is_alike = len({_NUMBER.sub("#", name) for name in names}) == 1
        places = zip(*numbers, strict=True) if is_alike else ()
        differing = [place for place in places if len(set(place)) > 1]
        ranks = [int(text) for text in differing[0]] if len(differing) == 1 else []
    is_distinct = len(set(ranks)) == len(names) and max(ranks) <= _LARGEST_RANK
    return list(ranks) if is_distinct else [None] * len(names)


def _processes(files: Sequence[NumberedFile]) -> list[int]:
    """For each file the place of its process: that of the first file of the same process."""
    places: list[int] = []
    earlier_of_rank: dict[int | None, list[int]] = {}
    for number, file in enumerate(files):
        earlier = earlier_of_rank.setdefault(file.rank, [])
        followed = next((place for place in earlier if _follows(file, files[place])), None)
        places.append(number if followed is None else places[followed])
        earlier.append(number)
    return places


def _follows(file: NumberedFile, previous: NumberedFile) -> bool:
    """Whether it is a later stretch of the same process."""
    if file.rank != previous.rank or file.origin_ns is None or previous.origin_ns is None:
        return False
    is_later = file.origin_ns >= previous.origin_ns + previous.end_ns
    is_apart = is_later or previous.origin_ns >= file.origin_ns + file.end_ns
    return is_apart and bool(file.pids) and file.pids == previous.pids


def _coincide(numbers: Iterable[Collection[int]], processes: Sequence[int]) -> bool:
    """Whether two processes have one number; no more is read than tells."""
    process_of: dict[int, int] = {}
    return any(
        process_of.setdefault(number, process) != process
        for of_file, process in zip(numbers, processes, strict=True)
        for number in of_file
    )


def _process_map(pids: Iterable[int], place: int) -> Numbers:
    """What the processes of a file are called, which is of the process of this place."""
    base = (place + 1) << schema.PROCESS_BITS
    return {None: base, **{pid: base | pid for pid in pids}}


def _device_maps(used: Sequence[Collection[int]], processes: Sequence[int]) -> list[Numbers]:
    """What devices are called that several processes number alike, for each file.

    Args:
        used: The devices of each file.
        processes: As `_processes` gives them.
    """
    maps: dict[int, Numbers] = {}
    count = 0
    for place in sorted(set(processes)):
        id_sets = (ids for ids, process in zip(used, processes, strict=True) if process == place)
        devices = sorted(set().union(*id_sets))
        maps[place] = {device: count + number for number, device in enumerate(devices)}
        count += len(devices)
    return [maps[process] for process in processes]
