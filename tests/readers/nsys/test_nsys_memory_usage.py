"""Allocations in exports of nsys: tables drawn by their schema, as no public file holds one."""

import pytest
from nsys_export import DEVICE, KERNEL, PAGEABLE, PINNED, RUNTIME, export, kernel, pid, write

from gpuprof.analyses.memory import memory
from gpuprof.readers import read_profile

MANAGED = 4
ALLOCATION, RELEASE = 0, 1
MEMORY_USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"


def event(start, operation, size, kind=DEVICE, call=None, **columns):
    given = {"globalPid": pid(9), "deviceId": 0, "contextId": 1, "address": 4096, "pc": 0}
    of = {"bytes": size, "memKind": kind, "memoryOperationType": operation, "name": None}
    return {"start": start} | given | of | {"correlationId": call} | columns


EVENTS = [
    event(10, ALLOCATION, 600, call=1),
    event(20, ALLOCATION, 300, MANAGED, call=7),
    event(30, ALLOCATION, 50, PINNED, call=2),
    event(40, ALLOCATION, 70, PAGEABLE),
    event(50, RELEASE, 600, globalPid=pid(8), deviceId=1, call=2),
]
CALLS = [
    {"start": 0, "end": 9, "nameId": 1, "globalTid": pid(process) | thread, "correlationId": call}
    for process, thread, call in ((9, 31, 2), (9, 30, 1), (8, 29, 2), (8, 28, 3))
]
TABLES = {KERNEL: [kernel(0, 9)], RUNTIME: CALLS, MEMORY_USAGE: EVENTS}
# When, of which process and thread, on which device, bytes.
READ = [
    (10, 9, 30, 0, 600),
    (20, 9, None, 0, 300),
    (30, 9, 31, None, 50),
    (40, 9, None, None, 70),
    (50, 8, 29, 1, -600),
]


def rows(path):
    columns = ("start_ns", "process_id", "thread_id", "device_id", "bytes")
    events = read_profile(path).table("memory_events")
    assert events.column("address").to_pylist() == [4096] * events.num_rows
    return [tuple(row.values()) for row in events.select(columns).to_pylist()]


@pytest.mark.usefixtures("engine")
def test_events_have_their_thread_their_device_and_their_sign(tmp_path):
    assert rows(write(tmp_path / "x.sqlite", TABLES)) == READ


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_events_of_other_exports_are_alike(tmp_path, suffix):
    assert rows(export(tmp_path / "x", TABLES, suffix)) == READ


def test_what_a_release_is_stands_in_the_file(tmp_path):
    names = ("CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION")
    meaning = [{"id": number, "name": name} for number, name in enumerate(names)]
    tables = TABLES | {"ENUM_CUDA_DEV_MEM_EVENT_OPER": meaning}

    sizes = [row[-1] for row in rows(write(tmp_path / "x.sqlite", tables))]
    assert sizes == [-600, -300, -50, -70, 600]


def test_without_calls_threads_are_unknown(tmp_path):
    tables = {KERNEL: [kernel(0, 9)], MEMORY_USAGE: EVENTS}

    assert {row[2] for row in rows(write(tmp_path / "x.sqlite", tables))} == {None}


def test_devices_have_their_numbers_in_the_machine(tmp_path):
    used = [{"gpuId": n, "cudaId": 0, "uuid": "x", "pid": 8 + n} for n in range(2)]
    events = [event(1, ALLOCATION, 5, globalPid=pid(8 + n)) for n in range(2)]
    tables = TABLES | {"TARGET_INFO_CUDA_DEVICE": used, MEMORY_USAGE: events}

    assert [row[3] for row in rows(write(tmp_path / "x.sqlite", tables))] == [0, 1]


def test_the_peak_of_memory_is_that_of_what_is_allocated(tmp_path):
    profile = read_profile(write(tmp_path / "x.sqlite", TABLES))

    peaks = [(row["device_id"], row["peak_bytes"]) for row in memory(profile).to_pylist()]
    # What process 8 releases was allocated before, and is none any more.
    assert peaks == [(1, 0), (None, 120), (0, 900)]


def test_an_export_without_events_has_no_table_of_them(tmp_path):
    profile = read_profile(write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)]}))

    assert not profile.has("memory_events")
