"""Copies and collectives by the part of the program that launched them."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.cuda import UNKNOWN as UNKNOWN_KIND
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.collective_parts import PARTS_READS, SETUP, SPREAD, collective_parts
from gpuprof.facts.communication import bus_factor
from gpuprof.facts.launch_paths import LaunchPaths, paths_of_modules
from gpuprof.facts.launches import exposed_of_copies, launches
from gpuprof.facts.numbers import Numbers, first_of
from gpuprof.facts.nvtx import NO_RANGE, RANGE_READS
from gpuprof.facts.timeline import COMPUTE, timelines
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s, covered_within
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Id, Ns, Schema, Text

MOVEMENTS: Final = Schema(
    "movements",
    "all copies of one kind, or calls of one collective, that a part of the program launched on one"
    " device",
    {
        "program_part": Text(
            "NVTX ranges, annotations and modules that were open, outermost first; of copies and"
            " collectives that none launched the operation; null where nothing is known."
        ),
        "part_kind": Text("What the last of these is: range, module or operation."),
        "movement": Text("Kind of copy, or collective.", required=True),
        "device_id": Id("Device that it ran on; null where unknown."),
        "calls": Count("How often.", required=True),
        "bytes": Bytes("Their bytes; null where not known of all."),
        "total_ns": Ns("Sum of durations.", required=True),
        "exposed_ns": Ns("The part of it while no kernel computed.", required=True),
        "transfer_ns": Ns(
            "The part of total_ns in which data moved; null where that is not known."
        ),
        "waiting_ns": Ns(
            "The part that collectives waited for the last rank; at most, where one rank was"
            " recorded. Null for copies, and where not known."
        ),
        "arrival_lag_ns": Ns(
            "How much later than the first rank this one began, summed over calls; null for copies"
            " and where other ranks are not known."
        ),
        "bus_bytes": Bytes(
            "What each rank's link carries at least for it, by the factors of collectives; null for"
            " copies, and where not known."
        ),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / transfer_ns."),
        "bus_bytes_per_s": Column(FLOAT, "B/s", "bus_bytes / transfer_ns."),
    },
)


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
    recorded = profile.unrestricted
    paths = paths_of_modules(recorded)
    tables = [_of_copies(profile, paths), _of_collectives(profile, paths)]
    table = pa.concat_tables(map(MOVEMENTS.conform, tables))
    keys = []
    for name in ("program_part", "part_kind", "movement", "device_id"):
        # The place of each value among all, as text.
        words = table.column(name).combine_chunks().dictionary_encode()
        texts = [*map(str, words.dictionary.to_pylist()), str(None)]
        # Arrays of NumPy would make all of them as long as the longest.
        place = {text: number for number, text in enumerate(sorted({*texts}))}
        indices = words.indices.fill_null(len(texts) - 1).to_numpy()
        keys.append(np.array([place[text] for text in texts])[indices])
    sums = (-table.column(name).to_numpy() for name in ("total_ns", "exposed_ns"))
    return table.take(np.lexsort([*reversed(keys), *sums]))


def _of_copies(profile: Profile, paths: LaunchPaths) -> pa.Table:
    recorded = profile.unrestricted
    copies, exposed_ns = launches(recorded).activities.copies, exposed_of_copies(recorded)
    place = _chosen(profile, copies.start_ns, copies.device, *copies.ends)
    kinds = [kind or UNKNOWN_KIND for kind in copies.kinds]
    keys = (column[place] for column in (paths.path, copies.kind, copies.device))
    of = _Groups(place, *keys)
    total_ns, is_unsized = of.sums(copies.duration_ns), of.sums(copies.bytes == UNKNOWN) > 0
    return of.table(
        paths,
        kinds,
        calls=of.sums(copies.is_counted != 0),
        bytes=pa.array(of.sums(copies.moved_bytes), mask=is_unsized),
        total_ns=total_ns,
        exposed_ns=of.sums(exposed_ns),
        transfer_ns=total_ns,
    )


def _of_collectives(profile: Profile, paths: LaunchPaths) -> pa.Table:
    recorded = profile.unrestricted
    parts = collective_parts(recorded)
    kernels = parts.kernels
    took_ns, exposed_ns = kernels.end_ns - kernels.start_ns, np.zeros(len(kernels), np.int64)
    for line in timelines(recorded):
        here = np.flatnonzero(kernels.device == line.number)
        times = kernels.start_ns[here], kernels.end_ns[here]
        exposed_ns[here] = took_ns[here] - covered_within(line.busy[COMPUTE], *times)
    place = _chosen(profile, kernels.start_ns, kernels.device)
    path = paths.path[len(paths.path) - len(kernels) :]
    names, number = np.unique([of.collective for of in kernels.collectives], return_inverse=True)
    name = number[kernels.kind]
    of = _Groups(place, *(column[place] for column in (path, name, kernels.device)))
    # First calls that are set-up have no parts.
    is_timed = parts.basis != SETUP
    is_unknown = is_timed & ~parts.is_complete & (parts.basis != SPREAD)
    has_no_parts = (of.sums(is_timed) == 0) | (of.sums(is_unknown) > 0)
    is_lagging = is_timed & (parts.instance >= 0)
    # Bytes of each collective, -1 for unknown, and what each rank's link carries, or nan.
    sizes = [of.message_bytes for of in kernels.collectives]
    size = np.array([-1 if n is None else n for n in sizes], np.int64)
    factors = [bus_factor(of.collective, of.group_size) for of in kernels.collectives]
    bus = np.where(size < 0, np.nan, size * np.array([np.nan if f is None else f for f in factors]))
    return of.table(
        paths,
        names.tolist(),
        calls=of.count,
        bytes=pa.array(of.sums(size[kernels.kind]), mask=of.sums(size[kernels.kind] < 0) > 0),
        total_ns=of.sums(took_ns),
        exposed_ns=of.sums(exposed_ns),
        transfer_ns=pa.array(of.sums(parts.transfer_ns * is_timed), mask=has_no_parts),
        waiting_ns=pa.array(of.sums(parts.waiting_ns * is_timed), mask=has_no_parts),
        arrival_lag_ns=pa.array(of.sums(parts.lag_ns * is_lagging), mask=of.sums(is_lagging) == 0),
        bus_bytes=pa.array(
            np.rint(of.sums(np.nan_to_num(bus)[kernels.kind])).astype(np.int64),
            mask=of.sums(np.isnan(bus)[kernels.kind]) > 0,
        ),
    )


def _chosen(profile: Profile, start_ns: Int64s, device: Numbers, *ends: Numbers) -> Int64s:
    """The places of what is meant of a part of a recording: it ran on its device, or reached it."""
    part = profile.selection
    is_meant = part.holds(start_ns)
    if part.device_id is not None:
        is_meant &= np.any([end == part.device_id for end in (device, *ends)], axis=0)
    return np.flatnonzero(is_meant)


class _Groups:
    """Copies or collectives of one path, movement and device each, in the order of these.

    Args:
        place: The places of those that are meant.
        path: The path of each of these.
        movement: The number of the movement of each.
        device: The device of each.
    """

    def __init__(self, place: Int64s, path: Numbers, movement: Numbers, device: Numbers) -> None:
        order = np.lexsort([device, movement, path])
        self._first = first_of(order, path, movement, device)
        self._rows = place[order]
        self._keys = [column[order[self._first]] for column in (path, movement, device)]
        self.count = np.diff(np.append(self._first, len(order)))

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum of a value of all, by group; of flags, how many are true."""
        if not len(self._first):
            return np.empty(0, np.int64)
        kind = np.promote_types(values.dtype, np.int64)
        return np.add.reduceat(values[self._rows], self._first, dtype=kind)

    def table(self, paths: LaunchPaths, movements: Sequence[str], **columns: Any) -> pa.Table:
        """The groups with their sums, and with rates in bytes per second where these are known."""
        path, movement, device = self._keys
        parts = ["/".join(of) for of in paths.paths]
        at = pa.array(path, mask=path == NO_RANGE)
        table = {
            "program_part": pa.array(parts, pa.string()).take(at),
            "part_kind": pa.array(paths.kinds, pa.string()).take(at),
            "movement": pa.array(movements, pa.string()).take(pa.array(movement)),
            "device_id": pa.array(device, mask=device == UNKNOWN),
            **columns,
        }
        moved_ns = pa.array(columns["transfer_ns"]).to_pylist()
        for name in ("bytes", "bus_bytes"):
            sizes = pa.array(columns[name]).to_pylist() if name in columns else []
            rates = [
                None if size is None or not ns else size * NS_PER_S / ns
                for size, ns in zip(sizes, moved_ns, strict=bool(sizes))
            ]
            table |= {f"{name}_per_s": pa.array(rates, pa.float64())} if sizes else {}
        return pa.table(table)


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
