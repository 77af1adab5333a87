"""How far the clocks of ranks are apart, by the common ends of their collectives."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.units import listed, number_ranges, say_ns
from gpuprof.facts.collective_calls import collective_calls
from gpuprof.facts.collective_parts import PARTS_READS, collective_parts
from gpuprof.facts.hosts import DeviceNames, names_of
from gpuprof.facts.rank_matching import TOGETHER_NS, ClockOffset, are_apart
from gpuprof.model.analysis import Analysis
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Flag, Id, Ns, Schema, Text

# Ranks of one host share a clock: where theirs differ by more, files were timed by themselves.
_ONE_CLOCK_NS: Final = TOGETHER_NS
_MOST_NAMED: Final = 3

CLOCK_OFFSETS: Final = Schema(
    "clock_offsets",
    "the clock of one host, rank or device beside that of the first one with which it has"
    " collectives",
    {
        "host": Text("The host, where those of several are known."),
        "devices": Count("Its devices whose clocks were compared.", required=True),
        "rank": Count("Its rank, where known; null for several."),
        "device_id": Id("CUDA device ordinal; null for several."),
        "reference_host": Text("The other host, where known."),
        "reference_rank": Count("Rank of the other device; null for several."),
        "reference_device_id": Id("The other device; null for several."),
        "offset_ns": Ns(
            "How far its clock is ahead: the median difference of the ends of the same calls; of a"
            " host or rank, the median over its devices.",
            required=True,
        ),
        "error_ns": Ns(
            "How far a call may differ from that: 1.4826 times the median distance from the"
            " median; of several devices, that of the worst.",
            required=True,
        ),
        "collectives": Count("Calls that were compared, of all its devices.", required=True),
        "is_set_right": Flag(
            "Whether the clock is so far apart that its collectives were shifted to compare them"
            " with those of other ranks; not where they do not end together even so.",
            required=True,
        ),
    },
)


def clock_offsets(profile: Profile) -> pa.Table:
    """Compare the clocks of ranks.

    The kernels of a collective end on all ranks together, whoever came late. Ranks of one host
    share a clock; the clocks of hosts are apart by as much as their time servers allow.

    Returns:
        One row per host whose devices agree, else per rank or device, whose collectives could be
        matched with those of others, columns as in `CLOCK_OFFSETS`; no rows for a single one.
    """
    parts, names = collective_parts(profile), names_of(profile)
    matched = {device for communicator in parts.communicators for device in communicator.devices}
    rows = [
        {
            "devices": len(offsets),
            **_ends("", [offset.device for offset in offsets], names),
            **_ends("reference_", [offset.reference_device for offset in offsets], names),
            "offset_ns": round(float(np.median([offset.offset_ns for offset in offsets]))),
            "error_ns": max(offset.error_ns for offset in offsets),
            "collectives": sum(offset.calls for offset in offsets),
            "is_set_right": any(are_apart(o) and o.device in matched for o in offsets),
        }
        for offsets in _clocks(parts.offsets, names)
    ]
    return CLOCK_OFFSETS.table(rows)


def _clocks(offsets: Iterable[ClockOffset], names: DeviceNames) -> Iterator[Sequence[ClockOffset]]:
    """The offsets of each clock: of a host, where its devices agree, else of a rank."""
    by_host: dict[tuple[str, str], list[ClockOffset]] = {}
    unsettled = []
    for offset in offsets:
        host, reference = map(names.hosts.get, (offset.device, offset.reference_device))
        if host is None or reference is None:
            unsettled.append(offset)
        else:
            by_host.setdefault((host, reference), []).append(offset)
    for alike in by_host.values():
        values_ns = [offset.offset_ns for offset in alike]
        error_ns = max(offset.error_ns for offset in alike)
        if max(values_ns) - min(values_ns) <= max(_ONE_CLOCK_NS, error_ns):
            yield alike
        else:
            unsettled += alike
    # All devices of a rank have the clock of its file.
    by_rank: dict[tuple[object, ...], list[ClockOffset]] = {}
    for offset in unsettled:
        devices = offset.device, offset.reference_device
        ranks = tuple(map(names.ranks.get, devices))
        by_rank.setdefault(("devices", *devices) if None in ranks else ranks, []).append(offset)
    yield from by_rank.values()


def _ends(prefix: str, devices: Sequence[int], names: DeviceNames) -> dict[str, Any]:
    """Host, rank and number of some devices, as far as all have the same."""
    columns: dict[str, set[Any]] = {
        "host": {names.hosts.get(device) for device in devices},
        "rank": {names.ranks.get(device) for device in devices},
        "device_id": {*devices},
    }
    return {
        f"{prefix}{name}": next(iter(values)) if len(values) == 1 else None
        for name, values in columns.items()
    }


def clock_notes(profile: Profile) -> list[str]:
    """That clocks were set right to compare collectives; nothing where they agree."""
    shifted = [row for row in profile.once(clock_offsets).to_pylist() if row["is_set_right"]]
    if not shifted:
        return []
    hosts = [*dict.fromkeys(row["host"] for row in shifted if row["host"] is not None)]
    more = [f"{len(hosts) - _MOST_NAMED} more"] if len(hosts) > _MOST_NAMED else []
    noun = "host" if len(hosts) == 1 else "hosts"
    clocks = [f"{noun} {listed([*hosts[:_MOST_NAMED], *more])}"] if hosts else []
    # The ranks, else devices, whose hosts are not known.
    unhosted = [row for row in shifted if row["host"] is None]
    ranks = {row["rank"] for row in unhosted if row["rank"] is not None}
    devices = {row["device_id"] for row in unhosted if row["rank"] is None}
    numbered = ("ranks", ranks), ("devices", devices)
    clocks += [f"{noun} {number_ranges(sorted(values))}" for noun, values in numbered if values]
    most_ns = max(abs(row["offset_ns"]) for row in shifted)
    error_ns = max(row["error_ns"] for row in shifted)
    note = (
        f"The clocks of {listed(clocks)} are up to {say_ns(most_ns)} from those of others. Their"
        " collectives were set right by the common ends of calls, to"
        f" {say_ns(error_ns)} (--table clock_offsets)."
    )
    return [note]


ANALYSIS: Final = Analysis(
    "Clocks of ranks",
    CLOCK_OFFSETS,
    ("kernels",),
    clock_offsets,
    PARTS_READS,
    of_files=(collective_calls,),
)
