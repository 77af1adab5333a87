"""Reports on jobs of many files, which worker processes read one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprof.base.errors import InputError, UsageError
from gpuprof.base.units import counted, listed
from gpuprof.ranks.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuprof.analyses.reports import Report
    from gpuprof.model.profile import UnreadFiles
    from gpuprof.ranks.contract import Outcome, Partial

# So few files are read as fast by one process, which keeps all columns and answers all questions.
MOST_JOINED: Final = 16
_MOST_JOINED_BYTES: Final = 2 * 10**9
_NO_WORKERS: Final = "Leave out --workers, --memory-limit, --scheduler and --resume."
_STDIN_LIST: Final = "@-"
_OPTION_OF: Final = {
    "from_ns": "--from",
    "to_ns": "--to",
    "range_text": "--range",
    "occurrence": "--occurrence",
    "device_id": "--device",
}


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

    def tables(
        self, needed: Sequence[str], usual: Sequence[str] = (), apart: str = ""
    ) -> tuple[str, ...]:
        """The tables that workers make; none where one process reads all files.

        Args:
            needed: Those that the user names, and those of charts.
            usual: Those that are shown where they are known.
            apart: What is asked for and needs all files in one process; empty for nothing.

        Raises:
            UsageError: The user wants workers for what one process must do.
        """
        if self.settings.are_usual:
            if apart or not self._is_large(is_of_tables=not usual):
                return ()
        elif apart:
            msg = f"{apart} needs all files in one process"
            raise UsageError(msg, _NO_WORKERS)
        from gpuprof.ranks.partial import analyses_of, is_mergeable  # noqa: PLC0415 - few need it

        if self.settings.are_usual and not all(map(is_mergeable, needed)):
            return ()
        analyses_of(needed)
        return tuple(dict.fromkeys((*needed, *filter(is_mergeable, usual))))

    def _is_large(self, *, is_of_tables: bool) -> bool:
        if len(self.files) <= MOST_JOINED:
            return False
        # One process reads a few columns of all files with less effort than the worker of each, but
        # keeps the names of all ranks of a data set.
        if not is_of_tables or _size_bytes(self.files) > _MOST_JOINED_BYTES:
            return True
        from gpuprof.readers.gpuprof.data_set import is_recording  # noqa: PLC0415 - start-up time

        return is_recording(self.files[0])


def apart_of(options: Mapping[str, object]) -> str:
    """What a user asks for that needs all files of a job in one process; empty for nothing."""
    names = (name for name, value in options.items() if value not in (None, ()))
    name = next(names, "")
    return _OPTION_OF.get(name, name)


def job_of(paths: Sequence[str], settings: Settings, rank: int | None = None) -> Job:
    """The job that paths name; of one file, which nothing needs to be known of, just that.

    Args:
        paths: What the user names.
        settings: Who reads the files.
        rank: The one rank that is meant; None for all.

    Raises:
        InputError: They name no files, or none of this rank.
    """
    if rank is not None:
        from gpuprof.ranks.files import file_of_rank  # noqa: PLC0415 - few ask for one

        paths = [str(file_of_rank(paths, rank))]
    if settings.are_usual and len(paths) == 1 and Path(paths[0]).is_file():
        return Job(paths, [Path(paths[0])], settings)
    from gpuprof.readers import recording_files  # noqa: PLC0415 - start-up time

    return Job(paths, recording_files(paths, are_fetched=False), settings)


@dataclass(frozen=True)
class JobResult:
    """What workers made of a job.

    Args:
        outcome: What came of the files.
        partial: The merge of all files that could be read.
        place: What people call the job.
    """

    outcome: "Outcome"
    partial: "Partial"
    place: Path

    @property
    def unread(self) -> "UnreadFiles":
        """The files that could not be read."""
        from gpuprof.model.profile import UnreadFiles  # noqa: PLC0415 - start-up time

        faults = (fault for fault in self.outcome.faults if not fault.is_empty)
        failures = tuple((fault.path, fault.reason) for fault in faults)
        return UnreadFiles(failures, self.outcome.file_count)

    def report(self, needed: Sequence[str], usual: Sequence[str] = ()) -> "Report":
        """A report.

        Args:
            needed: Its tables.
            usual: Further ones; those that workers do not make are n/a, and a note says so.
        """
        from gpuprof.analyses.reports import report  # noqa: PLC0415 - start-up time
        from gpuprof.ranks.partial import FILES, is_mergeable, job_profile  # noqa: PLC0415
        from gpuprof.readers.job_notes import left_out  # noqa: PLC0415

        names = dict.fromkeys((*needed, *filter(is_mergeable, usual)))
        notes = left_out((fault.path, fault.reason) for fault in self.outcome.faults)
        of_job = report(job_profile(self.partial, self.place, notes), [*names])
        return _with_absent(of_job, usual, self.partial[FILES])


def job_result(
    job: Job,
    names: Sequence[str],
    options: tuple[int | None, str | None],
    *,
    shows_notes: bool = False,
) -> JobResult:
    """Have workers read a job; the command's exit status tells whether all files could be read.

    Args:
        job: The job.
        names: The tables that are asked for.
        options: How many steps to skip, and the name of the format; None where it is to be found.
        shows_notes: Whether the output itself lists files that could not be read.

    Raises:
        InputError: None of the files can be read.
        UnknownFormatError: They are of several formats.
    """
    from gpuprof.cli.partial import note_unread  # noqa: PLC0415 - start-up time
    from gpuprof.cli.progress import JobProgress, shown  # noqa: PLC0415
    from gpuprof.ranks.engine import run  # noqa: PLC0415
    from gpuprof.ranks.files import job_files, job_place  # noqa: PLC0415
    from gpuprof.ranks.partial import FILES, ReportWork  # noqa: PLC0415
    from gpuprof.readers import check_one_format  # noqa: PLC0415

    work = ReportWork(tuple(names), *options, file_count=len(job.files))
    place = job_place(job.paths, job.files)
    with shown(JobProgress()) as progress:
        outcome = run(work, job_files(job.files), job.settings, progress.say)
    if outcome.partial is None:
        msg = f"none of {counted(len(job.files), 'file', 'files')} can be read"
        raise InputError(msg, outcome.faults[0].reason)
    rows = outcome.partial[FILES].select(["reader", "source"]).to_pylist()
    check_one_format(place, {row["reader"]: Path(row["source"]).name for row in rows})
    result = JobResult(outcome, outcome.partial, place)
    note_unread([result], shows_notes=shows_notes)
    return result


def _with_absent(report: "Report", usual: Sequence[str], facts: "pa.Table") -> "Report":
    """The report with tables that are made of one recording as n/a, and a note on them."""
    from gpuprof.analyses import analysis_named  # noqa: PLC0415 - start-up time

    absent = [name for name in usual if name not in report.tables]
    recorded = {name for of_file in facts["recorded"].to_pylist() for name in of_file}
    missed = [name for name in absent if {*analysis_named(name).needs} <= recorded]
    notes = report.notes
    if missed:
        are = "are" if len(missed) > 1 else "is"
        note = f"{listed(missed)} {are} n/a for a job that workers read; use --rank N for one rank."
        notes = (*notes, note)
    return replace(report, tables={**report.tables, **dict.fromkeys(absent)}, notes=notes)


def _size_bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())
