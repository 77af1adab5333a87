"""What limits the trust in tables of single activities, one sentence each."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from gpuprof.analyses import analysis_named
from gpuprof.analyses.clock_offsets import clock_notes
from gpuprof.analyses.notes import (
    OF_COLLECTIVES,
    OF_LINKS,
    OF_RANKS,
    OF_STEPS,
    OF_THE_HOST,
    OF_THE_SPAN,
)
from gpuprof.analyses.peer_matrix import faster_than_links
from gpuprof.analyses.ranks import early_ends
from gpuprof.base.units import counted, listed, say_bytes, say_ns, say_rate, say_share
from gpuprof.facts.copies import copy_rows, too_fast
from gpuprof.facts.host_clock import host_clock, unknown_clock_note
from gpuprof.facts.phases import PhaseSteps, steps_in_part
from gpuprof.facts.step_times import LEAST_STEPS
from gpuprof.facts.step_windows import DETECTED
from gpuprof.facts.timeline import far_ends, without_kernels
from gpuprof.model.intervals import intersection, single, union
from gpuprof.model.profile import Profile

_HOLDERS: Final = {"profiler": "{} itself", "cuda": "CUDA itself"}
# A smaller share is within the variation from run to run.
_MUCH: Final = 0.01
_WORK: Final = ("kernels", "memcpys", "memsets", "graph_launches")
_MOST_NAMED: Final = 3
_MOST_LETTERS: Final = 60
_INFERRED: Final = (
    "Nothing marks steps in this recording: they were inferred from kernels that repeat. Mark them"
    " with gpuprof.step() or NVTX ranges to be sure."
)


def trace_notes(profile: Profile, names: Collection[str]) -> Iterator[str]:
    """What a reader must know to trust the tables of these names, which are of activities."""
    recording, of_host = profile.unrestricted, [name for name in OF_THE_HOST if name in names]
    if of_host and recording.has("api_calls"):
        if unknown := unknown_clock_note(recording):
            na = f"Host activity is n/a in {', '.join(of_host)}; all other figures are valid."
            yield f"{unknown} {na}"
        elif note := host_clock(recording).note():
            yield note
    yield from _span_notes(profile, names)
    if any("bytes" in analysis_named(name).reads.get("memcpys", ()) for name in names):
        yield from copy_notes(profile)
    if OF_LINKS in names:
        for row in faster_than_links(profile):
            yield (
                f"Copies from {row['src']} to {row['dst']} reached"
                f" {say_rate(row['bytes_per_s'])}, more than the peak of {row['link']}"
                f" ({say_rate(row['peak_bytes_per_s'])}): they took another link, or a figure of"
                " this recording is wrong. Their share of the peak is n/a."
            )
    if profile.has("kernels") and any(name in names for name in OF_STEPS):
        yield from step_notes(profile)


def rank_notes(profile: Profile, names: Collection[str]) -> Iterator[str]:
    """That clocks of ranks were set right, and whose recordings end early."""
    if profile.has("kernels"):
        yield from () if OF_COLLECTIVES.isdisjoint(names) else clock_notes(profile)
        yield from () if OF_RANKS.isdisjoint(names) else early_ends(profile)


def _span_notes(profile: Profile, tables: Collection[str]) -> Iterator[str]:
    """The overhead of the profiler, and the devices whose idle time is meaningless."""
    if not any(name in tables for name in OF_THE_SPAN):
        return
    for source, held_ns, span_ns, most in overheads(profile):
        if held_ns >= _MUCH * span_ns > 0:
            yield (
                f"{_HOLDERS[source].format(profile.origin.tool)} delayed a thread of the"
                f" program by {say_ns(held_ns)}, {say_share(held_ns / span_ns)} of the time from"
                " the first activity of a device to the last (mostly"
                f" {most or 'unnamed'})."
            )
    for device in far_ends(profile):
        # It was not recorded itself.
        yield (
            f"Device {device} ran nothing in this recording; other devices copied from or to it."
            " Its other activity, for example for another process, is unknown."
        )
    idle = without_kernels(profile)
    if idle and "findings" in tables and profile.selection.device_id is None:
        numbers = listed([str(device) for device in idle])
        yield (
            f"{'Devices' if len(idle) > 1 else 'Device'} {numbers} ran no kernel in this recording,"
            " only copies or memsets: findings are about the others."
        )


def copy_notes(profile: Profile) -> Iterator[str]:
    """The copies that no memory is fast enough for, in a sentence."""
    rows = too_fast(profile)
    if rows.size:
        copies, first = copy_rows(profile.unrestricted), rows[0]
        more = f"; {counted(rows.size - 1, 'more is', 'more are')} like it" if rows.size > 1 else ""
        yield (
            f"Copy {first + 1:,} of the recording moves {say_bytes(int(copies.bytes[first]))} in"
            f" {say_ns(int(copies.duration_ns[first]))}, faster than any memory{more}: its size or"
            " its times are wrong, and totals and throughputs include them."
        )


def overheads(profile: Profile) -> list[tuple[str, int, int, str | None]]:
    """What held up threads between the first activity of any device and the last.

    What is set up before and cleared up after that changes no figure of the devices.

    Returns:
        Of each source, ``profiler`` or ``cuda``, for how many ns at least one thread was held up,
        of how many, and what held up threads longest; None where it has no name.
    """
    work = [name for name in _WORK if profile.has(name)]
    if not work or not profile.has("overheads") or not profile.table("overheads").num_rows:
        return []
    spans = [
        (int(start.min()), int(end.max()))
        for name in work
        for start, end in profile.columns(name, "start_ns", "end_ns")
        if len(start)
    ]
    if not spans:
        return []
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    rows = profile.table("overheads").to_pylist()
    covered_sources = []
    for source in sorted({row["source"] for row in rows}, reverse=True):
        of_source = [row for row in rows if row["source"] == source]
        start, end = (np.array([row[name] for row in of_source]) for name in ("start_ns", "end_ns"))
        covered = intersection(union(start, end), single(first, last))
        within = np.maximum(np.minimum(end, last) - np.maximum(start, first), 0)
        by_name = Counter[str | None]()
        for row, ns in zip(of_source, within.tolist(), strict=True):
            by_name[row["name"]] += ns
        ((most, _),) = by_name.most_common(1)
        covered_sources.append((source, covered.length, last - first, most))
    return covered_sources


def step_notes(profile: Profile) -> list[str]:
    """What was set aside of steps, what stands out, and what is few.

    Raises:
        UsageError: As in `phases.phases`.
    """
    steps = steps_in_part(profile)
    phases = [phase_steps.phase for phase_steps in steps]
    notes = [_INFERRED] if any(phase.source == DETECTED for phase in phases) else []
    if names := dict.fromkeys(_name(phase.name) for phase in phases if len(phase.between)):
        # Marks leave out much of the time.
        note = f"The marks of {_listed([*names], 'phases')} leave out much of the time"
        period = "the period from its start to that of the next, with what the program does between"
        notes.append(f"{note}: a step is {period} marks.")
    notes += _warm_up(profile, steps)
    far = [
        (int(of_phase.end_ns[place] - of_phase.start_ns[place]), of_phase, place)
        for of_phase in steps
        for place in of_phase.outliers.tolist()
    ]
    far.sort(key=lambda item: -item[0])
    words = [
        f"step {of_phase.number[place]} of {_name(of_phase.phase.name)} took {say_ns(ns)},"
        f" median {say_ns(of_phase.phase.step_ns)}"
        for ns, of_phase, place in far
    ]
    notes += [f"Far longer than most: {_listed(words, 'steps')}."] if words else []
    # Each process and device has phases of its own, which often have one name.
    few = Counter(
        f"{_name(phase.name)} has {counted(number, 'whole step', 'whole steps')}"
        for phase in phases
        if (number := len(phase.start_ns)) < LEAST_STEPS
    )
    words = [f"{text} in each of {n} phases" if n > 1 else text for text, n in few.items()]
    if words:
        reason = "too few to say how long a step usually takes"
        notes.append(f"{_listed(words, 'phases')}: {reason}.")
    return notes


def _warm_up(profile: Profile, steps: Sequence[PhaseSteps]) -> list[str]:
    """What was set aside at the beginning of phases, and what it cost beyond later steps."""
    phases = [phase_steps.phase for phase_steps in steps if phase_steps.phase.warm_up_steps]
    if not phases:
        return []
    costs = [phase.warm_up_ns - phase.warm_up_steps * phase.step_ns for phase in phases]
    words = [
        f"the first {counted(phase.warm_up_steps, 'step', 'steps').removeprefix('1 ')} of"
        f" {_name(phase.name)}"
        f" ({say_ns(phase.warm_up_ns)}, {say_ns(abs(cost))} {'more' if cost >= 0 else 'less'} than"
        " as many later ones)"
        for phase, cost in zip(phases, costs, strict=True)
    ]
    aside = "Set aside" if profile.skip_steps else "Set aside as warm-up"
    hint = "" if profile.skip_steps else "; --skip-steps 0 keeps all"
    return [f"{aside}: {_listed(words, 'phases')}{hint}."]


def _name(text: str) -> str:
    shown = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."
    return f'"{shown}"'


def _listed(words: Sequence[str], noun: str) -> str:
    more = len(words) - _MOST_NAMED
    noun = noun.removesuffix("s") if more == 1 else noun
    ending = [f"and {more} more {noun}"] if more > 0 else []
    return "; ".join([*words[:_MOST_NAMED], *ending])
