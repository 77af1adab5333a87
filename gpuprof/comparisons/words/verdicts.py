"""The verdict of a comparison, in a sentence or two."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, cut
from gpuprof.base.units import (
    capital,
    counted,
    format_change,
    format_count,
    listed,
    say_bytes,
    say_growth,
    say_ns,
    say_share,
)
from gpuprof.comparisons.measure.compared_steps import STEP, in_quotes
from gpuprof.comparisons.measure.differences import EXPOSED, KERNELS, SUMS
from gpuprof.comparisons.outcomes import CALLS, COPIES, EPOCHS, IMPLIED, NONE, SAME_RECORDING
from gpuprof.comparisons.variant_figures import Metrics
from gpuprof.comparisons.words.cases import (
    PER_STEP,
    Case,
    causes,
    causes_in_kernels,
    change,
    further_cases,
    in_the_mean,
    interval,
    largest,
    noise,
    of_epoch,
    reason,
    reasons,
    relative,
    within_noise,
)

# What is summed up, by basis.
_TIMES: Final = {SUMS: "GPU time", KERNELS: "kernel time"}
# Copies whose number or bytes differ by no more than this share are the same.
_SAME_COPIES: Final = 0.02
_NO_CAUSE: Final = " The cause is unknown: the sides have no other figure in common."
# Of the kernel time of a side.
_MOST: Final = 0.5


def verdict(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """Say how much the variants differ, how certain that is, and what makes the difference.

    The most certain sentences come first.
    """
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.outcome.basis, []).append(case)
    bases = (basis for basis in _SENTENCES if basis in groups)
    return " ".join(_SENTENCES[basis](baseline, groups[basis], unit) for basis in bases)


def headlines(baseline: str, place: str, cases: Sequence[Case], unit: str) -> tuple[str, str]:
    """The verdict's core in one line: the candidate that differs most, where, and why.

    ``place`` is the label of the baseline with the phase that is compared.

    Returns:
        The line, and the same without where and why, as the title of a chart.
    """
    judged: Sequence[Case] = ()
    for basis in (EXPOSED, SUMS, KERNELS, CALLS, IMPLIED, COPIES, EPOCHS):
        judged = judged or [case for case in cases if case.outcome.basis == basis]
    if not judged:
        different = [case for case in cases if case.outcome.basis != SAME_RECORDING]
        return (f"{place} and {listed([case.label for case in different or cases])}",) * 2
    (case,) = largest([case for case in judged if not case.is_noise] or judged, 1)
    basis, label = case.outcome.basis, case.label
    if basis == CALLS:
        unequal = "" if case.lacking else "; the work differs"
        change_text = format_change(case.outcome.call_percent or 0)
        return (f"Kernel calls change by {change_text} in {label}{unequal}",) * 2
    if basis == COPIES:
        return (f"In each step, {_step_copies(label, case.candidate)} between devices",) * 2
    if basis == IMPLIED:
        takes = f"{label} takes {change(case)} GPU time than"
        return f"{takes} {place}, as implied by printed shares", f"{takes} {baseline}"
    time = f" {_TIMES[basis]}" if basis in _TIMES else ""
    per = f" {case.of_step}" if unit == STEP else ""
    per = " per epoch" if basis == EPOCHS else per
    takes, than = f"{label} takes {change(case)}{time}", "than"
    why, brief = "" if basis == EPOCHS else reason(case), ""
    if case.is_noise:
        takes, than = f"{label} takes the same{time or ' time'}", "as"
        why, brief = f" {within_noise(case)}", " within noise"
    brief_per = f" {PER_STEP}" if unit == STEP and basis != EPOCHS else per
    return f"{takes}{per} {than} {place}{why}", f"{takes}{brief_per} {than} {baseline}{brief}"


def in_brief(phase: str, cases: Sequence[Case]) -> str:
    """Another phase than the one that the verdict is of: how much it differs."""
    named = largest(cases)
    clauses = [
        f"{case.label} takes the same time per step within noise ({relative(case)})"
        if case.is_noise
        else f"{case.label} takes {change(case)} per step"
        for case in named
    ]
    return f"In {in_quotes(phase)}, {listed(clauses)}{further_cases(cases, named)}."


def unequal_work(baseline: str, case: Case, *, of_recordings: bool) -> str:
    """That a candidate does more or less work; empty where both do the same amount.

    Of whole recordings, or of a step of each.
    """
    calls = case.calls
    if calls is None or not calls.are_unequal or case.of_step != PER_STEP:
        return ""
    # Calls of a mean step may be a fraction.
    counts = [
        format_count(value) if value == int(value) else f"{value:.1f}"
        for value in (calls.moved_candidate, calls.moved_baseline)
    ]
    per = "" if of_recordings else " per step"
    more = "more" if calls.work_growth >= 0 else "less"
    return (
        f"{case.label} does a different amount of work than {baseline}:"
        f" {short_names([calls.moved])[calls.moved]}"
        f" runs {counts[0]} times{per} instead of {counts[1]} over all devices. The kernels that"
        f" both have do {say_growth(calls.work_growth)} {more} work, and each call takes"
        f" {_how_long(calls.mean_growth)} on average."
    )


def _how_long(growth: float) -> str:
    """How much longer or less long a call takes, or that it takes as long."""
    if (share := say_growth(growth)) == say_growth(0):
        return "as long"
    return f"{share} {'longer' if growth >= 0 else 'less'}"


def _other_kernels(baseline: str, cases: Sequence[Case], unit: str) -> list[str]:
    """That much of a side's kernel time is of kernels that the other lacks, of each case."""
    sentences = []
    for case in (case for case in cases if case.of_step == PER_STEP):
        if case.other_kernels is None:
            continue
        labels, per = (baseline, case.label), " per step" if unit == STEP else ""
        alone = [
            f"in {label}, kernels such as {cut(short_names([name])[name], LONGEST_IN_WORDS)} that"
            f" {lacking} lacks take {say_ns(alone_ns)}{per} ({say_share(share)} of its kernel time)"
            for label, lacking, (name, alone_ns, share) in zip(
                labels, labels[::-1], case.other_kernels, strict=True
            )
            if alone_ns
        ]
        shares = [share for *_, share in case.other_kernels]
        first = f"{'Most' if max(shares) >= _MOST else 'Many'} kernels differ"
        if min(shares) == 1:
            first = "No kernel runs on both sides"
        sentences.append(f"{first}, so totals are compared, not calls: {listed(alone)}.")
    return sentences


def _other_sizes(baseline: str, case: Case, unit: str) -> str:
    """That a candidate copies other amounts from and to the host in as many copies; else empty."""
    sides = []
    for figures in (case.base, case.candidate):
        for name in ("calls", "bytes"):
            pair = figures.get(f"transfer_{name}"), figures.get(f"peer_transfer_{name}")
            if None in pair or case.of_step != PER_STEP:
                return ""
            sides.append(figures[f"transfer_{name}"] - figures[f"peer_transfer_{name}"])
    calls, size, other_calls, other_size = sides
    same_calls = abs(other_calls - calls) <= _SAME_COPIES * calls
    if not (same_calls and calls and size) or abs(other_size - size) <= _SAME_COPIES * size:
        return ""
    per = " per step" if unit == STEP else ""
    return (
        f"{case.label} copies {say_bytes(other_size)} from and to the host{per}, and {baseline}"
        f" {say_bytes(size)} in as many copies: if their batches or problems differ in size,"
        " these times do not compare."
    )


def _calls(baseline: str, cases: Sequence[Case], _: str) -> str:
    """The time per call, of recordings that hold different amounts of work."""
    named = largest(cases)
    lacking = [_without_idle_times(baseline, case) for case in named if case.lacking]
    if len(lacking) == len(named):
        return " ".join(lacking)
    complete = [case for case in named if not case.lacking]
    clauses = [*lacking, *(unequal_work(baseline, case, of_recordings=True) for case in complete)]
    return (
        f"{' '.join(clauses)} Because the work differs, only the time per call is"
        f" compared{further_cases(cases, named)}{noise(complete)}."
    )


def _without_idle_times(baseline: str, case: Case) -> str:
    """What of a side can be compared that lacks a part of what ran, and that the rest cannot."""
    first = f"{capital(case.lacking)}, so idle times and sums do not compare"
    has_steps = case.outcome.basis == EXPOSED
    if case.calls is None:
        calls = " calls" if has_steps else ""
        return (
            f"{first}; {case.label} and {baseline} have too few kernels in common to"
            f" compare{calls}."
        )
    how_long = _how_long(case.calls.mean_growth)
    return (
        f"{first}. What {'else ' * has_steps}compares is the time per call: the recorded calls of"
        f" the kernels that both have take {how_long} on average in {case.label}"
        f" {'as' if how_long == 'as long' else 'than'} in {baseline}."
    )


def _clock(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 2 ms (10.0 %) more per step: compute is the same, ...``."""
    named, clauses = largest(cases), []
    for case in named:
        per = f" {case.of_step}" if unit == STEP else " on its busiest device"
        if case.devices is not None:
            before, after = case.devices
            per += f" on {counted(after, 'device', 'devices')} instead of {before:,}"
        takes = f"{of_epoch(case)}{change(case)}{per}{reasons(case)}"
        if case.is_noise:
            takes = f"the same time{per} {within_noise(case)}"
        clauses.append(f"{case.label} takes {takes}")
    complete = [case for case in named if not case.lacking]
    steps = complete if unit == STEP else []
    unequal = [unequal_work(baseline, case, of_recordings=False) for case in steps]
    text = f"Against {baseline}, {'; '.join(clauses)}{further_cases(cases, named)}{noise(named)}."
    after_text = [in_the_mean(case) for case in steps]
    after_text += [_without_idle_times(baseline, case) for case in named if case.lacking]
    after_text += _other_kernels(baseline, complete, unit)
    after_text += [_other_sizes(baseline, case, unit) for case in complete]
    return " ".join(filter(None, [*unequal, text, *after_text]))


def _sums(baseline: str, cases: Sequence[Case], unit: str) -> str:
    """``Against single, dual takes 10.84 s (27.5 %) more GPU time. Kernel time is the same``.

    Of kernels alone: ``Against a, b takes 2 s (5.6 %) more kernel time. Most of it is
    communication: ...``.
    """
    named, basis = largest(cases), cases[0].outcome.basis
    time, clauses = _TIMES[basis] + (" per step" if unit == STEP else ""), []
    for case in named:
        takes = f"{of_epoch(case)}{change(case)} {time}"
        if case.is_noise:
            takes = f"the same {time} {within_noise(case)}"
        clauses.append(f"{case.label} takes {takes}")
    text = f"Against {baseline}, {listed(clauses)}{further_cases(cases, named)}{noise(named)}."
    if real := [case for case in named if not case.is_noise]:
        text += causes_in_kernels(real) if basis == KERNELS else f" {causes(real)}"
    unknown = ["Copy times are not known on both sides."] if basis == KERNELS else []
    return " ".join([text, *_other_kernels(baseline, named, unit), *unknown])


def _same_recording(baseline: str, cases: Sequence[Case], _: str) -> str:
    are = "is" if len(cases) == 1 else "are"
    labels = listed([case.label for case in cases])
    return f"{labels} {are} the same recording as {baseline}: nothing differs."


def _unknown(baseline: str, cases: Sequence[Case], _: str) -> str:
    if all(case.lacking for case in cases):
        return " ".join(_without_idle_times(baseline, case) for case in largest(cases))
    text = (
        f"{listed([case.label for case in cases])} cannot be compared with {baseline}: both sides"
        " need GPU time, kernel time, epoch times or copies per step."
    )
    return f"{text}{_copies_in_all(baseline, cases)}"


def _epochs(baseline: str, cases: Sequence[Case], _: str) -> str:
    """Where nothing but the wall time of epochs is known on both sides."""
    named = largest(cases)
    clauses = [
        f"{case.label} takes the same time per epoch within noise ({interval(case)})"
        if case.is_noise
        else f"{case.label} takes {change(case)} per epoch"
        for case in named
    ]
    return (
        f"Against {baseline}, {listed(clauses)}{further_cases(cases, named)}{noise(named)}."
        f"{_copies_in_all(baseline, named) or _NO_CAUSE}"
    )


def _copies_in_all(baseline: str, cases: Sequence[Case]) -> str:
    """How many copies between devices each side counts; empty where one does not count them."""
    calls = {baseline: cases[0].base.get("peer_transfer_calls")}
    calls |= {case.label: case.candidate.get("peer_transfer_calls") for case in cases}
    if None in calls.values() or not any(calls.values()):
        return ""
    counts = [f"{label} {format_count(number or 0)}" for label, number in calls.items()]
    return f" Copies between devices were counted, not timed: {listed(counts)}."


def _implied(baseline: str, cases: Sequence[Case], _: str) -> str:
    """From excerpts: the totals that the printed shares imply, and the peer rows listed."""
    named = largest(cases)
    clauses = [
        f"{case.label} takes {of_epoch(case)}{change(case)} GPU time"
        f" ({say_ns(case.outcome.candidate)})"
        for case in named
    ]
    text = (
        "By the totals that the printed shares imply,"
        f" {listed(clauses)} than {baseline} ({say_ns(named[0].baseline)})"
        f"{further_cases(cases, named)}{noise(named)}."
    )
    figures = {baseline: named[0].base} | {case.label: case.candidate for case in named}
    unlisted = listed([n for n, side in figures.items() if side["peer_transfer_ns"] is None])
    times = [
        f"{say_ns(side['peer_transfer_ns'])} ({say_share(side['peer_share'])}) in {label}"
        for label, side in figures.items()
        if side["peer_transfer_ns"]
    ]
    if times:
        absent = f"; for {unlisted} it is not listed" if unlisted else ""
        return f"{text} PtoP takes {listed(times)}{absent}."
    return f"{text} PtoP is not listed for {unlisted}." if unlisted else text


def _per_step(baseline: str, cases: Sequence[Case], _: str) -> str:
    """From recordings that count copies between devices and cannot time them."""
    named = largest(cases)
    sides = [(baseline, named[0].base), *((case.label, case.candidate) for case in named)]
    counts = [_step_copies(label, figures) for label, figures in sides]
    scopes = []
    for label, figures in sides[1:]:
        scope, size = figures.get("largest_scope"), figures.get("peer_transfer_bytes_per_step")
        if scope and size:
            share = say_share(figures["largest_scope_bytes_per_step"] / size)
            is_gradient = figures["largest_scope_is_gradient"]
            purpose = "gradients" if is_gradient else "the forward pass"
            scopes.append(f"{share} of the bytes in {label} go to {purpose} of {scope}")
    return (
        f"In each step, {listed(counts)} between devices{further_cases(cases, named)}."
        f" {listed(scopes)}{'. ' if scopes else ''}The recording does not show how long these"
        " copies would take between GPUs."
    )


def _step_copies(label: str, figures: Metrics) -> str:
    calls = figures["peer_transfer_calls_per_step"]
    if not calls:
        return f"{label} copies nothing"
    size = figures.get("peer_transfer_bytes_per_step")
    moved = "an unknown amount" if size is None else say_bytes(size)
    return f"{label} copies {moved} in {format_count(calls)} {'copy' if calls == 1 else 'copies'}"


_SENTENCES: Final[Mapping[str, Callable[[str, Sequence[Case], str], str]]] = {
    CALLS: _calls,
    EXPOSED: _clock,
    SUMS: _sums,
    KERNELS: _sums,
    IMPLIED: _implied,
    COPIES: _per_step,
    SAME_RECORDING: _same_recording,
    EPOCHS: _epochs,
    NONE: _unknown,
}
