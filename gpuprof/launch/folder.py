"""The folder of a run: found or made before the program starts, never overwritten unasked."""

import shutil
from pathlib import Path
from typing import Final

from gpuprof.errors import OutputError
from gpuprof.launch.contract import Program
from gpuprof.manifest import is_run, repeats

DEFAULT_PARENT: Final = "gpuprof-runs"


def default_folder(program: Program, variant: str | None) -> Path:
    """A new folder named after the variant or the program: ``gpuprof-runs/dual-2``."""
    name = variant or (program.source.stem if program.source else Path(program.arguments[0]).name)
    stem = Path(DEFAULT_PARENT) / (_as_file_name(name) or "run")
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse what is there already.

    Raises:
        OutputError: It is a file, or a folder and ``force`` is not given, or a folder that no
            recording made.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        msg = f"{folder} is a file; a run needs a folder of its own"
        raise OutputError(msg)
    if not force:
        msg = f"{folder} exists already"
        raise OutputError(msg, "Choose another folder with -o, or replace it with --force.")
    if not (is_run(folder) or repeats(folder)) and any(folder.iterdir()):
        msg = f"{folder} holds no recording, and --force replaces nothing else"
        raise OutputError(msg, "Choose another folder with -o.")


def make_folder(folder: Path) -> None:
    """An empty folder in place of whatever `check_folder` has let pass.

    Raises:
        OutputError: It cannot be made.
    """
    try:
        if folder.is_symlink() or folder.exists():
            shutil.rmtree(folder.resolve())
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder} cannot be made: {error.strerror}"
        raise OutputError(msg, "Choose another folder with -o.") from error


def _as_file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_.+" else "-" for c in text).strip(".-")
