"""The output of `gpuprof place`: text, JSON, and a step as recorded and as proposed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import (
    NS_PER_S,
    NS_PER_US,
    counted,
    format_bytes,
    format_count,
    say_binary_bytes,
    say_bytes,
    say_ns,
    say_rate,
    say_share,
)
from gpuprof.place.proposal import Proposal, TimedProposal
from gpuprof.place.schedules import EFFICIENCIES, TimedPlacement
from gpuprof.place.scopes import Scope, document
from gpuprof.place.simulate import launch_s
from gpuprof.place.step_graph import FORWARD, GRADIENT, UPDATE, StepCopies
from gpuprof.show import Page
from gpuprof.show.charts.figure import KERNELS, PEER, Bars, Look, Part, Picture
from gpuprof.show.json import document_text
from gpuprof.show.overview import Grid
from gpuprof.show.terminal import grids_text

_SHOWN_SCOPES: Final = 12
# The same formula for a published log.
_PUBLISHED_COPY: Final = (
    "For comparison: with latency and bandwidth from the published log of DeepCoNN, this formula"
    " gives 395 µs for a copy of our dual; the log has 129 µs (for other code)."
)


def as_text(
    name: str,
    proposal: Proposal,
    times: TimedProposal | None,
    page: Page,
    write: Callable[[Scope], Iterable[str]] = Scope.lines,
) -> str:
    """The result in sentences, the lines to write, a table, and notes.

    Args:
        name: Name of the recording or model.
        proposal: The placement that copies least.
        times: The placement that takes least time; None without a machine.
        page: Width and other settings of the output.
        write: Gives the lines of a script for a scope; by default those for TensorFlow.
    """
    sentence = time_sentence(times) if times else _copies_sentence(proposal)
    scopes = times.scopes if times else proposal.scopes
    lines = ["", "Write:"] if scopes else []
    lines += [f"  {line}" for scope in scopes[:_SHOWN_SCOPES] for line in write(scope)]
    if len(scopes) > _SHOWN_SCOPES:
        lines.append(f"  and {len(scopes) - _SHOWN_SCOPES} more scopes: see --format json")
    operations = counted(proposal.operations, "operation", "operations")
    step = f"a step of {operations} on {' and '.join(proposal.graph.devices)}"
    headline = "\n".join((f"{name}: {step}", "", sentence, *lines))
    return grids_text(headline, [_grid(proposal, times)], [*_notes(proposal, times)], page)


def as_json(proposal: Proposal, times: TimedProposal | None) -> str:
    """The placement document, with the copies of a step today and at each freedom."""
    figures: dict[str, Any] = {
        "today": _figures(proposal.today),
        "least": _figures(proposal.best.copies),
        "is_forward_at_fault": proposal.is_forward_at_fault,
        "freedoms": [{"may_move": f.name, **_figures(f.copies)} for f in proposal.freedoms],
        "moves": [scope._asdict() for scope in (times.scopes if times else proposal.scopes)],
        "unknown_sizes": proposal.unknown_sizes,
    }
    if times:
        figures["machine"] = times.machine.name
        figures["estimates"] = []
        for candidate in times.candidates:
            least, most = _ends(candidate)
            estimate = {
                "placement": candidate.name,
                "least_step_ns": round(least * NS_PER_S),
                "most_step_ns": round(most * NS_PER_S),
                **_figures(candidate.copies),
                "peak_memory_bytes": candidate.middle.peak_bytes,
                "fits": candidate.fits,
                "is_best": candidate is times.best,
            }
            figures["estimates"].append(estimate)
    return document_text(_document(proposal, times) | figures)


def placement_text(proposal: Proposal, times: TimedProposal | None) -> str:
    """The placement only, for use by a script."""
    return document_text(_document(proposal, times))


def _document(proposal: Proposal, times: TimedProposal | None) -> dict[str, Any]:
    """By time if estimated and a placement fits, else by bytes."""
    if times and times.best:
        return document(times.graph, times.best.place)
    return document(proposal.graph, proposal.best.place)


def _figures(copies: StepCopies) -> dict[str, float]:
    return {
        "bytes_per_step": copies.bytes,
        "copies_per_step": copies.calls,
        "unknown_copies_per_step": copies.unknown,
    }


def _copies_sentence(proposal: Proposal) -> str:
    today, best = proposal.today, proposal.best.copies
    if not today.calls:
        return (
            "A step copies nothing between devices. --gpus estimates whether a second one pays off."
        )
    if not proposal.scopes:
        return f"A step copies {_amount(today)}, and no other placement of its parts saves 1 %."
    saved = f", {say_share(1 - best.bytes / today.bytes)} less" if today.bytes else ""
    text = f"A step copies {_amount(today)}; {_amount(best)} would suffice{saved}."
    if proposal.is_forward_at_fault:
        least = _amount(proposal.with_forward_kept.copies)
        text += f" Most of that needs the forward pass to move: without, the minimum is {least}."
    return text


def _amount(copies: StepCopies) -> str:
    calls = counted(round(copies.calls), "copy", "copies")
    unknown = f", {copies.unknown:g} of unknown size" if copies.unknown else ""
    return f"{say_bytes(copies.bytes)} in {calls}{unknown}"


def _grid(proposal: Proposal, times: TimedProposal | None) -> Grid:
    """The time of each placement by estimates; without a machine, the copies of each freedom."""
    if times is None:
        placements = [("nothing, as today", proposal.today)]
        for freedom in proposal.freedoms:
            word = "and " if len(placements) > 1 else ""
            placements.append((f"{word}{freedom.name}", freedom.copies))
        cells = [(name, format_bytes(c.bytes), format_count(c.calls)) for name, c in placements]
        header = ("May move", "Bytes per step", "Copies per step")
        return Grid("Minimum copies of a step", header, tuple(cells))
    estimates = [
        (
            f"{candidate.name}{'' if candidate.fits else ' (does not fit)'}",
            _range(candidate),
            format_bytes(candidate.copies.bytes),
            format_count(candidate.copies.calls),
            ", ".join(say_binary_bytes(round(size)) for size in candidate.middle.peak_bytes),
        )
        for candidate in times.candidates
    ]
    heads = ("Placement", "Step, estimated", "Bytes", "Copies", "Memory of each GPU")
    return Grid(f"Estimates on {times.machine.name}", heads, tuple(estimates))


def _notes(proposal: Proposal, times: TimedProposal | None) -> Iterator[str]:
    if times is not None:
        least, _, most = EFFICIENCIES
        launches = [launch_s(part) * NS_PER_S / NS_PER_US for part in (most, least)]
        machine = times.machine
        yield (
            "Estimates rank placements; they do not predict times. Kernels run at"
            f" {least:.0%} to {most:.0%} of the GPU's peak (single precision, memory bandwidth) and"
            f" take at least {launches[0]:.1f} to {launches[1]:.1f} µs each; a"
            f" copy takes {say_ns(machine.latency_s * NS_PER_S)} plus its bytes at"
            f" {say_rate(machine.bytes_per_s)}."
        )
        yield _PUBLISHED_COPY
    yield (
        "Bytes follow from the graph and the devices only: a tensor is sent once to each device"
        " that takes it, constants only as recorded."
    )
    graph = proposal.graph
    if graph.looped:
        yield (
            f"{len(graph.looped)} operations are within loops and stay: the graph has no iteration"
            " counts, so their copies count once."
        )
    if proposal.unknown_sizes:
        yield (
            f"The sizes of {proposal.unknown_sizes} of {len(graph.sent)} tensors are unknown: the"
            " search uses the median for them, and byte counts exclude them."
        )


def _ends(candidate: TimedPlacement) -> tuple[float, float]:
    seconds = [run.seconds for run in candidate.runs]
    return min(seconds), max(seconds)


def _range(candidate: TimedPlacement) -> str:
    least, most = (say_ns(end * NS_PER_S) for end in _ends(candidate))
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number} to {most}" if most.endswith(f" {unit}") else f"{least} to {most}"


def time_sentence(times: TimedProposal) -> str:
    """The estimated time of a step as proposed, as recorded and on one GPU."""
    where, best, today = times.machine.name, times.best, times.today
    if best is None:
        return f"On {where} no placement fits into memory."
    name = best.name if best.name.startswith("all on") else f"{best.name}, {best.devices} GPUs"
    name += f", kernels at {EFFICIENCIES[0]:.0%} to {EFFICIENCIES[-1]:.0%} of the peaks"
    text = f"On {where} a step is estimated to take {_range(best)} ({name})"
    if today is not None and today is not best:
        text += f", today {_range(today)}"
    alone = next(candidate for candidate in times.candidates if candidate.devices == 1)
    if best.devices > 1:
        return f"{text}, on one GPU {_range(alone)}."
    return f"{text}. A second GPU would not pay off." if len(times.machine.gpus) > 1 else f"{text}."


_LOOKS: Final = {
    FORWARD: replace(KERNELS, name="forward pass"),
    GRADIENT: Look("gradients", "", "#E69F00", "\\\\\\"),
    UPDATE: Look("updates", "", "#009E73", "..."),
    "copy": PEER,
}


def schedule(proposal: Proposal, times: TimedProposal) -> Picture:
    """What each GPU does when in a step as recorded and as proposed, by estimates.

    A lane for each GPU, and for each way that is copied; both panels to one scale. Of the ranges
    of estimates the middle is drawn.
    """
    steps = [candidate for candidate in (times.today, times.best) if candidate]
    candidates = list({id(candidate): candidate for candidate in steps}.values())
    last = max((candidate.middle.seconds for candidate in candidates), default=0.0) * NS_PER_S
    panels = []
    for candidate in candidates:
        spans = candidate.middle.spans
        copies = sorted({(span.src, span.device) for span in spans if span.src is not None})
        lanes = [*((None, device) for device in range(len(times.machine.gpus))), *copies]
        parts = [
            Part(
                lanes.index((span.src, span.device)),
                _LOOKS[
                    "copy" if span.src is not None else proposal.graph.operations[span.number].role
                ],
                span.start_s * NS_PER_S,
                span.end_s * NS_PER_S,
            )
            for span in spans
            if span.end_s > span.start_s
        ]
        panels.append(
            Bars(
                [f"GPU {to}" if src is None else f"{src} > {to}" for src, to in lanes],
                parts,
                tuple(_LOOKS.values()),
                label="time of the step, estimated" if candidate is candidates[-1] else "",
                title=candidate.name,
                last=last,
            )
        )
    return Picture(time_sentence(times), pa.table({}), panels)
