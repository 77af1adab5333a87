"""What a reader must know to trust a comparison, one sentence each."""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuprof.analyses.facts.step_windows import DETECTED
from gpuprof.comparisons.measure.matching import has_shapes
from gpuprof.comparisons.measure.runs import Variant
from gpuprof.comparisons.measure.work import FROM_CALLS, FROM_EPOCHS, STEP, Work
from gpuprof.comparisons.rows import Uncompared
from gpuprof.comparisons.words.cases import listed
from gpuprof.kernel_names import short_name
from gpuprof.profile import Profile
from gpuprof.reports import cannot, recording_notes
from gpuprof.statistics import LEVEL, coverage
from gpuprof.units import counted, say_ns, say_share

_PAIR: Final = 2
_NAMED: Final = 3  # Phases of one variant that a sentence names; the table has all.
_TIMES: Final = ("gpu_activity_ns", "kernel_ns", "span_ns")
_GUESSED: Final = (
    "Compared by step ({counts}), which are inferred: no range marks steps, so kernels that"
    " repeat in the same order are taken for them ({text}); what lies outside is left out."
)


def notes(variants: Mapping[str, Variant], unit: str) -> tuple[str, ...]:
    """Each recording's notes under its label, and what no recording here can tell."""
    labels_of: dict[str, list[str]] = {}
    for label, variant in variants.items():
        for note in recording_notes(variant.median.work.profile):
            labels_of.setdefault(note, []).append(label)
    shared = [note for note, labels in labels_of.items() if len(labels) == len(variants)]
    return (
        *(f"{', '.join(labels)}: {n}" for n, labels in labels_of.items() if n not in shared),
        *shared,
        *_epochs(variants),
        *_exposed(variants),
        *_staged(variants),
        *_steps(variants, unit),
        *_shapes(variants),
        *_chance(variants),
    )


def uncompared_notes(rows: Sequence[Uncompared], variants: int) -> list[str]:
    """The phases that only some variants have, in a sentence for each of these."""
    notes = []
    for label in dict.fromkeys(row.variant for row in rows):
        told = [
            f"phase {row.phase}, {counted(row.steps, 'step', 'steps')}, {say_ns(row.step_ns)} each"
            for row in rows
            if row.variant == label
        ]
        more = len(told) - _NAMED
        if more > 0:
            told = [*told[:_NAMED], counted(more, "other phase", "other phases")]
        place = f"Only in {label}" if variants == _PAIR else f"In {label}, and not in all"
        notes.append(f"{place}: {'; '.join(told)}.")
    return notes


def _shapes(variants: Mapping[str, Variant]) -> list[str]:
    """That kernels are matched by name alone where only some recordings tell launch shapes."""
    has_shape = {
        label: all(has_shapes(run.work.profile) for run in variant.runs)
        for label, variant in variants.items()
        if any(run.metrics.get("kernel_ns") for run in variant.runs)
    }
    without = [label for label, is_shaped in has_shape.items() if not is_shaped]
    if not without or len(without) == len(has_shape):
        return []
    tell = "tells" if len(without) == 1 else "tell"
    return [f"Kernels are matched by name alone: {listed(without)} {tell} no launch shapes."]


def _epochs(variants: Mapping[str, Variant]) -> list[str]:
    """Marked epochs that have no time, so that their mean would be none."""
    notes = []
    for label, variant in variants.items():
        recording = variant.median.work.profile.whole
        epochs = recording.table("epochs").column("seconds") if recording.has("epochs") else []
        if unknown := sum(not seconds.is_valid for seconds in epochs):
            have = "has" if unknown == 1 else "have"
            notes.append(
                f"{label}: {unknown} of {counted(len(epochs), 'epoch', 'epochs')} {have} no time:"
                " the mean is not told."
            )
    return notes


def _exposed(variants: Mapping[str, Variant]) -> list[str]:
    unknown = {
        label: variant
        for label, variant in variants.items()
        if variant.median.metrics.get("exposed_transfer_ns") is None
    }
    if not unknown:
        return []
    reasons = {cannot(variant.median.work.profile) for variant in unknown.values()} - {""}
    labels = "" if len(unknown) == len(variants) else f" for {', '.join(unknown)}"
    return [f"Exposed transfer time is n/a{labels}. {' '.join(sorted(reasons))}".strip()]


def _staged(variants: Mapping[str, Variant]) -> list[str]:
    """That copies between devices through the host are told apart by some recordings only."""
    profiles = {label: variant.median.work.profile for label, variant in variants.items()}
    without = [
        label
        for label, variant in variants.items()
        if not profiles[label].has("memcpys")
        and variant.median.metrics.get("htod_ns")
        and variant.median.metrics.get("dtoh_ns")
    ]
    staged = [label for label, profile in profiles.items() if without and _has_staged(profile)]
    if not staged:
        return []
    note = f"Copies between devices through the host are HtoD and DtoH in {listed(without)}, which"
    return [f"{note} cannot tell them apart, and between devices in {listed(staged)}."]


def _has_staged(profile: Profile) -> bool:
    sql = "SELECT 1 AS staged FROM memcpys WHERE is_staged LIMIT 1"
    return profile.has("memcpys") and bool(profile.query(sql).num_rows)


def _steps(variants: Mapping[str, Variant], unit: str) -> list[str]:
    """What is taken for a step, or that recordings are compared as they are."""
    works = {label: variant.median.work for label, variant in variants.items()}
    if unit != STEP:
        # Where no time is known there is nothing to divide.
        metrics = [variant.median.metrics for variant in variants.values()]
        if all(figures.get(name) is None for figures in metrics for name in _TIMES):
            return []
        unmarked = [
            label
            for label, variant in variants.items()
            if not all(run.knows_steps for run in variant.runs)
        ]
        if not unmarked:
            return ["Steps are not marked alike: each recording is compared as a whole."]
        labels = "any" if len(unmarked) == len(variants) else listed(unmarked)
        return [f"No steps are known of {labels}: each recording is compared as a whole."]
    return [_compared_steps(works), *_set_aside(works)]


def _compared_steps(works: Mapping[str, Work]) -> str:
    counts = ", ".join(f"{label} {work.steps}" for label, work in works.items())
    text = next(iter(works.values())).text
    sources = {work.source for work in works.values()}
    if sources == {DETECTED}:
        return _GUESSED.format(counts=counts, text=text)
    if FROM_CALLS in sources:
        name = short_name(text or "")
        return f"No steps are known: compared from one call of {name} to the next ({counts})."
    if FROM_EPOCHS in sources:
        return f"Compared by step ({counts}), as the script counted them, warm-up included."
    return f"Compared by step ({counts}); what lies outside of steps is left out."


def _set_aside(works: Mapping[str, Work]) -> list[str]:
    """Steps that are no samples: the warm-up, and those that the recording's ends cut off."""
    warm_up = [
        f"{counted(w.warm_up_steps, 'step', 'steps')} of {label} ({say_ns(w.warm_up_ns)})"
        for label, w in works.items()
        if w.warm_up_steps
    ]
    cut = [
        f"{counted(work.cut_steps, 'step', 'steps')} of {label}"
        for label, work in works.items()
        if work.cut_steps
    ]
    notes = []
    if warm_up:
        notes.append(f"Set aside as warm-up: {listed(warm_up)}; --skip-steps 0 keeps them.")
    if cut:
        notes.append(f"Cut off by the recording's ends, and left out: {listed(cut)}.")
    return notes


def _chance(variants: Mapping[str, Variant]) -> list[str]:
    counts = {label: len(variant.runs) for label, variant in variants.items()}
    if set(counts.values()) == {1}:
        return []  # The verdict says that noise is unknown.
    single = [label for label, count in counts.items() if count == 1]
    notes = []
    if single:
        notes.append(f"One run of {', '.join(single)}: how much its runs differ is not known.")
    least = min(count for count in counts.values() if count > 1)
    if coverage(least) < LEVEL:
        notes.append(
            f"An interval from {least} runs covers the median at most {say_share(coverage(least))}"
            " of the time: record more for a surer one."
        )
    return notes
