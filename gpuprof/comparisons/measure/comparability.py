"""What differs between a candidate and the baseline besides what is compared.

Nothing here refuses a comparison: a warning names what may make the difference.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from operator import eq
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from gpuprof.base.units import capital, format_clock, listed, say_share
from gpuprof.comparisons.measure.compared_steps import STEP, is_sampled, marked_steps
from gpuprof.comparisons.measure.measured_runs import Variant

# --batch-size 64, -b 64, batch_size=64, and those of Hugging Face and Megatron.
_BATCH: Final = re.compile(
    r"^(?:--?|(?=[^=]+=))(?:(?:[\w.-]*[-_.])?(?:batch(?:[-_]?size)?|bs)|b)(?:=(.*))?$",
    re.IGNORECASE,
)
_OTHER_BATCH: Final = re.compile(r"eval|test|valid", re.IGNORECASE)
_PROGRAMS: Final = re.compile(r"^(?:python[0-9.]*|env|torchrun|mpirun|srun|nsys|nvprof|profile)$")
_SCRIPT: Final = re.compile(r"\.(?:py|ipynb|jl|sh)$")
_NO_NAME: Final = re.compile(r"^(?:-.*|\w+=.*|[0-9.:,]+)$")
# So much of the kernels in other launch shapes is worth a warning.
_MUCH: Final = 0.1


class Aspect(NamedTuple):
    """Something that should be the same on both sides.

    Args:
        name: As in the column ``aspect``.
        words: Its label for people, in lower case.
        of: What a variant has, as text; None where it is not known.
        verb: ``differ`` or ``differs``, to agree with the label.
        is_same: Whether two texts mean the same.
    """

    name: str
    words: str
    of: Callable[[Variant], str | None]
    verb: str = "differ"
    is_same: Callable[[str, str], bool] = eq


def script(variant: Variant) -> str | None:
    """The file name of the program that ran, its interpreter and launchers left out."""
    words = [PurePath(word).name for word in _command(variant) if not _NO_NAME.match(word)]
    names = [name for name in words if not _PROGRAMS.match(name)]
    return next((name for name in names if _SCRIPT.search(name)), next(iter(names), None))


def batch(variant: Variant) -> str | None:
    """The batch sizes that the command line gave, of a worker and of all of them."""
    words = _command(variant)
    sizes = [
        match[1] or following
        for word, following in zip_longest(words, words[1:])
        if (match := _BATCH.match(word)) and not _OTHER_BATCH.search(word)
    ]
    return " and ".join(size for size in sizes if size and not size.startswith("-")) or None


def _command(variant: Variant) -> list[str]:
    command = variant.median.compared.profile.origin.command or ""
    try:
        return shlex.split(command)
    except ValueError:  # A quote that nothing closes.
        return command.split()


def _steps(variant: Variant) -> str | None:
    """The steps that it trained; where a sample of them was recorded, those that were marked."""
    profile = variant.median.compared.profile
    steps = marked_steps(profile) if is_sampled(profile) else variant.median.metrics.get("steps")
    return None if steps is None else str(steps)


def _clock(variant: Variant) -> str | None:
    """The maximum clock of the GPUs, where the profiler records it."""
    profile = variant.median.compared.profile
    if not profile.has("devices"):
        return None
    clocks = {hz for hz in profile.table("devices").column("clock_hz").to_pylist() if hz}
    return " and ".join(format_clock(hz) for hz in sorted(clocks)) or None


def _tool(variant: Variant) -> str:
    """The tool that recorded and its version, whichever version exported the recording."""
    origin = variant.median.compared.profile.origin
    return f"{origin.tool} {origin.tool_version}" if origin.tool_version else origin.tool


def _is_same_tool(before: str, after: str) -> bool:
    """Whether two tools may be the same: an export may name a part of the version, or none."""
    parts = zip(*(re.split(r"[ .]", text) for text in (before, after)), strict=False)
    return all(part == same_part for part, same_part in parts)


ASPECTS: Final = (
    Aspect("script", "scripts", script),
    Aspect("batch", "batch sizes", batch),
    Aspect("steps", "step counts", _steps),
    Aspect("work", "what counts as a step", lambda v: v.median.compared.text, "differs"),
    Aspect(
        "gpu",
        "GPU models",
        lambda variant: variant.median.metrics.get("device_names"),
        # Drivers since 470 name them with their maker.
        is_same=lambda *sides: len({names.replace("NVIDIA ", "") for names in sides}) == 1,
    ),
    Aspect("clock", "maximum clocks", _clock),
    Aspect("tool", "profilers", _tool, is_same=_is_same_tool),
)
# Not named as unknown: another note says that whole recordings are compared, and few profilers
# record clocks.
_OPTIONAL: Final = {"steps", "work", "clock"}
_SHAPES: Final = "shapes"


def mismatches(
    baseline: Variant, candidate: Variant, kernels: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What differs, or could not be checked, as rows of `COMPARABILITY`.

    ``kernels`` are the candidate's rows of `KERNELS`.
    """
    labels = baseline.label, candidate.label
    rows: list[dict[str, Any]] = []
    for aspect in ASPECTS:
        texts = aspect.of(baseline), aspect.of(candidate)
        before, after = texts
        if before is not None and after is not None:
            if aspect.is_same(before, after):
                continue
            warning = _sentence(aspect, dict(zip(labels, texts, strict=True)))
        elif aspect.name in _OPTIONAL:
            continue
        else:
            silent = [label for label, text in zip(labels, texts, strict=True) if text is None]
            do = f"{' and '.join(silent)} {'does' if len(silent) == 1 else 'do'}"
            warning = f"{capital(aspect.words)} were not compared: {do} not state them."
        row = {"variant": candidate.label, "aspect": aspect.name, "warning": warning}
        rows.append(row | {"baseline": before, "candidate": after, "is_known": None not in texts})
    kernel_ns = baseline.median_figure("kernel_ns")
    gone_ns = sum(kernel["baseline_ns"] or 0 for kernel in kernels if kernel["is_reshaped"])
    share = gone_ns / kernel_ns if kernel_ns else 0
    if share >= _MUCH:
        warning = (
            f"Kernels that take {say_share(share)} of {baseline.label}'s kernel time run with"
            f" other launch shapes in {candidate.label}, so their calls do not compare. The batch"
            " size may differ, or the work may be split."
        )
        row = {"variant": candidate.label, "aspect": _SHAPES, "warning": warning}
        rows.append(row | {"baseline": None, "candidate": None, "is_known": True})
    return rows


def comparability_notes(rows: Sequence[Mapping[str, Any]], baseline: str, unit: str) -> list[str]:
    """The warnings in few sentences: each aspect that differs, then what was not checked."""
    # How many steps each has is said with what a step is.
    differ = [r for r in rows if r["is_known"] and (r["aspect"], unit) != ("steps", STEP)]
    aspects = {aspect.name: aspect for aspect in ASPECTS}
    notes = []
    for name in dict.fromkeys(row["aspect"] for row in differ):
        of_aspect = [row for row in differ if row["aspect"] == name]
        if name == _SHAPES:
            notes += [row["warning"] for row in of_aspect]
            continue
        sides = {baseline: of_aspect[0]["baseline"]}
        sides |= {row["variant"]: row["candidate"] for row in of_aspect}
        notes.append(_sentence(aspects[name], sides))
    unknown = dict.fromkeys(aspects[row["aspect"]].words for row in rows if not row["is_known"])
    if unknown:
        words = capital(listed([*unknown]))
        notes.append(f"{words} were not compared: not every recording states them.")
    return notes


def _sentence(aspect: Aspect, sides: Mapping[str, str | None]) -> str:
    texts = ", ".join(f"{text} in {label}" for label, text in sides.items())
    return f"{capital(aspect.words)} {aspect.verb}: {texts}."
