"""Baselines by name: runs kept as gpuprof files under the project's or the user's folder.

``.gpuprof/baselines/NAME/run-1.gpuprof``, ``run-2.gpuprof``, ... The project is the nearest
folder above that has a ``.gpuprof`` or is a git repository, else the current one; the user's
folder is ``$XDG_DATA_HOME/gpuprof``. A project's baseline hides a user's of the same name.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NamedTuple

from gpuprof.base.errors import InputError, OutputError, UsageError, check_no_foreign_files
from gpuprof.base.temporary_files import put, removed_at_exit
from gpuprof.base.units import counted, say_bytes
from gpuprof.model.profile import Profile

_FOLDER: Final = ".gpuprof"
_BASELINES: Final = "baselines"
_RUN: Final = re.compile(r"run-([0-9]+)\.gpuprof")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class Baseline(NamedTuple):
    """A baseline that was saved.

    Args:
        name: Its name.
        folder: Where its runs are.
        runs: Their files, in order.
    """

    name: str
    folder: Path
    runs: tuple[Path, ...]

    @property
    def size(self) -> str:
        """How many runs it has and what their files take, as ``3 runs, 1.200 MB``."""
        total = sum(run.stat().st_size for run in self.runs)
        return f"{counted(len(self.runs), 'run', 'runs')}, {say_bytes(total)}"


def project_folder() -> Path:
    """Where baselines of the project are."""
    here = Path.cwd().absolute()
    folders = [here, *here.parents]
    marks = (Path(_FOLDER) / _BASELINES, Path(".git"))
    projects = (folder for mark in marks for folder in folders if (folder / mark).exists())
    return next(projects, here) / _FOLDER / _BASELINES


def user_folder() -> Path:
    """Where baselines of the user are."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "gpuprof" / _BASELINES


def baselines() -> tuple[Baseline, ...]:
    """Every baseline that can be named, by name."""
    by_name: dict[str, Baseline] = {}
    for place in (user_folder(), project_folder()):
        for folder in sorted(place.iterdir()) if place.is_dir() else ():
            if not (folder.is_dir() and _NAME.fullmatch(folder.name)):
                continue
            named = ((_RUN.fullmatch(entry.name), entry) for entry in folder.iterdir())
            runs = {int(match[1]): entry for match, entry in named if match}
            if runs:
                ordered = tuple(runs[number] for number in sorted(runs))
                by_name[folder.name] = Baseline(folder.name, folder, ordered)
    return tuple(by_name[name] for name in sorted(by_name))


def baseline_named(name: str) -> Baseline | None:
    """The baseline of this name; None where there is none."""
    return next((baseline for baseline in baselines() if baseline.name == name), None)


def saved_baseline(name: str) -> Baseline:
    """The baseline of this name.

    Raises:
        InputError: There is none.
    """
    baseline = baseline_named(name)
    if baseline is None:
        names = [saved.name for saved in baselines()]
        near = get_close_matches(name, names) or names
        msg = f"there is no baseline {name}"
        make = "Save one with `gpuprof baseline save NAME RUN`."
        raise InputError(msg, f"Baselines: {', '.join(near)}." if near else make)
    return baseline


def save_baseline(
    name: str,
    runs: Sequence[Profile],
    place: Path,
    write: Callable[[Profile, Path], object],
    *,
    is_forced: bool = False,
) -> Baseline:
    """Keep runs under a name: all of them, or nothing.

    Args:
        name: Letters, digits and any of ``. _ + -``.
        runs: The runs.
        place: `project_folder` or `user_folder`.
        write: Writes a run into a gpuprof file.
        is_forced: Whether a baseline of this name may be replaced.

    Raises:
        UsageError: The name is none.
        OutputError: It exists already, or cannot be written.
    """
    check_name(name)
    folder = place / name
    if folder.exists() and not is_forced:
        msg = f"baseline {name} exists already, in {folder}"
        raise OutputError(msg, "Replace it with --force, or give another name.")
    if folder.is_dir():
        foreign = sorted(entry for entry in folder.iterdir() if not _RUN.fullmatch(entry.name))
        check_no_foreign_files(folder, foreign)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with removed_at_exit(Path(mkdtemp(prefix=f".{name}-", dir=place))) as temporary:
            for number, run in enumerate(runs, start=1):
                write(run, temporary / f"run-{number}.gpuprof")
            temporary.chmod(0o755)
            if folder.exists():
                old = Path(mkdtemp(prefix=f".{name}-old-", dir=place))
                folder.rename(old / name)
                put(temporary, folder)
                shutil.rmtree(old, ignore_errors=True)
            else:
                put(temporary, folder)
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror or error}"
        raise OutputError(msg, "Choose the user's folder with --user.") from error
    return saved_baseline(name)


def check_name(name: str) -> None:
    """Refuse a name that some file system would not take for a folder.

    Raises:
        UsageError: The name is not valid.
    """
    if not _NAME.fullmatch(name):
        msg = f'"{name[:40]}" is not a valid name for a baseline'
        raise UsageError(msg, "Use up to 100 letters, digits, dots, dashes, + and underscores.")


def remove_baseline(name: str) -> Baseline:
    """Remove a baseline's files, and its folder where nothing else is in it.

    Raises:
        InputError: There is none of this name.
        OutputError: It cannot be removed.
    """
    baseline = saved_baseline(name)
    try:
        for run in baseline.runs:
            run.unlink()
        if not any(baseline.folder.iterdir()):
            baseline.folder.rmdir()
    except OSError as error:
        msg = f"{baseline.folder} cannot be removed: {error.strerror or error}"
        raise OutputError(msg) from error
    return baseline
