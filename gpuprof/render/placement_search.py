"""What `gpuprof place` proposes, for people and for programs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from gpuprof.analyses.search.proposal import Proposal, TimedProposal
from gpuprof.analyses.search.schedules import EFFICIENCIES, Timed
from gpuprof.analyses.search.scopes import Scope, document
from gpuprof.analyses.search.simulate import launch_s
from gpuprof.analyses.search.step_graph import Copies
from gpuprof.render.contract import Page
from gpuprof.render.json import document_text
from gpuprof.render.overview import Grid
from gpuprof.render.terminal import grids_text
from gpuprof.units import (
    NS_PER_S,
    NS_PER_US,
    counted,
    format_bytes,
    format_count,
    say_binary_bytes,
    say_ns,
    say_rate,
    say_share,
)

_SHOWN_SCOPES: Final = 12
# What the same arithmetic gives where the copies of a log are known.
_PUBLISHED_COPY: Final = (
    "For scale: with latency and bandwidth from the published log of DeepCoNN this arithmetic"
    " gives 395 us for a copy of our dual, where the log says 129 us (of other code)."
)


def as_text(
    name: str,
    proposal: Proposal,
    times: TimedProposal | None,
    page: Page,
    write: Callable[[Scope], Iterable[str]] = Scope.lines,
) -> str:
    """Sentences, the lines to write, what may move, and what to know of it.

    Args:
        name: Of what is placed.
        proposal: The placement that copies least.
        times: The one that takes least time; None where no machine is imagined.
        page: How much room there is.
        write: What a script needs for a scope; TensorFlow's lines unless another is given.
    """
    sentence = time_sentence(times) if times else _sentence(proposal)
    lines = _lines(times.scopes if times else proposal.scopes, write)
    headline = "\n".join((f"{name}: {_step(proposal)}", "", sentence, *lines))
    grids = [_times(times)] if times else [_freedoms(proposal)]
    notes = [*(_time_notes(times) if times else ()), *_notes(proposal)]
    return grids_text(headline, grids, notes, page)


def as_json(proposal: Proposal, times: TimedProposal | None) -> str:
    """The placement document, with what a step copies today and with ever more that may move."""
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
        figures["estimates"] = [
            _estimate(candidate) | {"is_best": candidate is times.best}
            for candidate in times.candidates
        ]
    return document_text(_document(proposal, times) | figures)


def placement_text(proposal: Proposal, times: TimedProposal | None) -> str:
    """The placement alone, for a script to take."""
    return document_text(_document(proposal, times))


def _document(proposal: Proposal, times: TimedProposal | None) -> dict[str, Any]:
    """By time where that was asked for and something fits, else by bytes."""
    if times and times.best:
        return document(times.graph, times.best.place)
    return document(proposal.graph, proposal.best.place)


def _figures(copies: Copies) -> dict[str, float]:
    return {
        "bytes_per_step": copies.bytes,
        "copies_per_step": copies.calls,
        "unknown_copies_per_step": copies.unknown,
    }


def _estimate(candidate: Timed) -> dict[str, Any]:
    least, most = _ends(candidate)
    return {
        "placement": candidate.name,
        "least_step_ns": round(least * NS_PER_S),
        "most_step_ns": round(most * NS_PER_S),
        **_figures(candidate.copies),
        "peak_memory_bytes": candidate.middle.peak_bytes,
        "fits": candidate.fits,
    }


def _step(proposal: Proposal) -> str:
    devices = " and ".join(proposal.graph.devices)
    return f"a step of {counted(proposal.operations, 'operation', 'operations')} on {devices}"


def _sentence(proposal: Proposal) -> str:
    today, best = proposal.today, proposal.best.copies
    if not today.calls:
        return "A step copies nothing between devices. Whether a second one pays, --gpus estimates."
    if not proposal.scopes:
        return f"A step copies {_amount(today)}, and no other placement of its parts saves 1 %."
    saved = f", {say_share(1 - best.bytes / today.bytes)} less" if today.bytes else ""
    text = f"A step copies {_amount(today)}; {_amount(best)} would do{saved}."
    if proposal.is_forward_at_fault:
        kept = _amount(proposal.with_forward_kept.copies)
        text += f" The forward pass is at fault: with it where it is, {kept} is the least."
    return text


def _amount(copies: Copies) -> str:
    calls = counted(round(copies.calls), "copy", "copies")
    unknown = f", {copies.unknown:g} of unknown size" if copies.unknown else ""
    return f"{format_bytes(copies.bytes)} in {calls}{unknown}"


def _lines(scopes: Sequence[Scope], write: Callable[[Scope], Iterable[str]]) -> Iterator[str]:
    if scopes:
        yield ""
        yield "Write:"
    for scope in scopes[:_SHOWN_SCOPES]:
        yield from (f"  {line}" for line in write(scope))
    if len(scopes) > _SHOWN_SCOPES:
        yield f"  and {len(scopes) - _SHOWN_SCOPES} scopes more: --format json"


def _freedoms(proposal: Proposal) -> Grid:
    rows = [("nothing, as today", *_cells(proposal.today))]
    for number, freedom in enumerate(proposal.freedoms):
        name = f"and {freedom.name}" if number else freedom.name
        rows.append((name, *_cells(freedom.copies)))
    header = ("May move", "Bytes per step", "Copies per step")
    return Grid("Least that a step copies", header, tuple(rows))


def _cells(copies: Copies) -> tuple[str, str]:
    return format_bytes(copies.bytes), format_count(copies.calls)


def _notes(proposal: Proposal) -> Iterator[str]:
    yield (
        "Bytes follow from the graph and the devices alone: a tensor is sent once to each device"
        " that takes it, constants never."
    )
    graph = proposal.graph
    if graph.looped:
        yield (
            f"{len(graph.looped)} operations are within loops and stay: how often these run, the"
            " graph does not tell, so that their copies count once."
        )
    if proposal.unknown_sizes:
        yield (
            f"The sizes of {proposal.unknown_sizes} of {len(graph.sent)} tensors are unknown: the"
            " search takes the median for them, and bytes are those of the others."
        )


def _ends(candidate: Timed) -> tuple[float, float]:
    seconds = [run.seconds for run in candidate.runs]
    return min(seconds), max(seconds)


def _range(candidate: Timed) -> str:
    least, most = (say_ns(end * NS_PER_S) for end in _ends(candidate))
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number} to {most}" if most.endswith(f" {unit}") else f"{least} to {most}"


def time_sentence(times: TimedProposal) -> str:
    """What a step would take as proposed, as recorded and on one GPU."""
    where, best, today = times.machine.name, times.best, times.today
    if best is None:
        return f"On {where} no placement fits into the memory."
    name = best.name if best.name.startswith("all on") else f"{best.name}, {best.devices} GPUs"
    text = f"On {where} a step is estimated to take {_range(best)} ({name})"
    if today is not None and today is not best:
        text += f", today {_range(today)}"
    alone = next(candidate for candidate in times.candidates if candidate.devices == 1)
    if best.devices > 1:
        return f"{text}, on one GPU {_range(alone)}."
    return f"{text}. A second GPU would not pay." if len(times.machine.gpus) > 1 else f"{text}."


def _times(times: TimedProposal) -> Grid:
    rows = tuple(
        (
            f"{candidate.name}{'' if candidate.fits else ' (does not fit)'}",
            _range(candidate),
            *_cells(candidate.copies),
            ", ".join(say_binary_bytes(round(size)) for size in candidate.middle.peak_bytes),
        )
        for candidate in times.candidates
    )
    header = ("Placement", "Step, estimated", "Bytes", "Copies", "Memory of each GPU")
    return Grid(f"Estimates on {times.machine.name}", header, rows)


def _time_notes(times: TimedProposal) -> Iterator[str]:
    least, _, most = EFFICIENCIES
    launches = [launch_s(part) * NS_PER_S / NS_PER_US for part in (most, least)]
    link = times.machine.link
    yield (
        "Estimates rank placements and promise no seconds: kernels at"
        f" {least:.0%} to {most:.0%} of the GPU's peak (single precision, memory bandwidth), of"
        f" {launches[0]:.1f} to {launches[1]:.1f} us each at least; a"
        f" copy takes {say_ns(link.latency_s * NS_PER_S)} and its bytes at"
        f" {say_rate(link.bytes_per_s)}."
    )
    yield _PUBLISHED_COPY
