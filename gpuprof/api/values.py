"""The values that options take: how words become values, and what shells complete.

Light to import, because ``gpuprof --help`` does.
"""

import os
import re
from collections.abc import Callable, Iterable
from glob import escape
from importlib import import_module
from operator import index
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from gpuprof.base.errors import UsageError
from gpuprof.base.units import duration_ns

# Ends of the names of files that `gpuprof export` writes, and what it calls them.
_EXPORTED: Final = {".parquet": "parquet", ".csv": "csv", ".pftrace": "perfetto", ".et": "chakra"}


class Parsed(click.ParamType):  # type: ignore[type-arg]  # only newer ones are generic
    """A text that is parsed.

    Args:
        parse: Raises ValueError, which says what is wrong with a text.
        advice: How to write it instead.
    """

    name = "text"

    def __init__(self, parse: Callable[[str], Any], advice: str) -> None:
        self.parse, self.advice = parse, advice

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """What the text says."""
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(f"{error}; {self.advice}", param, ctx)


class Time(Parsed):
    """A time with its unit, in nanoseconds."""

    def __init__(self, parse: Callable[[str], int] = duration_ns) -> None:
        super().__init__(parse, "write a time as 10m, 1.5s, 20ms or 300us")


class NameAndValue(click.ParamType):  # type: ignore[type-arg]  # as above
    """``NAME=VALUE`` as a name and a value.

    Args:
        split: The place of the sign between the two.
        value: What the value is.
        may_be_empty: Whether the value may be.
    """

    name = "pair"

    def __init__(
        self,
        split: Callable[[str], int],
        value: Any = click.STRING,
        *,
        may_be_empty: bool = False,
    ) -> None:
        self.split, self.value, self.may_be_empty = split, value, may_be_empty

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        """What stands before and after the sign."""
        place = self.split(value)
        name, text = value[: max(place, 0)], value[place + 1 :]
        if not name or not (text or self.may_be_empty):
            self.fail(f"{value} is not of the form NAME=VALUE", param, ctx)
        return name, self.value.convert(text, param, ctx)


def end_of_label(text: str) -> int:
    """The first sign that a file's name follows, else the last one before a folder's name."""
    places = [place for place, sign in enumerate(text) if sign == "="]
    folder = text.find("/") if "/" in text else len(text)
    last = max((place for place in places if place < folder), default=text.find("="))
    # Without an error for a name that is too long.
    is_file = os.path.exists
    return next((place for place in places if is_file(text[place + 1 :])), last)


def parse_epochs(text: str) -> tuple[int, int]:
    """``2:4`` is epochs 2 and 3, ``2`` is epoch 2; 0 is the first.

    Raises:
        ValueError: It is neither form, or empty.
    """
    first, colon, end = text.partition(":")
    if not first.isdecimal() or (colon and not end.isdecimal()):
        msg = f"{text!r} is not a range of epochs"
        raise ValueError(msg)
    span = int(first), int(end) if colon else int(first) + 1
    if span[0] >= span[1]:
        msg = f"{text!r} is an empty range of epochs"
        raise ValueError(msg)
    return span


def recording_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    """The name of a gpuprof file, which is none of another tool's file."""
    suffix = Path(name).suffix
    # A name that ends in / is that of a data set's folder.
    if suffix in _EXPORTED and not name.endswith("/"):
        msg = f"{name} ends in {suffix}, but this command writes gpuprof's own format"
        export = f"`gpuprof export FILE --to {_EXPORTED[suffix]}`"
        raise UsageError(msg, f"Let the name end in .gpuprof, or use {export}.")
    return name


# Python's words for some of the command line; `from` is one of the language's own.
_IN_PYTHON: Final = {"from": "from_", "output": "out", "figure": "figures"}


def keyword(option: click.Parameter) -> str:
    """The keyword of Python's functions for an option, after its long word."""
    word = option.opts[-1].removeprefix("--").replace("-", "_")
    return _IN_PYTHON.get(word, word)


def checked(option: click.Parameter, value: Any) -> Any:
    """The value of a keyword as the command has it: text parsed, integers as they are.

    Raises:
        UsageError: It is no such value.
        TypeError: A time is neither text nor an integer.
    """
    name, kind = keyword(option), option.type
    if value is None:
        return None
    if isinstance(kind, Time) and not isinstance(value, str):
        try:
            return index(value)
        except TypeError as error:
            of = type(value).__name__
            msg = f'{name} must be text with a unit, as "1.5s", or integer nanoseconds, not {of}'
            raise TypeError(msg) from error
    if isinstance(kind, Parsed):
        try:
            return kind.parse(str(value))
        except ValueError as error:
            msg = f"{name}: {error}"
            raise UsageError(msg, f"{kind.advice[0].upper()}{kind.advice[1:]}.") from error
    if isinstance(kind, click.IntRange) and kind.min is not None and value < kind.min:
        msg = f"{name} must be at least {kind.min:g}, not {value}"
        raise UsageError(msg)
    return value


# What shells complete. The names are looked up when the Tab key asks for them.
_RUN_FOLDERS: Final = ("gpuprof-runs/*", "gpuprof-sweeps/*")
_LIST: Final = "@"


def _beginning(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]


def names(
    module: str, attribute: str, end: str = ""
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the names that a module lists, with this at their ends."""

    def complete(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
        listed = getattr(import_module(module), attribute)
        return _beginning(start, (f"{getattr(name, 'name', name)}{end}" for name in listed))

    return complete


def queried(
    context: click.Context, option: click.Parameter, start: str
) -> list[CompletionItem] | list[str]:
    """Files, and within a SELECT the names of tables and of the columns of those that it names."""
    head, last = re.findall(r"(.*?)(\w*)$", start, re.DOTALL)[0]
    if not last or not re.match(r"(select|with|from|describe)\s", head, re.IGNORECASE):
        return recordings(context, option, start)
    from gpuprof.show.query import schema_table  # noqa: PLC0415 - start-up time

    table = schema_table(None).to_pylist()
    tables = {row["table"] for row in table}
    named = {*re.findall(r"\w+", head)} & tables or tables
    columns = (row["column"] for row in table if row["table"] in named)
    return [f"{head}{name}" for name in sorted({*_beginning(last, (*tables, *columns))})]


def recordings(
    _context: click.Context, _option: click.Parameter, start: str
) -> list[CompletionItem]:
    """Run folders that begin so, where that names some; else files and folders; lists after @."""
    if start.startswith(_LIST):
        folder, _, name = start.removeprefix(_LIST).rpartition("/")
        root = Path(f"{folder}/" if start.startswith(f"{_LIST}/") else folder)
        return [
            CompletionItem(f"{_LIST}{path.as_posix()}{'/' if path.is_dir() else ''}")
            for path in sorted(root.glob(f"{escape(name)}*"))
        ]
    folders = (p for pattern in _RUN_FOLDERS for p in Path().glob(pattern) if p.is_dir())
    runs = _beginning(start, sorted(path.as_posix() for path in folders)) if start else []
    return [CompletionItem(run) for run in runs] or [CompletionItem(start, type="file")]
