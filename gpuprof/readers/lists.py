"""Lists of recordings: ``@files.txt`` names a path, glob or address in each line.

Paths are relative to the list's folder; ``#`` begins a comment. ``@-`` reads the list from
standard input. A file whose own name begins with @ is given as ``./@name``.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuprof.base.errors import InputError
from gpuprof.readers import inputs

_MARK: Final = "@"
_HINT: Final = "A list has a path or a glob in each line: run/rank*.sqlite"


def is_list(path: inputs.AnyPath) -> bool:
    """Whether what a user names is a list of files."""
    return os.fspath(path).startswith(_MARK)


def list_path(path: inputs.AnyPath) -> Path:
    """The list itself; ``-`` is standard input."""
    return Path(os.fspath(path).removeprefix(_MARK))


def named_in(path: inputs.AnyPath) -> list[Path]:
    """The files that a list names, each once, in its order; globs are expanded.

    Single ones may be missing, which those say who read them.

    Raises:
        InputError: The list cannot be read, or it or a glob in it names nothing, or no file of it
            is there.
    """
    file = list_path(path)
    files: dict[Path, None] = {}
    for number, line in enumerate(_lines(file), 1):
        # A comment begins the line, or follows a space.
        entry = f" {line.strip()}".partition(" #")[0].strip()
        if "\0" in entry:
            msg = f"{_name(file)}, line {number}: it is not text"
            raise InputError(msg, _HINT)
        if not entry:
            continue
        path = inputs.path_of(entry)
        path = path if isinstance(path, inputs.Address) else file.parent / path
        try:
            is_pattern = not isinstance(path, inputs.Address) and inputs.is_glob(path)
            files |= dict.fromkeys(inputs.matching(path) if is_pattern else [path])
        except InputError as error:
            msg = f"{_name(file)}, line {number}: {error.message}"
            raise InputError(msg, error.hint) from error
    if not files:
        msg = f"{_name(file)} names no file"
        raise InputError(msg, _HINT)
    if not any(isinstance(path, inputs.Address) or path.exists() for path in files):
        msg = f"{_name(file)}: none of its files is there, {next(iter(files))} for one"
        raise InputError(msg, "Paths are relative to the folder of the list.")
    return [*files]


def _name(file: Path) -> str:
    return "standard input" if str(file) == inputs.STDIN else str(file)


def _lines(file: Path) -> Iterator[str]:
    try:
        if str(file) == inputs.STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                msg = "standard input is a terminal, and no list comes from it"
                raise InputError(msg, "Pipe one in: find run -name '*.sqlite' | gpuprof report @-")
            yield from sys.stdin
            return
        inputs.check_ends(file)
        with file.open(encoding="utf-8-sig") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        msg = f"{_name(file)} is not a list of files: it is not UTF-8 text"
        raise InputError(msg, _HINT) from error
    except FileNotFoundError as error:
        msg = f"{file}: no such list of files"
        raise InputError(msg, f"@ stands for a list. A file of this name is ./@{file}") from error
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg) from error
