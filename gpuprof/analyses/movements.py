"""Copies and collectives by the part of the program that launched them."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import UNKNOWN as UNKNOWN_KIND
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.collective_parts import PARTS_READS, SETUP, SPREAD, collective_parts
from gpuprof.facts.communication import bus_factor
from gpuprof.facts.copies import sums_of
from gpuprof.facts.launch_paths import LaunchPaths, paths_of_modules
from gpuprof.facts.launches import exposed_of_copies, launches
from gpuprof.facts.numbers import groups
from gpuprof.facts.nvtx import NO_RANGE, RANGE_READS
from gpuprof.facts.timeline import COMPUTE, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import known
from gpuprof.model.intervals import covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, INT, TEXT, Column, Schema

MOVEMENTS: Final = Schema(
    "movements",
    "all copies of one kind, or calls of one collective, that a part of the program launched on one"
    " device",
    {
        "program_part": Column(
            TEXT,
            "",
            "NVTX ranges, annotations and modules that were open, outermost first; of copies and"
            " collectives that none launched the operation; null where nothing is known.",
        ),
        "part_kind": Column(TEXT, "", "What the last of these is: range, module or operation."),
        "movement": Column(TEXT, "", "Kind of copy, or collective.", required=True),
        "device_id": Column(INT, "", "Device that it ran on; null where unknown."),
        "calls": Column(INT, "1", "How often.", required=True),
        "bytes": Column(INT, "B", "Their bytes; null where not known of all."),
        "total_ns": Column(INT, "ns", "Sum of durations.", required=True),
        "exposed_ns": Column(INT, "ns", "The part of it while no kernel computed.", required=True),
        "transfer_ns": Column(
            INT, "ns", "The part of total_ns in which data moved; null where that is not known."
        ),
        "waiting_ns": Column(
            INT,
            "ns",
            "The part that collectives waited for the last rank; at most, where one rank was"
            " recorded. Null for copies, and where not known.",
        ),
        "arrival_lag_ns": Column(
            INT,
            "ns",
            "How much later than the first rank this one began, summed over calls; null for copies"
            " and where other ranks are not known.",
        ),
        "bus_bytes": Column(
            INT,
            "B",
            "What each rank's link carries at least for it, by the factors of collectives; null for"
            " copies, and where not known.",
        ),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / transfer_ns."),
        "bus_bytes_per_s": Column(FLOAT, "B/s", "bus_bytes / transfer_ns."),
    },
)
_ALIKE: Final = ("program_part", "part_kind", "movement", "device_id")
Row = dict[str, Any]


def movements(profile: Profile) -> pa.Table:
    """Attribute copies and collectives to the ranges and modules in which they were launched.

    A part is as in `gpuprof.facts.launch_paths`; what it launched belongs to its path alone, not to
    those around it, so that rows can be added up. The kernels of a CUDA graph belong to the part
    that launched the graph.

    Args:
        profile: Needs ``kernels``, ``memcpys`` and ``api_calls``; ``nvtx_ranges`` and, for
            modules, ``host_calls`` of Python name the parts, ``collectives`` tell messages.

    Returns:
        One row per path, movement and device, the longest exposed first; columns as in
        `MOVEMENTS`.
    """
    return _table([*_of_copies(profile), *_of_collectives(profile)])


def _of_copies(profile: Profile) -> Iterator[Row]:
    recorded, part = profile.unrestricted, profile.selection
    paths, copies = paths_of_modules(recorded), launches(recorded).activities.copies
    path, exposed_ns = paths.path[: len(copies)], exposed_of_copies(recorded)
    is_meant = part.holds(copies.start_ns)
    if part.device_id is not None:
        is_meant &= np.any([end == part.device_id for end in (copies.device, *copies.ends)], axis=0)
    place = np.flatnonzero(is_meant)
    for rows in groups(path[place], copies.kind[place], copies.device[place]):
        of_row = place[rows]
        sums = sums_of(copies, of_row)
        yield {
            **_of_path(paths, int(path[of_row[0]])),
            "movement": copies.kinds[copies.kind[of_row[0]]] or UNKNOWN_KIND,
            "device_id": known(int(copies.device[of_row[0]])),
            **{name: sums[name] for name in ("calls", "bytes", "total_ns")},
            "exposed_ns": int(exposed_ns[of_row].sum()),
            "transfer_ns": sums["total_ns"],
        }


def _of_collectives(profile: Profile) -> Iterator[Row]:
    recorded, part = profile.unrestricted, profile.selection
    paths, parts = paths_of_modules(recorded), collective_parts(recorded)
    kernels = parts.kernels
    took_ns, exposed_ns = kernels.end_ns - kernels.start_ns, np.zeros(len(kernels), np.int64)
    for line in timelines(recorded):
        here = np.flatnonzero(kernels.device == line.number)
        times = kernels.start_ns[here], kernels.end_ns[here]
        exposed_ns[here] = took_ns[here] - covered_within(line.busy[COMPUTE], *times)
    path = paths.path[len(paths.path) - len(kernels) :]
    names = np.array([of.collective for of in kernels.collectives])[kernels.kind]
    _, name = np.unique(names, return_inverse=True)
    is_meant = part.holds(kernels.start_ns)
    if part.device_id is not None:
        is_meant &= kernels.device == part.device_id
    place = np.flatnonzero(is_meant)
    sizes = [of.message_bytes for of in kernels.collectives]
    factors = [bus_factor(of.collective, of.group_size) for of in kernels.collectives]
    for rows in groups(path[place], name[place], kernels.device[place]):
        of_row = place[rows]
        # First calls that are set-up have no parts.
        told = of_row[parts.basis[of_row] != SETUP]
        is_known = parts.is_complete[told] | (parts.basis[told] == SPREAD)
        has_parts, lagging = len(told) and is_known.all(), told[parts.instance[told] >= 0]
        of_kind = np.bincount(kernels.kind[of_row]).tolist()
        kinds = [(calls, kind) for kind, calls in enumerate(of_kind) if calls]
        is_sized = all(sizes[kind] is not None for _, kind in kinds)
        has_bus = is_sized and all(factors[kind] is not None for _, kind in kinds)
        yield {
            **_of_path(paths, int(path[of_row[0]])),
            "movement": str(names[of_row[0]]),
            "device_id": known(int(kernels.device[of_row[0]])),
            "calls": len(of_row),
            "bytes": sum(n * (sizes[k] or 0) for n, k in kinds) if is_sized else None,
            "total_ns": int(took_ns[of_row].sum()),
            "exposed_ns": int(exposed_ns[of_row].sum()),
            "transfer_ns": int(parts.transfer_ns[told].sum()) if has_parts else None,
            "waiting_ns": int(parts.waiting_ns[told].sum()) if has_parts else None,
            "arrival_lag_ns": int(parts.lag_ns[lagging].sum()) if len(lagging) else None,
            "bus_bytes": round(sum(n * (sizes[k] or 0) * (factors[k] or 0) for n, k in kinds))
            if has_bus
            else None,
        }


def _of_path(paths: LaunchPaths, place: int) -> Row:
    if place == NO_RANGE:
        return {}
    return {"program_part": "/".join(paths.paths[place]), "part_kind": paths.kinds[place]}


def _table(rows: list[Row]) -> pa.Table:
    """Rows with their rates, the longest exposed first."""
    rows.sort(
        key=lambda row: (-row["exposed_ns"], -row["total_ns"], *map(str, map(row.get, _ALIKE)))
    )
    for row in rows:
        for name in ("bytes", "bus_bytes"):
            if row.get(name) is not None and row["transfer_ns"]:
                row[f"{name}_per_s"] = row[name] * NS_PER_S / row["transfer_ns"]
    return MOVEMENTS.table(rows)


ANALYSIS: Final = Analysis(
    "Copies and collectives by part of the program",
    MOVEMENTS,
    ("kernels", "memcpys", "api_calls"),
    movements,
    reads(
        PARTS_READS,
        RANGE_READS,
        host_calls="start_ns end_ns process_id thread_id name library",
    ),
)
