"""Kernels by name."""

from typing import Final

import pyarrow as pa

from gpuprof.analyses.activity_summary import ACCURACY, DURATIONS, SHORT_NAME, summed_up
from gpuprof.base.kernel_names import short_name
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.profile import Profile
from gpuprof.model.schema import ACTIVITY_SUMMARY, TEXT, Column, Schema

_FIGURES: Final = ("calls", "total_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
KERNEL_SUMMARY: Final = Schema(
    "kernel_summary",
    "all executions of the kernels of one name, on all devices",
    {name: ACTIVITY_SUMMARY.columns[name] for name in _FIGURES}
    | {"name": Column(TEXT, "", "Demangled name.", required=True), "short_name": SHORT_NAME},
)


def kernel_summary(profile: Profile) -> pa.Table:
    """Sum up the kernels by name: what `nsys stats --report cuda_gpu_kern_sum` prints.

    Args:
        profile: Needs ``kernels``.

    Returns:
        One row per name, the longest total first, columns as in `KERNEL_SUMMARY`.
    """
    rows = summed_up(profile, "kernels")
    return KERNEL_SUMMARY.table([row | {"short_name": short_name(row["name"])} for row in rows])


ANALYSIS: Final = Analysis(
    "Kernels by name",
    KERNEL_SUMMARY,
    ("kernels",),
    kernel_summary,
    reads(kernels="start_ns end_ns name name_id"),
    of_files=DURATIONS["kernels"],
    accuracy=ACCURACY,
)
