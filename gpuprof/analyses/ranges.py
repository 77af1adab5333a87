"""What each NVTX range or operation launched: kernels, transfers, and what of them was exposed."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.facts.launches import ALL_THREADS, Activities, Launches, exposed_of_copies, launches
from gpuprof.facts.numbers import Numbers, pieces, sums_by_number
from gpuprof.facts.nvtx import NO_RANGE, RANGE_READS, START_END, Ranges, by_pattern, ranges_of
from gpuprof.facts.range_launches import families, holding, launches_within, merged_by_label
from gpuprof.facts.timeline import COMPUTE, TRANSFER
from gpuprof.model.analysis import ordered as in_order
from gpuprof.model.analysis import per_file, summed
from gpuprof.model.data_model import OPERATION
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Bytes, Count, Ns, Schema, Text
from gpuprof.model.words import narrowed

RANGES: Final = Schema(
    "ranges",
    "all NVTX ranges, framework annotations or operations of one text but for numbers",
    {
        "text": Text("Message; * for numbers in which several differ.", required=True),
        "domain": Text("Domain; empty for the default one.", required=True),
        "range_kind": Text("push_pop, start_end, annotation or operation."),
        "instances": Count("How often it was entered.", required=True),
        "active_instances": Count(
            "Those that launched something, which alone nsys counts.", required=True
        ),
        "host_ns": Ns("Time in which one was open, summed over threads.", required=True),
        "projected_ns": Ns("Sum of first start to last end of what each launched.", required=True),
        "kernel_calls": Count("Kernels launched in it, or in ranges within it."),
        "kernel_ns": Ns("Sum of their durations."),
        "transfer_calls": Count("Transfers launched in it; a staged one counts once."),
        "transfer_ns": Ns("Sum of their durations."),
        "transfer_bytes": Bytes("Bytes that they moved; unknown sizes count as 0."),
        "peer_transfer_ns": Ns("The part of transfer_ns between two devices."),
        "exposed_transfer_ns": Ns(
            "The part of transfer_ns while no kernel ran, on the end that waited longer."
        ),
        "self_kernel_ns": Ns(
            "kernel_ns without that of ranges within it; null for start_end ranges."
        ),
        "self_transfer_ns": Ns(
            "transfer_ns without that of ranges within it; null for start_end ranges."
        ),
    },
)

# What gives a figure of single activities, by their places.
_Measure = Callable[[Numbers], Numbers]
_EXCLUSIVE: Final = {"kernel_ns", "transfer_ns"}


_ALIKE: Final = ("text", "domain", "range_kind")


_LONGEST_FIRST: Final = [(name, "descending") for name in ("projected_ns", "host_ns")]
_ORDER: Final = (*_LONGEST_FIRST, *((name, "ascending") for name in _ALIKE))
_SUMMED: Final = [name for name in RANGES.columns if name not in _ALIKE]


@per_file(
    RANGES,
    lambda table: in_order(summed(table, _ALIKE, _SUMMED), _ORDER),
    needs=("nvtx_ranges", "api_calls", "kernels", "memcpys"),
)
def ranges(profile: Profile) -> pa.Table:
    """Attribute GPU work to the NVTX ranges in which it was launched.

    A kernel or copy belongs to a range if the API call that launched it began while the range
    was open on the same thread; for ``start_end`` ranges, on any thread of the process. It then
    belongs to all ranges around that one too, so that rows of different texts must not be
    added up; ``self_`` columns can be. Within a row each launch and each instant counts once:
    ranges of one text within one another, as of recursion, are one but for ``instances``.
    Operations of a framework lie within annotations and within one another: what ``self_``
    columns give to one, they do not give to the annotation around it.

    Ranges of a file whose texts differ in numbers only are one row, as ``epoch *``, which
    ``--range`` takes.

    This is the projection of ``nsys stats --report nvtx_gpu_proj_sum``, whose total is
    ``projected_ns``; nsys adds up ranges of one text within one another.

    Returns:
        One row per text, domain and kind, the longest projected time first; columns as in
        `RANGES`. Ranges that launched nothing have 0; operations that launched
        nothing are left out, since a framework runs many. Of a part of a recording, the ranges
        that start in it or launched work of it.
    """
    # Ranges are read while launches are, and copies measured while launches are summed up.
    profile.compute_ahead([ranges_of], is_first=True)
    launched = launches(profile)
    profile.compute_ahead([exposed_of_copies], is_first=True)
    named = by_pattern(ranges_of(profile))
    totals: dict[str, Int64s] = {}
    part = profile.selection
    for family, ordered in families(named, launched):
        chosen = family
        if part.windows is not None:
            spans = launches_within(family, ordered)
            is_in = (spans.last > spans.first) | part.holds(family.start_ns)
            chosen = family.take(np.flatnonzero(is_in))
        for name, values in _totals(profile, chosen, ordered).items():
            totals[name] = totals.get(name, 0) + values
    rows = []
    for index, (text, domain, kind) in enumerate(named.labels):
        row: dict[str, Any] = {name: int(values[index]) for name, values in totals.items()}
        if row["active_instances" if kind == OPERATION else "instances"]:
            if kind == START_END:  # they hold launches of all threads, and own none
                row |= {name: None for name in row if name.startswith("self_")}
            rows.append({"text": text, "domain": domain, "range_kind": kind or None, **row})
    rows.sort(key=lambda row: (-row["projected_ns"], -row["host_ns"], row["text"]))
    return RANGES.table(rows)


def _totals(profile: Profile, family: Ranges, ordered: Launches) -> dict[str, Int64s]:
    """The figures of each label: of instances, and of what these hold, each launch once."""
    spans = launches_within(family, ordered)
    labels = len(family.labels)
    totals = {
        "instances": np.bincount(family.label, minlength=labels),
        "active_instances": np.bincount(family.label[spans.last > spans.first], minlength=labels),
    }
    merged = merged_by_label(family)
    spans = spans if merged is family else launches_within(merged, ordered)
    totals["host_ns"] = sums_by_number(merged.label, merged.end_ns - merged.start_ns, labels)
    first, last = spans.extent(ordered)
    totals["projected_ns"] = sums_by_number(merged.label, last - first, labels)
    del first, last
    # Launches of whole processes have no innermost range.
    owner: Numbers = np.full(len(ordered.order), NO_RANGE, np.int8)
    if not (family.thread == ALL_THREADS).all():
        owner = holding(family, ordered)
    label = np.append(narrowed(family.label), np.int8(NO_RANGE))[owner]
    del owner
    work = ordered.activities
    layer = ordered.of(work.layer)
    for number, measured in _measures(profile, work).items():
        is_chosen = layer == number
        of_layer = spans.among(is_chosen)
        for name, values_at in measured.items():
            before, exclusive = _sums(values_at, ordered.order, is_chosen, label, labels)
            of_ranges = before[of_layer.last] - before[of_layer.first]
            totals[name] = sums_by_number(merged.label, of_ranges, labels)
            if name in _EXCLUSIVE:
                totals[f"self_{name}"] = exclusive
            del before  # makes room for the next
    return totals


def _sums(
    values_at: _Measure,
    order: Numbers,
    is_chosen: npt.NDArray[np.bool_],
    label: Numbers,
    labels: int,
) -> tuple[Int64s, Int64s]:
    """The sum of the values of the chosen launches before each one, and that of each label."""
    before = np.zeros(np.count_nonzero(is_chosen) + 1, np.int64)
    of_label, at = np.zeros(labels + 1, np.int64), 0
    for rows in pieces(len(order)):
        chosen = is_chosen[rows]
        values = values_at(order[rows][chosen]).astype(np.int64, copy=False)
        sums = before[at + 1 : at + 1 + len(values)]
        np.cumsum(values, out=sums)
        sums += before[at]
        at += len(values)
        np.add.at(of_label, label[rows][chosen].astype(np.intp), values)
    return before, of_label[:-1]  # the last is of `NO_RANGE`


def _measures(profile: Profile, work: Activities) -> dict[int, dict[str, _Measure]]:
    """What gives figures of single activities, by their layer."""
    copies = work.copies
    return {
        COMPUTE: {
            "kernel_ns": work.duration_ns.take,
            "kernel_calls": np.ones_like,
        },
        TRANSFER: {
            "transfer_ns": work.duration_ns.take,
            "transfer_calls": copies.is_counted.take,
            "transfer_bytes": copies.moved_bytes.take,
            "peer_transfer_ns": lambda places: work.duration_ns[places] * copies.is_peer[places],
            "exposed_transfer_ns": lambda places: exposed_of_copies(profile)[places],
        },
    }


ANALYSIS: Final = ranges.analysis("GPU work by NVTX range, annotation or operation", RANGE_READS)
