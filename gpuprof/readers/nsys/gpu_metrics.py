"""Samples of GPU metrics (``nsys --gpu-metrics-devices``) as a table of the data model.

A value holds from its time to the next sample's. The number of a metric is not the same in all
recordings, nor for all GPUs, and the low eight bits of the type tell the GPU.
Source: the columns' descriptions in nsys 2023.4 (libexporter), and its recipe gpu_metric_util_map.
"""

from typing import Any, Final

import numpy as np

from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import pair_places
from gpuprof.model.table import Computed, Part
from gpuprof.readers.nsys.columns import Columns, Export, Numbers, part
from gpuprof.readers.nsys.export_schema import GPU_METRICS, METRIC_NAMES

_GPU_BITS: Final = 0xFF


def gpu_metrics(of: Export) -> Part:
    """Every sample, whatever its value; a metric that nothing names is ``unknown``."""
    columns: Columns = {
        "start_ns": "timestamp",
        "device_id": Computed(("typeId",), _device_of(of)),
        "metric": _metric(of),
        "value": "value",
    }
    return part(of, GPU_METRICS, columns)


def _device_of(of: Export) -> Any:
    """From types to devices: their numbers in the machine, or those that CUDA gives them."""
    ordinals = {gpu: number for _, number, gpu in of.device_numbers if isinstance(gpu, int)}
    table = np.arange(_GPU_BITS + 1)
    if ordinals and not of.machine_numbers:
        # A GPU that no process uses has no number of CUDA's.
        table = np.array([ordinals.get(gpu, UNKNOWN) for gpu in table.tolist()])
    return lambda type_id: table[type_id & _GPU_BITS]


def _metric(of: Export) -> Computed:
    rows = of.select(METRIC_NAMES, typeId=int, metricId=int, metricName=str)
    names = {(type_id, number): name for type_id, number, name in sorted(rows)}
    words = [*dict.fromkeys(names.values()), "unknown"]
    # What is not found has the last place: that of the unknown.
    places = np.array([*map(words.index, names.values()), len(words) - 1])
    pairs = np.array([*names], np.int64).reshape(-1, 2).T

    def make(type_id: Numbers, number: Numbers) -> Numbers:
        wide = (column.astype(np.int64, copy=False) for column in (type_id, number))
        name_numbers: Numbers = places[pair_places(pairs, *wide)]
        return name_numbers

    return Computed(("typeId", "metricId"), make, lambda: words)
