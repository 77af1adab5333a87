"""How much the ranks of a job differ: quantiles of what their steps take."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.analyses.ranks import ANALYSIS as RANKS_ANALYSIS
from gpuprof.analyses.ranks import by_phase, ranks
from gpuprof.model.analysis import Analysis
from gpuprof.model.profile import Profile
from gpuprof.model.schema import INT, TEXT, Column, Schema

_FIGURES: Final = (
    "step_ns",
    "own_ns",
    "compute_ns",
    "exposed_communication_ns",
    "exposed_transfer_ns",
    "exposed_local_copy_ns",
    "idle_ns",
)
_QUANTILES: Final = {"p10_ns": 0.1, "median_ns": 0.5, "p90_ns": 0.9}

RANK_QUANTILES: Final = Schema(
    "rank_quantiles",
    "one figure of the devices of one phase",
    {
        "phase": Column(TEXT, "", "As in ranks."),
        "figure": Column(TEXT, "", "Column of ranks.", required=True),
        "devices": Column(INT, "1", "Devices that are compared.", required=True),
        "min_ns": Column(INT, "ns", "The least.", required=True),
        "p10_ns": Column(INT, "ns", "10 % have less (interpolated).", required=True),
        "median_ns": Column(INT, "ns", "Median.", required=True),
        "p90_ns": Column(INT, "ns", "90 % have less (interpolated).", required=True),
        "max_ns": Column(INT, "ns", "The most.", required=True),
        "min_rank": Column(INT, "1", "Rank with the least, where known."),
        "min_device_id": Column(INT, "", "Its device."),
        "max_rank": Column(INT, "1", "Rank with the most, where known."),
        "max_device_id": Column(INT, "", "Its device."),
    },
)


def rank_quantiles(profile: Profile) -> pa.Table:
    """Sum up the table `ranks`: from the least to the most that a step takes on a device.

    Args:
        profile: As for ``ranks``.

    Returns:
        One row per phase and figure, in the order of the columns of ``ranks``, columns as in
        `RANK_QUANTILES`; no rows for a single device.
    """
    phases = by_phase(profile.once(ranks))
    rows = [row for phase, devices in phases.items() for row in _rows(phase, devices)]
    return RANK_QUANTILES.table(rows)


def _rows(phase: str | None, devices: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for figure in _FIGURES:
        values = np.array([row[figure] for row in devices])
        least, most = devices[int(values.argmin())], devices[int(values.argmax())]
        yield {
            "phase": phase,
            "figure": figure,
            "devices": len(devices),
            "min_ns": least[figure],
            "max_ns": most[figure],
            **{name: round(float(np.quantile(values, q))) for name, q in _QUANTILES.items()},
            **{f"min_{key}": least[key] for key in ("rank", "device_id")},
            **{f"max_{key}": most[key] for key in ("rank", "device_id")},
        }


ANALYSIS: Final = Analysis(
    "Spread between ranks",
    RANK_QUANTILES,
    RANKS_ANALYSIS.needs,
    rank_quantiles,
    RANKS_ANALYSIS.reads,
    of_files=RANKS_ANALYSIS.of_files,
)
