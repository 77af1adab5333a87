import json
from collections import Counter
from pathlib import Path

import pytest
from recording_checks import rows

from gpuprof.readers import find_reader, read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "other"
needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="the corpus of real files is not here"
)
LANES = (
    "Allocators",
    "/device:GPU:1/stream:13 Compute",
    "/device:GPU:1/memcpy Compute",
    "/device:GPU:1/stream:all Compute",
    "/job:localhost/replica:0/task:0/device:GPU:1 Compute",
)


def written(folder, *events):
    named = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        for pid, name in enumerate(LANES)
    ]
    path = folder / "timeline.json"
    path.write_text(json.dumps({"traceEvents": [*named, *events]}, indent=4), encoding="utf-8")
    return path


def event(lane, name, ts, dur):
    args = {"name": f"node_of_{name}", "op": name}
    return {"ph": "X", "cat": "Op", "pid": lane, "tid": 0, "name": name, "ts": ts, "dur": dur} | {
        "args": args
    }


def test_each_activity_is_read_once_from_its_streams_lane(tmp_path):
    path = written(
        tmp_path,
        event(1, "MatMul", 100, 5),
        event(3, "MatMul", 100, 5),
        event(4, "MatMul", 90, 2),
        event(1, "MEMCPYHtoD", 107, 3),
        event(2, "MEMCPYHtoD", 107, 3),
        event(1, "MEMSET", 111, 1),
    )

    assert rows(path, "kernels", "name", "start_ns", "end_ns", "device_id", "stream_id") == [
        ("MatMul", 0, 5_000, 1, 13)
    ]
    assert rows(path, "memcpys", "memcpy_kind", "start_ns", "end_ns", "bytes") == [
        ("HtoD", 7_000, 10_000, None)
    ]
    assert rows(path, "memsets", "start_ns") == [(11_000,)]
    assert rows(path, "nvtx_ranges", "text", "start_ns", "end_ns", "range_kind") == [
        ("MatMul", -10_000, -8_000, "operation")
    ]


def test_operations_that_overlap_on_the_host_are_of_different_threads(tmp_path):
    later = event(4, "Unique", 96, 9) | {"tid": 1}
    path = written(tmp_path, later, event(4, "MatMul", 90, 9), event(1, "MatMul", 100, 5))

    assert rows(path, "nvtx_ranges", "text", "thread_id") == [("MatMul", 1), ("Unique", 2)]


def test_a_copy_that_an_operation_made_is_no_kernel(tmp_path):
    path = written(
        tmp_path,
        event(1, "Assign", 100, 1),
        event(2, "Assign", 100, 1),
        event(1, "Assign", 110, 1),
        event(3, "Assign", 110, 1),
    )

    assert rows(path, "memcpys", "memcpy_kind", "start_ns") == [("unknown", 0)]
    assert rows(path, "kernels", "name", "start_ns") == [("Assign", 10_000)]


@needs_corpus
@pytest.mark.parametrize(
    ("name", "kernels", "memcpys"),
    [("dlprof_timeline_01.json", 118, 14), ("dlprof_timeline_test0.json", 152, 31)],
)
def test_a_real_timeline_holds_what_its_lanes_of_all_streams_hold(name, kernels, memcpys):
    path = CORPUS / name
    trace = json.loads(path.read_text())["traceEvents"]
    lanes = {e["pid"]: e["args"]["name"] for e in trace if e["ph"] == "M"}
    total = Counter()
    for item in trace:
        if item["ph"] == "X" and lanes[item["pid"]].startswith("/device:GPU:0/"):
            total[lanes[item["pid"]].split("/")[2].split()[0]] += item["dur"] * 1_000

    assert find_reader(path).name == "tf1-timeline"
    found = read_profile(path)
    assert found.table("kernels").num_rows == kernels
    assert found.table("memcpys").num_rows == memcpys
    for table, lane in (("kernels", "stream:all"), ("memcpys", "memcpy")):
        durations = [row["end_ns"] - row["start_ns"] for row in found.table(table).to_pylist()]
        assert sum(durations) == total[lane]
