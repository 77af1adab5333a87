"""Which ranks of a job make the others wait, and which are slow themselves, in sentences."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.collective_waits import say_delay
from gpuprof.base.units import format_ratio, listed, say_ns, say_share
from gpuprof.facts.hosts import DeviceNames
from gpuprof.facts.last_ranks import CollectiveRecord, LastRank, last_ranks_of
from gpuprof.facts.step_windows import FROM_RANGES

_MOST_NAMED: Final = 3
# Of fewer steps or calls one is always most of all.
_LEAST_PLACES: Final = 3

Row = dict[str, Any]


def rank_sentences(record: CollectiveRecord, steps: pa.Table, ranks: pa.Table) -> Iterator[str]:
    """Who makes the others wait, why and when, and who is slow without collectives.

    Args:
        record: The collectives of all ranks.
        steps: The rows of ``steps``.
        ranks: The rows of ``ranks``.
    """
    yield from _of_last(record, steps)
    phases = dict.fromkeys(
        zip(steps["phase"].to_pylist(), steps["source"].to_pylist(), strict=True)
    )
    inferred = {phase for phase, source in phases if source != FROM_RANGES}
    yield from _of_slow(ranks.to_pylist(), record.names, inferred)


def _of_last(record: CollectiveRecord, steps: pa.Table) -> Iterator[str]:
    """Who makes the others wait most, and why."""
    lasts = last_ranks_of(record)
    # Of ranks that all come last as often, none is late.
    if not lasts or not lasts[0].stands_out:
        return
    last = lasts[0]
    why = "" if last.delay is None else f" ({say_delay(last.delay)})"
    yield (
        f"{_capitalised(last.name)} makes the others wait: it came last to"
        f" {say_share(last.share)} of the collectives of {len(last.devices):,} ranks, in the median"
        f" {say_ns(last.median_lag_ns)} late{why}{_when(steps, last)}"
    )


def _when(steps: pa.Table, last: LastRank) -> str:
    """The step, else the call, in which the others wait for a rank most of that time, if in one."""
    import pyarrow.compute as pc  # noqa: PLC0415 - start-up time of other recordings

    # Steps that are inferred have numbers that nobody knows.
    is_step = pc.and_(
        pc.equal(steps["device_id"], last.device_id), pc.equal(steps["source"], FROM_RANGES)
    )
    rows = steps.filter(is_step).sort_by("start_ns")
    start, span, number = (rows[name].to_numpy() for name in ("start_ns", "span_ns", "step"))
    place = np.searchsorted(start, last.start_ns, side="right") - 1
    # Between steps and before the first one is no step.
    inside = place >= 0
    inside[inside] = last.start_ns[inside] < (start + span)[place[inside]]
    by_step = np.bincount(place[inside], last.waited_ns[inside], len(start))
    of_steps = [f"in step {step}" for step in number.tolist()]
    of_calls = [f"in one call, at {say_ns(ns)}" for ns in last.start_ns.tolist()]
    for waited, places in ((by_step, of_steps), (last.waited_ns, of_calls)):
        if len(waited) >= _LEAST_PLACES and 2 * waited.max() > last.waited_ns.sum():
            share = say_share(float(waited.max() / last.waited_ns.sum()))
            return f"; {share} of the waiting for it is {places[int(waited.argmax())]}"
    return ""


def _of_slow(ranks: Sequence[Row], names: DeviceNames, inferred: Collection[str]) -> Iterator[str]:
    """The devices that are slow beside the others, three at most."""
    has_phases = len({row["phase"] for row in ranks}) > 1
    slowest: dict[str, str] = {}
    for row in sorted((row for row in ranks if row["is_slow"]), key=lambda row: -row["slow_ratio"]):
        phase = f' of "{row["phase"]}"' if has_phases else ""
        step = "inferred step" if row["phase"] in inferred else "step"
        longer = f" ({row['longer_part']} {say_ns(row['longer_ns'])} longer)"
        slowest.setdefault(
            names.in_words([row["device_id"]]),
            f"takes {format_ratio(row['slow_ratio'])} times the median of the others{phase}"
            f"{_stretch(row['slow_from_step'], row['slow_to_step'], step)}{longer}",
        )
    if not slowest:
        return
    words = [f"{name} {text}" for name, text in [*slowest.items()][:_MOST_NAMED]]
    more = f", and {len(slowest) - _MOST_NAMED} more" if len(slowest) > _MOST_NAMED else ""
    yield f"Slow without collectives: {listed(words)}{more} (--table ranks)"


def _stretch(first: int | None, last: int | None, step: str) -> str:
    """In which steps: `` from step 20 on``; empty for all."""
    if first is None:
        return "" if last is None else f" up to {step} {last}"
    return f" from {step} {first} {'on' if last is None else f'to {last}'}"


def _capitalised(text: str) -> str:
    """A text whose other letters stay: names of hosts may have capitals."""
    return text[:1].upper() + text[1:]
