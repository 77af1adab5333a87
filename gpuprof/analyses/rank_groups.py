"""Ranks that behave alike, by what a step of each goes to."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS_ANALYSIS
from gpuprof.analyses.ranks import by_phase, ranks
from gpuprof.base.units import number_ranges
from gpuprof.model.analysis import Analysis
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema

# Devices of a group differ in each part of a step by no more than this share of the median step.
_ALIKE: Final = 0.05
_PARTS: Final = {
    "compute_ns": "compute",
    "exposed_communication_ns": "exposed collectives",
    "exposed_transfer_ns": "exposed transfers",
    "exposed_local_copy_ns": "exposed local copies",
    "idle_ns": "idle",
}

RANK_GROUPS: Final = Schema(
    "rank_groups",
    "the devices of one phase whose steps are alike",
    {
        "phase": Column(TEXT, "", "As in ranks."),
        "group": Column(INT, "1", "1 for the group of most devices.", required=True),
        "devices": Column(INT, "1", "Devices in it.", required=True),
        "ranks": Column(TEXT, "", "Their ranks, such as 0 to 6 and 9; null where unknown."),
        "device_ids": Column(TEXT, "", "The devices."),
        "step_ns": Column(INT, "ns", "Length of a step, median over its devices.", required=True),
        **{
            name: Column(INT, "ns", f"Time of {word} in a step, median over its devices.")
            for name, word in _PARTS.items()
        },
        "differs_by": Column(
            TEXT, "", "The part that differs most from that of group 1; null for group 1."
        ),
        "difference_ns": Column(INT, "ns", "How much longer it takes; negative for shorter."),
    },
)


def rank_groups(profile: Profile) -> pa.Table:
    """Group the devices of each phase by what a step goes to.

    The device whose parts are nearest to the medians leads the first group, which holds all
    devices that differ from it in no part by more than 5 % of the median step. Of the others the
    nearest leads the next group, and so on. Source: J. A. Hartigan, Clustering Algorithms, 1975,
    chapter 3.

    Args:
        profile: As for ``ranks``.

    Returns:
        One row per phase and group, that of most devices first, columns as in `RANK_GROUPS`; no
        rows for a single device.
    """
    phases = by_phase(profile.once(ranks))
    rows = [row for phase, devices in phases.items() for row in _rows(phase, devices)]
    return RANK_GROUPS.table(rows)


def _rows(phase: str | None, devices: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    times = np.array([[row[name] for name in _PARTS] for row in devices], float)
    step_ns = float(np.median([row["step_ns"] for row in devices]))
    groups = sorted(_groups(times, _ALIKE * step_ns), key=lambda rows: -len(rows))
    usual = np.median(times[groups[0]], axis=0)
    for number, members in enumerate(groups, start=1):
        medians = np.median(times[members], axis=0)
        apart = medians - usual
        part = int(np.abs(apart).argmax())
        of_group = [devices[place] for place in members]
        numbers = [row["rank"] for row in of_group if row["rank"] is not None]
        ids = [row["device_id"] for row in of_group if row["device_id"] is not None]
        yield {
            "phase": phase,
            "group": number,
            "devices": len(members),
            "ranks": number_ranges(sorted({*numbers})) if numbers else None,
            "device_ids": number_ranges(sorted({*ids})) if ids else None,
            "step_ns": int(np.median([row["step_ns"] for row in of_group])),
            **dict(zip(_PARTS, medians.astype(int).tolist(), strict=True)),
            "differs_by": None if number == 1 else [*_PARTS.values()][part],
            "difference_ns": None if number == 1 else int(apart[part]),
        }


def _groups(times: npt.NDArray[np.float64], most_apart: float) -> list[list[int]]:
    """Places of devices that are alike; of a group the leader comes first."""
    apart = np.abs(times - np.median(times, axis=0)).max(axis=1)
    unassigned = np.argsort(apart, kind="stable")
    groups = []
    while len(unassigned):
        is_like = np.abs(times[unassigned] - times[unassigned[0]]).max(axis=1) <= most_apart
        groups.append(unassigned[is_like].tolist())
        unassigned = unassigned[~is_like]
    return groups


ANALYSIS: Final = Analysis(
    "Ranks that behave alike",
    RANK_GROUPS,
    RANKS_ANALYSIS.needs,
    rank_groups,
    RANKS_ANALYSIS.reads,
    of_files=RANKS_ANALYSIS.of_files,
)
