"""What one file of a job is reduced to, how the results of several become one, and that a job.

A partial result holds what `gpuprof.model.analysis.per_file` functions make of a file, by the names
of their schemas, and, in tables of its own, what the job must know of the file. No activity of a
file is in it. The merged one is a recording of the job, which analyses take as any other: what they
take of each file is there already.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses import LONG, analysis_named
from gpuprof.analyses.reports import functions_of, reads_of
from gpuprof.base.errors import UsageError
from gpuprof.model import data_model, schema
from gpuprof.model.analysis import FILE_PLACE, Analysis, PerFile
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, RankRecording
from gpuprof.ranks.work import JobFile, Partial
from gpuprof.readers import read_profile
from gpuprof.readers.job_files import EXTENT_READS, File, file_of, ranked_runs, ranks_of_names
from gpuprof.readers.job_notes import notes_of_files
from gpuprof.readers.job_numbers import JobNumbers

# Table of each file, and tables of the data model that are small and stay those of their files.
FILES: Final = "files"
_SMALL: Final = (data_model.DEVICES, data_model.LINKS, data_model.RUNS, data_model.ACTIVITY_SUMMARY)
_ORIGIN_TEXTS: Final = (
    "reader", "tool", "tool_version", "exporter_version", "schema_version", "command",
    "recorded_at", "variant", "host",
)  # fmt: skip
_ORIGIN: Final = (*_ORIGIN_TEXTS, "epoch_ns", "start_resolution_ns")
FILES_SCHEMA: Final = pa.schema(
    [
        (FILE_PLACE, pa.int64()),
        ("source", pa.string()),
        *((name, pa.string()) for name in _ORIGIN_TEXTS),
        ("epoch_ns", pa.int64()),
        ("start_resolution_ns", pa.int64()),
        ("rank", pa.int64()),
        ("end_ns", pa.int64()),
        ("events", pa.int64()),
        ("pids", pa.list_(pa.int64())),
        ("devices", pa.list_(pa.int64())),
        ("recorded", pa.list_(pa.string())),
        ("warnings", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True)
class ReportWork:
    """The work of a report on a job: a `gpuprof.ranks.work.Work`.

    Args:
        names: The tables that are asked for, as ``--table`` takes them.
        skip_steps: As `gpuprof.model.profile.Profile` has it.
        reader: Name of the format; None where it is to be found.
        file_count: How many files the job has.
    """

    names: tuple[str, ...]
    skip_steps: int | None = None
    reader: str | None = None
    file_count: int = 1

    @property
    def key(self) -> str:
        """What partial results depend on beside the file."""
        size = (self.file_count - 1).bit_length()
        return f"report {' '.join(sorted(self.names))} {self.skip_steps} {self.reader} {size}"

    def reduce(self, file: JobFile) -> Partial:
        """What is kept of one file.

        Raises:
            GpuprofError: It cannot be read.
        """
        profile = read_profile(file.path, self.reader)
        profile = replace(profile, skip_steps=self.skip_steps, file_count=self.file_count)
        return reduced(profile, file.place, analyses_of(self.names))

    def merge(self, partials: Sequence[Partial]) -> Partial:
        """One partial result of several."""
        return merged(partials, analyses_of(self.names))


def is_mergeable(name: str) -> bool:
    """Whether an analysis answers for a job whose files are read one by one."""
    return analysis_named(name).of_files is not None


def analyses_of(names: Iterable[str]) -> list[Analysis]:
    """The analyses of these names.

    Raises:
        UsageError: One of them needs single activities of all files at once.
    """
    chosen = [*map(analysis_named, names)]
    for analysis in chosen:
        if analysis.of_files is None:
            kind = "is made for pictures" if analysis.name in LONG else "shows single activities"
            msg = f"table {analysis.name} {kind}, which are not kept of the files of a large job"
            raise UsageError(msg, "Ask for one rank: --rank 17.")
    return chosen


def reduced(profile: Profile, place: int, analyses: Sequence[Analysis]) -> Partial:
    """What is kept of one recording.

    Args:
        profile: The recording.
        place: Its place among the files of the job.
        analyses: What the job is asked for.
    """
    for columns in (reads_of(profile, analyses), EXTENT_READS):
        profile.expect(columns)
    functions = functions_of(analyses)
    partial = {function.schema.name: function.of(profile, place) for function in functions}
    file = file_of(profile)
    for spec in _SMALL:
        rows = file.table(spec.name)
        places = pa.array([place] * rows.num_rows, pa.int64())
        partial[spec.name] = rows.append_column(FILE_PLACE, places)
    origin, (pids, used, end_ns) = profile.origin, file.extent()
    facts = {name: getattr(origin, name) for name in _ORIGIN} | {
        FILE_PLACE: place,
        "source": str(origin.source),
        "rank": file.rank,
        "end_ns": end_ns,
        "events": profile.events,
        "pids": sorted(pids),
        "devices": sorted(used),
        "recorded": sorted(profile.sources),
        "warnings": origin.warnings,
    }
    return partial | {FILES: pa.Table.from_pylist([facts], FILES_SCHEMA)}


def merged(partials: Sequence[Partial], analyses: Sequence[Analysis]) -> Partial:
    """One partial result of several, in the order of their files."""
    functions = {function.schema.name: function for function in functions_of(analyses)}
    together: dict[str, pa.Table] = {}
    for name in partials[0]:
        tables = [partial[name] for partial in partials]
        function = functions.get(name)
        rows = pa.concat_tables(tables) if function is None else function.together(tables)
        together[name] = rows.combine_chunks()
    return together


def job_profile(partial: Partial, source: Path, notes: Sequence[str] = ()) -> Profile:
    """A job as a recording.

    Args:
        partial: The merge of all its files that could be read.
        source: What people call the job.
        notes: What they must know beside what the files say, such as files that are left out.

    Raises:
        InputError: Two files are the same recording.
    """
    job = _MergedJob(partial)
    rows = sorted(partial[FILES].to_pylist(), key=lambda row: row[FILE_PLACE])
    origin = Origin(source, **{name: rows[0][name] for name in _ORIGIN})
    texts = [(file.name, text) for file in job.files for text in file.facts["warnings"]]
    warnings = (*job.notes, *notes, *notes_of_files(texts, len(rows)))
    origin = replace(origin, epoch_ns=job.earliest_ns, warnings=warnings, host=None)
    parts = tuple(RankRecording(file.rank, file.profile) for file in job.files)
    return Profile(origin, job.sources, parts=parts, file_count=len(rows), job=job)


@dataclass(frozen=True, eq=False)
class _File(File):
    """What a job knows of one of its files, whose recording has no rows."""

    facts: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    @cached_property
    def pids(self) -> set[int]:
        """The processes of its activities."""
        return {*self.facts["pids"]}

    @cached_property
    def used(self) -> set[int]:
        """The devices of its activities."""
        return {*self.facts["devices"]}

    @cached_property
    def end_ns(self) -> int:
        """When its last activity ends."""
        return int(self.facts["end_ns"])

    def table(self, name: str) -> pa.Table:
        """One of its small tables."""
        return self.tables[name]


class _MergedJob(JobNumbers[_File]):
    """The files of a job and what workers made of them: a `gpuprof.model.profile.Job`.

    Args:
        partial: The merged partial result.

    Raises:
        InputError: Two of them are the same recording.
    """

    def __init__(self, partial: Partial) -> None:
        facts = sorted(partial[FILES].to_pylist(), key=lambda row: row[FILE_PLACE])
        ranks: list[int | None] = [row["rank"] for row in facts]
        if None in ranks:
            ranks = ranks_of_names([Path(row["source"]).name for row in facts])
        small = [(spec, _by_file(partial[spec.name])) for spec in _SMALL]
        files = []
        for row, rank in zip(facts, ranks, strict=True):
            tables = {
                spec.name: spec.conform(of_files.get(row[FILE_PLACE], spec.empty()))
                for spec, of_files in small
            }
            origin = Origin(Path(row["source"]), **{name: row[name] for name in _ORIGIN})
            recorded = [name for name in row["recorded"] if name in data_model.BY_NAME]
            profile = Profile(origin, {name: data_model.BY_NAME[name].empty() for name in recorded})
            runs = ranked_runs(tables[data_model.RUNS.name], rank)
            files.append(_File(profile, rank, runs, row, tables))
        super().__init__(files)
        self._partial = partial

    @cached_property
    def sources(self) -> dict[str, pa.Table]:
        """The small tables of all files, and the others without their rows."""
        recorded = {name for file in self.files for name in file.profile.sources}
        sources = {name: data_model.BY_NAME[name].empty() for name in sorted(recorded)}
        sources |= {"devices": self.devices, "runs": self.small("runs")}
        if "links" in recorded:
            sources["links"] = self.links()
        if "activity_summary" in recorded:
            sources["activity_summary"] = self.small("activity_summary")
        return sources

    def rows(self, function: PerFile, _: Profile) -> pa.Table:
        """As `gpuprof.model.profile.Job` has it."""
        tables = {0: self._partial[function.schema.name]}
        if function.is_of_files:
            order = {file.facts[FILE_PLACE]: number for number, file in enumerate(self.files)}
            tables = {order[place]: rows for place, rows in _by_file(tables[0]).items()}
        return self.combined(function, tables)

    def prepare(self, *_: object) -> None:
        """Nothing is left to be computed."""


def _by_file(table: pa.Table) -> dict[int, pa.Table]:
    """The rows of each file, by its place."""
    place = table[FILE_PLACE].to_numpy()
    by_place = np.argsort(place, kind="stable")
    ordered = table.take(schema.arrow(by_place))
    places, first = np.unique(place[by_place], return_index=True)
    bounds = pairwise([*first.tolist(), len(place)])
    pairs = ((number, *bound) for number, bound in zip(places.tolist(), bounds, strict=True))
    return {number: ordered.slice(low, high - low) for number, low, high in pairs}
