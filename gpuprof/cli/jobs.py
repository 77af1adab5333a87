"""Reports on jobs of many files, which worker processes read one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gpuprof.errors import InputError, UsageError
from gpuprof.jobs.settings import Settings
from gpuprof.units import counted, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuprof.jobs.contract import Outcome
    from gpuprof.jobs.partial import ReportWork
    from gpuprof.reports import Report

# So few files are read as fast by one process, which keeps all columns and answers all questions.
MOST_JOINED: Final = 16
# The exit status of a result without files that could not be read.
PARTIAL: Final = 4
_NO_WORKERS: Final = "Leave out --workers, --memory-limit, --scheduler and --resume."
_STDIN_LIST: Final = "@-"


@dataclass(frozen=True)
class Job:
    """A job of many files.

    Args:
        paths: What the user calls it.
        files: Its files.
        settings: Who reads them.
    """

    paths: Sequence[str]
    files: Sequence[Path]
    settings: Settings

    @property
    def readable(self) -> Sequence[str]:
        """What one process reads instead; a list that came on standard input comes only once."""
        return [*map(str, self.files)] if _STDIN_LIST in self.paths else self.paths

    def tables(self, tables: Sequence[str], usual: Sequence[str], apart: str) -> tuple[str, ...]:
        """The tables that workers make; none where one process reads all files.

        Args:
            tables: Those that the user names.
            usual: Those of a report where none is named.
            apart: What is asked for and needs all files in one process; empty for nothing.

        Raises:
            UsageError: The user wants workers for what one process must do.
        """
        if self.settings.are_usual and (len(self.files) <= MOST_JOINED or apart):
            return ()
        if apart:
            msg = f"{apart} needs all files in one process"
            raise UsageError(msg, _NO_WORKERS)
        from gpuprof.jobs.partial import analyses_of, mergeable  # noqa: PLC0415 - few need it

        possible = mergeable()
        if self.settings.are_usual:
            is_possible = {*(tables or usual)} <= {*possible}
            return (*(tables or usual),) if is_possible else ()
        analyses_of(tables)
        return (*tables,) or tuple(name for name in usual if name in possible)


def job_of(paths: Sequence[str], settings: Settings) -> Job:
    """The job that paths name; of one file, which nothing needs to be known of, just that.

    Raises:
        InputError: They name no files.
    """
    if settings.are_usual and len(paths) == 1 and Path(paths[0]).is_file():
        return Job(paths, [Path(paths[0])], settings)
    from gpuprof.readers import recording_files  # noqa: PLC0415 - start-up time

    return Job(paths, recording_files(paths), settings)


def job_report(work: "ReportWork", job: Job, usual: Sequence[str] = ()) -> "tuple[Report, Outcome]":
    """The report of a job, and what came of its files.

    Args:
        work: What each file is reduced to.
        job: The job.
        usual: The tables of a report of one recording; those that need one are n/a.

    Raises:
        InputError: None of the files can be read.
        UnknownFormatError: They are of several formats.
    """
    from gpuprof.cli.progress import JobProgress, shown  # noqa: PLC0415 - start-up time
    from gpuprof.jobs.engine import run  # noqa: PLC0415
    from gpuprof.jobs.files import job_files, job_place  # noqa: PLC0415
    from gpuprof.jobs.merged import report_of  # noqa: PLC0415
    from gpuprof.jobs.partial import FILES  # noqa: PLC0415
    from gpuprof.readers import check_one_format  # noqa: PLC0415
    from gpuprof.readers.job_notes import left_out  # noqa: PLC0415

    place = job_place(job.paths, job.files)
    with shown(JobProgress()) as progress:
        outcome = run(work, job_files(job.files), job.settings, progress.say)
        if outcome.partial is None:
            msg = f"none of {counted(len(job.files), 'file', 'files')} can be read"
            raise InputError(msg, outcome.faults[0].reason)
        check_one_format(place, _formats(outcome.partial[FILES]))
        notes = left_out((fault.path, fault.reason) for fault in outcome.faults)
        report = report_of(outcome.partial, work.names, place, notes)
    return _with_absent(report, usual), outcome


def status_of(outcome: "Outcome", *, shows_notes: bool) -> int:
    """The exit status of a job's report; where it is partial, stderr says so.

    Args:
        outcome: What came of the files.
        shows_notes: Whether the output itself lists the files that are left out.
    """
    from gpuprof.readers.job_notes import left_out  # noqa: PLC0415 - start-up time

    if outcome.is_complete:
        return 0
    failures = [(fault.path, fault.reason) for fault in outcome.faults if not fault.is_empty]
    for note in [] if shows_notes else left_out(failures):
        click.echo(f"Note: {note}", err=True)
    count = counted(outcome.file_count, "file", "files")
    click.echo(f"Partial result: {len(failures):,} of {count} could not be read.", err=True)
    return PARTIAL


def _with_absent(report: "Report", usual: Sequence[str]) -> "Report":
    """The report with tables that only one recording has as n/a, and a note on them."""
    absent = [name for name in usual if name not in report.tables]
    if not absent:
        return report
    note = (
        f"{listed(absent)} {'are' if len(absent) > 1 else 'is'} n/a for files that are read one by"
        " one; for one of them, use --rank N."
    )
    tables = {**report.tables, **dict.fromkeys(absent)}
    return replace(report, tables=tables, notes=(*report.notes, note))


def _formats(facts: "pa.Table") -> dict[str, str]:
    """Name of a format -> the name of a file of it."""
    rows = facts.select(["reader", "source"]).to_pylist()
    return {row["reader"]: Path(row["source"]).name for row in rows}
