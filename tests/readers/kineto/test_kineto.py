import gzip
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from recording_checks import rows

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, InputError
from gpuprof.model.data_model import KERNELS
from gpuprof.readers import find_reader, read_profile

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "kineto"
WHERE = {"device": 1, "context": 2, "stream": 7}


def event(cat, name, ts, dur, **args):
    times = {"ts": ts, "dur": dur, "args": args}
    return {"ph": "X", "cat": cat, "name": name, "pid": 40, "tid": 41} | times


def written(folder, events, name="trace.json", **top):
    text = json.dumps({"schemaVersion": 1, **top, "traceEvents": events})
    path = folder / name
    # Fractions go through text: json would print a float.
    path.write_text(text.replace('"@', "").replace('@"', ""), encoding="utf-8")
    return path


KERNEL = event("kernel", "k", 10, 5, **WHERE, correlation=3)


def test_a_trace_of_another_accelerator_is_refused_by_name(tmp_path):
    path = written(tmp_path, [event("cpu_op", "a", 1, 2), event("mtia_runtime", "b", 1, 2)])

    with pytest.raises(EmptyRecordingError, match="MTIA accelerator"):
        read_profile(path)


def test_a_kernel_has_its_launch_its_place_and_its_process(tmp_path):
    shape = {"grid": [2, 3, 4], "block": [5, 6, 7], "registers per thread": 32}
    more = {"correlation": 3, "graph node id": 9}
    kernel = event("kernel", "gemm<float>", 100, 5, **WHERE, **shape, **more)
    launch = event("cuda_runtime", "cudaLaunchKernel", 90, 3, correlation=3)
    kernel["pid"] = 1  # a GPU event's own pid is its device
    path = written(tmp_path, [kernel, launch])
    found = read_profile(path).table("kernels").to_pylist()

    # Kineto prints the sum of both kinds of shared memory, which is neither.
    assert found == [
        dict.fromkeys(KERNELS.columns) | {
            "start_ns": 10_000, "end_ns": 15_000, "device_id": 1, "context_id": 2, "stream_id": 7,
            "process_id": 40, "correlation_id": 3, "name": "gemm<float>", "grid_x": 2,
            "grid_y": 3, "grid_z": 4, "block_x": 5, "block_y": 6, "block_z": 7,
            "registers_per_thread": 32, "graph_node_id": 9,
        }
    ]  # fmt: skip
    assert rows(path, "api_calls", "start_ns", "end_ns", "api", "name", "thread_id") == [
        (0, 3_000, "runtime", "cudaLaunchKernel", 41)
    ]


def test_capitalised_categories_of_a_bare_list_are_read(tmp_path):
    launch = event("Runtime", "cudaLaunchKernel", 9, 1, correlation=3)
    launch["pid"], launch["tid"] = "119771", "1890023232"
    events = [event("Kernel", "k", 10, 5, **WHERE), event("Memset", "Memset (Device)", 20, 1)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*events, launch]), encoding="utf-8")

    assert len(rows(path, "kernels", "name")) == 1
    assert rows(path, "memsets", "memory_kind") == [("device",)]
    assert rows(path, "api_calls", "process_id", "thread_id") == [(119771, 1890023232)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("HtoD", "pageable", "device", None, 1, None)),
        ("Memcpy HtoD (Pinned -> Device)", ("HtoD", "pinned", "device", None, 1, None)),
        ("Memcpy DtoH (Device -> Pageable)", ("DtoH", "device", "pageable", 1, None, None)),
        ("Memcpy DtoD (Device -> Device)", ("DtoD", "device", "device", 1, 1, None)),
        (
            "Memcpy DtoD (Device Static -> Managed)",
            ("DtoD", "device_static", "managed", 1, 1, None),
        ),
        ("Memcpy DtoH (Device -> Device)", ("DtoH", "device", "device", 1, None, "staged")),
        ("Memcpy HtoD (Device -> Device)", ("HtoD", "device", "device", None, 1, "staged")),
        ("Memcpy XtoY (Foo -> Bar)", ("unknown", "unknown", "unknown", None, None, None)),
        ("CopyHostToDevice", ("HtoD", None, None, None, 1, None)),
        ("something new", ("unknown", None, None, None, None, None)),
    ],
)
def test_a_copys_name_tells_its_kind_and_its_memories(tmp_path, name, expected):
    path = written(tmp_path, [event("gpu_memcpy", name, 1, 1, **WHERE, bytes=8)])
    columns = ("memcpy_kind", "src_memory_kind", "dst_memory_kind")
    columns += ("src_device_id", "dst_device_id", "path")

    assert rows(path, "memcpys", *columns) == [expected]


def test_a_peer_copy_has_its_devices_from_the_copy_not_from_where_it_ran(tmp_path):
    ends = {"fromDevice": 0, "inDevice": 3, "toDevice": 2, "inContext": 5, "stream": 7}
    copy = event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 1, 1, **ends, bytes=64)
    columns = ("memcpy_kind", "device_id", "context_id", "src_device_id", "dst_device_id")

    assert rows(written(tmp_path, [copy]), "memcpys", *columns, "path", "bytes") == [
        ("PtoP", 3, 5, 0, 2, "direct", 64)
    ]


def test_times_with_decimals_stay_exact_to_the_nanosecond(tmp_path):
    # As a double the first would be ...883.25 and the second ...543.25.
    events = [
        event("kernel", "a", "@1712195495520883.3@", "@22.545@", **WHERE),
        event("kernel", "b", "@1712195495505543.2@", "@4.928@", **WHERE),
    ]
    profile = read_profile(written(tmp_path, events))

    assert rows(profile, "kernels", "name", "start_ns", "end_ns") == [
        ("b", 0, 4_928),
        ("a", 15_340_100, 15_362_645),
    ]
    assert profile.origin.epoch_ns == 1_712_195_495_505_543_200
    assert profile.origin.start_resolution_ns == 250


def test_times_count_from_the_base_time_where_there_is_one(tmp_path):
    events = [event("kernel", "a", "@1212075548353.304@", "@0.5@", **WHERE)]
    origin = read_profile(
        written(tmp_path, events, baseTimeNanoseconds=1_719_853_884_000_000_000)
    ).origin

    assert origin.epoch_ns == 1_721_065_959_548_353_304
    assert origin.start_resolution_ns == 1


def test_times_of_a_clock_that_began_with_the_machine_have_no_epoch(tmp_path):
    origin = read_profile(written(tmp_path, [KERNEL])).origin

    assert (origin.epoch_ns, origin.start_resolution_ns) == (None, 1_000)


def test_events_without_a_valid_time_are_left_out_and_counted(tmp_path):
    bad = [event("kernel", "zero", 0, 0, **WHERE), event("kernel", "negative", 9, -1, **WHERE)]
    profile = read_profile(written(tmp_path, [*bad, KERNEL]))

    assert profile.table("kernels").column("name").to_pylist() == ["k"]
    assert profile.origin.warnings == ("Left out, since their times are not valid: 2 events.",)


def test_a_flow_arrow_of_a_kernels_category_is_no_kernel(tmp_path):
    arrow = {**KERNEL, "ph": "f", "id": 3}

    assert len(rows(written(tmp_path, [arrow, KERNEL]), "kernels", "name")) == 1


def test_an_annotation_is_read_once_although_the_gpu_shows_it_again(tmp_path):
    events = [
        event("user_annotation", "ProfilerStep#1", 5, 20),
        event("gpu_user_annotation", "ProfilerStep#1", 10, 20),
        KERNEL,
    ]

    assert rows(written(tmp_path, events), "nvtx_ranges", "text", "range_kind", "start_ns") == [
        ("ProfilerStep#1", "annotation", 0)
    ]


def test_an_operation_is_a_range_of_the_thread_that_ran_it(tmp_path):
    events = [
        event("user_annotation", "forward", 5, 20),
        event("cpu_op", "aten::add", 5, 20, **{"Input Dims": [[64, 128]]}),
        event("cpu_op", "aten::empty", 6, 1),
        KERNEL,
    ]
    events[2]["tid"] = 42

    path = written(tmp_path, events)
    # What begins and ends with an operation is around it.
    assert rows(path, "nvtx_ranges", "text", "range_kind", "thread_id") == [
        ("forward", "annotation", 41),
        ("aten::add", "operation", 41),
        ("aten::empty", "operation", 42),
    ]


@pytest.mark.parametrize("key", ["Input Dims", "Input dims"])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_operation_tells_what_it_takes(tmp_path, key, is_streamed):
    values = ["", "", "[1, 1]"]
    recorded = {key: [[4, 8], [8, 2], []], "Input type": ["float", "float", "Scalar"]}
    events = [
        event("cpu_op", "aten::mm", 5, 2, **recorded, **{"Concrete Inputs": values}),
        event("cpu_op", "aten::mm", 7, 2, **recorded, **{"Concrete Inputs": ["2"]}),
        event("cpu_op", "aten::convolution", 9, 2, **recorded, **{"Concrete Inputs": values}),
        event("cpu_op", "aten::none", 15, 2, **{key: []}),
        event("cpu_op", "aten::odd", 17, 2, **{key: "[[4]]"}),
        event("cpu_op", "aten::empty", 19, 2),
        KERNEL,
    ]
    path = written(tmp_path, events)
    if not is_streamed:
        # A bare list goes another way.
        path.write_text(json.dumps(events), encoding="utf-8")

    told = rows(path, "nvtx_ranges", "text", "inputs")
    inputs = {text: taken and json.loads(taken) for text, taken in told}
    taken = {"shapes": recorded[key], "types": recorded["Input type"]}
    # Of most operations, single numbers would make nearly each call another one.
    assert inputs == {
        "aten::mm": taken | {"values": []},
        "aten::convolution": taken | {"values": values},
        **dict.fromkeys(["aten::none", "aten::odd", "aten::empty"]),
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::conv2d", "operation"),
        ("detach_", "operation"),
        ("CudnnBatchNormBackward", "operation"),
        ("torch::autograd::AccumulateGrad", "operation"),
        ("autograd::engine::evaluate_function: AddmmBackward", "operation"),
        ("ProfilerStep#5", "annotation"),
        ("Optimizer.step#SGD.step", "annotation"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation"),
        ("## forward ##", "annotation"),
        ("nccl:all_reduce", "annotation"),
    ],
)
def test_annotations_of_old_traces_are_told_from_operations_by_their_names(tmp_path, name, kind):
    operator = event("Operator", name, 9, 3)
    operator["pid"], operator["tid"] = "119771", "1890023232"

    columns = ("text", "range_kind", "process_id", "thread_id")
    assert rows(written(tmp_path, [operator, KERNEL]), "nvtx_ranges", *columns) == [
        (name, kind, 119771, 1890023232)
    ]


def test_times_count_from_the_first_operation(tmp_path):
    path = written(tmp_path, [KERNEL, event("cpu_op", "aten::add", 4, 9)])

    assert rows(path, "nvtx_ranges", "start_ns", "end_ns") == [(0, 9_000)]
    assert rows(path, "kernels", "start_ns") == [(6_000,)]


def test_synchronisations_are_there_only_where_they_were_traced(tmp_path):
    sync = event("cuda_sync", "Stream Wait Event", 1, 0, device=0, context=1, stream=4294967295)

    assert not read_profile(written(tmp_path, [KERNEL])).has("synchronizations")
    assert rows(
        written(tmp_path, [KERNEL, sync]), "synchronizations", "sync_kind", "stream_id"
    ) == [("stream_wait", None)]


@pytest.mark.parametrize(("source", "expected"), [(20, (20, 0)), (-1, (None, None))])
def test_a_wait_names_the_stream_on_which_its_event_was_recorded(tmp_path, source, expected):
    waited = {"wait_on_stream": source, "wait_on_cuda_event_id": 19}
    sync = event("cuda_sync", "Stream Wait Event", 1, 2, device=0, context=1, stream=24, **waited)

    path = written(tmp_path, [KERNEL, sync])

    columns = ("event_id", "src_stream_id", "src_device_id")
    assert rows(path, "synchronizations", *columns) == [(19, *expected)]


def test_a_collective_tells_its_message(tmp_path):
    args = {
        "Collective name": "_allgather_base",
        "In msg nelems": 1000,
        "Out msg nelems": 8000,
        "Group size": 8,
        "dtype": "BFloat16",
        "Process Group Name": "0",
    }
    name = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)"
    path = written(tmp_path, [KERNEL, event("kernel", name, 30, 9, **WHERE, **args)])

    columns = ("kernel", "collective", "bytes_in", "bytes_out", "group_size")
    assert rows(path, "collectives", *columns) == [(name, "_allgather_base", 2_000, 16_000, 8)]
    assert len(rows(path, "kernels", "name")) == 2


def test_an_unknown_element_type_makes_unknown_bytes_not_zero(tmp_path):
    args = {"Collective name": "allreduce", "In msg nelems": 5, "dtype": "Float3"}
    path = written(tmp_path, [event("kernel", "nccl", 30, 9, **WHERE, **args)])

    assert rows(path, "collectives", "bytes_in", "bytes_out") == [(None, None)]


def test_the_rank_and_the_devices_are_read(tmp_path):
    device = {"id": 1, "name": "V100", "totalGlobalMem": 5, "computeMajor": 7, "computeMinor": 0}
    path = written(
        tmp_path, [KERNEL], deviceProperties=[device], distributedInfo={"rank": 6, "backend": "x"}
    )

    assert rows(path, "runs", "run_id", "rank") == [(0, 6)]
    columns = ("device_id", "name", "total_memory_bytes", "compute_capability")
    assert rows(path, "devices", *columns) == [(1, "V100", 5, "7.0")]


@pytest.mark.parametrize(
    ("name", "top", "host"),
    [
        ("trace.json", {"host_name": "node17.example"}, "node17.example"),
        ("node_17_100.1663735848187.pt.trace.json", {}, "node_17"),
        ("node_17_101.1663735848187.pt.trace.json", {}, None),
        ("worker0_step_100.pt.trace.json", {}, None),
    ],
    ids=["told", "in-the-name", "number-is-no-process", "no-time-in-the-name"],
)
def test_the_host_is_told_or_stands_in_the_name_before_the_process(tmp_path, name, top, host):
    call = event("cuda_runtime", "cudaLaunchKernel", 0, 1) | {"pid": 100}

    assert read_profile(written(tmp_path, [KERNEL, call], name, **top)).origin.host == host


def test_what_pytorch_said_reaches_the_user(tmp_path):
    told = {"WARNING": ["dropped"], "INFO": ["Record counts: x = 0, CUPTI stopped early? = 1"]}
    warnings = read_profile(written(tmp_path, [KERNEL], **told)).origin.warnings

    assert warnings == (
        "CUPTI stopped early: not all GPU activities were collected.",
        "PyTorch reported: dropped",
    )


def test_numbers_that_are_no_json_do_not_refuse_the_trace(tmp_path):
    path = written(tmp_path, [event("kernel", "k", 1, 1, **WHERE, occupancy="@-nan@")])

    assert len(rows(path, "kernels", "name")) == 1


def test_a_name_longer_than_any_that_is_written_refuses_the_trace(tmp_path):
    name = "k" * ((1 << 20) + 1)

    with pytest.raises(CorruptFileError, match="an event has a name of 1,048,577 characters"):
        read_profile(written(tmp_path, [event("kernel", name, 10, 5, **WHERE)]))
    path = written(tmp_path, [event("kernel", name[1:], 10, 5, **WHERE)])
    assert rows(path, "kernels", "name") == [(name[1:],)]


@pytest.mark.parametrize(
    "ts", ["1e999999999999", '"1e999999999999"', '"NaN"', '"ten"', "[]", "null"]
)
def test_a_start_that_is_no_time_refuses_the_trace(tmp_path, ts):
    path = written(tmp_path, [event("kernel", "k", f"@{ts}@", 5, **WHERE)])
    path.write_text(path.read_text().replace("\\", ""), encoding="utf-8")

    with pytest.raises(CorruptFileError, match="the time of an event is not a number"):
        read_profile(path)


EMPTY = {
    "hta_cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "hta_distributed_info_unavailable__distributed_info_not_found.json.gz",
    "hta_rank_non_gpu__rank_non_gpu.json.gz",
}
# Of the workers of one job, the first.
TRACES = sorted(p for p in CORPUS.glob("*.json*") if not re.search(r"worker[1-9]|rankB", p.name))
TABLE_OF = {
    "kernel": "kernels",
    "gpu_memcpy": "memcpys",
    "memcpy": "memcpys",
    "gpu_memset": "memsets",
    "memset": "memsets",
    "cuda_runtime": "api_calls",
    "runtime": "api_calls",
    "user_annotation": "nvtx_ranges",
    "cpu_op": "nvtx_ranges",
    "operator": "nvtx_ranges",
    "cuda_sync": "synchronizations",
}


def independent(path):
    """Count, total ns and total bytes by table and name, with json and Decimal alone."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    trace = json.loads(text, parse_float=Decimal)
    calls, total, size = Counter(), Counter(), Counter()
    for item in trace if isinstance(trace, list) else trace["traceEvents"]:
        table = TABLE_OF.get((item.get("cat") or "").lower())
        if table and item["ph"] == "X":
            key = table, item["name"]
            calls[key] += 1
            total[key] += int(item["dur"] * 1000)
            size[key] += item.get("args", {}).get("bytes", 0)
    return calls, total, size


def as_read(path):
    profile = read_profile(path)
    calls, total, size = Counter(), Counter(), Counter()
    for table in set(TABLE_OF.values()) & profile.sources.keys():
        for row in profile.table(table).to_pylist():
            key = table, row.get("name") or row.get("text") or _label(table, row)
            calls[key] += 1
            total[key] += row["end_ns"] - row["start_ns"]
            size[key] += row.get("bytes") or 0
    return calls, total, size


def _label(table, row):
    words = {k: k.replace("_", " ").title() for k in ("pageable", "pinned", "device", "unknown")}
    if table == "memcpys":
        source, target = words[row["src_memory_kind"]], words[row["dst_memory_kind"]]
        return f"Memcpy {row['memcpy_kind']} ({source} -> {target})"
    if table == "memsets":
        return f"Memset ({words[row['memory_kind']]})"
    spelled = {"event": "Event Sync", "stream_wait": "Stream Wait Event"}
    return spelled.get(row["sync_kind"]) or f"{row['sync_kind'].title()} Sync"


@pytest.mark.skipif(not TRACES, reason="the corpus of real files is not here")
@pytest.mark.parametrize("path", TRACES, ids=[p.name for p in TRACES])
def test_a_real_trace_reads_as_json_and_decimals_count_it(path):
    assert find_reader(path).name == "kineto"
    if path.name in EMPTY:
        with pytest.raises(EmptyRecordingError):
            read_profile(path)
        return

    assert as_read(path) == independent(path)


PYTHON = [
    event("python_function", "train.py(3): step", 12, 9),
    event("python_function", "train.py(1): <module>", 2, 20),
    event("python_function", "train.py(9): lost", 0, 1),
]


def test_functions_of_python_are_host_calls(tmp_path):
    path = written(tmp_path, [KERNEL, *PYTHON])

    columns = ("start_ns", "end_ns", "library", "name", "process_id", "thread_id")
    assert rows(path, "host_calls", *columns) == [
        (-8_000, 12_000, "python", "train.py(1): <module>", 40, 41),
        (2_000, 11_000, "python", "train.py(3): step", 40, 41),
    ]
    # The origin is that of all else.
    assert rows(path, "kernels", "start_ns") == [(0,)]
    assert not read_profile(written(tmp_path, [KERNEL], "without.json")).has("host_calls")


def test_functions_of_python_are_read_when_they_are_asked_for(tmp_path):
    path = written(tmp_path, [KERNEL, *PYTHON])
    profile = read_profile(path)
    path.unlink()

    assert profile.table("kernels").num_rows == 1
    with pytest.raises(InputError) as caught:
        profile.query("SELECT count(*) AS calls FROM host_calls")
    assert caught.value.message == f"{path} cannot be read: No such file or directory"


def test_functions_of_python_of_two_ranks_are_read_together(tmp_path):
    for rank in range(2):
        shifted = [KERNEL, *PYTHON[: rank + 1]]
        written(tmp_path, shifted, f"rank{rank}.json", distributedInfo={"rank": rank})

    calls = read_profile(tmp_path).query("SELECT count(*) AS calls FROM host_calls")
    assert calls.to_pylist() == [{"calls": 3}]


@pytest.mark.parametrize(("name", "calls"), [("A", 3186), ("B", 2093)])
def test_real_functions_of_python(name, calls):
    path = CORPUS / f"brainstorm_a100_rank{name}.pt.trace.json"
    if not path.exists():
        pytest.skip("no corpus beside the checkout")

    assert read_profile(path).table("host_calls").num_rows == calls
