"""Totals of kernels, transfers by kind, local copies, memsets and API calls, and the costliest.

The totals are sums over all devices: they measure the work of each kind, not how long it
took on the clock (see `breakdown` for that). Shares are recomputed from times.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.base.kernel_names import CUT_END, short_name
from gpuprof.base.units import NS_PER_S
from gpuprof.facts.activity_sums import SHORT_NAME, SUM_READS, TABLES, activity_sums, trace_sums
from gpuprof.facts.copies import COPY_READS, copy_rows, sums_of
from gpuprof.facts.numbers import UNNAMED, groups
from gpuprof.model import derived
from gpuprof.model.analysis import Analysis, per_file, reads, summed
from gpuprof.model.data_model import ACTIVITY_SUMMARY
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Bytes, Column, Count, Ns, Schema, Share, Text

GPU_KINDS: Final = ("kernel", "memcpy", "memset")
# Times of five digits are rounded by at most this much; so is the sum of many.
_TIME_ROUNDING: Final = 1e-4
# Of adding up shares as floating-point numbers.
_SUM_ROUNDING: Final = 1e-9
_PERCENT: Final = 0.01
# What a printed table would list, by the section that it is.
_KINDS: Final = {
    "gpu": GPU_KINDS,
    "kernel": ("kernel",),
    "memory": ("memcpy", "memset"),
    "memcpy": ("memcpy",),
    "memset": ("memset",),
    "api": ("api",),
}

Row = dict[str, Any]

TOTALS: Final = Schema(
    "totals",
    "one group of GPU activities, or the API calls; summed over devices",
    {
        "activity_group": Text(
            "kernels, communication_kernels, transfers, peer_transfers, local_copies, "
            "unknown_copies, memsets, gpu_activities (all of these), api_calls, or a kind of "
            "copy: HtoD, DtoH, PtoP, PtoP_staged (through the host), DtoD_peer (between two "
            "devices), UVM_HtoD, DtoD, ...",
            required=True,
        ),
        "part_of": Text("Group whose total includes this one; null for none."),
        "calls": Count("How often; a staged copy counts once."),
        "total_ns": Ns("Sum of durations; null where rows may be missing."),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls; null where nothing happened."),
        "bytes": Bytes("Bytes of copies and memsets; null where unknown."),
        "bytes_per_s": Column(FLOAT, "B/s", "bytes / total_ns of copies."),
        "share": Share("Share of all GPU activities' time, or of what it is implied to be."),
        "listed_ns": Ns("Sum of the rows that the recording lists."),
        "implied_ns": Ns("What the printed shares imply for an excerpt; null for whole tables."),
    },
)


_SUMMED: Final = ("calls", "total_ns", "bytes")
# Of an activity summary, which may have a hundred thousand rows.
_READ: Final = ["activity_kind", "section", "name", "run_id", "printed_share", *_SUMMED]


def _sums(rows: Sequence[Row]) -> Row:
    """Calls, time and bytes of some activities; None where that of one is unknown."""
    return {name: _known_sum([row[name] for row in rows]) for name in _SUMMED}


def _known_sum(values: Sequence[int | None]) -> int | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values) if len(known_values) == len(values) else None


def totals(profile: Profile) -> pa.Table:
    """Sum up the activities by group.

    Returns:
        One row per group, columns as in `TOTALS`. A group that provably did not happen has 0
        calls and 0 ns; one that an excerpt does not list, or that was not recorded, has null.
    """
    rows = profile.once(activity_sums).select(_READ).to_pylist()
    kernels, copies, memsets, calls = (
        [row for row in rows if row["activity_kind"] == kind] for kind in (*GPU_KINDS, "api")
    )
    if profile.has("memcpys"):
        copies = profile.once(copy_sums).to_pylist()
        copies.sort(key=lambda row: (-row["total_ns"], row["name"]))
    talking = [row for row in kernels if cuda.is_communication(row["name"])]
    coverage = _Coverage(profile, rows)
    is_whole_by_kind = {kind: coverage.is_whole(kind) for kind in (*GPU_KINDS, "api")}
    has_memsets = coverage.lists("memset", "memset")
    parts = [
        _group("kernels", "gpu_activities", kernels, is_known=is_whole_by_kind["kernel"])
        | {"bytes": None},
        _group("communication_kernels", "kernels", talking, is_known=is_whole_by_kind["kernel"])
        | {"bytes": None},
        *_copy_groups(copies, coverage),
        _group("memsets", "gpu_activities", memsets, is_known=has_memsets),
    ]
    of_all = [part for part in parts if part["part_of"] == "gpu_activities"]
    is_known = all(is_whole_by_kind[kind] for kind in GPU_KINDS)
    everything = _group("gpu_activities", None, of_all, is_known=is_known) | {
        "bytes": None,
        "bytes_per_s": None,
        "listed_ns": sum(part["listed_ns"] or 0 for part in of_all),
        "implied_ns": coverage.implied_ns(GPU_KINDS),
    }
    all_ns = everything["total_ns"] or everything["implied_ns"]
    for group in (*parts, everything):
        group["share"] = ratio(group["total_ns"], all_ns)
    api = _group("api_calls", None, calls, is_known=is_whole_by_kind["api"])
    api |= {"bytes": None, "implied_ns": coverage.implied_ns(("api",))}
    return TOTALS.table([*parts, everything, api])


def _copy_groups(rows: Sequence[Row], coverage: "_Coverage") -> list[Row]:
    """The groups of transfers, then those of all other copies."""
    names = dict.fromkeys(row["name"] for row in rows)
    host = dict.fromkeys(("HtoD", "DtoH", *(n for n in names if n in cuda.HOST_MEMCPY_KINDS)))
    peer = [name for name in names if name in derived.PEER_MOVEMENTS]
    local = [name for name in names if name in cuda.LOCAL_MEMCPY_KINDS]
    unknown = names.keys() - {*local} - derived.TRANSFER_MOVEMENTS
    is_whole = coverage.is_whole("memcpy")
    # An excerpt that lists PtoP tells all of it: one row holds all its calls.
    has_peer = coverage.lists("memcpy", "PtoP")

    def group(name: str, part_of: str, kinds: Collection[str], *, is_known: bool) -> Row:
        return _group(name, part_of, [r for r in rows if r["name"] in kinds], is_known=is_known)

    def listed(kinds: Iterable[str], part_of: str) -> list[Row]:
        return [group(n, part_of, {n}, is_known=coverage.lists("memcpy", n)) for n in kinds]

    groups = [
        group("transfers", "gpu_activities", {*host, *peer}, is_known=is_whole),
        *listed(host, "transfers"),
        group("peer_transfers", "transfers", peer, is_known=has_peer),
        *(group(n, "peer_transfers", {n}, is_known=is_whole or has_peer) for n in peer),
        group("local_copies", "gpu_activities", local, is_known=is_whole),
        *listed(local, "local_copies"),
    ]
    if unknown:  # kinds of copy that no table of CUDA names are never dropped
        groups.append(group("unknown_copies", "gpu_activities", unknown, is_known=is_whole))
    return groups


class _Section(NamedTuple):
    """A table that a tool printed for one process.

    Args:
        run_id: The process; None where the file has one.
        kinds: Kinds of activity that it would list.
        listed_ns: Sum of the rows that are there.
        implied_ns: Total of the whole table; None where no share tells.
        is_whole: Whether the rows that are there are all that the tool printed.
    """

    run_id: int | None
    kinds: tuple[str, ...]
    listed_ns: int
    implied_ns: int | None
    is_whole: bool


def _sections(rows: Iterable[Row]) -> list[_Section]:
    """The tables that a summary was printed in, one per section and process.

    People paste a few rows of a table. Each row's time and its printed share still imply the time
    of the whole table: 13.0696 s at 24.53 % imply 53.28 s. The row with the largest share implies
    it most precisely, since a printed share is off by up to half its last digit.
    """
    tables: dict[tuple[int | None, str], list[Row]] = defaultdict(list)
    for row in rows:
        default = "api" if row["activity_kind"] == "api" else "gpu"
        tables[row["run_id"], row["section"] or default].append(row)
    table_sections = []
    for (run_id, name), of_table in tables.items():
        listed_ns = sum(row["total_ns"] or 0 for row in of_table)
        implied_ns, is_whole = None, True
        timed = [row for row in of_table if row["printed_share"] and row["total_ns"]]
        if timed:
            shares = [r["printed_share"] for r in of_table if r["printed_share"] is not None]
            rounding = _rounding(shares)
            top = max(timed, key=lambda row: row["printed_share"])
            implied_ns = round(top["total_ns"] / top["printed_share"])
            least_ns = top["total_ns"] / (top["printed_share"] + rounding)
            # Rows that were put together of several have no printed share.
            has_all = len(shares) == len(of_table)
            most_share = sum(shares) + len(shares) * rounding if has_all else 1.0
            is_whole = listed_ns >= least_ns * (1 - _TIME_ROUNDING)
            is_whole = is_whole and most_share >= 1 - _SUM_ROUNDING
        table_sections.append(_Section(run_id, _KINDS[name], listed_ns, implied_ns, is_whole))
    return table_sections


def _rounding(shares: Sequence[float]) -> float:
    """How much larger than printed a share may be.

    24.53 % is at most 24.535 %; but a lone 24.00 % would pass for 24 %. Whole percentages may be
    cut off and not rounded: nsys of 2020 printed 27.9 % as 27,0 where numbers have a decimal comma.
    """
    digits = max(len(f"{share * 100:.6f}".rstrip("0").partition(".")[2]) for share in shares)
    if digits == 0 and len(shares) > 1:
        return _PERCENT
    return 0.5 * _PERCENT * 10.0 ** -max(digits, 1)


class _Coverage:
    """Which kinds of activity the recording lists whole."""

    def __init__(self, profile: Profile, rows: Sequence[Row]) -> None:
        traced = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset", "api_calls": "api"}
        # True where all files of a job recorded the table, false where only some did.
        self._traced = {k: profile.all_have(t) for t, k in traced.items() if profile.has(t)}
        self._sections = _sections(rows)
        self._listed = {(row["run_id"], row["activity_kind"], row["name"]) for row in rows}

    def _of(self, kind: str) -> list[_Section]:
        return [section for section in self._sections if kind in section.kinds]

    def is_whole(self, kind: str) -> bool:
        """Whether what is not listed did not happen."""
        sections = self._of(kind)
        return self._traced.get(kind, bool(sections) and all(s.is_whole for s in sections))

    def lists(self, kind: str, name: str) -> bool:
        """Whether the time of one name is known: 0 where all else is listed."""
        sections = self._of(kind)
        everywhere = all((s.run_id, kind, name) in self._listed for s in sections)
        is_whole = self.is_whole(kind)
        return is_whole or (kind not in self._traced and bool(sections) and everywhere)

    def implied_ns(self, kinds: tuple[str, ...]) -> int | None:
        """Total that the printed shares imply where rows are missing; None where none are."""
        if all(self.is_whole(kind) for kind in kinds) or not all(self._of(k) for k in kinds):
            return None
        used = [section for section in self._sections if set(section.kinds) & set(kinds)]
        return _known_sum([s.listed_ns if s.is_whole else s.implied_ns for s in used])


_COPIES: Final = Schema(
    "copy_sums",
    "all copies of one kind, staged and device copies to peers apart",
    {
        "name": Text("Kind of copy, as in totals.", required=True),
        **{name: TOTALS.columns[name] for name in _SUMMED},
    },
)


@per_file(
    _COPIES,
    partial(summed, keys=["name"], sums=_SUMMED),
    needs=("memcpys",),
)
def copy_sums(profile: Profile) -> pa.Table:
    """What the copies of each kind add up to."""
    copies = copy_rows(profile)
    rows: dict[str, list[Row]] = {}
    for alike in groups(copies.kind, copies.is_staged, copies.is_peer):
        first = alike[0]
        kind = copies.kinds[copies.kind[first]]
        movement = derived.movement(
            kind or UNNAMED,
            is_staged=copies.is_staged[first] == 1,
            is_peer=copies.is_peer[first] == 1,
        )
        rows.setdefault(movement, []).append(sums_of(copies, alike))
    return _COPIES.table([{"name": name, **_sums(alike)} for name, alike in rows.items()])


def _group(name: str, part_of: str | None, rows: Sequence[Row], *, is_known: bool) -> Row:
    sums = _sums(rows)
    listed_ns = sums["total_ns"] if is_known or sums["calls"] else None
    row: Row = {"activity_group": name, "part_of": part_of, "listed_ns": listed_ns}
    if not is_known:
        return row | dict.fromkeys(("calls", "total_ns", "mean_ns", "bytes", "implied_ns"))
    per_ns = ratio(sums["bytes"], sums["total_ns"])
    return row | {
        **sums,
        "mean_ns": ratio(sums["total_ns"], sums["calls"]),
        "bytes_per_s": None if per_ns is None else per_ns * NS_PER_S,
        "implied_ns": None,
    }


def ratio(part: float | None, total: float | None) -> float | None:
    """A part of a total; None where either is unknown, or the total is 0."""
    return part / total if part is not None and total else None


ANALYSIS: Final = Analysis(
    "Totals",
    TOTALS,
    (),
    totals,
    reads(SUM_READS, COPY_READS),
    needs_any_of=TABLES,
    of_files=(trace_sums, copy_sums),
)


_ROWS: Final = 10

TOP_ACTIVITIES: Final = Schema(
    "top_activities",
    "one of the ten GPU activities with the greatest total time, of each kind the first at least",
    {
        "rank": Count("1 for the costliest of these.", required=True),
        "activity_kind": Text("kernel, memcpy or memset.", required=True),
        "name": Text("Kernel name; memcpy kind for copies.", required=True),
        "short_name": SHORT_NAME,
        "calls": Count("How often."),
        "total_ns": Ns("Sum of durations over all processes and devices."),
        "share": TOTALS.columns["share"],
        "mean_ns": Column(FLOAT, "ns", "Mean."),
        "min_ns": Ns("Shortest."),
        "max_ns": Ns("Longest."),
    },
)


def top_activities(profile: Profile) -> pa.Table:
    """Rank the GPU activities by their total time.

    Returns:
        At most ten rows, the first kernel, memcpy and memset among them; columns as in
        `TOP_ACTIVITIES`. No rows if nothing ran.
    """
    groups = profile.once(totals).to_pylist()
    rows = merged_runs(profile.once(activity_sums).to_pylist())
    gpu = [row for row in rows if row["activity_kind"] in GPU_KINDS]
    ordered = sorted(gpu, key=lambda row: (-(row["total_ns"] or 0), row["name"]))
    kinds = [row["activity_kind"] for row in ordered]
    # The costliest of each kind, and the costliest of all: by their places.
    first = sorted({*map(kinds.index, kinds)})
    later = [place for place in range(len(ordered)) if place not in first]
    ranked = [ordered[place] for place in sorted([*first, *later][:_ROWS])]
    (all_gpu,) = (row for row in groups if row["activity_group"] == "gpu_activities")
    gpu_ns = all_gpu["total_ns"] or all_gpu["implied_ns"]
    return TOP_ACTIVITIES.table(
        [
            {name: row[name] for name in TOP_ACTIVITIES.columns if name in row}
            | {
                "rank": rank,
                "share": ratio(row["total_ns"], gpu_ns),
                "short_name": short_name(row["name"]),
            }
            for rank, row in enumerate(ranked, start=1)
        ]
    )


def merged_runs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an activity summary with the processes of a file added up by name.

    Where a name has one row, it is kept as it is, and so is a row whose name was cut: kernels of
    different names begin alike. Medians and deviations of several cannot be joined and are null.
    """
    by_name: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        row_of_cut = number if row["name"].endswith(CUT_END) else -1
        by_name.setdefault((row["activity_kind"], row["name"], row_of_cut), []).append(row)
    merged = []
    for alike in by_name.values():
        row = alike[0]
        if len(alike) > 1:
            identity = {name: row[name] for name in ("activity_kind", "name", "section")}
            row = dict.fromkeys(ACTIVITY_SUMMARY.columns) | identity | _sums(alike)
            row["mean_ns"] = ratio(row["total_ns"], row["calls"])
            for name, function in (("min_ns", min), ("max_ns", max)):
                values = [of[name] for of in alike]
                row[name] = None if None in values else function(values)
        merged.append(row)
    return merged


TOP_ANALYSIS: Final = replace(
    ANALYSIS, title="Costliest activities", schema=TOP_ACTIVITIES, run=top_activities
)
