"""What a path may be, and beside one file: standard input, a folder, a glob, an address, a list.

Any file may be written or replaced by another program while it is read, which its `Stamp` tells.

A list, ``@files.txt``, names a path, glob or address in each line, relative to its folder; ``#``
begins a comment. ``@-`` reads the list from standard input. A file whose own name begins with @ is
given as ``./@name``.
"""

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
from typing import IO, Any, Final, NamedTuple, TypeGuard

from gpuprof.base.errors import ROOM, InputError

STDIN: Final = "-"
_LIST_MARK: Final = "@"
_LIST_HINT: Final = "A list has a path or a glob in each line: run/rank*.sqlite"

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
    if len({file.is_absolute() for file in files}) > 1:
        files = [file.absolute() for file in files]
    try:
        return Path(os.path.commonpath([file.parent for file in files]))
    except ValueError:  # they are on several drives
        return files[0].parent


def files_in(folder: Path) -> list[Path]:
    """The files of a folder but for hidden ones, in the order of their names."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in entries if entry.is_file())


def is_list(path: AnyPath) -> bool:
    """Whether what a user names is a list of files."""
    return os.fspath(path).startswith(_LIST_MARK)


def list_path(path: AnyPath) -> Path:
    """The list itself; ``-`` is standard input."""
    return Path(os.fspath(path).removeprefix(_LIST_MARK))


def named_in(path: AnyPath) -> list[Path]:
    """The files that a list names, each once, in its order; globs are expanded.

    Single ones may be missing, which those say who read them.

    Raises:
        InputError: The list cannot be read, or it or a glob in it names nothing, or no file of it
            is there.
    """
    file = list_path(path)
    files: dict[Path, None] = {}
    for number, line in enumerate(_list_lines(file), 1):
        # A comment begins the line, or follows a space.
        entry = f" {line.strip()}".partition(" #")[0].strip()
        if "\0" in entry:
            msg = f"{_list_name(file)}, line {number}: it is not text"
            raise InputError(msg, _LIST_HINT)
        if not entry:
            continue
        path = path_of(entry)
        path = path if isinstance(path, Address) else file.parent / path
        try:
            is_pattern = not isinstance(path, Address) and is_glob(path)
            files |= dict.fromkeys(matching(path) if is_pattern else [path])
        except InputError as error:
            msg = f"{_list_name(file)}, line {number}: {error.message}"
            raise InputError(msg, error.hint) from error
    if not files:
        msg = f"{_list_name(file)} names no file"
        raise InputError(msg, _LIST_HINT)
    if not any(isinstance(path, Address) or path.exists() for path in files):
        msg = f"{_list_name(file)}: none of its files is there, {next(iter(files))} for one"
        raise InputError(msg, "Paths are relative to the folder of the list.")
    return [*files]


def _list_name(file: Path) -> str:
    return "standard input" if str(file) == STDIN else str(file)


def _list_lines(file: Path) -> Iterator[str]:
    try:
        if str(file) == STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                msg = "standard input is a terminal, and no list comes from it"
                raise InputError(msg, "Pipe one in: find run -name '*.sqlite' | gpuprof report @-")
            yield from sys.stdin
            return
        check_ends(file)
        with file.open(encoding="utf-8-sig") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        msg = f"{_list_name(file)} is not a list of files: it is not UTF-8 text"
        raise InputError(msg, _LIST_HINT) from error
    except FileNotFoundError as error:
        msg = f"{file}: no such list of files"
        raise InputError(msg, f"@ stands for a list. A file of this name is ./@{file}") from error
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg) from error


class Stamp(NamedTuple):
    """What differs between two files, and between two states of one file.

    The time when the inode changed also differs where a program sets the file's own time back, as
    ``cp -p`` and ``rsync -t`` do, and after the file was moved away and back.
    """

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    inode_changed_ns: int


def stamp(about: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return Stamp(about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def changed(path: Path) -> InputError:
    """The error for a file whose stamp differs from that at the start of the reading."""
    return InputError(
        f"{path} changed while it was read",
        "Is it still being written or copied? Wait for that, then try again.",
    )


def check_unchanged(path: Path, before: Stamp) -> None:
    """Check that a file is still the one that was read from.

    Raises:
        InputError: It is another one, or in another state, or gone.
    """
    try:
        is_same = stamp(path.stat()) == before
    except OSError as error:
        raise changed(path) from error
    if not is_same:
        raise changed(path)
