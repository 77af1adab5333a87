"""The folder of a run: found or made before the program starts, never overwritten unasked.

A folder that is recorded into is locked by its recording, so that no other one replaces it.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuprof.base.errors import OutputError, check_no_foreign_files
from gpuprof.base.manifest import foreign_files, is_run, repeats
from gpuprof.base.temporary_files import lock
from gpuprof.launch.contract import Program

DEFAULT_PARENT: Final = "gpuprof-runs"


def default_folder(program: Program, variant: str | None) -> Path:
    """A new folder named after the variant or the program: ``gpuprof-runs/dual-2``."""
    name = variant or (program.source.stem if program.source else Path(program.arguments[0]).name)
    safe_name = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in name).strip(".-")
    stem = Path(DEFAULT_PARENT) / (safe_name or "run")
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse what is there already.

    Raises:
        OutputError: It is a file, or a folder and ``force`` is not given, or a folder that no
            recording made, or that one is writing into, or that holds files of others.
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
        msg = f"{folder} does not contain a recording, and --force replaces only recordings"
        raise OutputError(msg, "Choose another folder with -o.")
    check_no_foreign_files(folder, foreign_files(folder))
    with claimed(folder):
        pass  # no other recording writes into it


def make_folder(folder: Path, *, force: bool) -> None:
    """An empty folder in place of whatever `check_folder` has let pass, its owner's alone.

    Raises:
        OutputError: It cannot be made, or another recording has just made it.
    """
    check_folder(folder, force=force)
    try:
        place = folder.resolve()
        if force and place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True, mode=0o700)
    except OSError as error:
        msg = f"{folder} cannot be created: {error.strerror}"
        raise OutputError(msg, "Choose another folder with -o.") from error


class Claim:
    """A folder that is recorded into."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder, self._descriptor = folder, descriptor

    def is_there(self) -> bool:
        """Whether the folder's name still leads to the folder that was made."""
        try:
            return os.path.samestat(self._folder.stat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def check(self) -> None:
        """See that nobody has taken the folder away.

        Raises:
            OutputError: It was removed, or another one stands in its place, which is left alone.
        """
        if not self.is_there():
            msg = (
                f"{self._folder} was removed while it was recorded into; nothing of the run is left"
            )
            raise OutputError(msg, "Record again, and leave the folder alone until the end.")


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[Claim]:
    """Lock a folder that was just made until its recording ends, however that comes about.

    Raises:
        OutputError: Another recording has it.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}"
        raise OutputError(msg) from error
    try:
        if lock(descriptor) is False:
            msg = f"another recording writes into {folder}"
            raise OutputError(msg, "Wait until it ends, or choose another folder with -o.")
        yield Claim(folder, descriptor)
    finally:
        os.close(descriptor)
