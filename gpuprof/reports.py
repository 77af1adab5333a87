"""One recording's result tables, with where it came from and what it cannot tell.

(Not ``report.py``: a module of that name would hide the function `gpuprof.report`.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from gpuprof.analyses import ANALYSES, analysis_named
from gpuprof.analyses.contract import Analysis, reads
from gpuprof.profile import Origin, Profile
from gpuprof.readers import READERS, Recording, read_profile, reader_named
from gpuprof.units import say_ns, say_rate, say_share

FORMAT_VERSION: Final = 1
# The analyses that people see first.
OVERVIEW: Final = (
    "bottom_line", "findings", "breakdown", "totals", "peer_matrix", "top_activities",
    "placement_hints", "tensor_transfers_per_step", "placement_edges", "tensor_transfers",
    "marked_epochs",
)  # fmt: skip
# That no recording of CUDA knows these needs no word, unless they are asked for by name.
_OF_FEW: Final = {"tensor_copies", "operations", "epochs"}
_WORDS: Final = {"gpu_activities": "GPU activities", "api_calls": "API calls"}
# Analyses that set the host's times beside those of the devices.
_OF_THE_HOST: Final = ("utilisation", "gaps", "launch_latency")
# Analyses that say what part of its time a device works.
_OF_THE_SPAN: Final = ("findings", "breakdown", "utilisation")
# Analyses of steps that are samples.
_OF_STEPS: Final = ("bottom_line", "findings", "phases", "steps")
_HOLDERS: Final = {"profiler": "{} itself", "cuda": "CUDA itself"}
# Below that it is lost in what differs from run to run.
_MUCH: Final = 0.01
_EXCERPT: Final = (
    "Implied totals follow from the shares that the tool printed; what rows that were left out"
    " may hold is n/a."
)


@dataclass(frozen=True)
class Report:
    """What the analyses say about one recording.

    Args:
        origin: Where the recording came from.
        tables: Analysis name to its table, columns as in the analysis' schema; None where the
            recording cannot tell, with the reason in the notes.
        notes: What a reader must know to trust the tables, one sentence each: what the tool
            said about the recording, what is missing from it, what cannot be known and why.
    """

    origin: Origin
    tables: Mapping[str, pa.Table | None]
    notes: tuple[str, ...]


def report(recording: Recording, names: Sequence[str] | None = None) -> Report:
    """Run every analysis that the recording can answer.

    Args:
        recording: What was read, or a path, as `gpuprof.readers.read_profile` takes it.
        names: Analyses to run, as `gpuprof report --list` names them; None for all.

    Returns:
        Their tables and notes.

    Raises:
        GpuprofError: The recording cannot be read, or there is no analysis of such a name.
        TypeError: The recording is neither a path nor a profile, or a name is no text.
    """
    chosen = [*map(analysis_named, ANALYSES if names is None else _checked_names(names))]
    profile = read_profile(recording)
    missing = {analysis.name: analysis.missing(profile) for analysis in chosen}
    asked = [analysis for analysis in chosen if not missing[analysis.name]]
    left_out = _not_sought(profile, asked)
    further = [] if left_out else [analysis.reads_of_small for analysis in asked]
    profile.expect(reads(*(analysis.reads for analysis in asked), *further))
    tables = {a.name: profile.once(a.run) if a in asked else None for a in chosen}
    notes = (
        *recording_notes(profile),
        *_clock_notes(profile, tables),
        *_span_notes(profile, tables),
        *_link_notes(profile, tables),
        *_step_notes(profile, tables),
        *([left_out] if left_out else []),
        *_missing_notes(profile, missing),
    )
    return Report(profile.origin, tables, notes)


def _checked_names(names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str):
        msg = f'table names are given in a list, as in ["{names}"]'
        raise TypeError(msg)
    other = next((name for name in names if not isinstance(name, str)), "")
    if not isinstance(other, str):
        msg = f"a table name is text, not {type(other).__name__}"
        raise TypeError(msg)
    return names


def _not_sought(profile: Profile, asked: Sequence[Analysis]) -> str:
    """What findings leave out of a large recording, in a sentence; empty for nothing."""
    if not any(analysis.reads_of_small for analysis in asked):
        return ""
    from gpuprof.analyses.placement.avoidable import not_sought  # noqa: PLC0415 - start-up time

    return not_sought(profile)


def recording_notes(profile: Profile) -> list[str]:
    """What the tool said about its recording, and what is missing from it."""
    return [*_origin_notes(profile), *_excerpt_notes(profile)]


def cannot(profile: Profile) -> str:
    """What a recording of this format cannot tell, in a sentence; empty for nothing."""
    name = profile.origin.reader
    reader = reader_named(name) if name in READERS else None
    if reader is None or not reader.cannot:
        return ""
    phrase = reader.cannot[0].lower() + reader.cannot[1:].rstrip(".")
    return f"What {reader.name} cannot tell: {phrase}."


def _origin_notes(profile: Profile) -> list[str]:
    """Doubts of the tool and of the reader first: they are doubts about every figure."""
    origin = profile.origin
    notes = [
        text if text.startswith(origin.tool) else text[:1].upper() + text[1:]
        for text in origin.warnings
    ]
    graphs = profile.table("graph_launches").num_rows if profile.has("graph_launches") else 0
    if graphs:
        what = (
            "1 launch of a CUDA graph was"
            if graphs == 1
            else f"{graphs:,} launches of CUDA graphs were"
        )
        notes.append(
            f"{what} recorded as a whole: kernels and copies of graphs are in no total. Record"
            " graph nodes to see them."
        )
    return notes


def _excerpt_notes(profile: Profile) -> list[str]:
    if not profile.has("activity_summary"):
        return []
    from gpuprof.analyses.totals.totals import totals  # noqa: PLC0415 - start-up time

    notes = [
        f"Excerpt: rows listed {say_ns(row['listed_ns'])}, implied total"
        f" {say_ns(row['implied_ns'])} of {_WORDS[row['activity_group']]}."
        for row in profile.once(totals).to_pylist()
        if row["implied_ns"] is not None
    ]
    return [*notes, _EXCERPT] if notes else []


def _clock_notes(profile: Profile, tables: Mapping[str, pa.Table | None]) -> list[str]:
    """Why what the host did is n/a although its calls were recorded."""
    whole = profile.whole
    asked = [name for name in _OF_THE_HOST if tables.get(name) is not None]
    if not asked or not whole.has("api_calls"):
        return []
    from gpuprof.analyses.facts.host_activity import (  # noqa: PLC0415 - start-up time
        clocks_agree,
        early_starts,
    )

    if clocks_agree(whole):
        return []
    calls, early, ns = early_starts(whole)
    note = (
        f"{early:,} of {calls:,} kernels and copies start before the call that launched them, the"
        f" median one by {say_ns(ns)}: the clocks of GPU and host disagree in this recording. What"
        f" the host did meanwhile is n/a ({', '.join(asked)}); all else holds."
    )
    return [note]


def _span_notes(profile: Profile, tables: Mapping[str, pa.Table | None]) -> Iterator[str]:
    """Whether being watched took the program's time, and which devices' idle time says nothing."""
    if not any(tables.get(name) is not None for name in _OF_THE_SPAN):
        return
    from gpuprof.analyses.facts.timeline import far_ends  # noqa: PLC0415 - start-up time
    from gpuprof.analyses.time.overheads import overheads  # noqa: PLC0415

    for overhead in overheads(profile):
        held_ns, span_ns = overhead.held_ns, overhead.span_ns
        if held_ns >= _MUCH * span_ns > 0:
            yield (
                f"{_HOLDERS[overhead.source].format(profile.origin.tool)} held up a thread of the"
                f" program for {say_ns(held_ns)}, {say_share(held_ns / span_ns)} of the time from"
                " the first activity of a device to the last (most of it:"
                f" {overhead.most or 'unnamed'})."
            )
    for device in far_ends(profile):
        # It was not recorded itself.
        yield (
            f"Device {device} ran nothing itself in this recording, others copied from or to it:"
            " what else it did, as for another process, is not known."
        )


def _link_notes(profile: Profile, tables: Mapping[str, pa.Table | None]) -> list[str]:
    """Which copies cannot have taken the link that the recording names."""
    if tables.get("peer_matrix") is None:
        return []
    from gpuprof.analyses.transfers.peer_matrix import (  # noqa: PLC0415 - start-up time
        faster_than_links,
    )

    return [
        f"Copies from {row['src']} to {row['dst']} reached {say_rate(row['bytes_per_s'])}, more"
        f" than {row['link']} can ({say_rate(row['peak_bytes_per_s'])}): they took another link,"
        " or a figure of this recording is wrong. Their share of the peak is n/a."
        for row in faster_than_links(profile)
    ]


def _step_notes(profile: Profile, tables: Mapping[str, pa.Table | None]) -> list[str]:
    """What figures per step leave out, and how far they can be trusted."""
    if not any(tables.get(name) is not None for name in _OF_STEPS):
        return []
    from gpuprof.analyses.facts.step_notes import step_notes  # noqa: PLC0415 - start-up time

    return step_notes(profile)


def _missing_notes(profile: Profile, missing: Mapping[str, str]) -> list[str]:
    """What cannot be known from this recording, and why, in one note."""
    kept_quiet = _OF_FEW if missing.keys() >= set(OVERVIEW) else set()
    names = [
        n for n, lack in missing.items() if lack and not kept_quiet & set(analysis_named(n).needs)
    ]
    analyses = map(analysis_named, names)
    tables = dict.fromkeys(table for a in analyses for table in (*a.needs, *a.needs_any_of))
    lacking = [table for table in tables if not profile.has(table)]
    if not names:
        return []
    needs = "they need" if len(names) > 1 else "it needs"
    note = f"n/a: {', '.join(names)}: {needs} {' and '.join(lacking)}. {cannot(profile)}"
    return [note.rstrip()]
