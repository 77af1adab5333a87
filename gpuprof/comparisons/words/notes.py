"""What a reader must know to trust a comparison, one sentence each."""

from collections.abc import Mapping
from typing import Final

from gpuprof.analyses.facts.step_windows import DETECTED
from gpuprof.comparisons.measure.matching import has_shapes
from gpuprof.comparisons.measure.runs import Variant
from gpuprof.comparisons.measure.work import FROM_EPOCHS, STEP
from gpuprof.comparisons.words.cases import listed
from gpuprof.profile import Profile
from gpuprof.reports import cannot, recording_notes
from gpuprof.statistics import LEVEL, coverage
from gpuprof.units import counted, say_share

_TIMES: Final = ("gpu_activity_ns", "kernel_ns", "span_ns")
_GUESSED: Final = (
    "Compared by step ({counts}): no range names steps, so a pattern of kernels that repeats is"
    " taken for them, which {text} opens; what lies outside is left out."
)


def notes(variants: Mapping[str, Variant], unit: str) -> tuple[str, ...]:
    """Each recording's notes under its label, and what no recording here can tell."""
    said: dict[str, list[str]] = {}
    for label, variant in variants.items():
        for note in recording_notes(variant.median.work.profile):
            said.setdefault(note, []).append(label)
    shared = [note for note, labels in said.items() if len(labels) == len(variants)]
    own = [f"{', '.join(labels)}: {note}" for note, labels in said.items() if note not in shared]
    return (
        *own,
        *shared,
        *_epochs(variants),
        *_exposed(variants),
        *_staged(variants),
        *_steps(variants, unit),
        *_shapes(variants),
        *_chance(variants),
    )


def _shapes(variants: Mapping[str, Variant]) -> list[str]:
    """That kernels are matched by name alone where only some recordings tell launch shapes."""
    told = {
        label: all(has_shapes(run.work.profile) for run in variant.runs)
        for label, variant in variants.items()
        if any(run.found.get("kernel_ns") for run in variant.runs)
    }
    silent = [label for label, is_told in told.items() if not is_told]
    if not silent or len(silent) == len(told):
        return []
    tell = "tells" if len(silent) == 1 else "tell"
    return [f"Kernels are matched by name alone: {listed(silent)} {tell} no launch shapes."]


def _epochs(variants: Mapping[str, Variant]) -> list[str]:
    """Marked epochs that have no time, so that their mean would be none."""
    said = []
    for label, variant in variants.items():
        profile = variant.median.work.profile
        whole = profile.whole
        seconds = whole.table("epochs").column("seconds").to_pylist() if whole.has("epochs") else []
        bad = seconds.count(None)
        if bad:
            have = "has" if bad == 1 else "have"
            said.append(
                f"{label}: {bad} of {counted(len(seconds), 'epoch', 'epochs')} {have} no time: the"
                " mean is not told."
            )
    return said


def _exposed(variants: Mapping[str, Variant]) -> list[str]:
    untold = {
        label: variant
        for label, variant in variants.items()
        if variant.median.found.get("exposed_transfer_ns") is None
    }
    if not untold:
        return []
    reasons = {cannot(variant.median.work.profile) for variant in untold.values()} - {""}
    which = "" if len(untold) == len(variants) else f" for {', '.join(untold)}"
    return [f"Exposed transfer time is n/a{which}. {' '.join(sorted(reasons))}".strip()]


def _staged(variants: Mapping[str, Variant]) -> list[str]:
    """That copies between devices through the host are told apart by some recordings only."""
    profiles = {label: variant.median.work.profile for label, variant in variants.items()}
    silent = [
        label
        for label, variant in variants.items()
        if not profiles[label].has("memcpys")
        and variant.median.found.get("htod_ns")
        and variant.median.found.get("dtoh_ns")
    ]
    telling = [label for label, profile in profiles.items() if silent and _has_staged(profile)]
    if not telling:
        return []
    said = (
        f"Copies between devices through the host are HtoD and DtoH in {listed(silent)}, which"
        f" cannot tell them apart, and between devices in {listed(telling)}."
    )
    return [said]


def _has_staged(profile: Profile) -> bool:
    sql = "SELECT 1 AS found FROM memcpys WHERE is_staged LIMIT 1"
    return profile.has("memcpys") and bool(profile.query(sql).num_rows)


def _steps(variants: Mapping[str, Variant], unit: str) -> list[str]:
    """What is taken for a step, or that recordings are compared as they are."""
    works = {label: variant.median.work for label, variant in variants.items()}
    if unit != STEP:
        # Where no time is known there is nothing to divide.
        figures = [variant.median.found for variant in variants.values()]
        if all(found.get(name) is None for found in figures for name in _TIMES):
            return []
        return [_whole(variants)]
    counts = ", ".join(f"{label} {work.steps}" for label, work in works.items())
    sources = {work.source for work in works.values()}
    if sources == {DETECTED}:
        text = next(iter(works.values())).text
        return [_GUESSED.format(counts=counts, text=text)]
    if FROM_EPOCHS in sources:
        return [f"Compared by step ({counts}), as the script counted them, warm-up included."]
    return [f"Compared by step ({counts}); what lies outside of steps is left out."]


def _whole(variants: Mapping[str, Variant]) -> str:
    untold = [
        label
        for label, variant in variants.items()
        if not all(run.knows_steps for run in variant.runs)
    ]
    which = "any" if len(untold) == len(variants) else listed(untold)
    if not untold:
        return "Steps are not marked alike: each recording is compared as a whole."
    return f"No steps are known of {which}: each recording is compared as a whole."


def _chance(variants: Mapping[str, Variant]) -> list[str]:
    counts = {label: len(variant.runs) for label, variant in variants.items()}
    if set(counts.values()) == {1}:
        return []  # The verdict says that noise is unknown.
    single = [label for label, count in counts.items() if count == 1]
    said = []
    if single:
        said.append(f"One run of {', '.join(single)}: how much its runs differ is not known.")
    least = min(count for count in counts.values() if count > 1)
    if coverage(least) < LEVEL:
        said.append(
            f"An interval from {least} runs covers the median at most {say_share(coverage(least))}"
            " of the time: record more for a surer one."
        )
    return said
