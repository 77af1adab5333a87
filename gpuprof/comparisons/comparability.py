"""What else differs between a candidate and the baseline than what is compared.

Nothing here refuses a comparison: a reader is told by name what may make the difference.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from gpuprof.comparisons.runs import Variant
from gpuprof.comparisons.work import STEP
from gpuprof.profile import Profile

_BATCH: Final = re.compile(r"^--?(?:batch(?:[-_]size)?|bs|b)(?:=(.*))?$")
_PROGRAMS: Final = re.compile(r"^(?:python[0-9.]*|env|torchrun|mpirun|nsys|nvprof)$")
_KERNELS_ALIKE: Final = 0.5

Row = dict[str, Any]


@dataclass(frozen=True)
class Aspect:
    """Something that should be the same on both sides.

    Args:
        name: As in the column ``aspect``.
        words: For people, as the beginning of a sentence.
        of: What a variant has, as text; None where it is not known.
    """

    name: str
    words: str
    of: Callable[[Variant], str | None]


def script(variant: Variant) -> str | None:
    """The file name of the program that ran, its interpreter left out."""
    words = _command(variant)
    named = [w for w in words if not w.startswith("-") and not _PROGRAMS.match(PurePath(w).name)]
    return PurePath(named[0]).name if named else None


def batch(variant: Variant) -> str | None:
    """The batch size that the command line gave."""
    words = _command(variant)
    for word, following in zip(words, [*words[1:], None], strict=False):
        match = _BATCH.match(word)
        if match:
            return match[1] or following
    return None


def _command(variant: Variant) -> list[str]:
    command = _profile(variant).origin.command or ""
    try:
        return shlex.split(command)
    except ValueError:  # A quote that nothing closes.
        return command.split()


def _profile(variant: Variant) -> Profile:
    return variant.median.work.profile


def _steps(variant: Variant) -> str | None:
    steps = variant.median.found.get("steps")
    return None if steps is None else str(steps)


def _gpu(variant: Variant) -> str | None:
    names: str | None = variant.median.found.get("device_names")
    return names


def _tool(variant: Variant) -> str:
    origin = _profile(variant).origin
    return f"{origin.tool} {origin.tool_version}" if origin.tool_version else origin.tool


def _text(variant: Variant) -> str | None:
    return variant.median.work.text


ASPECTS: Final = (
    Aspect("script", "the scripts", script),
    Aspect("batch", "the batch sizes", batch),
    Aspect("steps", "the numbers of steps", _steps),
    Aspect("work", "what is taken for a step", _text),
    Aspect("gpu", "the GPU models", _gpu),
    Aspect("tool", "the tools", _tool),
)
# Never named as unknown: a recording without steps is compared whole, and that is said.
_OPTIONAL: Final = {"steps", "work"}


def comparability_rows(baseline: Variant, candidate: Variant) -> list[Row]:
    """What differs, or could not be checked, as rows of `COMPARABILITY`."""
    rows = [_row(aspect, baseline, candidate) for aspect in ASPECTS]
    return [{"variant": candidate.label} | row for row in rows if row is not None]


def _row(aspect: Aspect, baseline: Variant, candidate: Variant) -> Row | None:
    before, after = aspect.of(baseline), aspect.of(candidate)
    is_known = before is not None and after is not None
    if (before == after and is_known) or (not is_known and aspect.name in _OPTIONAL):
        return None
    found = {"aspect": aspect.name, "baseline": before, "candidate": after, "is_known": is_known}
    if before is not None and after is not None:
        sides = {baseline.label: before, candidate.label: after}
        return found | {"warning": _sentence(aspect.words, sides)}
    silent = [v.label for v, text in ((baseline, before), (candidate, after)) if text is None]
    said = f"Not compared: {aspect.words}, which {' and '.join(silent)} do not tell."
    return found | {"warning": said}


def comparability_notes(rows: Sequence[Row], baseline: str, unit: str) -> list[str]:
    """The warnings in few sentences: each aspect that differs, then what was not checked."""
    # How many steps each has is said with what a step is.
    differ = [row for row in rows if row["is_known"] and (row["aspect"], unit) != ("steps", STEP)]
    words = {aspect.name: aspect.words for aspect in ASPECTS}
    notes = []
    for name in dict.fromkeys(row["aspect"] for row in differ):
        mine = [row for row in differ if row["aspect"] == name]
        found = {baseline: mine[0]["baseline"]}
        found |= {row["variant"]: row["candidate"] for row in mine}
        notes.append(_sentence(words[name], found))
    unknown = dict.fromkeys(words[row["aspect"]] for row in rows if not row["is_known"])
    if unknown:
        notes.append(f"Not told by all recordings, so not compared: {', '.join(unknown)}.")
    return notes


def _sentence(words: str, found: Mapping[str, str]) -> str:
    said = ", ".join(f"{text} in {label}" for label, text in found.items())
    return f"{words[0].upper()}{words[1:]} differ: {said}."
