"""Arguments as the functions take them: recordings in any form, and times with their units."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from operator import index
from typing import Any, Protocol, runtime_checkable

from gpuprof.base.errors import UsageError
from gpuprof.base.units import duration_ns, instant_ns
from gpuprof.comparisons import Recording as LabelledRecording
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.model.profile import Profile
from gpuprof.readers import read_profile
from gpuprof.readers.inputs import AnyPath, is_path


@runtime_checkable
class HasProfile(Protocol):
    """A result that keeps the recording it was made of."""

    @property
    def profile(self) -> Profile:
        """The recording."""


# One recording: paths of one recording, what was read, or a result of it.
Recording = AnyPath | Sequence[AnyPath] | Profile | HasProfile
# A variant of a comparison.
Unlabelled = AnyPath | Profile | HasProfile
Variant = Unlabelled | tuple[str, Unlabelled]
Variants = Variant | Sequence[Variant] | Mapping[str, Unlabelled | Sequence[Unlabelled]]
Time = str | int


def read(
    recording: Recording,
    requested: RecordingPart,
    *,
    reader: str | None = None,
    section: str | int | None = None,
    skip_steps: int | None = None,
) -> Profile:
    """A recording in any form, or the part of it that is requested.

    Raises:
        GpuprofError: It cannot be read, or nothing runs in the part.
        TypeError: It is no recording.
    """
    profile = read_profile(_unwrapped(recording), reader, section)
    if skip_steps is not None:
        profile = replace(profile, skip_steps=skip_steps)
    return part_of(profile, requested)


def part(
    from_: Time | None,
    to: Time | None,
    range_text: str | None,
    occurrence: int | None,
    device: int | None,
) -> RecordingPart:
    """The part of a recording that a function's arguments ask for.

    Raises:
        UsageError: They do not fit together.
        TypeError: A time is neither text nor an integer.
    """
    start_ns, end_ns = time_ns("from_", from_, instant_ns), time_ns("to", to, instant_ns)
    return RecordingPart(start_ns, end_ns, range_text, occurrence, device)


def time_ns(name: str, value: Time | None, parse: Callable[[str], int] = duration_ns) -> int | None:
    """A time in nanoseconds: of text with a unit, as ``1.5s``, or of an integer as it is.

    Raises:
        UsageError: The text is no number with a unit of time.
        TypeError: It is neither text nor an integer.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        try:
            return index(value)
        except TypeError as error:
            kind = type(value).__name__
            msg = f'{name} must be text with a unit, as "1.5s", or integer nanoseconds, not {kind}'
            raise TypeError(msg) from error
    try:
        return parse(value)
    except ValueError as error:
        msg = f"{name}: {error}"
        raise UsageError(msg, "Write a time as 10m, 1.5s, 20ms or 300us.") from error


def variants(recordings: Sequence[Variants]) -> list[LabelledRecording]:
    """Recordings to compare, one by one, with their labels where they have some.

    Args:
        recordings: What a function was called with: recordings, or one list or mapping of them.
    """
    if len(recordings) != 1:
        return [*map(_labelled, recordings)]
    first: Any = recordings[0]
    if isinstance(first, Mapping):
        pairs = ((label, run) for label, runs in first.items() for run in _runs(runs))
        return [*map(_labelled, pairs)]
    is_several = isinstance(first, Sequence) and not isinstance(first, str | bytes | tuple)
    return [*map(_labelled, first if is_several else [first])]


def _runs(runs: Any) -> Iterator[Any]:
    """The runs under one label, which may be one."""
    if is_path(runs) or not isinstance(runs, Sequence):
        yield runs
    else:
        yield from runs


def _labelled(recording: Any) -> Any:
    if isinstance(recording, tuple):
        return tuple(map(_unwrapped, recording))
    return _unwrapped(recording)


def _unwrapped(recording: Any) -> Any:
    return recording.profile if isinstance(recording, HasProfile) else recording


def program_words(command: str, words: Sequence[object]) -> tuple[str, ...]:
    """The words of a program's command as text.

    Raises:
        UsageError: There are none.
        TypeError: One is neither text, a path nor a number.
    """
    if not words:
        msg = f"{command} needs a script"
        raise UsageError(msg, f'Give it: gpuprof.{command}("train.py", "--epochs", 5)')
    return tuple(_word(word) for word in words)


def _word(word: object) -> str:
    if is_path(word):
        return os.fspath(word)
    if isinstance(word, Real) and not isinstance(word, bool):
        return str(word)
    msg = f"a word of a command must be text, a path or a number, not {type(word).__name__}"
    raise TypeError(msg)


def say(text: str) -> None:
    """Print a line of progress, which is no result, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - as the commands do
