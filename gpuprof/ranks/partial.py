"""What one file of a job is reduced to, and how the results of several files become one.

A partial result holds the states of the analyses that are asked for (see `gpuprof.model.analysis`)
and, in tables of their own, what the job must know of each file. No activity of a file is in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses import LONG, analysis_named
from gpuprof.analyses.notes import notes_of
from gpuprof.base.errors import UsageError
from gpuprof.model import schema
from gpuprof.model.analysis import FILE_PLACE, Analysis, State, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Schema
from gpuprof.ranks.contract import JobFile, Partial
from gpuprof.readers import read_profile
from gpuprof.readers.merged_ranks import file_of

# Table of each file, and tables of the data model that are small and stay those of their files.
FILES: Final = "files"
SMALL_TABLES: Final[Mapping[str, Schema]] = {
    spec.name: spec for spec in (schema.DEVICES, schema.LINKS, schema.RUNS)
}
NOTES: Final = "notes"
_PLACE: Final = (FILE_PLACE, pa.int64())
FILES_SCHEMA: Final = pa.schema(
    [
        _PLACE,
        ("source", pa.string()),
        ("reader", pa.string()),
        ("tool", pa.string()),
        ("tool_version", pa.string()),
        ("exporter_version", pa.string()),
        ("rank", pa.int64()),
        ("host", pa.string()),
        ("epoch_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("events", pa.int64()),
        ("pids", pa.list_(pa.int64())),
        ("devices", pa.list_(pa.int64())),
        ("recorded", pa.list_(pa.string())),
    ]
)
NOTES_SCHEMA: Final = pa.schema([_PLACE, ("text", pa.string())])


@dataclass(frozen=True)
class ReportWork:
    """The work of a report on a job: a `gpuprof.ranks.contract.Work`.

    Args:
        names: The tables that are asked for, as ``--table`` takes them.
        skip_steps: As `gpuprof.model.profile.Profile` has it.
        reader: Name of the format; None where it is to be found.
    """

    names: tuple[str, ...]
    skip_steps: int | None = None
    reader: str | None = None

    @property
    def key(self) -> str:
        """What partial results depend on beside the file."""
        return f"report {' '.join(sorted(self.names))} {self.skip_steps} {self.reader}"

    def reduce(self, file: JobFile) -> Partial:
        """What is kept of one file.

        Raises:
            GpuprofError: It cannot be read.
        """
        profile = replace(read_profile(file.path, self.reader), skip_steps=self.skip_steps)
        return reduced(profile, file.place, analyses_of(self.names))

    def merge(self, partials: Sequence[Partial]) -> Partial:
        """One partial result of several."""
        return merged(partials, analyses_of(self.names))


def is_mergeable(name: str) -> bool:
    """Whether an analysis answers for a job whose files are read one by one."""
    return analysis_named(name).merge is not None


def analyses_of(names: Iterable[str]) -> list[Analysis]:
    """The analyses of these names.

    Raises:
        UsageError: One of them needs single activities of all files at once.
    """
    chosen = [*map(analysis_named, names)]
    for analysis in chosen:
        if analysis.merge is None:
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
    runnable = [analysis for analysis in analyses if not analysis.missing(profile)]
    profile.expect(reads(*(analysis.reads for analysis in runnable)))
    partial: dict[str, pa.Table] = {}
    for state in states_of(runnable):
        rows = profile.once(state.of_file)
        columns = rows.select([*state.schema.columns])
        partial[state.name] = columns if state.combine else _of_file(columns, place)
    file = file_of(profile)
    for name in SMALL_TABLES:
        partial[name] = _of_file(file.table(name), place)
    partial[FILES] = pa.Table.from_pylist([_facts(file, place)], FILES_SCHEMA)
    texts = notes_of(profile, [analysis.name for analysis in runnable])
    rows = [{FILE_PLACE: place, "text": text} for text in texts]
    return partial | {NOTES: pa.Table.from_pylist(rows, NOTES_SCHEMA)}


def states_of(analyses: Iterable[Analysis]) -> list[State]:
    """What these analyses need, each once."""
    states = (state for analysis in analyses if analysis.merge for state in analysis.merge.states)
    return [*{state.name: state for state in states}.values()]


def _of_file(rows: pa.Table, place: int) -> pa.Table:
    return rows.append_column(FILE_PLACE, pa.array([place] * rows.num_rows, pa.int64()))


def _facts(file: Any, place: int) -> dict[str, Any]:
    origin, extent = file.profile.origin, file.extent()
    return {
        FILE_PLACE: place,
        "source": str(origin.source),
        "reader": origin.reader,
        "tool": origin.tool,
        "tool_version": origin.tool_version,
        "exporter_version": origin.exporter_version,
        "rank": file.rank,
        "host": origin.host,
        "epoch_ns": file.origin_ns,
        "end_ns": extent.end_ns,
        "events": file.profile.events,
        "pids": sorted(extent.pids),
        "devices": sorted(extent.used),
        "recorded": sorted(file.profile.sources),
    }


def merged(partials: Sequence[Partial], analyses: Sequence[Analysis]) -> Partial:
    """One partial result of several, in the order of their files."""
    states = {state.name: state for state in states_of(analyses)}
    names = dict.fromkeys(name for partial in partials for name in partial)
    together: dict[str, pa.Table] = {}
    for name in names:
        rows = pa.concat_tables([partial[name] for partial in partials if name in partial])
        state = states.get(name)
        if state is not None and state.combine is not None:
            rows = state.combine(rows).select([*state.schema.columns])
        together[name] = rows.combine_chunks()
    return together
