"""Reports on jobs of many files, which worker processes read one by one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from gpuprof.analyses import analysis_named
from gpuprof.analyses.reports import Report
from gpuprof.analyses.reports import report as report_of
from gpuprof.api.options import PART, SECTION, WORKERS
from gpuprof.base.errors import InputError, UsageError
from gpuprof.base.units import counted, listed
from gpuprof.cli.chosen import note_unread
from gpuprof.cli.commands import values_of
from gpuprof.cli.terminal import JobProgress, shown
from gpuprof.model.profile import UnreadFiles
from gpuprof.ranks.engine import run
from gpuprof.ranks.partial import FILES, ReportWork, analyses_of, is_mergeable, job_profile
from gpuprof.ranks.rank_files import file_of_rank, job_files, job_place
from gpuprof.ranks.work import Outcome, Partial, Settings
from gpuprof.readers import check_one_format, recording_files
from gpuprof.readers.gpuprof.data_set import is_recording
from gpuprof.readers.job_notes import left_out

# So few files are read as fast by one process, which keeps all columns and answers all questions.
MOST_JOINED: Final = 16
_MOST_JOINED_BYTES: Final = 2 * 10**9
_NO_WORKERS: Final = "Leave out --workers, --memory-limit, --scheduler and --resume."
_STDIN_LIST: Final = "@-"


class Job:
    """A job of many files.

    Args:
        values: ``files``, ``reader``, ``skip_steps`` and what says who reads which part of them.

    Raises:
        InputError: They name no files, or none of this rank.
    """

    def __init__(self, values: SimpleNamespace) -> None:
        self._values = values
        self._settings = Settings(**values_of(values, WORKERS))
        rank = values.rank
        self._paths = values.files if rank is None else [str(file_of_rank(values.files, rank))]
        self.files: Sequence[Path] = recording_files(self._paths, are_fetched=False)

    @property
    def readable(self) -> Sequence[str]:
        """What one process reads instead; a list that came on standard input comes only once."""
        return [*map(str, self.files)] if _STDIN_LIST in self._paths else self._paths

    def tables(self, needed: Sequence[str], usual: Sequence[str] = ()) -> tuple[str, ...]:
        """The tables that workers make; none where one process reads all files.

        Args:
            needed: Those that the user names, and those of charts.
            usual: Those that are shown where they are known.

        Raises:
            UsageError: The user wants workers for what one process must do.
        """
        parts = values_of(self._values, (SECTION, *PART)).values()
        apart = [o for o, v in zip((SECTION, *PART), parts, strict=True) if v is not None]
        if self._settings.are_usual:
            is_large = len(self.files) > MOST_JOINED
            if is_large and not usual:
                # One process reads a few columns of all files with less effort than the worker of
                # each, but keeps the names of all ranks of a data set.
                sizes = (file.stat().st_size for file in self.files if file.is_file())
                is_large = sum(sizes) > _MOST_JOINED_BYTES or is_recording(self.files[0])
            if apart or not is_large or not all(map(is_mergeable, needed)):
                return ()
        elif apart:
            msg = f"{apart[0].opts[0]} needs all files in one process"
            raise UsageError(msg, _NO_WORKERS)
        analyses_of(needed)
        return tuple(dict.fromkeys((*needed, *filter(is_mergeable, usual))))

    def read(self, names: Sequence[str], *, shows_notes: bool = False) -> Callable[..., Report]:
        """Have workers read the job; the command's exit status tells whether all files could be.

        Args:
            names: The tables that are asked for.
            shows_notes: Whether the output itself lists files that could not be read.

        Returns:
            Makes a report of tables that are needed, and of further ones; those of these that
            workers do not make are n/a, and a note says so.

        Raises:
            InputError: None of the files can be read.
            UnknownFormatError: They are of several formats.
        """
        options = self._values.skip_steps, self._values.reader
        work = ReportWork(tuple(names), *options, file_count=len(self.files))
        place = job_place(self._paths, self.files)
        with shown(JobProgress) as progress:
            listeners = () if progress is None else (progress.say,)
            outcome = run(work, job_files(self.files), self._settings, *listeners)
        if outcome.partial is None:
            msg = f"none of {counted(len(self.files), 'file', 'files')} can be read"
            raise InputError(msg, outcome.faults[0].reason)
        rows = outcome.partial[FILES].select(["reader", "source"]).to_pylist()
        check_one_format(place, {row["reader"]: Path(row["source"]).name for row in rows})
        faults = tuple((fault.path, fault.reason) for fault in outcome.faults if not fault.is_empty)
        note_unread([UnreadFiles(faults, outcome.file_count)], shows_notes=shows_notes)
        return partial(_report, outcome, outcome.partial, place)


def _report(
    outcome: Outcome,
    merged: Partial,
    place: Path,
    needed: Sequence[str],
    usual: Sequence[str] = (),
) -> Report:
    """A report, with tables that are made of one recording as n/a, and a note on them."""
    names = dict.fromkeys((*needed, *filter(is_mergeable, usual)))
    faults = left_out((fault.path, fault.reason) for fault in outcome.faults)
    report = report_of(job_profile(merged, place, faults), [*names])
    absent = [name for name in usual if name not in report.tables]
    recorded = {name for of_file in merged[FILES]["recorded"].to_pylist() for name in of_file}
    missed = [name for name in absent if {*analysis_named(name).needs} <= recorded]
    notes = report.notes
    if missed:
        are = "are" if len(missed) > 1 else "is"
        note = f"{listed(missed)} {are} n/a for a job that workers read; use --rank N for one rank."
        notes = (*notes, note)
    return replace(report, tables={**report.tables, **dict.fromkeys(absent)}, notes=notes)
