"""One recording's result tables, with their provenance and what is unknown.

(Not ``report.py``: a module of that name would hide the function `gpuprof.report`.)
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses import ANALYSES, analysis_named
from gpuprof.base.units import (
    capital,
    counted,
    format_bytes,
    format_rate,
    listed,
    say_ns,
    say_share,
)
from gpuprof.facts.hosts import NO_NAMES, DeviceNames, names_of
from gpuprof.model import schema
from gpuprof.model.analysis import FILE_PLACE, Analysis, PerFile, Reads, per_file, reads
from gpuprof.model.profile import Origin, Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema
from gpuprof.readers import READERS, Recording, read_profile, reader_named
from gpuprof.readers.job_notes import notes_of_files

FORMAT_VERSION: Final = 1
# The analyses that people see first.
OVERVIEW: Final = (
    "bottom_line", "findings", "breakdown", "totals", "peer_matrix", "top_activities",
    "placement_hints", "tensor_transfers_per_step", "placement_edges", "tensor_transfers",
    "marked_epochs",
)  # fmt: skip
# Recordings of CUDA never have these; notes omit them unless they are requested by name.
_OF_FEW: Final = {"tensor_copies", "operations", "epochs"}
_WORDS: Final = {"gpu_activities": "GPU activities", "api_calls": "API calls"}
# Analyses that combine the times of the host and of the devices.
_OF_THE_HOST: Final = ("utilisation", "gaps", "launch_latency", "pauses", "findings")
# Analyses that give the share of its time for which a device is busy.
_OF_THE_SPAN: Final = ("findings", "breakdown", "utilisation")
# Analyses of steps that are samples.
_OF_STEPS: Final = ("bottom_line", "findings", "phases", "steps")
# Analyses that compare the collectives of ranks.
OF_COLLECTIVES: Final = frozenset({"bottom_line", "findings", "collective_waits"})
# Analyses that compare the steps of ranks.
OF_RANKS: Final = frozenset({"bottom_line", "findings", "ranks"})
# Columns whose texts name devices by their numbers in the job.
_DEVICE_TEXTS: Final = frozenset({"bottom_line", "finding", "suggestion", "where"})
_HOLDERS: Final = {"profiler": "{} itself", "cuda": "CUDA itself"}
# A smaller share is within the variation from run to run.
_MUCH: Final = 0.01
# Tables of larger recordings are computed on two threads; of others, the threads would wait for
# each other.
# Of more, to decode the columns of launches takes longer than a start of the program.
_FEW_ROWS: Final = 100_000
_LARGE: Final = 1_000_000
# The first table asks for it.
_FINDINGS: Final = "findings"
_NOTES: Final = Schema(
    "notes",
    "one note on one file",
    {
        FILE_PLACE: Column(INT, "", "The place of the file among those of the job.", required=True),
        "text": Column(TEXT, "", "The note.", required=True),
    },
)
_EXCERPT: Final = (
    "Implied totals follow from the shares that the tool printed; figures that rows outside the"
    " excerpt may change are n/a."
)


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


def report(recording: Recording, names: Sequence[str] | None = None) -> Report:
    """Run every analysis that the recording can answer.

    Args:
        recording: What was read, or a path, as `gpuprof.readers.read_profile` takes it.
        names: Analyses to run, as `gpuprof report --list` names them; None for all.

    Returns:
        Their tables and notes.

    Raises:
        GpuprofError: The recording cannot be read, or there is no such analysis.
        TypeError: The recording is neither a path nor a profile, or a name is not a string.
    """
    chosen = [*map(analysis_named, ANALYSES if names is None else _checked_names(names))]
    profile = read_profile(recording)
    missing = {analysis.name: analysis.missing(profile) for analysis in chosen}
    runnable = [analysis for analysis in chosen if not missing[analysis.name]]
    is_job = profile.job is not None
    of_recording = [a for a in runnable if not is_job or a.of_files is None]
    left_out = _not_sought(profile, of_recording)
    further = [] if left_out else [analysis.reads_of_small for analysis in of_recording]
    profile.expect(reads(*(analysis.reads for analysis in of_recording), *further))
    if profile.job is not None:
        profile.job.prepare(functions_of(runnable), profile, partial(reads_of, analyses=runnable))
    elif profile.unrestricted.events >= _LARGE:
        later = [analysis.run for analysis in runnable[1:] if analysis.name != _FINDINGS]
        profile.compute_ahead(later[::-1])
    try:
        tables = {a.name: profile.once(a.run) if a in runnable else None for a in chosen}
    finally:
        profile.end_second_thread()
    notes = [
        *notes_of(profile, [analysis.name for analysis in runnable]),
        *([left_out] if left_out else []),
        *missing_notes(profile, missing, cannot(profile)),
    ]
    called = names_of(profile)
    if profile.job is None:
        _check_unread(profile)
        notes = [*map(called.in_text, notes)]
    else:
        notes += _accuracies(runnable)
    # Sentences of a job name ranks, and devices as each file does.
    named = _named_devices({a.name: tables[a.name] for a in of_recording}, called)
    return Report(profile.origin, {**tables, **named}, tuple(dict.fromkeys(notes)), called)


def functions_of(analyses: Sequence[Analysis]) -> list[PerFile]:
    """What these analyses take of each file of a job, each once, and what must be known of it."""
    functions = (function for analysis in analyses for function in analysis.of_files or ())
    return [*dict.fromkeys(functions), _file_notes(tuple(analysis.name for analysis in analyses))]


def reads_of(profile: Profile, analyses: Sequence[Analysis]) -> Reads:
    """What `functions_of` these analyses ask for of one file of a job."""
    answered = [a for a in analyses if a.of_files is not None and not a.missing(profile)]
    return reads(*(analysis.reads for analysis in answered))


def _accuracies(analyses: Sequence[Analysis]) -> list[str]:
    """What of the tables of a job is estimated."""
    alike: dict[str, list[str]] = {}
    for analysis in analyses:
        if analysis.accuracy:
            alike.setdefault(analysis.accuracy, []).append(analysis.name)
    return [f"{listed(names)}: {accuracy}" for accuracy, names in alike.items()]


def _named_devices(
    tables: Mapping[str, pa.Table | None], names: DeviceNames
) -> Mapping[str, pa.Table | None]:
    """Tables whose sentences say what devices are called in their own files."""
    if not names.own:
        return tables
    return {name: None if table is None else _named(table, names) for name, table in tables.items()}


def _named(table: pa.Table, names: DeviceNames) -> pa.Table:
    for place, name in enumerate(table.column_names):
        if name in _DEVICE_TEXTS:
            texts = [None if t is None else names.in_text(t) for t in table[name].to_pylist()]
            table = table.set_column(place, table.field(place), pa.array(texts, pa.string()))
    return table


def _check_unread(profile: Profile) -> None:
    """See that launches, which no analysis reads, are possible, where that takes no time.

    Raises:
        CorruptFileError: One is not.
    """
    name, columns = schema.KERNELS.name, schema.LAUNCH_COLUMNS
    if profile.has(name) and 0 < profile.rows_known(name) <= _FEW_ROWS:
        # Each piece is checked when it is made.
        for _ in profile.stored_columns(name, *columns) or ():
            pass


def notes_of(profile: Profile, names: Collection[str]) -> list[str]:
    """What a reader must know to trust the tables of these names, one sentence each."""
    if profile.job is None:
        return [
            *recording_notes(profile),
            *_notes_of_figures(profile, names),
            *_rank_notes(profile, names),
        ]
    table = profile.once(_file_notes(tuple(names)))
    places, texts = table[FILE_PLACE].to_pylist(), table["text"].to_pylist()
    sources = [profile.parts[place].profile.origin.source.name for place in places]
    return [
        *_warnings(profile),
        *_excerpt_notes(profile),
        *_rank_notes(profile, names),
        *notes_of_files(zip(sources, texts, strict=True), len(profile.parts)),
    ]


@cache
def _file_notes(names: tuple[str, ...]) -> PerFile:
    """What a reader must know of each file of a job to trust the tables of these names."""

    def of_file(profile: Profile) -> pa.Table:
        _check_unread(profile)
        answered = [name for name in names if not analysis_named(name).missing(profile)]
        texts = [*_graph_notes(profile), *_notes_of_figures(profile, answered)]
        return _NOTES.table([{FILE_PLACE: 0, "text": text} for text in texts])

    return per_file(_NOTES)(of_file)


def _notes_of_figures(profile: Profile, names: Collection[str]) -> list[str]:
    """What a reader must know of one recording to trust the tables of these names."""
    return [
        *_clock_notes(profile, names),
        *_span_notes(profile, names),
        *(copy_notes(profile) if any(map(_counts_bytes, names)) else ()),
        *_link_notes(profile, names),
        *_step_notes(profile, names),
    ]


def _checked_names(names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str):
        msg = f'table names must be a list, as in ["{names}"]'
        raise TypeError(msg)
    not_text = next((name for name in names if not isinstance(name, str)), "")
    if not isinstance(not_text, str):
        msg = f"a table name must be text, not {type(not_text).__name__}"
        raise TypeError(msg)
    return names


def _not_sought(profile: Profile, analyses: Sequence[Analysis]) -> str:
    """What findings leave out of a large recording, in a sentence; empty for nothing."""
    if not any(analysis.reads_of_small for analysis in analyses):
        return ""
    from gpuprof.analyses.avoidable import not_sought  # noqa: PLC0415 - start-up time

    return not_sought(profile)


def recording_notes(profile: Profile) -> list[str]:
    """The tool's warnings about its recording, and what is missing from it."""
    return [*_warnings(profile), *_graph_notes(profile), *_excerpt_notes(profile)]


def cannot(profile: Profile) -> str:
    """The limits of a recording's format, in a sentence or two; empty for none.

    Without kernels, graphs are no reason where the recorded calls launched none.
    """
    name = profile.origin.reader
    limits = reader_named(name).cannot if name in READERS else ""
    are_none = profile.has("kernels") or not profile.has("api_calls")
    if "CUDA graphs" not in limits or are_none or profile.job is not None:
        return limits
    from gpuprof.facts.by_number import names_by_number  # noqa: PLC0415 - start-up time

    recording = profile.unrestricted
    is_graph = names_by_number(recording, "api_calls").values(lambda n: "GraphLaunch" in n, 0)
    calls = recording.integers("api_calls", "name_id")
    return limits if any(is_graph.of(number).any() for (number,) in calls) else ""


def _warnings(profile: Profile) -> list[str]:
    """Doubts of the tool and of the reader: they are doubts about every figure."""
    return [_sentence(text, profile.origin.tool) for text in profile.origin.warnings]


def _graph_notes(profile: Profile) -> list[str]:
    """What graphs that were recorded as a whole hide."""
    notes = []
    graphs = profile.table("graph_launches").num_rows if profile.has("graph_launches") else 0
    if graphs:
        launches = (
            "1 launch of a CUDA graph was"
            if graphs == 1
            else f"{graphs:,} launches of CUDA graphs were"
        )
        notes.append(
            f"{launches} recorded as a whole, so totals exclude the kernels and copies in graphs."
            " Record graph nodes to include them."
        )
    return notes


def _sentence(text: str, tool: str) -> str:
    """What a tool says, from a capital letter, unless it is the tool's name, to a full stop."""
    begun = text if text.startswith(tool) else capital(text)
    return begun if begun.rstrip('"').endswith((".", "!", "?")) else f"{begun}."


def _excerpt_notes(profile: Profile) -> list[str]:
    if not profile.has("activity_summary"):
        return []
    from gpuprof.analyses.totals import totals  # noqa: PLC0415 - start-up time

    notes = [
        f"Excerpt: rows listed {say_ns(row['listed_ns'])}, implied total"
        f" {say_ns(row['implied_ns'])} of {_WORDS[row['activity_group']]}."
        for row in profile.once(totals).to_pylist()
        if row["implied_ns"] is not None
    ]
    return [*notes, _EXCERPT] if notes else []


def _clock_notes(profile: Profile, tables: Collection[str]) -> list[str]:
    """How the times of the host were set right, or why its activity is n/a."""
    recording = profile.unrestricted
    names = [name for name in _OF_THE_HOST if name in tables]
    if not names or not recording.has("api_calls"):
        return []
    from gpuprof.facts.host_clock import (  # noqa: PLC0415 - start-up time
        host_clock,
        unknown_clock_note,
    )

    if unknown := unknown_clock_note(recording):
        na = f"Host activity is n/a in {', '.join(names)}; all other figures are valid."
        return [f"{unknown} {na}"]
    return [note] if (note := host_clock(recording).note()) else []


def _span_notes(profile: Profile, tables: Collection[str]) -> Iterator[str]:
    """The overhead of the profiler, and the devices whose idle time is meaningless."""
    if not any(name in tables for name in _OF_THE_SPAN):
        return
    from gpuprof.analyses.overheads import overheads  # noqa: PLC0415
    from gpuprof.facts.timeline import far_ends  # noqa: PLC0415 - start-up time

    for overhead in overheads(profile):
        held_ns, span_ns = overhead.held_ns, overhead.span_ns
        if held_ns >= _MUCH * span_ns > 0:
            yield (
                f"{_HOLDERS[overhead.source].format(profile.origin.tool)} delayed a thread of the"
                f" program by {say_ns(held_ns)}, {say_share(held_ns / span_ns)} of the time from"
                " the first activity of a device to the last (mostly"
                f" {overhead.most or 'unnamed'})."
            )
    for device in far_ends(profile):
        # It was not recorded itself.
        yield (
            f"Device {device} ran nothing in this recording; other devices copied from or to it."
            " Its other activity, for example for another process, is unknown."
        )


def _counts_bytes(name: str) -> bool:
    return "bytes" in analysis_named(name).reads.get("memcpys", ())


def copy_notes(profile: Profile) -> Iterator[str]:
    """The copies that no memory is fast enough for, in a sentence."""
    from gpuprof.facts.copies import too_fast  # noqa: PLC0415 - start-up time
    from gpuprof.facts.copy_rows import copy_rows  # noqa: PLC0415

    rows = too_fast(profile)
    if rows.size:
        copies, first = copy_rows(profile.unrestricted), rows[0]
        more = f"; {counted(rows.size - 1, 'more is', 'more are')} like it" if rows.size > 1 else ""
        yield (
            f"Copy {first + 1:,} of the recording moves {format_bytes(int(copies.bytes[first]))} in"
            f" {say_ns(int(copies.duration_ns[first]))}, faster than any memory{more}: its size or"
            " its times are wrong, and totals and throughputs include them."
        )


def _link_notes(profile: Profile, tables: Collection[str]) -> list[str]:
    """The copies that are too fast for the link that the recording names."""
    if "peer_matrix" not in tables:
        return []
    from gpuprof.analyses.peer_matrix import (  # noqa: PLC0415 - start-up time
        faster_than_links,
    )

    return [
        f"Copies from {row['src']} to {row['dst']} reached {format_rate(row['bytes_per_s'])}, more"
        f" than the peak of {row['link']} ({format_rate(row['peak_bytes_per_s'])}): they took"
        " another link, or a figure of this recording is wrong. Their share of the peak is n/a."
        for row in faster_than_links(profile)
    ]


def _step_notes(profile: Profile, tables: Collection[str]) -> list[str]:
    """What figures per step leave out, and how reliable they are."""
    if not any(name in tables for name in _OF_STEPS) or not profile.has("kernels"):
        return []
    from gpuprof.facts.step_notes import step_notes  # noqa: PLC0415 - start-up time

    return step_notes(profile)


def _rank_notes(profile: Profile, tables: Collection[str]) -> list[str]:
    """That clocks of ranks were set right, and whose recordings end early."""
    if OF_COLLECTIVES.union(OF_RANKS).isdisjoint(tables) or not profile.has("kernels"):
        return []
    from gpuprof.analyses.clock_offsets import clock_notes  # noqa: PLC0415
    from gpuprof.analyses.ranks import early_ends  # noqa: PLC0415 - start-up time

    clocks = [] if OF_COLLECTIVES.isdisjoint(tables) else clock_notes(profile)
    return clocks if OF_RANKS.isdisjoint(tables) else [*clocks, *early_ends(profile)]


def missing_notes(profile: Profile, missing: Mapping[str, str], limits: str) -> list[str]:
    """The analyses that a recording lacks tables for, in one note.

    Args:
        profile: The recording, or a job.
        missing: What it lacks for each analysis; empty for nothing.
        limits: What its format cannot hold, in a sentence.
    """
    kept_quiet = _OF_FEW if missing.keys() >= set(OVERVIEW) else set()
    names = [
        n for n, lack in missing.items() if lack and not kept_quiet & set(analysis_named(n).needs)
    ]
    analyses = map(analysis_named, names)
    needed = dict.fromkeys(table for a in analyses for table in (*a.needs, *a.needs_any_of))
    lacking = [table for table in needed if not profile.has(table)]
    if not names:
        return []
    are = "are" if len(names) > 1 else "is"
    tables = " or ".join(filter(None, (", ".join(lacking[:-1]), *lacking[-1:])))
    note = f"{listed(names)} {are} n/a: the recording has no {tables}. {limits}"
    return [note.rstrip()]
