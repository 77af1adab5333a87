"""Files and folders are written whole or not at all, and checked before the work begins."""

import contextlib
import glob
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuprof.base.errors import OutputError, UsageError
from gpuprof.base.temporary_files import give_usual_mode, put, unfinished
from gpuprof.base.units import encodable

STDOUT: Final = "-"
_STDIN_LIST: Final = "@-"
PICTURES: Final = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Output:
    """A place to write to that was found writable.

    Args:
        path: A file; None for standard output.
    """

    path: Path | None

    def write_text(self, text: str) -> None:
        """Write a text.

        Raises:
            OutputError: It cannot be written; no partial file is left behind.
        """
        if self.path is None:
            write_stdout(text)
        else:
            self.save(lambda file: file.write_text(encodable(text), encoding="utf-8"))

    def save(
        self,
        write: Callable[[Path], object],
        content: str = "a picture",
        *,
        is_private: bool = False,
    ) -> None:
        """Let a function write a file, and give it the output's name when it is whole.

        Args:
            write: Writes the file.
            content: What the file holds, for error messages.
            is_private: Whether only its owner may read it.

        Raises:
            OutputError: It cannot be written; no partial file is left behind.
        """
        if self.path is None:
            msg = f"{content} cannot go to standard output"
            raise OutputError(msg, "Give a file name with -o.")
        try:
            if self.path.exists() and not self.path.is_file():
                write(self.path)  # A device or a pipe: nothing to rename.
                return
            with unfinished(self.path) as temporary:
                write(temporary)
                if not is_private:
                    give_usual_mode(temporary)
                put(temporary, self.path)
        except OSError as error:
            msg = f"{self.path} cannot be written: {error.strerror or error}"
            raise OutputError(msg) from error


def prepare(path: str, *, is_forced: bool = False, inputs: Sequence[str] = ()) -> Output:
    """Check, before the work begins, that an output can be written.

    Args:
        path: A file, or ``-`` for standard output.
        is_forced: Whether a file that exists may be replaced.
        inputs: What is read, files or patterns: these are never replaced.

    Raises:
        OutputError: Its folder is not there or read-only, or it exists already.
    """
    if path == STDOUT:
        return Output(None)
    check_is_here(path)
    target = Path(path)
    folder = target.parent
    if target.is_socket():
        msg = f"{target} is a socket"
        raise OutputError(msg, "Give a file name.")
    if target.is_dir():
        msg = f"{target} is a folder"
        raise OutputError(msg, "Give a file name in it.")
    if not folder.is_dir():
        msg = f"{target}: there is no folder {folder}"
        raise OutputError(msg, f"Make it first: mkdir -p {folder}")
    if target.is_file() and any(_names(source, target) for source in inputs):
        msg = f"{target} is an input of this command and is never replaced"
        raise OutputError(msg, "Give the output another name.")
    if target.is_file() and not is_forced:
        msg = f"{target} exists already"
        raise OutputError(msg, "Replace it with --force, or give another name.")
    if not os.access(target if target.exists() else folder, os.W_OK):
        msg = f"{target} cannot be written: no permission"
        raise OutputError(msg)
    return Output(target)


def check_is_here(path: str) -> None:
    """Check that an output is no address.

    Raises:
        OutputError: It is.
    """
    if "://" in path:
        msg = f"{path}: outputs are files of this machine"
        raise OutputError(msg, "Write a file, then copy it, for example with `aws s3 cp`.")


def check_suffix(path: str) -> str:
    """The path itself, where its ending names a kind of picture.

    Raises:
        UsageError: It does not.
    """
    if Path(path).suffix.lower() not in PICTURES:
        msg = f"{path} does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}"
        raise UsageError(msg, "The suffix selects the format of the picture.")
    return path


def check_apart(outputs: Iterable[Output | None]) -> None:
    """Check that no two outputs are the same file, where one would overwrite the other.

    Raises:
        OutputError: Two are.
    """
    written_paths: set[str] = set()
    for path in (output.path for output in outputs if output is not None):
        # Devices and pipes take as much as they are given.
        if path is None or (path.exists() and not path.is_file()):
            continue
        # Unlike Path.resolve, it takes links that lead in a circle.
        place = os.path.realpath(path)
        if place in written_paths:
            msg = f"{path} is given for two outputs"
            raise OutputError(msg, "Give each output its own name.")
        written_paths.add(place)


def _names(source: str, target: Path) -> bool:
    """Whether an input, a file or a pattern, is this file under any of its names."""
    if source.startswith("@") and source != _STDIN_LIST:
        from gpuprof.readers.inputs import named_in  # noqa: PLC0415 - start-up time

        return any(file.is_file() and target.samefile(file) for file in named_in(source))
    sources = {source, *glob.glob(source, recursive=True)}  # noqa: PTH207 - as for the inputs
    return any(Path(name).is_file() and target.samefile(name) for name in sources)


def write_stdout(text: str) -> bool:
    """Print a text whole.

    Where its reader has left (`| head`), nothing is printed any more: what else a command does,
    and its exit status, stay as they are.

    Returns:
        Whether there is a reader.

    Raises:
        OutputError: Standard output cannot take it.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail again, unasked, when Python ends.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return False
        msg = f"standard output cannot be written: {error.strerror or error}"
        raise OutputError(msg) from error
    return True


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
    is_there = target.exists()
    if is_there and not target.is_dir():
        msg = f"{target} is a file, and the output is a folder"
        raise OutputError(msg, "Give another name.")
    if is_there and any(Path(name).exists() and target.samefile(name) for name in inputs):
        msg = f"{target} is an input of this command and is never replaced"
        raise OutputError(msg, "Give the output another name.")
    is_empty = not is_there or not any(target.iterdir())
    if not is_empty and not is_ours(target):
        msg = f"{target} is a folder of other files"
        raise OutputError(msg, "Give the name of a new folder.")
    if not is_empty and not is_forced:
        msg = f"{target} exists already"
        raise OutputError(msg, "Replace it with --force, or give another name.")
    if not os.access(target.parent, os.W_OK):
        msg = f"{target} cannot be written: no permission"
        raise OutputError(msg)
    return FolderOutput(target)
