"""One file of a job: its rank, and what its activities reach."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from gpuprof.model import data_model
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import distinct
from gpuprof.model.profile import Profile, Source
from gpuprof.model.table import in_memory
from gpuprof.model.words import NO_NAMES, Names, Values

_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
# A larger number in a file's name is a time or a process.
_LARGEST_RANK: Final = 1_000_000
_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")
_EXTENT_COLUMNS: Final = ("end_ns", "process_id", *_DEVICE_COLUMNS)
_DEVICES, _LINKS, _RUNS = data_model.DEVICES.name, data_model.LINKS.name, data_model.RUNS.name
# What `File.extent` reads, by table.
EXTENT_READS: Final = {
    spec.name: [name for name in _EXTENT_COLUMNS if name in spec.columns]
    for spec in data_model.BY_NAME.values()
    if spec.name not in {_DEVICES, _LINKS, _RUNS}
}


@dataclass(frozen=True, eq=False)
class File:
    """One file of a job.

    Args:
        profile: Its recording.
        rank: Its rank; None where unknown.
        runs: Its runs; a single one where it records none.
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

    def source(self, table: str) -> Source:
        """Its rows of a table; none where it has no such table."""
        rows = self.runs if table == _RUNS else self.profile.sources.get(table)
        return data_model.BY_NAME[table].empty() if rows is None else rows

    def table(self, name: str) -> pa.Table:
        """A small table."""
        rows = self.source(name)
        return (
            data_model.BY_NAME[name].conform(rows)
            if isinstance(rows, pa.Table)
            else self.profile.table(name)
        )

    def may_hold(self, table: str) -> bool:
        """Whether a table may have rows."""
        rows = self.source(table)
        return not isinstance(rows, pa.Table) or rows.num_rows > 0

    def extent(self, *names: str) -> tuple[set[int], set[int], int]:
        """What its activities reach, as far as these columns tell, found in one pass over it.

        Returns:
            Their processes, their devices, and when the last of them ends; 0 where there is none.
        """
        numbers: dict[str, set[int]] = {name: set() for name in _EXTENT_COLUMNS}
        end_ns = 0
        for table in self.profile.sources:
            there = [n for n in EXTENT_READS.get(table, ()) if not names or n in names]
            if not there:
                continue
            for piece in self.pieces(table, there):
                for name, (filled, is_null, _) in zip(there, piece, strict=True):
                    present = filled if is_null is None else filled[~is_null]
                    if name != "end_ns":
                        numbers[name].update(distinct(present).tolist())
                    elif len(present):
                        end_ns = max(end_ns, int(present.max()))
        used = set().union(*(numbers[name] for name in _DEVICE_COLUMNS))
        return numbers["process_id"] - {UNKNOWN}, used - {UNKNOWN}, end_ns

    @cached_property
    def pids(self) -> set[int]:
        """The processes of its activities."""
        pids, _, _ = self.extent("process_id")
        return pids

    @cached_property
    def used(self) -> set[int]:
        """The devices of its activities."""
        _, used, _ = self.extent(*_DEVICE_COLUMNS)
        return used

    @cached_property
    def end_ns(self) -> int:
        """When its last activity ends."""
        _, _, end_ns = self.extent("end_ns")
        return end_ns

    def pieces(self, table: str, names: Sequence[str]) -> Iterator[list[Values]]:
        """Columns of its rows, read for this alone."""
        if table == _RUNS:
            yield from in_memory(data_model.RUNS, self.runs).pieces(names)
        elif self.may_hold(table):
            yield from self._alone(table).pieces(table, *names)

    def names(self, table: str) -> Names:
        """The names of a table by their numbers."""
        return self._alone(table).loaded(table).names if self.may_hold(table) else NO_NAMES

    def _alone(self, table: str) -> Profile:
        """The recording; where none has read it of a file, so that what is read goes with it."""
        is_here = isinstance(self.source(table), pa.Table) or self.profile.is_read(table)
        return self.profile if is_here else replace(self.profile)


def file_of(profile: Profile) -> File:
    """One file of a job by itself; its rank is None where it records none."""
    runs = profile.table(_RUNS) if profile.has(_RUNS) else data_model.RUNS.empty()
    rank = runs["rank"][0].as_py() if runs.num_rows == 1 else None
    return File(profile, rank, runs)


def ranked_runs(runs: pa.Table, rank: int | None) -> pa.Table:
    """The runs of a file whose rank is known; a single one where it records none."""
    listed = runs.to_pylist() or [{"run_id": 0}]
    listed = [listed[0] | {"rank": rank}] if len(listed) == 1 else listed
    return data_model.RUNS.table(listed)


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
