"""Processes that number different GPUs alike are kept apart."""

import pytest
from nsys_export import HTOD, KERNEL, MEMCPY, PTOP, RUNTIME, kernel, memcpy, pid, write

from gpuprof.analyses.breakdown import breakdown
from gpuprof.analyses.device_map import device_map
from gpuprof.analyses.peer_matrix import peer_matrix
from gpuprof.readers import read_profile
from gpuprof.readers.nsys.export import RENUMBERED

GPUS = [{"id": n, "name": f"GPU {n}", "busLocation": f"0000:0{n}:00.0"} for n in range(4)]


def mapped(*rows):
    return [{"pid": p, "cudaId": ordinal, "gpuId": gpu} for p, ordinal, gpu in rows]


def read(tmp_path, tables):
    return read_profile(write(tmp_path / "x.sqlite", tables))


def two_ranks(*mapping):
    """Two processes that each run a kernel on what they call device 0."""
    return {
        KERNEL: [kernel(0, 10, globalPid=pid(8)), kernel(5, 30, globalPid=pid(9))],
        MEMCPY: [memcpy(40, 50, HTOD, globalPid=pid(9))],
        "TARGET_INFO_GPU": GPUS,
        "TARGET_INFO_CUDA_DEVICE": mapped(*mapping),
    }


def busy(profile):
    return [(r["device_id"], r["span_ns"], r["compute_ns"]) for r in breakdown(profile).to_pylist()]


def test_two_gpus_that_two_processes_call_0_are_two_devices(tmp_path):
    profile = read(tmp_path, two_ranks((8, 0, 2), (9, 0, 3)))

    assert busy(profile) == [(2, 10, 10), (3, 45, 25)]
    assert profile.origin.warnings == (RENUMBERED,)
    names = ("device_id", "process_id", "name", "kernel_calls", "memcpy_calls")
    assert [tuple(row[n] for n in names) for row in device_map(profile).to_pylist()] == [
        (2, 8, "GPU 2", 1, 0),
        (3, 9, "GPU 3", 1, 1),
    ]


def test_one_gpu_that_two_processes_number_differently_is_one_device(tmp_path):
    tables = two_ranks((8, 0, 2), (9, 1, 2), (9, 0, 3))
    tables[KERNEL][1]["deviceId"] = 1

    assert busy(read(tmp_path, tables)) == [(2, 30, 30), (3, 10, 0)]


@pytest.mark.parametrize("mapping", [((8, 0, 5), (9, 0, 5)), ((8, 0, 0), (9, 1, 1))])
def test_numbers_that_mean_the_same_to_all_stay_as_they_are(tmp_path, mapping):
    profile = read(tmp_path, two_ranks(*mapping))

    assert profile.origin.warnings == ()
    assert busy(profile) == [(0, 50, 30)]


def test_the_ends_of_a_peer_copy_are_renumbered_with_its_process(tmp_path):
    tables = two_ranks((8, 0, 0), (8, 1, 1), (9, 0, 2), (9, 1, 3))
    ends = {"srcDeviceId": 0, "dstDeviceId": 1}
    tables[MEMCPY] = [memcpy(0, 9, PTOP, globalPid=pid(p), **ends) for p in (8, 9)]

    rows = peer_matrix(read(tmp_path, tables)).to_pylist()
    assert sorted((row["src_device_id"], row["dst_device_id"]) for row in rows) == [(0, 1), (2, 3)]


def test_gpus_of_the_oldest_exports_are_told_apart_by_their_bus(tmp_path):
    tables = two_ranks()
    del tables["TARGET_INFO_CUDA_DEVICE"], tables["TARGET_INFO_GPU"]
    tables["TARGET_INFO_CUDA_GPU"] = [
        {"pid": p, "deviceId": 0, "pciBusId": bus, "name": "K80"}
        for p, bus in ((8, "0000:05:00.0"), (9, "0000:04:00.0"))
    ]

    assert busy(read(tmp_path, tables)) == [(0, 45, 25), (1, 10, 10)]


def test_processes_that_share_a_number_are_told_where_nothing_tells_their_gpus(tmp_path):
    tables = two_ranks()
    del tables["TARGET_INFO_CUDA_DEVICE"]
    tables["TARGET_INFO_CUDA_CONTEXT_INFO"] = [
        {"processId": p, "deviceId": 0, "contextId": 1} for p in (8, 9)
    ]

    [warning] = read(tmp_path, tables).origin.warnings
    assert warning == (
        "Several processes use device 0: whether it is the same GPU to all of them this export "
        "does not tell; here it is one."
    )


def test_calls_on_the_host_need_no_device(tmp_path):
    tables = two_ranks((8, 0, 2), (9, 0, 3))
    call = {"start": 0, "end": 1, "nameId": 1, "correlationId": 1, "globalTid": pid(8)}

    assert read(tmp_path, tables | {RUNTIME: [call]}).table("api_calls").num_rows == 1


def test_devices_of_which_only_the_numbers_are_listed_are_not_known(tmp_path):
    tables = two_ranks((8, 0, 2), (9, 0, 3))
    del tables["TARGET_INFO_GPU"]

    assert not read(tmp_path, tables).has("devices")
