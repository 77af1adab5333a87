"""What a path may be, and beside one file: standard input, a folder, a glob, an address."""

import atexit
import glob
import os
import re
import select
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, Final, TypeGuard

from gpuprof.base.errors import ROOM, InputError

STDIN: Final = "-"

AnyPath = str | os.PathLike[str]
# A letter and a colon alone are a drive of Windows.
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]+:(?://|:)")
_LOCAL_SCHEME: Final = "file://"
# Whoever writes into a named pipe is started beside this program.
WRITER_WAIT_S: Final = 10
# A password may hold @ and /; a number before a / is a port.
_PASSWORD: Final = re.compile(r"//(?:[^/?#@]*:(?!\d{1,5}/).*|[^/@]*)@")
# A question mark of an address begins its parameters.
_PATTERN: Final = re.compile(r"[*\[]")
_LocalPath: Any = type(Path())


class Address(_LocalPath):  # type: ignore[misc] # the class for this system's paths
    """Where a recording lies that is fetched first: ``s3://bucket/run/rank0.sqlite``.

    Its text is that for people, without passwords and parameters, which may be signatures.

    Args:
        full_text: As the user gave it; empty of one that is made of another.
    """

    full_text: str = ""

    @classmethod
    def of(cls, text: str) -> "Address":
        """The address that a user named."""
        shown = _PASSWORD.sub("//", text)
        address: Address = cls(shown.partition("?")[0] if shown.startswith("http") else shown)
        address.full_text = text
        return address

    def __str__(self) -> str:
        """As a path, but with both slashes after its scheme."""
        text: str = super().__str__()
        return re.sub(r":/(?!/)", "://", text, count=1)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """The same for another process."""
        return Address.of, (self.full_text or str(self),)

    @property
    def is_pattern(self) -> bool:
        """Whether it names several files."""
        return _PATTERN.search(self.full_text) is not None


# The folders of copies of what was fetched, each with what addresses have in its place.
copies: dict[str, str] = {}


def keep_copies(folder: Path, scheme: str) -> None:
    """Let messages name addresses in place of the copies in a folder."""
    copies[f"{folder}{os.sep}"] = f"{scheme}://"


@contextmanager
def copies_discarded() -> Iterator[None]:
    """Remove the copies that are made meanwhile of what addresses name."""
    before = {*copies}
    try:
        yield
    finally:
        for folder in copies.keys() - before:
            shutil.rmtree(Path(folder).parent, ignore_errors=True)
            del copies[folder]


def shown(text: str) -> str:
    """A message that names addresses in place of their copies."""
    for folder, scheme in copies.items():
        text = text.replace(folder, scheme)
    return text


def shown_path(path: Path) -> Path:
    """The address of a copy; another path as it is."""
    text = shown(str(path))
    return path if text == str(path) else Address.of(text)


def path_of(path: object) -> Path:
    """What a user names: a path of this machine, or an `Address`.

    Raises:
        TypeError: It is no path.
    """
    if not is_path(path):
        msg = f"a path is text or a path object, not {type(path).__name__}"
        raise TypeError(msg)
    text = os.fspath(path)
    if isinstance(path, Address):
        return path
    if text.startswith(_LOCAL_SCHEME):
        return Path(text.removeprefix(_LOCAL_SCHEME))
    return Address.of(text) if _SCHEME.match(text) else Path(path)


def is_path(path: object) -> TypeGuard[AnyPath]:
    """Whether something is a path: text, or a path object of text."""
    return isinstance(path, str) or (
        isinstance(path, os.PathLike) and isinstance(os.fspath(path), str)
    )


def is_pipe(path: str | Path) -> bool:
    """Whether a path can be read only once: standard input, or a pipe such as ``<(zcat x.gz)``."""
    return str(path) == STDIN or Path(path).is_fifo()


def check_ends(path: Path) -> None:
    """See that a path is no device or pipe, which may give bytes or wait for ever, and no socket.

    Raises:
        InputError: It is.
    """
    for kind, is_of in (
        ("device", path.is_char_device() or path.is_block_device()),
        ("socket", path.is_socket()),
        ("pipe", path.is_fifo()),
    ):
        if is_of:
            msg = f"{path} is a {kind}, and no file"
            raise InputError(msg, "Give a file, or - for standard input.")


def spooled(pipe: str | Path) -> Path:
    """What comes from a pipe as a file: readers look at a file's head first, then at its parts.

    It is removed when the program ends.

    Raises:
        InputError: Standard input is a terminal, no program writes into the pipe, or what comes
            cannot be kept.
    """
    is_stdin = str(pipe) == STDIN
    if is_stdin and (sys.stdin is None or sys.stdin.isatty()):
        msg = "standard input is a terminal, and no recording comes from it"
        raise InputError(msg, "Give a file, or pipe one in: zcat run.txt.gz | gpuprof report -")
    folder = Path(tempfile.mkdtemp(prefix="gpuprof-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "piped"
    try:
        with _opened(pipe) as stream, path.open("wb") as file:
            shutil.copyfileobj(stream, file)
    except OSError as error:
        name = "standard input" if is_stdin else pipe
        msg = f"{name} cannot be kept in {folder}: {error.strerror or error}"
        raise InputError(msg, ROOM) from error
    return path


def _opened(pipe: str | Path) -> AbstractContextManager[IO[bytes]]:
    if str(pipe) == STDIN:
        return nullcontext(sys.stdin.buffer)
    stream = os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb")
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    # Of a pipe that a program has open, nothing is there to read yet; else its end is.
    if not waiting.poll(WRITER_WAIT_S * 1000) and stream.read(1) is not None:
        stream.close()
        msg = f"{pipe} is a pipe, and no program has written into it for {WRITER_WAIT_S} s"
        raise InputError(msg, "Start what writes into it, or give a file.")
    os.set_blocking(stream.fileno(), True)
    return stream


def is_glob(path: Path) -> bool:
    """Whether a path names a pattern, and not a file whose name looks like one."""
    return glob.has_magic(str(path)) and not path.exists()


def matching(path: Path) -> list[Path]:
    """The files that a pattern names, in the order of their names.

    Raises:
        InputError: There are none.
    """
    files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207
    if not files:
        msg = f"{path}: no file has such a name"
        raise InputError(msg)
    return files


def folder_of(files: Sequence[Path]) -> Path:
    """The folder that files named one by one have in common.

    Raises:
        InputError: None is there, or one is standard input, or there are none.
    """
    for file in files:
        if is_pipe(file):
            name = "standard input" if str(file) == STDIN else f"pipe {file}"
            msg = f"{name} is one recording, and cannot be read beside others"
            raise InputError(msg)
    if not files:
        msg = "no file is given"
        raise InputError(msg)
    if not any(file.exists() for file in files):
        msg = f"{files[0]}: no such file"
        raise InputError(msg)
    return common_folder(files)


def common_folder(files: Sequence[Path]) -> Path:
    """The folder that files have in common; that of the first where they have none."""
    try:
        return Path(os.path.commonpath([file.parent for file in files]))
    except ValueError:  # some paths are absolute, or they are on several drives
        return files[0].parent


def files_in(folder: Path) -> list[Path]:
    """The files of a folder but for hidden ones, in the order of their names."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in entries if entry.is_file())
