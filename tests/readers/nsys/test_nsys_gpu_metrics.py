"""Samples of GPU metrics in exports of nsys."""

import pytest
from nsys_export import KERNEL, export, kernel, pid, write
from recording_checks import rows

from gpuprof.readers import read_profile

SM, RX = "SMs Active [Throughput %]", "PCIe RX Throughput [Throughput %]"
# The low eight bits of a type are the GPU's number; the same metric has other numbers elsewhere.
FIRST, SECOND = 0x7A00, 0x7A01
NAMES = [
    {"typeId": type_id, "sourceId": 1, "typeName": "GPU Metrics [0]", "metricId": n}
    | {"metricName": name}
    for type_id, metrics in ((FIRST, (SM, RX)), (SECOND, (RX, SM)))
    for n, name in enumerate(metrics)
]
SAMPLES = [
    {"rawTimestamp": 7, "timestamp": time, "typeId": type_id, "metricId": number, "value": value}
    for time, type_id, number, value in (
        (-5, FIRST, 0, 90),
        (10, FIRST, 1, -3),
        (20, SECOND, 0, 4),
        (30, SECOND, 9, 5),
    )
]
TABLES = {KERNEL: [kernel(0, 9)], "TARGET_INFO_GPU_METRICS": NAMES, "GPU_METRICS": SAMPLES}
GPUS = {"TARGET_INFO_GPU": [{"id": 0, "name": "A"}, {"id": 1, "name": "A"}]}
READ = [(-5, 0, SM, 90), (10, 0, RX, -3), (20, 1, RX, 4), (30, 1, "unknown", 5)]


@pytest.mark.usefixtures("engine")
def test_samples_have_their_metric_and_their_gpu(tmp_path):
    assert rows(write(tmp_path / "x.sqlite", TABLES), "gpu_metrics") == READ


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_samples_of_other_exports_are_alike(tmp_path, suffix):
    assert rows(export(tmp_path / "x", TABLES, suffix), "gpu_metrics") == READ


def test_gpus_have_the_numbers_that_cuda_gives_them(tmp_path):
    # Of two GPUs a process sees the second alone.
    used = [{"gpuId": 1, "cudaId": 0, "uuid": "x", "pid": 9}]
    tables = TABLES | GPUS | {"TARGET_INFO_CUDA_DEVICE": used}

    devices = [row[1] for row in rows(write(tmp_path / "x.sqlite", tables), "gpu_metrics")]
    assert devices == [None, None, 0, 0]


def test_gpus_that_processes_number_alike_have_the_numbers_of_the_machine(tmp_path):
    used = [{"gpuId": n, "cudaId": 0, "uuid": "x", "pid": 9 + n} for n in range(2)]
    kernels = [kernel(0, 9, globalPid=pid(9 + n)) for n in range(2)]
    tables = TABLES | GPUS | {KERNEL: kernels, "TARGET_INFO_CUDA_DEVICE": used}

    profile = read_profile(write(tmp_path / "x.sqlite", tables))
    assert profile.table("gpu_metrics").column("device_id").to_pylist() == [0, 0, 1, 1]
    assert profile.table("kernels").column("device_id").to_pylist() == [0, 1]


def test_samples_without_names_are_of_an_unknown_metric(tmp_path):
    tables = {KERNEL: [kernel(0, 9)], "GPU_METRICS": SAMPLES}

    assert {row[2] for row in rows(write(tmp_path / "x.sqlite", tables), "gpu_metrics")} == {
        "unknown"
    }


def test_an_export_without_samples_has_no_table_of_them(tmp_path):
    assert not read_profile(write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)]})).has(
        "gpu_metrics"
    )
