"""Allocations in PyTorch's traces, which are instants: read piece by piece, or as JSON."""

import json

import pytest

from gpuprof import native
from gpuprof.readers import read_profile

KERNEL = {
    "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2,
    "args": {"device": 0, "stream": 7, "correlation": 9},
}  # fmt: skip


def instant(at, size, **changes):
    arguments = {"Device Type": 1, "Device Id": 0, "Addr": 70, "Bytes": size}
    arguments |= {"Total Allocated": 100, "Total Reserved": 200} | changes.pop("args", {})
    event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 40}
    return event | {"tid": 41, "ts": at, "args": arguments} | changes


def read(folder, events):
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [KERNEL, *events]}))
    return read_profile(path)


@pytest.fixture(params=["compiled", "decoded"], autouse=True)
def _way(request, monkeypatch):
    if request.param == "decoded":
        monkeypatch.setenv(native.SWITCH, "0")
        native.library.cache_clear()
    yield
    monkeypatch.undo()
    native.library.cache_clear()


def test_an_allocation_has_its_place_and_what_is_allocated_since_then(tmp_path):
    profile = read(tmp_path, [instant(20, -64), instant(10, 64), instant(30, 8, args={"Addr": 5})])

    rows = profile.table("memory_events").to_pylist()

    assert rows[0] == {
        "start_ns": 5_000, "process_id": 40, "thread_id": 41, "device_id": 0, "bytes": 64,
        "address": 70, "allocated_bytes": 100, "reserved_bytes": 200,
    }  # fmt: skip
    assert [(r["start_ns"], r["bytes"], r["address"]) for r in rows] == [
        (5_000, 64, 70), (15_000, -64, 70), (25_000, 8, 5),
    ]  # fmt: skip


def test_the_host_is_no_device_and_reserves_nothing(tmp_path):
    host = {"Device Type": 0, "Device Id": -1, "Total Reserved": 0}

    [row] = read(tmp_path, [instant(10, 64, args=host)]).table("memory_events").to_pylist()

    assert (row["device_id"], row["allocated_bytes"], row["reserved_bytes"]) == (None, 100, None)


def test_old_traces_have_neither_categories_nor_totals(tmp_path):
    old = instant(10, 64)
    del old["cat"]
    for name in ("Addr", "Total Allocated", "Total Reserved"):
        del old["args"][name]

    [row] = read(tmp_path, [old]).table("memory_events").to_pylist()

    assert (row["bytes"], row["device_id"]) == (64, 0)
    assert [row[n] for n in ("address", "allocated_bytes", "reserved_bytes")] == [None] * 3


def test_a_trace_without_them_has_no_such_table(tmp_path):
    other = instant(10, 64, name="[out of memory]")

    assert not read(tmp_path, [other]).has("memory_events")


def test_what_has_no_size_is_no_allocation(tmp_path):
    profile = read(tmp_path, [instant(10, None), instant(11, "many"), instant(12, 5)])

    assert profile.table("memory_events").column("bytes").to_pylist() == [5]
