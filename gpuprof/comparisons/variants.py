"""What is compared: variants, each of one run or several, under labels that tell them apart."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuprof.comparisons.runs import Run
from gpuprof.errors import UsageError
from gpuprof.manifest import repeats
from gpuprof.profile import Profile
from gpuprof.readers import read_profile

Recording = str | Path | Profile | tuple[str, str | Path | Profile]
Runs = tuple[Profile, ...]


def labelled(recordings: Sequence[Recording]) -> dict[str, Runs]:
    """The runs of each variant by label; recordings of one given label are repeats.

    A folder of repeats (``run-1``, ``run-2``, ...) is one variant of several runs. What has no
    label is named after its variant or its file.

    Raises:
        GpuprofError: A recording cannot be read.
        UsageError: One recording is given twice as a repeat of itself.
    """
    given = [r if isinstance(r, tuple) else (None, r) for r in recordings]
    found: dict[str, Runs] = {}
    unnamed: list[tuple[int, str, Runs]] = []
    order: list[str | int] = []
    for place, (label, recording) in enumerate(given):
        runs = _runs(recording)
        if label is None:
            unnamed.append((place, _name(recording, runs[0]), runs))
            order.append(place)
        else:
            _check_new(label, found.get(label, ()), runs)
            order += [] if label in found else [label]
            found[label] = (*found.get(label, ()), *runs)
    names = _distinct([(name, runs[0]) for _, name, runs in unnamed], found)
    own = {place: (name, runs) for (place, _, runs), name in zip(unnamed, names, strict=True)}
    return dict((key, found[key]) if isinstance(key, str) else own[key] for key in order)


def is_same(first: Run, second: Run) -> bool:
    """Whether two runs are one and the same: the file, or every figure in it."""
    one, other = first.work.profile, second.work.profile
    if one.origin.source.absolute() == other.origin.source.absolute():
        return True
    if not (one.has("activity_summary") and other.has("activity_summary")):
        return False
    rows, others = one.table("activity_summary"), other.table("activity_summary")
    return rows.num_rows > 0 and bool(rows.equals(others))


def _runs(recording: str | Path | Profile) -> Runs:
    if isinstance(recording, Profile):
        return (recording,)
    folders = repeats(Path(recording))
    return tuple(read_profile(folder) for folder in folders) or (read_profile(recording),)


def _name(recording: str | Path | Profile, first: Profile) -> str:
    # A folder of repeats is named after itself, not after its first run.
    source = first.origin.source if isinstance(recording, Profile) else Path(recording)
    return first.origin.variant or source.stem


def _check_new(label: str, known: Iterable[Profile], runs: Runs) -> None:
    """A recording beside itself would look like a run without noise."""
    sources = [run.origin.source.absolute() for run in (*known, *runs)]
    twice = [source for source, count in Counter(sources).items() if count > 1]
    if twice:
        msg = f"label {label} is given to {twice[0].name} twice, and a run does not repeat itself"
        raise UsageError(msg, "Give each recording once, or another label.")


def _distinct(named: Sequence[tuple[str, Profile]], asked: Iterable[str]) -> list[str]:
    """Names told apart by their folders where these differ, else by a number."""
    count = Counter(name for name, _ in named)
    places = Counter((name, _folder(profile)) for name, profile in named)
    seen = Counter(asked)
    distinct = []
    for name, profile in named:
        is_told = count[name] > places[name, _folder(profile)] and name not in seen
        shown = f"{_folder(profile)}/{name}" if is_told else name
        seen[shown] += 1
        distinct.append(shown if seen[shown] == 1 else f"{shown} ({seen[shown]})")
    return distinct


def _folder(profile: Profile) -> str:
    return profile.origin.source.absolute().parent.name
