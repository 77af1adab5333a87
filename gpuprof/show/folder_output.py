"""A folder as an output: written whole or not at all, and checked before the work begins."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuprof.base.errors import OutputError
from gpuprof.base.temporary_files import give_usual_mode, put, unfinished
from gpuprof.show.output import check_is_here


@dataclass(frozen=True)
class FolderOutput:
    """A folder to make that was found possible.

    Args:
        path: The folder; one that exists is replaced.
    """

    path: Path

    def save(self, write: Callable[[Path], object]) -> None:
        """Let a function fill a folder, and give it the output's name when it is whole.

        Args:
            write: Fills an empty folder.

        Raises:
            OutputError: It cannot be written; no partial folder is left behind.
        """
        try:
            with unfinished(self.path, is_folder=True) as draft:
                write(draft)
                give_usual_mode(draft)
                self._put(draft)
        except OSError as error:
            msg = f"{self.path} cannot be written: {error.strerror or error}"
            raise OutputError(msg) from error

    def _put(self, draft: Path) -> None:
        """Rename a draft to the output, and what was there before out of its way."""
        if not self.path.exists():
            put(draft, self.path)
            return
        # Of another name than drafts, which are removed when they are left behind.
        before = draft.with_name(draft.name.replace(".unfinished-", ".before-"))
        self.path.replace(before)
        try:
            put(draft, self.path)
        except OSError:
            before.replace(self.path)
            raise
        shutil.rmtree(before, ignore_errors=True)


def prepare_folder(
    path: str, is_ours: Callable[[Path], bool], *, is_forced: bool, inputs: Sequence[str] = ()
) -> FolderOutput:
    """Check, before the work begins, that a folder can be made.

    Args:
        path: The folder.
        is_ours: Whether a folder is one that the same command made, which may be replaced.
        is_forced: Whether such a folder may be replaced.
        inputs: What is read, which is never replaced.

    Raises:
        OutputError: The folder around it is not there or read-only, or it exists already.
    """
    check_is_here(path)
    target = Path(path)
    if not target.parent.is_dir():
        msg = f"{target}: there is no folder {target.parent}"
        raise OutputError(msg, f"Make it first: mkdir -p {target.parent}")
    if target.exists():
        _check_replaceable(target, is_ours, inputs, is_forced=is_forced)
    if not os.access(target.parent, os.W_OK):
        msg = f"{target} cannot be written: no permission"
        raise OutputError(msg)
    return FolderOutput(target)


def _check_replaceable(
    target: Path, is_ours: Callable[[Path], bool], inputs: Sequence[str], *, is_forced: bool
) -> None:
    if not target.is_dir():
        msg = f"{target} is a file, and the output is a folder"
        raise OutputError(msg, "Give another name.")
    if any(Path(source).exists() and target.samefile(source) for source in inputs):
        msg = f"{target} is an input of this command and is never replaced"
        raise OutputError(msg, "Give the output another name.")
    is_empty = not any(target.iterdir())
    if not is_empty and not is_ours(target):
        msg = f"{target} is a folder of other files"
        raise OutputError(msg, "Give the name of a new folder.")
    if not is_empty and not is_forced:
        msg = f"{target} exists already"
        raise OutputError(msg, "Replace it with --force, or give another name.")
