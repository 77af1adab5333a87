"""What each NVTX range launched on the GPUs: kernels, transfers, and what of them was exposed."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.launches import UNKNOWN, Activities, Launches, activities, launches
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
from gpuprof.intervals import Int64s, covered_within, union
from gpuprof.profile import Profile
from gpuprof.schema import INT, TEXT, Column, Schema

RANGES: Final = Schema(
    "ranges",
    "all NVTX ranges or framework annotations of one text",
    {
        "text": Column(TEXT, "", "Message.", required=True),
        "domain": Column(TEXT, "", "Domain; empty for the default one.", required=True),
        "range_kind": Column(TEXT, "", "push_pop, start_end or annotation."),
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

    This is the projection of ``nsys stats --report nvtx_gpu_proj_sum``, whose total is
    ``projected_ns``.

    Args:
        profile: Needs ``nvtx_ranges``, ``api_calls``, ``kernels`` and ``memcpys``.

    Returns:
        One row per text, domain and kind, the longest exposed transfers and kernels first;
        columns as in `RANGES`. Ranges that launched nothing have 0. Of a part of a recording,
        the ranges that start in it or launched work of it.
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
        if totals["instances"][index]
    ]
    rows.sort(key=lambda row: (-row["exposed_transfer_ns"], -row["kernel_ns"], row["text"]))
    return RANGES.table(rows)


def _row(label: tuple[str, str, str], totals: Mapping[str, int]) -> dict[str, Any]:
    text, domain, kind = label
    own = {name: None for name in totals if name.startswith("self_") and kind == "start_end"}
    return {"text": text, "domain": domain, "range_kind": kind or None, **totals, **own}


def _values(profile: Profile, held: Ranges, ordered: Launches) -> dict[str, Int64s]:
    """Figures of every single range of a family."""
    every = ordered.activities
    measured = _measures(profile, every)
    spans = launches_within(held, ordered)
    first, last = spans.extent(every.start_ns, every.end_ns)
    found = {name: spans.total(values) for name, values in measured.items()}
    found |= {
        "instances": np.ones(len(held), np.int64),
        "active_instances": (spans.last > spans.first).astype(np.int64),
        "host_ns": held.end_ns - held.start_ns,
        "projected_ns": last - first,
    }
    if profile.part is not None and profile.part.windows is not None:
        outside = (spans.first == spans.last) & ~_starts_within(held, profile.part.windows)
        for values in found.values():
            values[outside] = 0
    inner = (
        np.full(len(every), NO_RANGE, np.int64)
        if (held.thread == ALL_THREADS).all()
        else innermost(held, ordered)
    )
    for name in ("kernel_ns", "transfer_ns"):
        own = np.zeros(len(held), np.int64)
        np.add.at(own, inner[inner != NO_RANGE], measured[name][inner != NO_RANGE])
        found[f"self_{name}"] = own
    return found


def _starts_within(held: Ranges, windows: tuple[tuple[int, int], ...]) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(len(held), bool)
    for start, end in windows:
        chosen |= (held.start_ns >= start) & (held.start_ns < end)
    return chosen


def _measures(profile: Profile, every: Activities) -> dict[str, Int64s]:
    """Figures of every single activity."""
    is_kernel, is_transfer = every.layer == COMPUTE, every.layer == TRANSFER
    duration = every.end_ns - every.start_ns
    return {
        "kernel_calls": is_kernel.astype(np.int64),
        "kernel_ns": np.where(is_kernel, duration, 0),
        "transfer_calls": np.where(is_transfer, every.counted, 0).astype(np.int64),
        "transfer_ns": np.where(is_transfer, duration, 0),
        "transfer_bytes": np.where(is_transfer, every.bytes, 0),
        "peer_transfer_ns": np.where(every.peer > 0, duration, 0),
        "exposed_transfer_ns": exposed_ns(profile, every),
    }


def exposed_ns(profile: Profile, every: Activities) -> Int64s:
    """How long each transfer ran while no kernel did, on the end where that is longer.

    0 for what is no transfer. Transfers that run at once each have their own time.
    """
    chosen = np.flatnonzero(every.layer == TRANSFER)
    copies = every.take(chosen)
    longest = np.zeros(len(copies), np.int64)
    whole = activities(profile.whole or profile)
    kernels = np.flatnonzero(whole.layer == COMPUTE)
    ran_on = whole.device[kernels]
    for device in _devices(whole):
        here = (copies.device == device) | (copies.src == device) | (copies.dst == device)
        start, end = copies.start_ns[here], copies.end_ns[here]
        mine = kernels[ran_on == device]
        busy = union(whole.start_ns[mine], whole.end_ns[mine])
        longest[here] = np.maximum(longest[here], end - start - covered_within(busy, start, end))
    found = np.zeros(len(every), np.int64)
    found[chosen] = longest
    return found


def _devices(whole: Activities) -> list[int]:
    """Devices at the ends of copies; the unknown one where something ran on no known device."""
    known = {number for end in whole.ends() for number in np.unique(end).tolist() if number >= 0}
    homeless = (whole.device == UNKNOWN) & (whole.src < 0) & (whole.dst < 0)
    return [*known, UNKNOWN] if homeless.any() else [*known]


ANALYSIS: Final = Analysis(
    "GPU work by NVTX range", RANGES, ("nvtx_ranges", "api_calls", "kernels", "memcpys"), ranges
)
