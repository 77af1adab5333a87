"""What a reader must know to trust the tables of a recording, one sentence each."""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final

import pyarrow as pa

from gpuprof.analyses import analysis_named
from gpuprof.base.units import capital, listed, say_ns
from gpuprof.model.analysis import FILE_PLACE, PerFile, per_file
from gpuprof.model.data_model import GRAPH_LAUNCHES
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Id, Schema, Text
from gpuprof.readers import READERS, reader_named
from gpuprof.readers.job_notes import notes_of_files

# The analyses that people see first.
OVERVIEW: Final = (
    "bottom_line", "findings", "breakdown", "totals", "peer_matrix", "top_activities",
    "placement_hints", "tensor_transfers_per_step", "placement_edges", "tensor_transfers",
    "marked_epochs",
)  # fmt: skip
# Few recordings of CUDA have these; notes omit them unless they are requested by name.
_OF_FEW: Final = {"tensor_copies", "operations", "epochs", "gpu_metrics", "memory_events"}
# What to do for tables that recorders leave out unless they are asked for.
_RECORDED_BY: Final = {
    "gpu_metrics": (
        "Record with `nsys profile --gpu-metrics-devices=all`; read reports with --via nsys."
    ),
    "memory_events": (
        "Record with `nsys profile --cuda-memory-usage=true`, read reports with --via nsys; or with"
        " PyTorch's profile_memory=True."
    ),
}
_WORDS: Final = {"gpu_activities": "GPU activities", "api_calls": "API calls"}
# Analyses that compare the collectives of ranks.
OF_COLLECTIVES: Final = frozenset({"bottom_line", "findings", "collective_waits"})
# Analyses that compare the steps of ranks.
OF_RANKS: Final = frozenset({"bottom_line", "findings", "ranks"})
# Analyses that combine the times of the host and of the devices.
OF_THE_HOST: Final = ("utilisation", "gaps", "launch_latency", "pauses", "findings")
# Analyses that give the share of its time for which a device is busy.
OF_THE_SPAN: Final = ("findings", "breakdown", "utilisation")
# Analyses of steps that are samples.
OF_STEPS: Final = ("bottom_line", "findings", "phases", "steps")
# The analysis that compares copies with the peaks of their links.
OF_LINKS: Final = "peer_matrix"
_OF_TIMES: Final = frozenset((*OF_THE_HOST, *OF_THE_SPAN, *OF_STEPS, OF_LINKS))
_EXCERPT: Final = (
    "Implied totals follow from the shares that the tool printed; figures that rows outside the"
    " excerpt may change are n/a."
)
_NOTES: Final = Schema(
    "notes",
    "one note on one file",
    {
        FILE_PLACE: Id("The place of the file among those of the job.", required=True),
        "text": Text("The note.", required=True),
    },
)
# What notes about activities need.
_TRACES: Final = ("kernels", "memcpys", "memsets", "api_calls", "graph_launches")


def notes_of(profile: Profile, names: Collection[str]) -> list[str]:
    """What a reader must know to trust the tables of these names, one sentence each."""
    if profile.job is None:
        notes = [*recording_notes(profile), *_of_traces(profile, names)]
    else:
        table = profile.once(file_notes(tuple(names)))
        places, texts = table[FILE_PLACE].to_pylist(), table["text"].to_pylist()
        files = [profile.parts[place].profile.origin.source.name for place in places]
        notes = [
            *_warnings(profile),
            *_excerpt_notes(profile),
            *notes_of_files(zip(files, texts, strict=True), len(profile.parts)),
        ]
    if OF_COLLECTIVES.union(OF_RANKS).isdisjoint(names) or not profile.has("kernels"):
        return notes
    from gpuprof.analyses.trace_notes import rank_notes  # noqa: PLC0415 - start-up time

    return [*notes, *rank_notes(profile, names)]


@cache
def file_notes(names: tuple[str, ...]) -> PerFile:
    """What a reader must know of each file of a job to trust the tables of these names."""

    def of_file(profile: Profile) -> pa.Table:
        answered = [name for name in names if not analysis_named(name).missing(profile)]
        texts = [*_graph_notes(profile), *_of_traces(profile, answered)]
        return _NOTES.table([{FILE_PLACE: 0, "text": text} for text in texts])

    return per_file(_NOTES)(of_file)


def _of_traces(profile: Profile, names: Collection[str]) -> Iterable[str]:
    is_of_copies = (bool(analysis_named(n).reads.get("memcpys", ())) for n in names)
    is_trace = any(map(profile.unrestricted.has, _TRACES))
    if not is_trace or (_OF_TIMES.isdisjoint(names) and not any(is_of_copies)):
        return ()
    from gpuprof.analyses.trace_notes import trace_notes  # noqa: PLC0415 - start-up time

    return trace_notes(profile, names)


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
    recording = profile.unrestricted
    is_graph = recording.loaded("api_calls").names.values(lambda n: "GraphLaunch" in n, 0)
    calls = recording.columns("api_calls", "name_id")
    return limits if any(is_graph.of(number).any() for (number,) in calls) else ""


def _warnings(profile: Profile) -> list[str]:
    """Doubts of the tool and of the reader: they are doubts about every figure."""
    origin, notes = profile.origin, []
    for text in origin.warnings:
        # From a capital letter, unless it begins with the tool's name, to a full stop.
        begun = text if text.startswith(origin.tool) else capital(text)
        notes.append(begun if begun.rstrip('"').endswith((".", "!", "?")) else f"{begun}.")
    return notes


def _graph_notes(profile: Profile) -> list[str]:
    """What graphs that were recorded as a whole hide."""
    graphs = 0
    if profile.has(GRAPH_LAUNCHES.name):
        for start_ns, *_ in profile.columns(GRAPH_LAUNCHES.name, *GRAPH_LAUNCHES.columns):
            graphs += len(start_ns)
    if not graphs:
        return []
    launches = f"{graphs:,} launches of CUDA graphs were"
    if graphs == 1:
        launches = "1 launch of a CUDA graph was"
    note = f"{launches} recorded as a whole, so totals exclude the kernels and copies in graphs."
    return [f"{note} Record graph nodes to include them."]


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


def how_recorded(tables: Iterable[str]) -> str:
    """How to record what is missing, in a sentence for each table that a recorder can leave out."""
    return " ".join(_RECORDED_BY[table] for table in tables if table in _RECORDED_BY)


def missing_notes(profile: Profile, missing: Mapping[str, str]) -> list[str]:
    """The analyses that a recording lacks tables for and why, in one note.

    ``missing`` says what it lacks for each analysis; empty for nothing.
    """
    kept_quiet = _OF_FEW if missing.keys() >= set(OVERVIEW) else set()
    names = [
        n for n, lack in missing.items() if lack and not kept_quiet & set(analysis_named(n).needs)
    ]
    if not names:
        return []
    analyses = map(analysis_named, names)
    needed = dict.fromkeys(table for a in analyses for table in (*a.needs, *a.needs_any_of))
    lacking = [table for table in needed if not profile.has(table)]
    are, tables = "are" if len(names) > 1 else "is", listed(lacking, "or")
    reason = how_recorded(lacking)
    if not _RECORDED_BY.keys() >= {*lacking}:
        reason = f"{reason} {cannot(profile)}".strip()
    return [f"{listed(names)} {are} n/a: the recording has no {tables}. {reason}".rstrip()]
