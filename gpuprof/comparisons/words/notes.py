"""What a reader must know to trust a comparison, one sentence each."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpuprof.analyses.notes import cannot, recording_notes
from gpuprof.analyses.trace_notes import copy_notes
from gpuprof.base.kernel_names import short_name
from gpuprof.base.statistics import LEVEL, coverage
from gpuprof.base.sweep_cells import skipped_epochs_of
from gpuprof.base.units import NS_PER_S, counted, listed, say_ns, say_share
from gpuprof.comparisons.measure.compared_steps import (
    FROM_CALLS,
    FROM_EPOCHS,
    STEP,
    ComparedSteps,
    in_quotes,
)
from gpuprof.comparisons.measure.matching import has_shapes
from gpuprof.comparisons.measure.measured_runs import Variant
from gpuprof.comparisons.variant_figures import time_of_epochs
from gpuprof.facts.copies import copy_rows
from gpuprof.facts.step_times import mean_beside
from gpuprof.facts.step_windows import DETECTED, FROM_RANGES
from gpuprof.findings.whole_recording import recorded_calls
from gpuprof.model.derived import KERNELS_RERUN

_PAIR: Final = 2
_NAMED: Final = 3  # Phases of one variant that a sentence names; the table has all.
_TIMES: Final = ("gpu_activity_ns", "kernel_ns", "span_ns")
_GUESSED: Final = (
    "Compared by step ({counts}). No range marks the steps, so they are inferred from kernels that"
    ' repeat in the same order ("{text}"). Activity outside steps is left out.'
)


def notes(variants: Mapping[str, Variant], unit: str) -> tuple[str, ...]:
    """Each recording's notes under its label, and what the recordings do not show."""
    labels_of: dict[str, list[str]] = {}
    profiles = {label: variant.median.compared.profile for label, variant in variants.items()}
    for label, profile in profiles.items():
        for note in (*recording_notes(profile), *copy_notes(profile)):
            labels_of.setdefault(note, []).append(label)
    shared = [note for note, labels in labels_of.items() if len(labels) == len(variants)]
    return (
        *(f"{', '.join(labels)}: {n}" for n, labels in labels_of.items() if n not in shared),
        *shared,
        *(
            f"{label} has {recorded}: kernels are missing, so that idle and exposed times are"
            " unknown."
            for label, profile in profiles.items()
            if (recorded := recorded_calls(profile))
        ),
        *_epochs(variants),
        *_exposed(variants),
        *_staged(variants),
        *_steps(variants, unit),
        *_devices(variants),
        *_shapes(variants),
        *_chance(variants),
    )


def uncompared_notes(rows: Sequence[Mapping[str, Any]], variants: int) -> list[str]:
    """The phases that only some variants have, in a sentence for each of these."""
    notes = []
    for label in dict.fromkeys(row["variant"] for row in rows):
        phases = [
            f"phase {in_quotes(row['phase'])}, {counted(row['steps'], 'step', 'steps')},"
            f" {say_ns(row['step_ns'])} each"
            for row in rows
            if row["variant"] == label
        ]
        more = len(phases) - _NAMED
        if more > 0:
            phases = [*phases[:_NAMED], counted(more, "other phase", "other phases")]
        place = f"Only in {label}" if variants == _PAIR else f"In {label} but not in all variants"
        notes.append(f"{place}: {'; '.join(phases)}.")
    return notes


def _devices(variants: Mapping[str, Variant]) -> list[str]:
    """That figures are sums over different numbers of devices, of jobs of several files."""
    runs = {label: variant.median for label, variant in variants.items()}
    devices = {label: run.metrics.get("devices") for label, run in runs.items()}
    is_job = any(run.compared.profile.unrestricted.parts for run in runs.values())
    if not is_job or None in devices.values() or len({*devices.values()}) == 1:
        return []
    counts = listed([f"{number:,} of {label}" for label, number in devices.items()])
    note = (
        f"GPU activities, kernels, copies and memsets are summed over devices: {counts}. Step and"
        " exposed times are those of the busiest device of each."
    )
    return [note]


def without_idle_times(*variants: Variant) -> str:
    """Why idle times and sums of some variants tell nothing of their programs; empty where they do.

    Kernels are missing from a recording, or its profiler ran them again.
    """
    profiles = {variant.label: variant.median.compared.profile for variant in variants}
    missing = [label for label, profile in profiles.items() if recorded_calls(profile)]
    rerun = [label for label, p in profiles.items() if KERNELS_RERUN in p.origin.warnings]
    clauses = [f"kernels are missing from {listed(missing)}"] if missing else []
    clauses += [f"the profiler ran kernels of {listed(rerun)} again"] if rerun else []
    return listed(clauses)


def have_own_steps(*variants: Variant) -> bool:
    """Whether steps are the program's whichever kernels were recorded: marked, and not rerun."""
    compared = [variant.median.compared for variant in variants]
    return all(
        steps.source == FROM_RANGES and KERNELS_RERUN not in steps.profile.origin.warnings
        for steps in compared
    )


def _shapes(variants: Mapping[str, Variant]) -> list[str]:
    """That kernels are matched by name alone where only some recordings have launch shapes."""
    has_shape = {
        label: all(has_shapes(run.compared.profile) for run in variant.runs)
        for label, variant in variants.items()
        if any(run.metrics.get("kernel_ns") for run in variant.runs)
    }
    without = [label for label, is_shaped in has_shape.items() if not is_shaped]
    if not without or len(without) == len(has_shape):
        return []
    has = "has" if len(without) == 1 else "have"
    return [f"Kernels are matched by name alone, because {listed(without)} {has} no launch shapes."]


def _epochs(variants: Mapping[str, Variant]) -> list[str]:
    """Marked epochs that have no time, so that their median would be none, and the warm-up."""
    notes, set_aside = [], []
    for label, variant in variants.items():
        recording = variant.median.compared.profile.unrestricted
        if not recording.has("epochs"):
            continue
        epochs = recording.table("epochs").column("seconds").to_pylist()
        skipped = skipped_epochs_of(recording.origin.source)
        usual, first = time_of_epochs(epochs, skipped)
        if unknown := epochs[first:].count(None):
            have = "has" if unknown == 1 else "have"
            notes.append(
                f"{label}: {unknown} of {counted(len(epochs), 'epoch', 'epochs')} {have} no time,"
                " so the seconds per epoch are unknown."
            )
        elif first and usual == variant.median.metrics.get("seconds_per_epoch"):
            taken = ", ".join(say_ns(seconds * NS_PER_S) for seconds in epochs[:first] if seconds)
            set_aside.append(f"{counted(first, 'epoch', 'epochs')} of {label} ({taken})")
        elif skipped is None and len(epochs) == _PAIR and epochs[0] > epochs[1]:
            notes.append(f"{label}: two epochs are too few to set a warm-up aside: both count.")
    if set_aside:
        notes.append(f"Seconds per epoch leave out, as warm-up: {listed(set_aside)}.")
    return notes


def _exposed(variants: Mapping[str, Variant]) -> list[str]:
    unknown = {
        label: variant
        for label, variant in variants.items()
        if variant.median.metrics.get("exposed_transfer_ns") is None
    }
    if not unknown:
        return []
    profiles = [variant.median.compared.profile for variant in unknown.values()]
    # Else a file of a job lacks what its format can hold.
    of_format = (p for p in profiles if p.all_have("kernels") or not p.has("kernels"))
    reasons = {*map(cannot, of_format)} - {""}
    labels = "" if len(unknown) == len(variants) else f" for {', '.join(unknown)}"
    return [f"Exposed transfer time is unknown{labels}. {' '.join(sorted(reasons))}".strip()]


def _staged(variants: Mapping[str, Variant]) -> list[str]:
    """That only some recordings tell copies between devices through the host from other copies."""
    profiles = {label: variant.median.compared.profile for label, variant in variants.items()}
    without = [
        label
        for label, variant in variants.items()
        if not profiles[label].has("memcpys")
        and variant.median.metrics.get("htod_ns")
        and variant.median.metrics.get("dtoh_ns")
    ]
    staged = [
        label
        for label, profile in profiles.items()
        if without and copy_rows(profile).is_staged.any()
    ]
    if not staged:
        return []
    note = f"Copies between devices through the host are HtoD and DtoH in {listed(without)}, but"
    return [f"{note} copies between devices in {listed(staged)}."]


def _steps(variants: Mapping[str, Variant], unit: str) -> list[str]:
    """What is taken for a step, or that recordings are compared as they are."""
    compared_by_label = {label: variant.median.compared for label, variant in variants.items()}
    if unit != STEP:
        # Where no time is known there is nothing to divide.
        metrics = [variant.median.metrics for variant in variants.values()]
        if all(figures.get(name) is None for figures in metrics for name in _TIMES):
            return []
        unmarked = [
            label
            for label, variant in variants.items()
            if any(run.compared.source is None for run in variant.runs)
        ]
        if not unmarked:
            return ["Steps are marked in different ways, so whole recordings are compared."]
        if len(unmarked) == len(variants):
            return ["No recording marks its steps, so whole recordings are compared."]
        has = "has" if len(unmarked) == 1 else "have"
        return [f"{listed(unmarked)} {has} no known steps, so whole recordings are compared."]
    set_aside = [
        f"{counted(compared.warm_up_steps, 'step', 'steps')} of {label}"
        f" ({say_ns(compared.warm_up_ns)})"
        for label, compared in compared_by_label.items()
        if compared.warm_up_steps
    ]
    cut = [
        f"{counted(compared.cut_steps, 'step', 'steps')} of {label}"
        for label, compared in compared_by_label.items()
        if compared.cut_steps
    ]
    notes = [_compared_steps(compared_by_label), *_means(variants)]
    if set_aside:
        notes.append(f"Set aside as warm-up: {listed(set_aside)}; --skip-steps 0 keeps them.")
    if cut:
        notes.append(f"Left out, because the recording cuts them off: {listed(cut)}.")
    return notes


def _compared_steps(compared_by_label: Mapping[str, ComparedSteps]) -> str:
    counts = ", ".join(f"{label} {compared.steps}" for label, compared in compared_by_label.items())
    text = next(iter(compared_by_label.values())).text
    sources = {compared.source for compared in compared_by_label.values()}
    if sources == {DETECTED}:
        return _GUESSED.format(counts=counts, text=text)
    if FROM_CALLS in sources:
        name = short_name(text or "")
        return (
            f"No steps are known, so the time from one call of {name} to the next is compared"
            f" ({counts})."
        )
    if FROM_EPOCHS in sources:
        return f"Compared by step ({counts}), as counted by the script, including the warm-up."
    # Their marks leave out so much that a step is the period up to the next one.
    apart = [
        label
        for label, compared in compared_by_label.items()
        if any(len(windows.between) for windows in compared.series)
    ]
    if apart:
        return (
            f"Compared by step ({counts}), each from its start to that of the next: marks leave out"
            f" much of the time between the steps of {listed(apart)}."
        )
    return f"Compared by step ({counts}); activity outside steps is left out."


def _means(variants: Mapping[str, Variant]) -> list[str]:
    """The means of steps beside their medians, where these are apart."""
    devices = {label: variant.median.device for label, variant in variants.items()}
    steps = {label: d.steps_ns for label, d in devices.items() if d is not None and len(d.steps_ns)}
    if not any(map(mean_beside, steps.values())):
        return []
    clauses = [
        f"{label} {say_ns(float(np.median(of_label)))} and {say_ns(float(of_label.mean()))}"
        for label, of_label in steps.items()
    ]
    note = "Medians are compared. Median and mean of the steps are apart:"
    return [f"{note} {listed(clauses)}."]


def _chance(variants: Mapping[str, Variant]) -> list[str]:
    counts = {label: len(variant.runs) for label, variant in variants.items()}
    if set(counts.values()) == {1}:
        return []  # The verdict says that noise cannot be judged.
    single = [label for label, count in counts.items() if count == 1]
    notes = []
    if single:
        runs = "has one run, so its" if len(single) == 1 else "have one run each, so their"
        notes.append(f"{listed(single)} {runs} variation from run to run is unknown.")
    least = min(count for count in counts.values() if count > 1)
    if coverage(least) < LEVEL:
        notes.append(
            f"With {least} runs, an interval covers the median at most"
            f" {say_share(coverage(least))} of the time. Record more runs for a higher confidence."
        )
    return notes
