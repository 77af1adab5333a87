"""The occupancy of kernels is that of NVIDIA's own calculator, and of what it told elsewhere."""

import gzip
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from commands import CORPUS
from recordings import kernel, trace

from gpuprof.analyses.kernel_occupancy import (
    LIMITS,
    blocks_by_resource,
    kernel_occupancy,
)
from gpuprof.readers import read_profile

SIZES = {
    **{f"grid_{side}": 1 for side in "xyz"},
    **{f"block_{side}": 1 for side in "xyz"},
    "static_shared_memory_bytes": 0,
    "dynamic_shared_memory_bytes": 0,
}
V100 = {"device_id": 0, "compute_capability": "7.0", "multiprocessors": 80}


def launched(name="k", start=0, end=10, **sizes):
    return kernel(name, start, end, device_id=0, **SIZES | {"registers_per_thread": 32} | sizes)


def rows(*kernels, devices=(V100,)):
    return kernel_occupancy(trace(kernels=[*kernels], devices=[*devices])).to_pylist()


def test_launches_that_are_alike_are_one_row():
    one, other = rows(
        launched(end=10, grid_x=160, block_x=64, block_y=4),
        launched(end=5, grid_x=160, block_x=64, block_y=4),
        launched(end=20, grid_x=160, block_x=64, block_y=4, registers_per_thread=255),
    )

    assert (other["calls"], other["total_ns"], other["threads_per_block"]) == (2, 15, 256)
    assert (other["occupancy"], other["limited_by"], other["waves"]) == (1.0, None, 160 / 640)
    assert (one["occupancy"], one["limited_by"]) == (8 / 64, "registers")
    assert one["blocks_per_multiprocessor"] == 1
    assert one["waves"] == 2.0


@pytest.mark.parametrize(
    ("sizes", "occupancy", "limited_by"),
    [
        pytest.param({"block_x": 32}, 0.5, "blocks", id="tiny-blocks"),
        pytest.param({"block_x": 1}, 0.5, "blocks", id="a-thread-takes-a-warp"),
        pytest.param({"block_x": 768, "registers_per_thread": 24}, 0.75, "block size", id="a-rest"),
        pytest.param({"block_x": 1024, "registers_per_thread": 40}, 0.5, "registers", id="a-half"),
        pytest.param(
            {"block_x": 128, "static_shared_memory_bytes": 24_000}, 0.25, "shared memory",
            id="shared",
        ),
        pytest.param(
            {"block_x": 128, "dynamic_shared_memory_bytes": 24_000}, 0.25, "shared memory",
            id="dynamic",
        ),
        pytest.param(
            {"block_x": 256, "static_shared_memory_bytes": 32_768, "registers_per_thread": 80},
            0.375, "registers, shared memory", id="both",
        ),
    ],
)  # fmt: skip
def test_the_scarcest_resource_limits_it(sizes, occupancy, limited_by):
    (row,) = rows(launched(**sizes))

    assert (row["occupancy"], row["limited_by"]) == (occupancy, limited_by)


@pytest.mark.parametrize(
    ("sizes", "device"),
    [
        pytest.param({"registers_per_thread": None}, V100, id="registers"),
        pytest.param({"block_y": None}, V100, id="block"),
        pytest.param({"static_shared_memory_bytes": None}, V100, id="shared-memory"),
        pytest.param({}, V100 | {"compute_capability": None}, id="no-capability"),
        pytest.param({}, V100 | {"compute_capability": "99.0"}, id="new-capability"),
        pytest.param({}, V100 | {"name": "AMD Instinct MI250X"}, id="amd"),
        pytest.param({}, V100 | {"device_id": 1}, id="other-device"),
        pytest.param({"static_shared_memory_bytes": 200_000}, V100, id="cannot-have-run"),
    ],
)
def test_what_is_unknown_makes_it_unknown(sizes, device):
    (row,) = rows(launched(**sizes), devices=[device])

    assert row["calls"] == 1
    assert [row[n] for n in ("occupancy", "limited_by", "blocks_per_multiprocessor", "waves")] == (
        [None] * 4
    )


def test_without_multiprocessors_only_the_waves_are_unknown():
    (row,) = rows(launched(block_x=256), devices=[V100 | {"multiprocessors": None}])

    assert (row["occupancy"], row["waves"]) == (1.0, None)


def test_devices_of_one_kind_are_one_row_and_of_two_kinds_two():
    devices = [V100, V100 | {"device_id": 1}, V100 | {"device_id": 2, "compute_capability": "7.5"}]
    kernels = [launched(block_x=256) | {"device_id": device} for device in (0, 1, 2)]

    assert [(r["compute_capability"], r["calls"]) for r in rows(*kernels, devices=devices)] == [
        ("7.0", 2),
        ("7.5", 1),
    ]


# As Nsight Compute prints them ("Launch Statistics" and "Occupancy"): compute capability, threads,
# registers and shared memory of a block; limits by blocks, registers, shared memory and warps; the
# occupancy. The driver had set less shared memory for the second, so that its limit is another.
NSIGHT_COMPUTE = [
    (("8.6", 128, 111, 67_584), (16, 4, 1, 12), 0.0833),
    (("8.6", 32, 16, 0), (16, 128, None, 48), 0.3333),
]


@pytest.mark.parametrize(("launch", "blocks", "share"), NSIGHT_COMPUTE)
def test_it_is_what_nsight_compute_prints(launch, blocks, share):
    capability, threads = launch[:2]
    room = blocks_by_resource(*launch)
    printed = dict(zip(("blocks", "registers", "shared memory", "block size"), blocks, strict=True))

    assert {name: room[name] for name, n in printed.items() if n} == {
        name: n for name, n in printed.items() if n
    }
    occupancy = min(room.values()) * -(-threads // 32) / LIMITS[capability].warps
    assert occupancy == pytest.approx(share, abs=1e-4)


# Blocks that NVIDIA's cuda_occupancy.h (CUDA 13.0) has room for: capability, threads, registers of
# a thread, shared memory of a block.
CALCULATED = [
    ("3.5", 192, 63, 4_096, 5),
    ("3.7", 256, 128, 0, 4),
    ("5.2", 96, 48, 20_000, 4),
    ("6.0", 416, 72, 0, 2),
    ("6.1", 416, 72, 0, 2),
    ("7.0", 96, 168, 0, 4),
    ("7.5", 160, 40, 30_000, 2),
    ("8.0", 128, 96, 40_000, 4),
    ("8.9", 64, 24, 3_000, 24),
    ("9.0", 384, 168, 230_000, 1),
    ("10.0", 224, 80, 10_240, 3),
    ("12.0", 320, 56, 12_288, 3),
]


@pytest.mark.parametrize(("capability", "threads", "registers", "shared", "blocks"), CALCULATED)
def test_it_is_what_nvidia_calculated(capability, threads, registers, shared, blocks):
    assert min(blocks_by_resource(capability, threads, registers, shared).values()) == blocks


# Reads a line for each launch, and prints the error, the blocks and what limits them as bits.
CALCULATOR = r"""
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "cuda_occupancy.h"
int main() {
  int major, minor, threads, registers, shared, most, reserved, block, of_thread, used;
  while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads, &registers, &shared,
               &most, &reserved, &block, &of_thread, &used) == 10) {
    cudaOccDeviceProp gpu;
    memset(&gpu, 0, sizeof gpu);
    gpu.computeMajor = major; gpu.computeMinor = minor; gpu.maxThreadsPerBlock = 1024;
    gpu.maxThreadsPerMultiprocessor = threads; gpu.regsPerMultiprocessor = registers;
    gpu.regsPerBlock = 65536; gpu.warpSize = 32; gpu.sharedMemPerMultiprocessor = shared;
    gpu.sharedMemPerBlock = 49152; gpu.sharedMemPerBlockOptin = most; gpu.numSms = 1;
    gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = of_thread;
    kernel.maxDynamicSharedSizeBytes = most; kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    cudaOccDeviceState state;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &gpu, &kernel, &state, block, used);
    printf("%d %d %u\n", error, error ? -1 : result.activeBlocksPerMultiprocessor,
           error ? 0 : result.limitingFactors);
  }
}
"""
FACTORS = {"block size": 1, "registers": 2, "shared memory": 4, "blocks": 8}
# Of a block; 48 KiB before 7.0, and 99 KiB from 8.0 on at least.
MOST_KIB = {"7.0": 96, "7.2": 96, "7.5": 64, "8.0": 163, "8.7": 163}


def _header():
    """The folder of NVIDIA's calculator: of CUDA, or in a package that carries it."""
    folders = [*Path("/usr/local").glob("cuda*/include"), *map(Path, sys.path)]
    names = ("", "tensorflow/include/third_party/gpus/cuda/include", "nvidia/cuda_runtime/include")
    places = [folder / name for folder in folders for name in names]
    return next((p for p in places if (p / "cuda_occupancy.h").is_file()), None)


def _launches():
    chance = random.Random(7)  # noqa: S311 - no secret
    for capability in LIMITS:
        for _ in range(500):
            most = MOST_KIB.get(capability, 48 if float(capability) < 7 else 99)
            shared = chance.choice([0, chance.randint(1, most << 10)])
            yield capability, chance.randint(1, 1024), chance.randint(0, 128), shared, most << 10


@pytest.mark.skipif(not _header() or not shutil.which("g++"), reason="needs NVIDIA's calculator")
def test_it_is_that_of_nvidias_calculator_for_launches_at_random(tmp_path):
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    program = tmp_path / "calculator"
    source = tmp_path / "calculator.cpp"
    subprocess.run(["g++", f"-I{_header()}", source, "-o", program], check=True)
    launches = [*_launches()]
    lines = []
    for capability, threads, registers, shared, most in launches:
        limits, (major, minor) = LIMITS[capability], capability.split(".")
        of_gpu = (limits.warps * 32, limits.registers, limits.shared_memory_bytes, most)
        reserved = 1024 if int(major) >= 8 else 0
        lines.append(" ".join(map(str, (major, minor, *of_gpu, reserved, threads, registers,
                                        shared))))  # fmt: skip
    done = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    compared = 0
    for launch, (error, blocks, factors) in zip(launches, answers, strict=True):
        if error or not blocks:  # an older calculator, or what could not be launched
            continue
        room = blocks_by_resource(*launch[:4])
        limiting = sum(FACTORS[name] for name, n in room.items() if n == min(room.values()))
        assert (min(room.values()), limiting) == (blocks, factors), launch
        compared += 1
    assert compared > 5_000


KINETO = [
    "kineto/hta_trace_diff__test__test.json.gz",
    "kineto/param_resnet_kineto.json.gz",
    "kineto/hta_gpu_user_annotation_gp100.json.gz",
    "kineto/hta_negative_queue_length_values_check__rank0.json.gz",
]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
@pytest.mark.parametrize("name", KINETO)
def test_it_is_what_pytorch_calculated_on_real_gpus(name):
    """Kineto asks NVIDIA's calculator, and takes the grid's blocks where these are fewer.

    It does not ask for more than 48 KiB of shared memory of a block, and writes 0 there.
    """
    document = json.loads(gzip.decompress((CORPUS / name).read_bytes()))
    gpus = {gpu["id"]: gpu for gpu in document["deviceProperties"]}
    compared = 0
    for event in document["traceEvents"]:
        told = event.get("args") or {}
        if "est. achieved occupancy %" not in told or told["shared memory"] > 48 * 1024:
            continue
        gpu = gpus[told["device"]]
        x, y, z = told["block"]
        grid = told["grid"][0] * told["grid"][1] * told["grid"][2]
        room = blocks_by_resource(
            f"{gpu['computeMajor']}.{gpu['computeMinor']}",
            x * y * z,
            told["registers per thread"],
            told["shared memory"],
        )
        blocks = min(*room.values(), grid / gpu["numSms"])
        percent = 100 * blocks * x * y * z / gpu["maxThreadsPerMultiprocessor"]
        assert abs(percent - told["est. achieved occupancy %"]) <= 1
        compared += 1
    assert compared > 100


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
def test_limits_are_those_that_real_gpus_tell():
    told = {}
    columns = {
        "TARGET_INFO_GPU": "computeMajor, computeMinor, maxBlocksPerSm, maxWarpsPerSm,"
        " maxRegistersPerSm, maxShmemPerSm",
        "CUPTI_ACTIVITY_KIND_DEVICE": "computeCapabilityMajor, computeCapabilityMinor,"
        " maxBlocksPerMultiprocessor, maxWarpsPerMultiprocessor, maxRegistersPerMultiprocessor,"
        " maxSharedMemoryPerMultiprocessor",
    }
    for path in (*(CORPUS / "nsys-sqlite").iterdir(), *(CORPUS / "nvprof-sqlite").iterdir()):
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        for table, names in columns.items():
            try:
                gpus = database.execute(f"SELECT {names} FROM {table}").fetchall()
            except sqlite3.OperationalError:  # of another version
                continue
            told |= {f"{major}.{minor}": tuple(limits) for major, minor, *limits in gpus}
        database.close()
    known = told.keys() & LIMITS.keys()

    assert len(known) >= 8
    assert {name: told[name] for name in known} == {name: tuple(LIMITS[name]) for name in known}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
@pytest.mark.parametrize(
    ("name", "kernel_name", "occupancy", "limited_by"),
    [
        ("nvprof-sqlite/trxe__SyNeRFgine__bonsai.nvvp", "raytrace", 0.125, "registers"),
        ("nsys-sqlite/blbadger__threebody__report1.sqlite", "divergence", 1 / 6, "registers"),
        ("nsys-sqlite/mamedov-artem-__parallel_course_2__report4.sqlite", "main_46_gpu", 0.5,
         "blocks"),
    ],
)  # fmt: skip
def test_the_costliest_kernel_of_a_real_recording(name, kernel_name, occupancy, limited_by):
    first = kernel_occupancy(read_profile(CORPUS / name)).to_pylist()[0]

    assert first["short_name"] == kernel_name
    assert (first["occupancy"], first["limited_by"]) == (pytest.approx(occupancy), limited_by)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
@pytest.mark.parametrize(
    ("name", "multiprocessors"),
    [
        ("nsys-rep/NERSC__sc21-dl-tutorial__4gpu_bucketcap100mb.qdrep", 108),
        ("nsys-sqlite/lukas-ruettger__dphpc-gemm__nsys.log.sqlite", 36),
        ("nvprof-sqlite/trxe__SyNeRFgine__bonsai.nvvp", 10),
        ("kineto/hta_trace_diff__test__test.json.gz", 80),
        ("xplane/xprof__34.83.195.179_6003.xplane.pb", 80),
    ],
)
def test_every_format_that_tells_the_multiprocessors_is_heard(name, multiprocessors):
    devices = read_profile(CORPUS / name).table("devices")

    assert {*devices.column("multiprocessors").to_pylist()} == {multiprocessors}
