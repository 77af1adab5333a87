"""What is compared: variants, each of one run or several, under labels that tell them apart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gpuprof.base.errors import EmptyRecordingError, InputError, UsageError
from gpuprof.base.manifest import repeats
from gpuprof.base.sweep_cells import cell_runs, cells_of, is_sweep
from gpuprof.base.units import encodable
from gpuprof.comparisons.measure.baselines import baseline_named, baselines
from gpuprof.model.profile import Profile
from gpuprof.readers import inputs, read_profile
from gpuprof.readers.inputs import AnyPath, is_path

_Unlabelled = AnyPath | Profile
_Named = tuple[str | None, _Unlabelled]
Recording = _Unlabelled | tuple[str, _Unlabelled]
Runs = tuple[Profile, ...]


def labelled(
    recordings: Sequence[Recording],
    baseline: str | None = None,
    sections: Mapping[str, str] | None = None,
) -> dict[str, Runs]:
    """The runs of each variant by label; recordings of one given label are repeats.

    A folder of repeats (``run-1``, ``run-2``, ...) and a cell of a sweep are one variant of
    several runs, a sweep's folder is a variant for each of its cells. What has no label is named
    after its variant or its file.

    Args:
        recordings: Paths, names of saved baselines or profiles, each alone or with its label.
        baseline: A label, or the name of a saved baseline that is then the first variant.
        sections: Which recording of a file that holds several, by the label that is given to
            it or by the file; of all files under the empty text. See `read_profile`.

    Raises:
        GpuprofError: A recording cannot be read.
        UsageError: One recording is given twice as a repeat of itself, or a section is of none.
        TypeError: A recording is neither a path nor a profile, with or without a label.
    """
    sources = _named(recordings)
    chosen = sections or {}
    labels = {"", *(name for label, path in sources for name in (label, str(path)))}
    if unknown := [name for name in chosen if name not in labels]:
        msg = f"section of {unknown[0]}: no recording has this label or path"
        raise UsageError(msg, "Name the file: --section FILE=N.")
    read: list[tuple[str | None, _Unlabelled, Runs]] = []
    for label, source in sources:
        section = chosen.get(label or "", chosen.get(str(source), chosen.get("")))
        its = (source,) if isinstance(source, Profile) else runs_of(source, section=section)
        read.append((label, source, its))
    unlabelled = [(source, runs[0]) for label, source, runs in read if label is None]
    names = iter(_names(unlabelled, {label for label, _ in sources if label is not None}))
    variants: dict[str, Runs] = {}
    for label, _, runs in read:
        name = encodable(next(names) if label is None else label)
        variants[name] = (*variants.get(name, ()), *runs)
        check_repeats(f"label {name}", variants[name])
    is_saved = baseline and baseline not in variants and baseline_named(baseline) is not None
    return {baseline: runs_of(baseline), **variants} if baseline and is_saved else variants


def _named(recordings: Iterable[Recording]) -> list[_Named]:
    """Each recording with its label, None where it has none; a sweep's cells with theirs."""
    is_one = isinstance(recordings, (Profile, Mapping)) or is_path(recordings)
    if is_one or not isinstance(recordings, Iterable):
        msg = f"recordings must be a list, not {type(recordings).__name__}"
        raise TypeError(msg)
    named: list[_Named] = []
    for recording in recordings:
        match recording if isinstance(recording, tuple) else ("", recording):
            case (str() as text, source) if isinstance(source, Profile) or is_path(source):
                label = text if isinstance(recording, tuple) else None
            case _:
                kinds = "a path, a Profile or (label, path or Profile)"
                msg = f"a recording must be {kinds}, not {type(recording).__name__}"
                raise TypeError(msg)
        if isinstance(source, Profile) or not is_sweep(Path(source)):
            named.append((label, source))
            continue
        cells = cells_of(Path(source))
        if not cells:
            msg = f"no run of the sweep {source} succeeded"
            raise EmptyRecordingError(msg, "Its results.csv gives the reasons.")
        if label is not None:
            msg = f"one label, {label}, is given to a sweep of {len(cells)} cells"
            hint = f"Label a single cell: --label {label}={next(iter(cells.values()))}"
            raise UsageError(msg, hint)
        named += cells.items()
    return named


def runs_of(path: AnyPath, reader: str | None = None, section: str | int | None = None) -> Runs:
    """The runs at a path: those of a folder of repeats or of a cell, of a baseline, or the one.

    A baseline is meant where no file or folder has its name.

    Raises:
        GpuprofError: A recording cannot be read.
    """
    file = Path(path)
    saved = None if file.exists() else baseline_named(str(path))
    if saved is None and not file.exists():
        near = get_close_matches(str(path), [baseline.name for baseline in baselines()])
        if near:
            msg = f"{path}: no such file, and no baseline is saved under this name"
            raise InputError(msg, f"Did you mean {' or '.join(near)}?")
    runs = (repeats(file) or cell_runs(file)) if saved is None else saved.runs
    if runs:
        return tuple(read_profile(run, reader) for run in runs)
    return (read_profile(path, reader, section),)


def check_repeats(name: str, runs: Iterable[Profile]) -> None:
    """Refuse a recording beside itself, which would look like a run without noise.

    The runs of one variant are given to ``name``, as ``label dual``.

    Raises:
        UsageError: One is there twice.
    """
    sources = Counter(run.origin.source.absolute() for run in runs)
    twice = [source for source, count in sources.items() if count > 1]
    if twice:
        msg = f"{name} is given to {twice[0].name} twice; repeats must be different recordings"
        raise UsageError(msg, "Give each recording once, or use another label.")


def _names(unlabelled: Sequence[tuple[_Unlabelled, Profile]], labels: Iterable[str]) -> list[str]:
    """Names after variants or files, told apart by folders where these differ, else by numbers.

    ``labels`` are what others are called already.
    """
    names, folders = [], []
    for recording, run in unlabelled:
        file = run.origin.source
        folders.append(file.absolute().parent.name)
        if not isinstance(recording, Profile):
            # A folder of repeats is not named after its first run.
            is_list = inputs.is_list(recording)
            file = inputs.list_path(recording) if is_list else inputs.path_of(recording)
            if not file.exists() and baseline_named(str(recording)) is not None:
                names.append(file.name)
                continue
        names.append(run.origin.variant or file.stem)
    count, in_folder = Counter(names), Counter(zip(names, folders, strict=True))
    taken = Counter(labels)
    distinct = []
    for name, folder in zip(names, folders, strict=True):
        is_distinct = count[name] > in_folder[name, folder] and name not in taken
        shown = f"{folder}/{name}" if is_distinct else name
        taken[shown] += 1
        distinct.append(shown if taken[shown] == 1 else f"{shown} ({taken[shown]})")
    return distinct
