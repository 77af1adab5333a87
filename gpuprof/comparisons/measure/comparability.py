"""What differs between a candidate and the baseline besides what is compared.

Nothing here refuses a comparison: a warning names what may make the difference.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from operator import eq
from pathlib import PurePath
from typing import Final, NamedTuple

from gpuprof.base.units import capital, format_clock, listed, say_share
from gpuprof.comparisons.measure.compared_steps import STEP, is_sampled, marked_steps
from gpuprof.comparisons.measure.runs import Variant
from gpuprof.comparisons.rows import KernelPair, Mismatch
from gpuprof.model.profile import Profile

# --batch-size 64, -b 64, batch_size=64, and those of Hugging Face and Megatron.
_BATCH: Final = re.compile(
    r"^(?:--?|(?=[^=]+=))(?:(?:[\w.-]*[-_.])?(?:batch(?:[-_]?size)?|bs)|b)(?:=(.*))?$",
    re.IGNORECASE,
)
_OTHER_BATCH: Final = re.compile(r"eval|test|valid", re.IGNORECASE)
_PROGRAMS: Final = re.compile(r"^(?:python[0-9.]*|env|torchrun|mpirun|srun|nsys|nvprof|profile)$")
_SCRIPT: Final = re.compile(r"\.(?:py|ipynb|jl|sh)$")
_NO_NAME: Final = re.compile(r"^(?:-.*|\w+=.*|[0-9.:,]+)$")
_MUCH: Final = 0.1
_MAKER: Final = "NVIDIA "


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
    command = _profile(variant).origin.command or ""
    try:
        return shlex.split(command)
    except ValueError:  # A quote that nothing closes.
        return command.split()


def _profile(variant: Variant) -> Profile:
    return variant.median.compared.profile


def _steps(variant: Variant) -> str | None:
    """The steps that it trained; where a sample of them was recorded, those that were marked."""
    profile = _profile(variant)
    steps = marked_steps(profile) if is_sampled(profile) else variant.median.metrics.get("steps")
    return None if steps is None else str(steps)


def _clock(variant: Variant) -> str | None:
    """The maximum clock of the GPUs, where the profiler records it."""
    profile = _profile(variant)
    if not profile.has("devices"):
        return None
    clocks = {hz for hz in profile.table("devices").column("clock_hz").to_pylist() if hz}
    return " and ".join(format_clock(hz) for hz in sorted(clocks)) or None


def _tool(variant: Variant) -> str:
    """The tool that recorded and its version, whichever version exported the recording."""
    origin = _profile(variant).origin
    return f"{origin.tool} {origin.tool_version}" if origin.tool_version else origin.tool


def _is_same_tool(before: str, after: str) -> bool:
    """Whether two tools may be the same: an export may name a part of the version, or none."""
    parts = zip(*(re.split(r"[ .]", text) for text in (before, after)), strict=False)
    return all(part == same_part for part, same_part in parts)


def _is_same_gpu(before: str, after: str) -> bool:
    """Whether GPUs are of the same models: drivers since 470 name them with their maker."""
    return before.replace(_MAKER, "") == after.replace(_MAKER, "")


ASPECTS: Final = (
    Aspect("script", "scripts", script),
    Aspect("batch", "batch sizes", batch),
    Aspect("steps", "step counts", _steps),
    Aspect(
        "work", "what counts as a step", lambda variant: variant.median.compared.text, "differs"
    ),
    Aspect(
        "gpu",
        "GPU models",
        lambda variant: variant.median.metrics.get("device_names"),
        is_same=_is_same_gpu,
    ),
    Aspect("clock", "maximum clocks", _clock),
    Aspect("tool", "profilers", _tool, is_same=_is_same_tool),
)
# Not named as unknown: another note says that whole recordings are compared, and few profilers
# record clocks.
_OPTIONAL: Final = {"steps", "work", "clock"}
_SHAPES: Final = "shapes"


def mismatches(
    baseline: Variant, candidate: Variant, kernels: Sequence[KernelPair]
) -> list[Mismatch]:
    """What differs, or could not be checked, as rows of `COMPARABILITY`.

    Args:
        baseline: The baseline.
        candidate: The candidate.
        kernels: The candidate's rows of `KERNELS`.
    """
    rows = [_mismatch(aspect, baseline, candidate) for aspect in ASPECTS]
    rows.append(_reshaped(baseline, candidate, kernels))
    return [row for row in rows if row is not None]


def _mismatch(aspect: Aspect, baseline: Variant, candidate: Variant) -> Mismatch | None:
    before, after = aspect.of(baseline), aspect.of(candidate)
    row = candidate.label, aspect.name, before, after
    if before is not None and after is not None:
        sides = {baseline.label: before, candidate.label: after}
        if aspect.is_same(before, after):
            return None
        return Mismatch(*row, is_known=True, warning=_sentence(aspect, sides))
    if aspect.name in _OPTIONAL:
        return None
    silent = [v.label for v, text in ((baseline, before), (candidate, after)) if text is None]
    does = "does" if len(silent) == 1 else "do"
    warning = (
        f"{capital(aspect.words)} were not compared: {' and '.join(silent)} {does} not state them."
    )
    return Mismatch(*row, is_known=False, warning=warning)


def _reshaped(
    baseline: Variant, candidate: Variant, kernels: Sequence[KernelPair]
) -> Mismatch | None:
    """A warning where much of the same kernels runs in other launch shapes."""
    kernel_ns = baseline.median_figure("kernel_ns")
    gone_ns = sum(kernel.baseline_ns or 0 for kernel in kernels if kernel.is_reshaped)
    share = gone_ns / kernel_ns if kernel_ns else 0
    if share < _MUCH:
        return None
    warning = (
        f"Kernels that take {say_share(share)} of {baseline.label}'s kernel time run with other"
        f" launch shapes in {candidate.label}, so their calls do not compare. The batch size may"
        " differ, or the work may be split."
    )
    return Mismatch(candidate.label, _SHAPES, None, None, is_known=True, warning=warning)


def comparability_notes(rows: Sequence[Mismatch], baseline: str, unit: str) -> list[str]:
    """The warnings in few sentences: each aspect that differs, then what was not checked."""
    # How many steps each has is said with what a step is.
    differ = [row for row in rows if row.is_known and (row.aspect, unit) != ("steps", STEP)]
    aspects = {aspect.name: aspect for aspect in ASPECTS}
    notes = []
    for name in dict.fromkeys(row.aspect for row in differ):
        of_aspect = [row for row in differ if row.aspect == name]
        if name == _SHAPES:
            notes += [row.warning for row in of_aspect]
            continue
        sides = {baseline: of_aspect[0].baseline} | {r.variant: r.candidate for r in of_aspect}
        notes.append(_sentence(aspects[name], sides))
    unknown = dict.fromkeys(aspects[row.aspect].words for row in rows if not row.is_known)
    if unknown:
        words = capital(listed([*unknown]))
        notes.append(f"{words} were not compared: not every recording states them.")
    return notes


def _sentence(aspect: Aspect, sides: Mapping[str, str | None]) -> str:
    texts = ", ".join(f"{text} in {label}" for label, text in sides.items())
    return f"{capital(aspect.words)} {aspect.verb}: {texts}."
