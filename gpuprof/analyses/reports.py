"""One recording's result tables, with their provenance and what is unknown.

(Not ``report.py``: a module of that name would hide the function `gpuprof.report`.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses import ANALYSES, analysis_named
from gpuprof.analyses.notes import file_notes, missing_notes, notes_of
from gpuprof.base.units import listed
from gpuprof.facts.hosts import NO_NAMES, DeviceNames, names_of
from gpuprof.model import data_model
from gpuprof.model.analysis import DEVICE_COLUMNS, Analysis, PerFile, Reads, reads
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile

FORMAT_VERSION: Final = 1
# Columns whose texts name devices by their numbers in the job.
_DEVICE_TEXTS: Final = frozenset({"bottom_line", "finding", "suggestion", "where"})
# Of more, to decode the columns of launches takes longer than a start of the program.
_FEW_ROWS: Final = 100_000
# The first table asks for it.
_FINDINGS: Final = "findings"


@dataclass(frozen=True)
class Report:
    """The results of the analyses of one recording.

    Args:
        origin: Where the recording came from.
        tables: Analysis name to its table, columns as in the analysis' schema; None where the
            recording lacks what the analysis needs, with the reason in the notes.
        notes: What a reader must know to trust the tables, one sentence each: the tool's own
            warnings, what is missing from the recording, what is unknown and why.
        device_names: What people know the devices by.
    """

    origin: Origin
    tables: Mapping[str, pa.Table | None]
    notes: tuple[str, ...]
    device_names: DeviceNames = NO_NAMES

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table; none where the recording lacks what it needs."""
        table = self.tables.get(name)
        return [] if table is None else table.to_pylist()


def report(profile: Profile, names: Sequence[str] | None = None) -> Report:
    """Run every analysis that the recording can answer.

    Args:
        profile: The recording.
        names: Analyses to run, as `gpuprof report --list` names them; None for all.

    Returns:
        Their tables and notes.

    Raises:
        GpuprofError: The recording is damaged, or there is no such analysis.
        TypeError: A name is not a string.
    """
    if isinstance(names, str):
        msg = f'table names must be a list, as in ["{names}"]'
        raise TypeError(msg)
    chosen = [*map(analysis_named, ANALYSES if names is None else names)]
    missing = {analysis.name: analysis.missing(profile) for analysis in chosen}
    runnable = [analysis for analysis in chosen if not missing[analysis.name]]
    by_file = [a for a in runnable if profile.job is not None and a.of_files is not None]
    of_recording = [a for a in runnable if a not in by_file]
    further = [analysis.reads_of_small for analysis in of_recording]
    left_out = _not_sought(profile) if any(further) else ""
    of_all = [a.reads for a in of_recording] + ([] if left_out else further)
    profile.expect(reads(*of_all, _unread(profile)))
    if profile.job is not None:
        profile.job.prepare(functions_of(by_file), profile, partial(reads_of, analyses=by_file))
    else:
        later = [analysis.run for analysis in runnable[1:] if analysis.name != _FINDINGS]
        profile.compute_ahead(later[::-1])
    tables: dict[str, pa.Table | None] = dict.fromkeys(missing)
    try:
        for analysis in runnable:
            tables[analysis.name] = profile.once(analysis.run)
    finally:
        profile.end_second_thread()
    for table, columns in _unread(profile).items():
        for _ in profile.columns(table, *columns):
            pass  # each piece is checked when it is made
    notes = [
        *notes_of(profile, [analysis.name for analysis in runnable]),
        *([left_out] if left_out else []),
        *(missing_notes(profile, missing) if any(missing.values()) else []),
    ]
    called = _device_names(profile, chosen)
    if called.names_of_files:
        # Sentences say what devices are called in their own files; those of a job name ranks.
        tables |= {
            a.name: _named(answer, called)
            for a in of_recording
            if (answer := tables[a.name]) is not None
        }
    # Notes on a job name its devices already.
    notes = [*map(called.in_text, notes)] if profile.job is None else notes + _accuracies(runnable)
    return Report(profile.origin, tables, tuple(dict.fromkeys(notes)), called)


def _device_names(profile: Profile, analyses: Sequence[Analysis]) -> DeviceNames:
    """What people know the devices by, where these analyses name any."""
    columns = {column for analysis in analyses for column in analysis.schema.columns}
    # Notes name devices, too, where files are joined that are not looked at one by one.
    are_in_notes = profile.job is None and len(profile.unrestricted.parts) > 0
    if not are_in_notes and columns.isdisjoint((*DEVICE_COLUMNS, *_DEVICE_TEXTS)):
        return NO_NAMES  # which devices there are takes a look at all files
    return names_of(profile)


def functions_of(analyses: Sequence[Analysis]) -> list[PerFile]:
    """What these analyses take of each file of a job, each once, and what must be known of it."""
    functions = (function for analysis in analyses for function in analysis.of_files or ())
    return [*dict.fromkeys(functions), file_notes(tuple(analysis.name for analysis in analyses))]


def reads_of(profile: Profile, analyses: Sequence[Analysis]) -> Reads:
    """What `functions_of` these analyses ask for of one file of a job."""
    answered = (a for a in analyses if a.of_files is not None and not a.missing(profile))
    # Of what small recordings are asked for beside that, hardly any file of a job is.
    return reads(*(analysis.reads for analysis in answered))


def _accuracies(analyses: Sequence[Analysis]) -> list[str]:
    """What of the tables of a job is estimated."""
    alike: dict[str, list[str]] = {}
    for analysis in analyses:
        if analysis.accuracy:
            alike.setdefault(analysis.accuracy, []).append(analysis.name)
    return [f"{listed(names)}: {accuracy}" for accuracy, names in alike.items()]


def _named(table: pa.Table, names: DeviceNames) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in _DEVICE_TEXTS:
            texts = [None if t is None else names.in_text(t) for t in table[name].to_pylist()]
            table = table.set_column(place, table.field(place), pa.array(texts, pa.string()))
    return table


def _unread(profile: Profile) -> Reads:
    """The columns of launches, which no analysis reads, to be checked where that takes no time."""
    name = data_model.KERNELS.name
    if profile.job is not None or not profile.has(name):
        return {}
    is_small = 0 < profile.loaded(name).rows_known() <= _FEW_ROWS
    return {name: frozenset(data_model.LAUNCH_COLUMNS)} if is_small else {}


def _not_sought(profile: Profile) -> str:
    """What findings leave out of a large recording, in a sentence; empty for nothing."""
    from gpuprof.facts.needless_copies import not_sought  # noqa: PLC0415 - start-up time

    return not_sought(profile)
