"""What costs a recording most, in sentences, the worst first."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.analyses.contract import Analysis, reads
from gpuprof.analyses.facts.busy import busy_by_device
from gpuprof.analyses.facts.host_activity import HOST_READS
from gpuprof.analyses.facts.launches import launches
from gpuprof.analyses.facts.step_windows import STEP_READS
from gpuprof.analyses.facts.timeline import TIMELINE_READS, DeviceTimeline, far_ends, timelines
from gpuprof.analyses.placement.avoidable import Avoidable, avoidable, not_sought
from gpuprof.analyses.time.breakdown import breakdown
from gpuprof.analyses.time.utilisation import ENOUGH, utilisation
from gpuprof.analyses.transfers.peer_matrix import peer_matrix
from gpuprof.analyses.transfers.transfers import TRANSFER_READS, transfers
from gpuprof.engine import literal
from gpuprof.facts import UNKNOWN
from gpuprof.intervals import NOTHING
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema
from gpuprof.units import counted, say_ns, say_rate, say_share

# Less of a device's time is not worth a sentence.
_LEAST_SHARE: Final = 0.01
# What makes this part of a device's waits is said in the same sentence.
_MOST: Final = 0.5


class _Cause(NamedTuple):
    """Why a device idles, what to try, and the table that tells more."""

    phrase: str
    suggestion: str
    table: str


_UNKNOWN_CAUSE: Final = _Cause("", "see what the host does in the longest pauses", "gaps")
_CAUSES: Final = {
    "idle_waiting_ns": _Cause(
        ", mostly while the host waits in a synchronising call",
        "launch ahead, and wait for single events where a result is needed",
        "synchronising_calls",
    ),
    "idle_launching_ns": _Cause(
        ", mostly while the host is in calls that do not wait",
        "see which calls take the longest pauses: launch more at once, allocate once",
        "gaps",
    ),
    "idle_host_ns": _Cause(
        ", mostly while the host is in no CUDA call",
        "prepare input ahead on other threads; see the ranges of the longest pauses",
        "gaps",
    ),
}

FINDINGS: Final = Schema(
    "findings",
    "one thing that costs time",
    {
        "rank": Column(INT, "1", "1 for the worst.", required=True),
        "device_id": Column(INT, "", "Device whose time it costs; null where unknown."),
        "cost_ns": Column(INT, "ns", "Time at stake on that device.", required=True),
        "cost_share": Column(FLOAT, "1", "cost_ns / the device's span.", required=True),
        "finding": Column(TEXT, "", "What it is.", required=True),
        "suggestion": Column(TEXT, "", "What to try.", required=True),
        "table": Column(TEXT, "", "Table that tells more.", required=True),
    },
)

Row = dict[str, Any]


def findings(profile: Profile) -> pa.Table:
    """Name what costs the devices time that kernels do not use.

    The times at stake overlap where findings are about the same time seen differently: they
    must not be added up.

    Args:
        profile: Needs ``kernels`` and ``memcpys``; ``api_calls`` of one process tell why a device
            idles, where a recording is not large (see `avoidable.not_sought`).

    Returns:
        One row per finding that costs a device at least 1 % of its time, the greatest cost
        first, columns as in `FINDINGS`; no rows where nothing does.
    """
    untold = far_ends(profile)
    devices = {
        row["device_id"]: row
        for row in profile.once(breakdown).to_pylist()
        if row["span_ns"] and row["device_id"] not in untold
    }
    matrix, kinds = (profile.once(table).to_pylist() for table in (peer_matrix, transfers))
    needless, causes = avoidable(profile), _causes(profile)
    worst = {
        one.device_id: _worst_avoidable(needless, devices[one.device_id], one)
        for one in timelines(profile)
        if one.device_id in devices
    }
    found = [
        *(
            row
            for number, device in devices.items()
            for row in _of_device(device, causes.get(number, _UNKNOWN_CAUSE))
        ),
        *(
            row
            for number, device in devices.items()
            for row in _of_transfers(matrix, kinds, device, worst[number])
        ),
        *_of_pageable(profile, kinds, devices),
    ]
    large = [row for row in found if row["cost_share"] >= _LEAST_SHARE]
    # By time, not by share: a device that works for a short while waits for little.
    large.sort(key=lambda row: (-row["cost_ns"], -row["cost_share"], row["finding"]))
    return FINDINGS.table([row | {"rank": rank} for rank, row in enumerate(large, start=1)])


def _name(device_id: int | None) -> str:
    return "an unknown device" if device_id is None else f"device {device_id}"


def _row(device: Row, cost_ns: int, finding: str, suggestion: str, table: str) -> Row:
    share = cost_ns / device["span_ns"]
    return {
        "device_id": device["device_id"],
        "cost_ns": cost_ns,
        "cost_share": share,
        "finding": finding.format(
            device=_name(device["device_id"]), time=say_ns(cost_ns), share=say_share(share)
        ),
        "suggestion": suggestion,
        "table": table,
    }


def _causes(profile: Profile) -> dict[int | None, _Cause]:
    """What the host does in most of each device's idle time, where that can be told.

    What threads of several processes do may concern other devices.
    """
    whole = profile.whole
    if not_sought(profile) or not whole.has("api_calls"):
        return {}
    if len({process for process, _ in launches(whole).bounds}) != 1:
        return {}
    rows = profile.once(utilisation).to_pylist()
    found = {
        row["device_id"]: [c for name, c in _CAUSES.items() if (row[name] or 0) > _MOST * idle]
        for row in rows
        for idle in [sum(row[name] or 0 for name in _CAUSES)]
    }
    return {device: causes[0] for device, causes in found.items() if causes}


def _of_device(device: Row, cause: _Cause) -> list[Row]:
    kernels = device["compute_ns"] + device["exposed_communication_ns"]
    is_little = kernels < ENOUGH * device["span_ns"]
    advice = "use one device better before adding another" if is_little else "overlap more work"
    return [
        _row(
            device,
            device["idle_ns"],
            f"{{device}} is idle for {{time}} ({{share}}){cause.phrase}",
            f"{advice}; {cause.suggestion}",
            cause.table,
        ),
        _row(
            device,
            device["exposed_communication_ns"],
            "{device} only communicates (NCCL) for {time} ({share})",
            "overlap collectives with compute, or make them fewer and larger",
            "collectives",
        ),
        _row(
            device,
            device["exposed_local_copy_ns"],
            "{device} only copies or sets its own memory for {time} ({share})",
            "avoid copies within the device, or run them beside kernels",
            "breakdown",
        ),
    ]


def _of_transfers(matrix: list[Row], kinds: list[Row], device: Row, worst: Row | None) -> list[Row]:
    """What a device waits for transfers, the route of most of it, and those it need not make."""
    number = device["device_id"]
    routes = [
        (row[f"{end}_exposed_ns"], row)
        for row in matrix
        for end in ("src", "dst")
        if number is not None and row[f"{end}_device_id"] == number
    ]
    if not routes:
        return []
    _, most = max(routes, key=lambda pair: int(pair[0]))
    way = " through the host" if most["path"] == "staged" else ""
    text = f"{{device}} waits {{time}} ({{share}}) for transfers, most {most['src']} to "
    text += f"{most['dst']}{way}"
    waits = device["exposed_transfer_ns"]
    row = _row(device, waits, text, _advice(most, kinds), "peer_matrix")
    if worst is None or worst["cost_ns"] < _MOST * waits:
        return [row, *([worst] if worst else [])]
    text = f"{row['finding']}; {say_ns(worst['cost_ns'])} of it for {worst['what']}"
    return [row | {"finding": text, "suggestion": worst["suggestion"], "table": worst["table"]}]


def _worst_avoidable(found: list[Avoidable], device: Row, timeline: DeviceTimeline) -> Row | None:
    """The copies that need not be for which a device waits longest."""
    costs = [(one.cost_ns(timeline), one) for one in found]
    cost_ns, worst = max(costs, key=lambda pair: pair[0], default=(0, None))
    if worst is None or not cost_ns:
        return None
    text = f"{{device}} waits {{time}} ({{share}}) for {_literal(worst.what)}"
    return _row(device, cost_ns, text, worst.suggestion, worst.table) | {"what": worst.what}


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _advice(row: Row, kinds: list[Row]) -> str:
    if row["path"] == "staged":
        return f"turn on peer access: by way of the host they reach {say_rate(row['bytes_per_s'])}"
    if row["path"] == "uvm":
        return "prefetch managed memory, or copy it explicitly"
    if "host" not in {row["src"], row["dst"]}:
        return "place what works on the same data on one device, or overlap the copies"
    if _is_pinned(kinds, "src" if row["src"] == "host" else "dst"):
        return "keep the data on the device, or copy on a stream of its own while kernels run"
    return "copy from pinned memory on a stream of its own while kernels run"


def _is_pinned(kinds: list[Row], end: str) -> bool:
    """Whether most of the time of copies from or to the host is of pinned memory."""
    kind = {"src": "HtoD", "dst": "DtoH"}[end]
    times: dict[str | None, int] = {}
    for row in kinds:
        if row["memcpy_kind"] == kind:
            memory = row[f"{end}_memory_kind"]
            times[memory] = times.get(memory, 0) + row["total_ns"]
    return 2 * times.get("pinned", 0) > sum(times.values())


def _of_pageable(
    profile: Profile, rows: list[Row], devices: dict[int | None, Row]
) -> Iterator[Row]:
    """Copies that were meant to run beside other work and cannot, where they take longest."""
    for row in rows:
        busy_ns = _busy_with(profile, row) if row["pageable_async_calls"] else {}
        times = [(ns, device) for device, ns in busy_ns.items() if device in devices]
        if times:
            cost_ns, device = max(times, key=lambda pair: pair[0])
            yield _row(
                devices[device] | {"device_id": None},
                cost_ns,
                _pageable(row["pageable_async_calls"], row["memcpy_kind"]),
                "pin the memory (cudaHostAlloc, pin_memory=True)",
                "transfers",
            )


_ALIKE: Final = ("memcpy_kind", "path", "src_memory_kind", "dst_memory_kind")


def _busy_with(profile: Profile, row: Row) -> dict[int | None, int]:
    """By device, the time in which at least one of the copies of a row of `transfers` runs."""
    alike = " AND ".join(
        f"{name} IS NOT DISTINCT FROM {'NULL' if row[name] is None else literal(row[name])}"
        for name in _ALIKE
    )
    sql = f"SELECT start_ns, end_ns, coalesce(device_id, {UNKNOWN}), 0 FROM copies WHERE {alike}"
    every = busy_by_device(profile.arrays(sql), 1)
    return {device: busy.kinds.get(0, NOTHING).length for device, busy in every.items()}


def _pageable(calls: int, kind: str) -> str:
    copies = counted(calls, f"asynchronous {kind} copy is", f"asynchronous {kind} copies are")
    return (
        f"{copies} of pageable memory, which makes {'it' if calls == 1 else 'them'} wait: {{time}}"
    )


ANALYSIS: Final = Analysis(
    "What costs most",
    FINDINGS,
    ("kernels", "memcpys"),
    findings,
    TIMELINE_READS,
    reads(TRANSFER_READS, STEP_READS, HOST_READS),
)
