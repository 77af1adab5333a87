"""Every deliberate error: what went wrong, what to do about it, and the exit status."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

# Of a message, whatever it quotes: a few lines of a terminal, and most of a long path.
LONGEST_MESSAGE: Final = 1_000
_LONGEST_QUOTED: Final = 40


def excerpt(value: object) -> str:
    """What a file holds, as messages show it: the beginning of its ``repr``."""
    return repr(value)[:_LONGEST_QUOTED]


class GpuprofError(Exception):
    """A problem that the user can understand and mend.

    Args:
        message: What is wrong and where, in one line: ``run.log, line 4: ...``; cut in its middle
            where it is longer than `LONGEST_MESSAGE`.
        hint: What to do about it, in one line; None where nothing can be done. A traceback shows
            it as a note.
    """

    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        if len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2 - 1
            message = f"{message[:half]}..{message[-half:]}"
        self.message = message
        super().__init__(self.message)
        self.hint = hint
        if hint:
            self.add_note(hint)


# Where a temporary file has no room.
ROOM: Final = "Set TMPDIR to a folder with more room."


def one_of(title: str, name: str, choices: Sequence[str], most: int | None = None) -> str:
    """The hint for an unknown name: the near choices, else the first or all."""
    from difflib import get_close_matches  # noqa: PLC0415 - start-up time

    if near := get_close_matches(name, choices):
        return f"Did you mean {' or '.join(near)}?"
    shown = choices[:most]
    more = f" and {len(choices) - len(shown):,} more" if len(choices) > len(shown) else ""
    return f"{title}: {', '.join(shown)}{more}."


def check_no_foreign_files(folder: Path, foreign: Sequence[Path]) -> None:
    """Refuse to replace a folder with more in it than what gpuprof has made.

    Args:
        folder: It was to be replaced.
        foreign: What else lies in it.

    Raises:
        OutputError: There is something.
    """
    if foreign:
        names = ", ".join(str(path.relative_to(folder)) for path in foreign[:3])
        more = f" and {len(foreign) - 3:,} more" if foreign[3:] else ""
        msg = f"{folder} holds files that gpuprof did not make: {names}{more}"
        raise OutputError(msg, "Move them away first, or choose another folder.")


def install(extra: str) -> str:
    """The hint for a missing extra: pip with the packages that it names.

    The distribution need not be on an index, and where it was installed from may be gone.
    """
    from importlib import metadata  # noqa: PLC0415 - start-up time

    try:
        lines = metadata.requires("gpuprof-toolkit") or []
    except metadata.PackageNotFoundError:
        lines = []
    of_extra = [line.partition(";") for line in lines]
    names = [
        name.strip()
        for name, _, mark in of_extra
        if f"extra == '{extra}'" in mark.replace('"', "'")
    ]
    # Of a checkout that is used without being installed.
    return f"pip install {' '.join(map(shlex.quote, names or [f'.[{extra}]']))}"


class UsageError(GpuprofError):
    """The words of the command do not fit together."""

    exit_status: ClassVar[int] = 2


class InputError(GpuprofError):
    """A file or folder cannot be opened."""


class UnknownFormatError(GpuprofError):
    """No reader, or more than one, is certain that the file is its own."""


class CorruptFileError(GpuprofError):
    """A file has the marks of its format and then breaks its rules."""


class EmptyRecordingError(GpuprofError):
    """A file is what it claims to be, and nothing was recorded in it."""


class MissingTableError(GpuprofError):
    """An analysis needs a table that this recording does not have."""


class TableNameError(UsageError, KeyError):
    """A result has no table of this name; a mapping's `get` and `in` take it for a missing key."""

    def __str__(self) -> str:
        """The message as it is; a KeyError would show it in quotes."""
        return self.message


class QueryError(UsageError):
    """A query is no single SELECT, names what there is not, or DuckDB cannot answer it."""


class OutputError(GpuprofError):
    """An output cannot be written, or would overwrite something."""


class RecordError(GpuprofError):
    """A recording cannot be started or brought home."""


class MissingToolError(RecordError):
    """A program or package that is needed is not installed."""


class StoppedError(GpuprofError, KeyboardInterrupt):
    """Ctrl-C stopped a program that was recorded, or a sweep."""

    exit_status: ClassVar[int] = 130


class GateError(GpuprofError):
    """A comparison fails a condition that the user gave."""

    exit_status: ClassVar[int] = 3
