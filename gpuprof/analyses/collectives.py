"""Collectives of NCCL and its kin, which move data in kernels and leave no copy."""

import re
from typing import Any, Final

import pyarrow as pa

from gpuprof.analyses.contract import Analysis
from gpuprof.analyses.launches import UNKNOWN, read_columns
from gpuprof.analyses.timeline import COMPUTE, kernels_told_apart, timelines
from gpuprof.intervals import difference, union
from gpuprof.profile import Profile
from gpuprof.schema import FLOAT, INT, TEXT, Column, Schema

COLLECTIVES: Final = Schema(
    "collectives",
    "all communication kernels of one collective on one device",
    {
        "device_id": Column(INT, "1", "CUDA device ordinal; null where unknown."),
        "collective": Column(
            TEXT, "", "AllReduce, SendRecv, ...; the kernel's name where it tells none."
        ),
        "data_type": Column(TEXT, "", "Type of the elements, where the kernel's name tells it."),
        "calls": Column(INT, "1", "How often.", required=True),
        "total_ns": Column(
            INT, "ns", "Sum of durations, waiting for the slowest rank included.", required=True
        ),
        "mean_ns": Column(FLOAT, "ns", "total_ns / calls."),
        "exposed_ns": Column(INT, "ns", "One of them runs, and no compute kernel.", required=True),
    },
)

# ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclKernel_AllReduce_RING_LL_Sum_float and
# ncclAllReduceRingLLKernel_sum_f32: three generations of names.
_COLLECTIVE: Final = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAll|Reduce|Send|Recv)",
    re.IGNORECASE,
)
_TYPE: Final = re.compile(
    r"(?:_|<)(u?int(?:8|32|64)_t|[ui](?:8|32|64)|[bf]*f(?:16|32|64)|float|half|double|__nv_bfloat16"
    r"|bfloat16|fp8\w*)(?:_|\(|>|$)"
)


def collective_of(kernel_name: str) -> tuple[str, str | None]:
    """The collective and the type of its elements that a communication kernel's name tells."""
    found = _COLLECTIVE.search(kernel_name)
    kind = _TYPE.search(kernel_name)
    return found[1] if found else kernel_name, kind[1] if kind else None


def collectives(profile: Profile) -> pa.Table:
    """Sum up the communication kernels by collective.

    Their bytes and groups are not in the kernels' names: null would be all that could be said.

    Args:
        profile: Needs ``kernels``.

    Returns:
        One row per device and collective, the longest exposed first, columns as in
        `COLLECTIVES`; no rows where no communication kernel ran.
    """
    tagged = kernels_told_apart(profile)
    names = profile.query(f"SELECT DISTINCT name FROM {tagged} WHERE is_communication ORDER BY ALL")
    if not names.num_rows:
        return COLLECTIVES.empty()
    number = {name: collective_of(name) for name in names.column(0).to_pylist()}
    kinds = sorted(set(number.values()), key=str)
    rows = [row for kind in kinds for row in _rows(profile, kind, number)]
    rows.sort(key=lambda row: (-row["exposed_ns"], -row["total_ns"], row["device_id"] or 0))
    return COLLECTIVES.table(rows)


def _rows(
    profile: Profile, kind: tuple[str, str | None], number: dict[str, tuple[str, str | None]]
) -> list[dict[str, Any]]:
    chosen = ", ".join("'" + n.replace("'", "''") + "'" for n, k in number.items() if k == kind)
    tagged = profile.tagged("kernels", f"name IN ({chosen})", "is_chosen")
    start, end, device = read_columns(
        profile,
        f"SELECT start_ns, end_ns, coalesce(device_id, {UNKNOWN})::SMALLINT"
        f" FROM {tagged} WHERE is_chosen",
        3,
    )
    rows = []
    for one in timelines(profile.whole or profile):
        here = device == (UNKNOWN if one.device_id is None else one.device_id)
        if here.any():
            running = union(start[here], end[here])
            total = int((end - start)[here].sum())
            rows.append(
                {
                    "device_id": one.device_id,
                    "collective": kind[0],
                    "data_type": kind[1],
                    "calls": int(here.sum()),
                    "total_ns": total,
                    "mean_ns": total / int(here.sum()),
                    "exposed_ns": difference(running, one.busy[COMPUTE]).length,
                }
            )
    return rows


ANALYSIS: Final = Analysis("Collectives", COLLECTIVES, ("kernels",), collectives)
