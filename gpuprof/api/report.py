"""`gpuprof.report`: what one recording says."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof.analyses import all_analyses, analysis_named, notes, reports
from gpuprof.api.arguments import Recording, Time, part, read
from gpuprof.api.result import Result, Tables
from gpuprof.base.errors import UsageError
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, to_frame
from gpuprof.show import RECORDING
from gpuprof.show.charts.catalogue import chart_about, drawn, of_recording
from gpuprof.show.notebook import Summary, bottom_line, report_summary
from gpuprof.show.page.recording_page import recording_page

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FINDINGS: Final = "findings"


class ReportResult(Result):
    """Where the time of one recording went.

    Args:
        profile: The recording, or the part of it that was asked for.
        requested: Names of tables to show in place of the overview; None for the overview.
    """

    def __init__(self, profile: Profile, requested: Sequence[str] | None = None) -> None:
        names = notes.OVERVIEW if requested is None else requested
        self._report = reports.report(profile, names)
        self._requested = None if requested is None else tuple(requested)
        self._profile = profile

    @property
    def profile(self) -> Profile:
        """The recording: ``profile.tables`` has what was recorded, ``profile.query`` takes SQL."""
        return self._profile

    @property
    def origin(self) -> Origin:
        """Where the recording came from."""
        return self._profile.origin

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to trust the figures, one sentence each."""
        return self._report.notes

    @cached_property
    def tables(self) -> Tables:
        """Every table that the recording can give, by the names of `gpuprof report --list`."""
        names = [a.name for a in all_analyses() if not a.missing(self._profile)]
        return Tables(names, self._computed, self._why_absent)

    @property
    def bottom_line(self) -> str:
        """What a step spends its time on, and what moving data costs at most; empty if unknown."""
        return bottom_line(self.tables.arrow("bottom_line")) if "bottom_line" in self.tables else ""

    @property
    def findings(self) -> "pd.DataFrame":
        """The findings, the costliest first; no rows where there are none or none can be made."""
        if _FINDINGS in self.tables:
            return self.tables[_FINDINGS]
        return to_frame(analysis_named(_FINDINGS).schema.empty())

    def query(self, sql: str) -> "pd.DataFrame":
        """The answer to a SELECT as `gpuprof query` takes it, in ns and bytes; unknown is NA.

        Raises:
            QueryError: It is no single SELECT, names what there is not, or fails.
            MissingTableError: It names a table that was not recorded.
            GpuprofError: The recording is damaged, or the memory too small.
        """
        from gpuprof.sql import query_table  # noqa: PLC0415 - most reports ask no query

        return to_frame(query_table(self._profile, sql))

    def plot(self, name: str = "timeline") -> "Figure":
        """A chart of the recording, as `gpuprof plot --list` names it.

        Raises:
            UsageError: There is no such chart of a recording.
            GpuprofError: The recording lacks what the chart shows.
        """
        chart = chart_about(name, RECORDING)
        return drawn(chart, of_recording(self._profile, chart))

    def _computed(self, name: str) -> pa.Table:
        ready = self._report.tables.get(name)
        return reports.report(self._profile, [name]).tables[name] if ready is None else ready

    def _why_absent(self, name: str) -> tuple[str, str | None]:
        try:
            lacking = analysis_named(name).missing(self._profile)
        except UsageError as error:
            return error.message, error.hint
        reason = f"{name} is n/a: the recording has no {lacking}"
        return reason, notes.cannot(self._profile) or None

    def _page(self) -> str:
        return recording_page(self._profile, self._requested or ())

    def _inputs(self) -> tuple[str, ...]:
        return (str(self.origin.source),)

    def _summary(self) -> Summary:
        return report_summary(self._report, [*self.tables], self._requested)


def report(  # noqa: PLR0913 - the options of the command
    recording: Recording,
    tables: Sequence[str] | None = None,
    *,
    reader: str | None = None,
    section: str | int | None = None,
    from_: Time | None = None,
    to: Time | None = None,
    range: str | None = None,  # noqa: A002 - the command's word
    occurrence: int | None = None,
    device: int | None = None,
    skip_steps: int | None = None,
) -> ReportResult:
    """Say where the time of one recording went, as `gpuprof report` does.

    Args:
        recording: A path, several paths that are one recording with its ranks, or what
            `gpuprof.read_profile`, `gpuprof.report` or `gpuprof.record` returned.
        tables: Names of tables to show in place of the overview; None for the overview. The
            others can be asked for by name all the same.
        reader: Format of the input, if it is not recognised.
        section: Recording to read from a file that holds several: its number, its process, a
            part of its name, or ``all``.
        from_: Start of the part to look at, since the origin of the recording: text with a unit,
            as ``"1.5s"``, or integer nanoseconds.
        to: End of the part, exclusive.
        range: Only the time in which the work of these NVTX ranges or operations runs.
        occurrence: Only one of these ranges; 0 is the first.
        device: Only this device.
        skip_steps: Leave out so many steps at the start of each phase; None for the warm-up.

    Raises:
        GpuprofError: The recording cannot be read, or the arguments do not fit together.
        TypeError: An argument is of another type.
    """
    requested = part(from_, to, range, occurrence, device)
    profile = read(recording, requested, reader=reader, section=section, skip_steps=skip_steps)
    return ReportResult(profile, tables)
