"""What a reader must know of many files that are read as one job, in one line each."""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gpuprof.base.units import counted, listed
from gpuprof.model.profile import absent_ranks

# Of files with one reason, or of ranks with several files, so many are named.
_MOST_NAMED: Final = 3
_NUMBER: Final = re.compile(r"\d[\d,.]*")
# Processes of one job start within minutes, and clocks of hosts agree to seconds.
_HOUR_NS: Final = 3_600 * 10**9


class FileOfJob(NamedTuple):
    """What notes need of one file.

    Args:
        name: Its name, for people.
        rank: Its rank; None where unknown.
        world_size: How many ranks the job has; None where it does not tell.
        tool: What recorded it, with the version.
        epoch_ns: When its clock began, in ns since 1970; None where unknown.
        process: What is equal for the files of one process, such as two stretches of it.
    """

    name: str
    rank: int | None
    world_size: int | None
    tool: str
    epoch_ns: int | None
    process: Hashable


def left_out(faults: Iterable[tuple[Path, str]]) -> list[str]:
    """A note on each file that is left out; one for all with the same reason where they are many.

    Args:
        faults: Files with messages on them, which name the file first.
    """
    by_reason: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for file, message in faults:
        by_reason[message.removeprefix(str(file)).lstrip(": ")].append((file, message))
    notes = []
    for reason, alike in by_reason.items():
        if len(alike) <= _MOST_NAMED:
            notes += [f"Left out: {message}." for _, message in alike]
        else:
            names = _first(file.name for file, _ in alike)
            notes.append(f"Left out: {len(alike):,} files ({names}): each {reason}.")
    return notes


def notes_of_files(texts: Iterable[tuple[str, str]], file_count: int) -> list[str]:
    """Notes on single files; those that differ in numbers alone are one, in the words of the first.

    Args:
        texts: The name of a file, and a note on it.
        file_count: How many files the job has.
    """
    alike: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, text in texts:
        alike[_NUMBER.sub("#", text)].append((name, text))
    shown = []
    for notes in alike.values():
        (names, different), first = map(dict.fromkeys, zip(*notes, strict=True)), notes[0][1]
        if len(names) < file_count or len(different) > 1:
            differing = "" if len(different) == 1 else ", with other numbers"
            of = f"{len(names):,} of {counted(file_count, 'file', 'files')}"
            first = f"{first.removesuffix('.')} (in {of}{differing}: {_first(names)})."
        shown.append(first)
    return shown


def job_notes(files: Sequence[FileOfJob]) -> list[str]:
    """Ranks that are missing or doubled, several tools, and starts that are hours apart."""
    notes = []
    sizes = [file.world_size for file in files if file.world_size is not None]
    if missing := absent_ranks((file.rank for file in files), sizes):
        last = max(file.rank for file in files if file.rank is not None)
        has = f"ranks up to {last}" if last >= max(sizes, default=0) else f"{max(sizes):,} ranks"
        words = "rank" if len(missing) == 1 else "ranks"
        notes.append(f"No file has {words} {_spans(missing)}; the job has {has}.")
    by_rank: dict[int, list[FileOfJob]] = defaultdict(list)
    for file in files:
        if file.rank is not None:
            by_rank[file.rank].append(file)
    doubled = [rank for rank in sorted(by_rank) if len({f.process for f in by_rank[rank]}) > 1]
    if doubled:
        alike = by_rank[doubled[0]]
        more = (
            f", and {counted(len(doubled) - 1, 'more rank', 'more ranks')}" if doubled[1:] else ""
        )
        of = f"{len(alike)} files of different processes ({_first(f.name for f in alike)}){more}"
        notes.append(f"Rank {doubled[0]} has {of}: some may be of another run.")
    counts = Counter(file.tool for file in files).most_common()
    if len(counts) > 1:
        tools = [f"{tool} ({counted(n, 'file', 'files')})" for tool, n in counts[:_MOST_NAMED]]
        tools += [f"{len(counts) - _MOST_NAMED} more"] if len(counts) > _MOST_NAMED else []
        notes.append(f"The files were recorded by different tools or versions: {listed(tools)}.")
    timed = sorted((file.epoch_ns, file.name) for file in files if file.epoch_ns is not None)
    if timed and (apart_ns := timed[-1][0] - timed[0][0]) >= _HOUR_NS:
        notes.append(
            f"Recording of {timed[-1][1]} began {apart_ns / _HOUR_NS:.1f} h after that of"
            f" {timed[0][1]}: they may be of different jobs, or the clocks of their hosts disagree."
        )
    return notes


def _first(names: Iterable[str]) -> str:
    """The first names of several, in their order."""
    ordered = sorted(names)
    more = " and others" if len(ordered) > _MOST_NAMED else ""
    return ", ".join(ordered[:_MOST_NAMED]) + more


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``2, 6 to 9 and 12``; only the first few of many."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    texts = [" to ".join(map(str, span)) for span in spans]
    more = [f"{len(spans) - _MOST_NAMED} more gaps"] if len(spans) > _MOST_NAMED + 1 else []
    return listed([*texts[:_MOST_NAMED], *more] if more else texts)
