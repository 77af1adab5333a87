"""The occupancy of kernels is that of NVIDIA's own calculator, and of what it told elsewhere."""

import gzip
import json
import sqlite3

import pytest
from commands import CORPUS
from recordings import kernel, trace

from gpuprof.analyses.kernel_occupancy import LIMITS, blocks_by_resource, kernel_occupancy
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
        pytest.param({"block_x": 256, "registers_per_thread": 0}, 1.0, None, id="no-registers"),
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


# What NVIDIA's cuda_occupancy.h (CUDA 13.0) tells of launches that one resource alone limits:
# threads, registers of a thread, shared memory of a block, and the blocks that there is room for.
RESOURCES = ("registers", "shared memory", "block size", "blocks")
CALCULATED = {
    "3.0": ((249, 89, 8960, 2), (576, 44, 31332, 1), (384, 24, 0, 5), (32, 74, 0, 16)),
    "3.2": ((576, 64, 23396, 1), (160, 74, 26880, 1), (537, 22, 0, 3), (32, 60, 0, 16)),
    "3.5": ((320, 125, 0, 1), (224, 44, 31332, 1), (480, 21, 8804, 4), (25, 85, 0, 16)),
    "3.7": ((160, 84, 5732, 8), (224, 64, 36352, 3), (473, 27, 0, 4), (89, 43, 0, 16)),
    "5.0": ((96, 101, 0, 5), (160, 114, 34560, 1), (384, 24, 0, 5), (32, 32, 0, 32)),
    "5.2": ((377, 115, 0, 1), (416, 45, 35940, 2), (377, 22, 0, 5), (25, 24, 0, 32)),
    "5.3": ((448, 43, 0, 2), (64, 123, 19968, 3), (576, 21, 0, 3), (25, 26, 0, 32)),
    "6.0": ((160, 73, 0, 4), (160, 53, 34404, 1), (416, 21, 0, 4), (32, 25, 0, 32)),
    "6.1": ((345, 79, 25088, 2), (64, 80, 28004, 3), (249, 20, 0, 8), (25, 35, 0, 32)),
    "6.2": ((128, 59, 0, 8), (384, 76, 40704, 1), (288, 21, 0, 7), (25, 46, 0, 32)),
    "7.0": ((256, 106, 18176, 2), (64, 34, 40192, 2), (281, 23, 0, 7), (32, 50, 0, 32)),
    "7.2": ((512, 100, 0, 1), (224, 64, 35584, 2), (409, 23, 9472, 4), (25, 35, 0, 32)),
    "7.5": ((185, 111, 0, 2), (224, 34, 24832, 2), (192, 39, 1024, 5), (32, 26, 0, 16)),
    "8.0": ((57, 122, 0, 8), (64, 32, 22912, 7), (416, 23, 11008, 4), (25, 21, 0, 32)),
    "8.6": ((256, 57, 0, 4), (64, 32, 16000, 6), (377, 27, 0, 4), (32, 20, 0, 16)),
    "8.7": ((384, 84, 17252, 1), (64, 32, 22912, 7), (480, 24, 14848, 3), (64, 46, 0, 16)),
    "8.9": ((345, 97, 38500, 1), (64, 32, 16000, 6), (576, 22, 11008, 2), (32, 33, 0, 24)),
    "9.0": ((128, 49, 0, 9), (64, 32, 20096, 11), (153, 21, 0, 12), (32, 35, 0, 32)),
    "10.0": ((128, 123, 0, 4), (64, 32, 20096, 11), (89, 21, 0, 21), (32, 20, 0, 32)),
    "10.3": ((249, 121, 34560, 2), (64, 32, 20096, 11), (640, 23, 17920, 3), (25, 44, 0, 32)),
    "11.0": ((192, 67, 0, 4), (64, 32, 20096, 11), (448, 24, 0, 3), (32, 20, 5376, 24)),
    "12.0": ((121, 77, 0, 6), (64, 32, 16000, 6), (384, 24, 9216, 4), (32, 61, 0, 24)),
    "12.1": ((633, 82, 36708, 1), (64, 32, 16000, 6), (544, 30, 0, 2), (25, 34, 0, 24)),
}


@pytest.mark.parametrize("capability", LIMITS)
@pytest.mark.parametrize("resource", RESOURCES)
def test_it_is_what_nvidia_calculated(capability, resource):
    *launch, blocks = CALCULATED[capability][RESOURCES.index(resource)]
    room = blocks_by_resource(capability, *launch)

    assert min(room.values()) == blocks
    assert [name for name, number in room.items() if number == blocks] == [resource]


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
