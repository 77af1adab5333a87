"""Arguments as the functions take them: recordings in any form, and times with their units."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Protocol, runtime_checkable

from gpuprof.api.options import PART, SKIP_STEPS
from gpuprof.api.values import checked
from gpuprof.base.errors import UsageError
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
    skipped = checked(SKIP_STEPS, skip_steps)
    profile = read_profile(_unwrapped(recording), reader, section)
    return part_of(
        replace(profile, skip_steps=skipped) if skipped is not None else profile, requested
    )


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
    options = (from_, to, range_text, occurrence, device)
    return RecordingPart(*map(checked, PART, options))


def variants(recordings: Sequence[Variants]) -> list[LabelledRecording]:
    """Recordings to compare, one by one, with their labels where they have some.

    Args:
        recordings: What a function was called with: recordings, or one list or mapping of them.
    """
    if len(recordings) != 1:
        return [*map(_labelled, recordings)]
    first: Any = recordings[0]
    if isinstance(first, Mapping):
        several = {
            label: runs if isinstance(runs, Sequence) and not is_path(runs) else [runs]
            for label, runs in first.items()
        }
        return [_labelled((label, run)) for label, runs in several.items() for run in runs]
    is_several = isinstance(first, Sequence) and not isinstance(first, str | bytes | tuple)
    return [*map(_labelled, first if is_several else [first])]


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
    texts = []
    for word in words:
        if not is_path(word) and (not isinstance(word, Real) or isinstance(word, bool)):
            kind = type(word).__name__
            msg = f"a word of a command must be text, a path or a number, not {kind}"
            raise TypeError(msg)
        texts.append(os.fspath(word) if is_path(word) else str(word))
    return tuple(texts)


def say(text: str) -> None:
    """Print a line of progress, which is no result, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - as the commands do
