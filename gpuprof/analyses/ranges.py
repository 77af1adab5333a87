"""What each NVTX range or operation launched: kernels, transfers, and what of them was exposed."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.groups import Numbers, groups
from gpuprof.analyses.launches import (
    UNKNOWN,
    Activities,
    Launches,
    activities,
    launches,
)
from gpuprof.analyses.nvtx import (
    ALL_THREADS,
    NO_RANGE,
    Ranges,
    families,
    innermost,
    launches_within,
    ranges_of,
)
from gpuprof.analyses.timeline import COMPUTE, TRANSFER
from gpuprof.intervals import NOTHING, Int64s, Intervals, covered_within, union
from gpuprof.profile import Profile
from gpuprof.schema import INT, OPERATION, TEXT, Column, Schema

RANGES: Final = Schema(
    "ranges",
    "all NVTX ranges, framework annotations or operations of one text",
    {
        "text": Column(TEXT, "", "Message.", required=True),
        "domain": Column(TEXT, "", "Domain; empty for the default one.", required=True),
        "range_kind": Column(TEXT, "", "push_pop, start_end, annotation or operation."),
        "instances": Column(INT, "1", "How often it was entered.", required=True),
        "active_instances": Column(
            INT, "1", "Those that launched something, which alone nsys counts.", required=True
        ),
        "host_ns": Column(INT, "ns", "Sum of the ranges' own durations.", required=True),
        "projected_ns": Column(
            INT, "ns", "Sum of first start to last end of what each launched.", required=True
        ),
        "kernel_calls": Column(INT, "1", "Kernels launched in it, or in ranges within it."),
        "kernel_ns": Column(INT, "ns", "Sum of their durations."),
        "transfer_calls": Column(INT, "1", "Transfers launched likewise; a staged one once."),
        "transfer_ns": Column(INT, "ns", "Sum of their durations."),
        "transfer_bytes": Column(INT, "B", "Bytes that they moved; unknown sizes count as 0."),
        "peer_transfer_ns": Column(INT, "ns", "The part of transfer_ns between two devices."),
        "exposed_transfer_ns": Column(
            INT, "ns", "The part of transfer_ns while no kernel ran, on the end that waited longer."
        ),
        "self_kernel_ns": Column(
            INT, "ns", "kernel_ns without that of ranges within it; null for start_end ranges."
        ),
        "self_transfer_ns": Column(
            INT, "ns", "transfer_ns without that of ranges within it; null for start_end ranges."
        ),
    },
)


def ranges(profile: Profile) -> pa.Table:
    """Attribute GPU work to the NVTX ranges in which it was launched.

    A kernel or copy belongs to a range if the API call that launched it began while the range
    was open on the same thread; for ``start_end`` ranges, on any thread of the process. It then
    belongs to all ranges around that one too, so that rows of different texts must not be
    added up; ``self_`` columns can be. A range within one of the same text counts in both.
    Operations of a framework lie within annotations and within one another: what ``self_``
    columns give to one, they do not give to the annotation around it.

    This is the projection of ``nsys stats --report nvtx_gpu_proj_sum``, whose total is
    ``projected_ns``.

    Args:
        profile: Needs ``nvtx_ranges``, ``api_calls``, ``kernels`` and ``memcpys``.

    Returns:
        One row per text, domain and kind, the longest exposed transfers and kernels first;
        columns as in `RANGES`. Ranges that launched nothing have 0; operations that launched
        nothing are left out, since a framework runs many. Of a part of a recording, the ranges
        that start in it or launched work of it.
    """
    held, found = ranges_of(profile), launches(profile)
    totals: dict[str, Int64s] = {}
    for family, ordered in families(held, found):
        for name, values in _values(profile, family, ordered).items():
            summed = totals.setdefault(name, np.zeros(len(held.labels), np.int64))
            np.add.at(summed, family.label, values)
    rows = [
        _row(label, {name: int(values[index]) for name, values in totals.items()})
        for index, label in enumerate(held.labels)
        if totals["active_instances" if label[2] == OPERATION else "instances"][index]
    ]
    rows.sort(key=lambda row: (-row["exposed_transfer_ns"], -row["kernel_ns"], row["text"]))
    return RANGES.table(rows)


def _row(label: tuple[str, str, str], totals: Mapping[str, int]) -> dict[str, Any]:
    text, domain, kind = label
    own = {name: None for name in totals if name.startswith("self_") and kind == "start_end"}
    return {"text": text, "domain": domain, "range_kind": kind or None, **totals, **own}


def _values(profile: Profile, held: Ranges, ordered: Launches) -> dict[str, Int64s]:
    """Figures of every single range of a family."""
    spans, every = launches_within(held, ordered), ordered.activities
    first, last = spans.extent(ordered)
    found = {
        "instances": np.ones(len(held), np.int64),
        "active_instances": (spans.last > spans.first).astype(np.int64),
        "host_ns": held.end_ns - held.start_ns,
        "projected_ns": last - first,
    }
    inner = (
        np.full(len(ordered.order), NO_RANGE, np.int64)
        if (held.thread == ALL_THREADS).all()
        else innermost(held, ordered)
    )
    layer, duration = ordered.of(every.layer), every.end_ns - every.start_ns
    ones = np.ones(len(every), np.int8)
    measures: dict[int, dict[str, Numbers]] = {
        COMPUTE: {"kernel_ns": duration, "kernel_calls": ones},
        TRANSFER: {"transfer_ns": duration} | _of_transfers(profile, every),
    }
    for number, measured in measures.items():
        chosen = np.flatnonzero(layer == number)
        within, mine = spans.among(chosen, len(layer)), ordered.order[chosen]
        found |= {name: within.total(values[mine]) for name, values in measured.items()}
        own = f"self_{next(iter(measured))}"
        found[own] = _summed(inner[chosen], duration[mine], len(held))
    if profile.part is not None and profile.part.windows is not None:
        outside = (spans.first == spans.last) & ~_starts_within(held, profile.part.windows)
        for values in found.values():
            values[outside] = 0
    return found


def _summed(owner: Int64s, values: Int64s, owners: int) -> Int64s:
    """The sum of the values of each owner."""
    found = np.zeros(owners + 1, np.int64)
    np.add.at(found, owner, values)  # NO_RANGE is -1: the one too many
    return found[:-1]


def _starts_within(held: Ranges, windows: tuple[tuple[int, int], ...]) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(len(held), bool)
    for start, end in windows:
        chosen |= (held.start_ns >= start) & (held.start_ns < end)
    return chosen


def _of_transfers(profile: Profile, every: Activities) -> dict[str, Numbers]:
    """Figures of every single copy."""
    copies = every.copies
    duration = (every.end_ns - every.start_ns)[: len(copies)]
    return {
        "transfer_calls": copies.counted,
        "transfer_bytes": copies.bytes,
        "peer_transfer_ns": np.where(copies.peer > 0, duration, 0),
        "exposed_transfer_ns": _exposed_ns(profile, every),
    }


def _exposed_ns(profile: Profile, every: Activities) -> Int64s:
    """How long each copy ran while no kernel did, on the end where that is longer.

    Copies that run at once each have their own time.
    """
    number = len(every.copies)
    ends = every.device[:number], every.copies.src, every.copies.dst
    start, end = every.start_ns[:number], every.end_ns[:number]
    longest = np.zeros(number, np.int64)
    kernels = profile.once(_kernels)
    known = {one for end in ends for one in np.unique(end).tolist() if one >= 0}
    for device in (*known, UNKNOWN):
        at = [one == device for one in ends]
        # Of a copy that names no device, the kernels that name none may hide it.
        is_here = (
            at[0] & (ends[1] < 0) & (ends[2] < 0) if device == UNKNOWN else at[0] | at[1] | at[2]
        )
        mine = np.flatnonzero(is_here)
        busy = covered_within(kernels.get(device, NOTHING), start[mine], end[mine])
        longest[mine] = np.maximum(longest[mine], end[mine] - start[mine] - busy)
    return longest


def _kernels(profile: Profile) -> dict[int, Intervals]:
    """When kernels of the whole recording ran, by device."""
    whole = activities(profile.whole or profile)
    kernels = np.flatnonzero(whole.layer == COMPUTE)
    found = (kernels[mine] for mine in groups(whole.device[kernels]))
    return {
        int(whole.device[mine[0]]): union(whole.start_ns[mine], whole.end_ns[mine])
        for mine in found
    }


ANALYSIS: Final = Analysis(
    "GPU work by NVTX range, annotation or operation",
    RANGES,
    ("nvtx_ranges", "api_calls", "kernels", "memcpys"),
    ranges,
)
