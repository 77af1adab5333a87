import sqlite3
import subprocess
import sys
from contextlib import closing

import duckdb
import nsys_export
import pytest
from nsys_export import (
    DEVICE,
    DTOD,
    DTOH,
    GRAPH_TRACE,
    HTOD,
    KERNEL,
    MEMCPY,
    MEMSET,
    PAGEABLE,
    PTOP,
    RUNTIME,
    STRINGS,
    kernel,
    memcpy,
    pid,
    write,
)
from recording_checks import refusal, rows

from gpuprof import report
from gpuprof.analyses.activity_summary import activity_summary, kernel_summary
from gpuprof.analyses.totals import totals
from gpuprof.base.errors import EmptyRecordingError
from gpuprof.base.secrets import REMOVED
from gpuprof.facts.activity_sums import activity_sums
from gpuprof.model.derived import UNKNOWN
from gpuprof.readers import find_reader, read_profile
from gpuprof.readers.nsys import sqlite_export as nsys_sqlite
from gpuprof.readers.nsys.export import CUDA_TABLES

# Every test here must hold for both ways into a file.
pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def read(tmp_path):
    """Write an export and read it."""
    return lambda tables, drop=(): read_profile(write(tmp_path / "x.sqlite", tables, drop))


def column(profile, sql):
    return profile.query(sql).column(0).to_pylist()


def test_an_export_whose_trace_was_off_says_so(tmp_path):
    off = [{"name": "PROCESS_0:COLLECT_CUDA_TRACE", "value": "false"}]
    path = write(tmp_path / "off.sqlite", {"META_DATA_CAPTURE": off})

    assert refusal(path, EmptyRecordingError) == f"{path}: nothing to report, CUDA was not traced"


def test_a_traced_run_without_gpu_work_has_empty_tables_and_a_note(read):
    called = {STRINGS: [{"id": 1, "value": "cudaGetDeviceCount"}], RUNTIME: [call(0, 9, 1)]}
    profile = read(called)

    counts = [profile.table(name).num_rows for name in ("kernels", "memcpys", "api_calls")]
    assert counts == [0, 0, 1]
    assert not profile.has("nvtx_ranges")
    assert not profile.has("host_calls")
    assert profile.origin.warnings == ("CUDA calls were recorded, but no GPU work was recorded",)


@pytest.mark.parametrize(
    ("cuda", "has_table", "fault"),
    [
        pytest.param("true", False, "no CUDA call was recorded", id="traced"),
        pytest.param("true", True, "no CUDA call was recorded", id="empty-table"),
        pytest.param("false", False, "CUDA was not traced", id="not-traced"),
    ],
)
def test_without_one_cuda_call_what_gpus_did_is_unknown(tmp_path, cuda, has_table, fault):
    settings = [
        {"name": "PROCESS_0:COLLECT_CUDA_TRACE", "value": cuda},
        {"name": "PROCESS_0:COLLECT_NVTX_TRACE", "value": "true"},
    ]
    path = write(tmp_path / "x.sqlite", {"META_DATA_CAPTURE": settings, KERNEL: [kernel(0, 9)]})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"DELETE FROM {KERNEL}" if has_table else f"DROP TABLE {KERNEL}")

    profile = read_profile(path)

    assert not any(map(profile.has, (*CUDA_TABLES, "graph_launches")))
    assert profile.origin.warnings == (f"What GPUs did is unknown: {fault}",)


def test_missing_memsets_are_empty_and_keep_the_copies(read):
    profile = read({MEMCPY: [memcpy(0, 5, HTOD)]})

    assert profile.table("memsets").num_rows == 0
    assert profile.table("memcpys").num_rows == 1


def test_kernels_come_with_names_process_and_place(read):
    first, second = kernel(10, 30, gridX=4, graphNodeId=None), kernel(40, 45, name=99, gridX=1)

    profile = read({KERNEL: [first, second | {"graphNodeId": 5}]})

    columns = ("start_ns", "end_ns", "name", "process_id", "stream_id", "grid_x", "graph_node_id")
    assert rows(profile, "kernels", *columns) == [
        (10, 30, "saxpy(float*)", 9, 7, 4, None),
        (40, 45, "unknown", 9, 7, 1, 5),
    ]


@pytest.mark.parametrize(
    "drop",
    ["globalPid", "srcDeviceId", "srcKind", "dstKind", "correlationId", "deviceId", "streamId"],
)
def test_an_old_export_without_an_optional_column_is_read(read, drop):
    tables = {KERNEL: [kernel(0, 9)], MEMCPY: [memcpy(0, 5, HTOD), memcpy(5, 6, DTOD)]}

    profile = read(tables, drop={drop})

    assert profile.table("memcpys").num_rows == 2
    assert profile.table("kernels").column("name").to_pylist() == ["saxpy(float*)"]


@pytest.mark.parametrize(
    ("declared", "names"),
    [("INTEGER", ["saxpy(float*)", "short"]), ("INTEGER NOT NULL", ["saxpy(float*)"])],
    ids=["may-be-null", "never-null"],
)
def test_a_kernel_has_its_full_name_and_the_short_one_where_that_is_null(tmp_path, declared, names):
    texts = [{"id": 1, "value": "saxpy(float*)"}, {"id": 2, "value": "short"}]
    kernels = [kernel(0, 5, 1, shortName=2), kernel(5, 9, None, shortName=2)][: len(names)]
    path = write(tmp_path / "run.sqlite", {KERNEL: kernels, STRINGS: texts})
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "PRAGMA writable_schema = ON; UPDATE sqlite_master"
            f" SET sql = replace(sql, '\"demangledName\" INTEGER', '\"demangledName\" {declared}')"
        )

    assert read_profile(path).table("kernels")["name"].to_pylist() == names


def test_a_view_instead_of_a_table_is_read(tmp_path):
    path = write(tmp_path / "x.sqlite", {"K": [kernel(0, 9)]})
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE VIEW {KERNEL} AS SELECT * FROM K")

    assert read_profile(path).table("kernels").num_rows == 1


def test_memory_kinds_are_numbered_as_nsys_numbers_them(read):
    profile = read({MEMCPY: [memcpy(0, 5, HTOD, srcKind=PAGEABLE), memcpy(5, 6, HTOD)]})

    assert rows(profile, "memcpys", "src_memory_kind") == [("pageable",), ("pinned",)]


def test_the_files_own_enum_names_the_kinds(read):
    enum = [{"id": 1, "name": "CUDA_MEMCPY_KIND_DTOH"}, {"id": 3, "name": "CUDA_MEMCPY_KIND_NEW"}]

    profile = read({MEMCPY: [memcpy(0, 5, 1), memcpy(5, 6, 3)], "ENUM_CUDA_MEMCPY_OPER": enum})

    assert rows(profile, "memcpys", "memcpy_kind") == [("DtoH",), ("unknown",)]


def call(start, end, name, **columns):
    given = {"nameId": name, "globalTid": pid(9) + 4, "correlationId": 5, "eventClass": 0}
    return {"start": start, "end": end} | given | columns


CALLS = [
    call(10, 19, 1),
    call(9, 20, 2, eventClass=67),
    call(20, 22, 3, eventClass=1, correlationId=6),
    call(30, 31, 1, eventClass=None, correlationId=7),
]
CALL_NAMES = [
    {"id": 1, "value": "cudaMalloc_v3020"},
    {"id": 2, "value": "cudaMalloc"},
    {"id": 3, "value": "cuMemAlloc_v2"},
]
BACKTRACE = "TRACE_PROCESS_EVENT_CUDABACKTRACE"


def test_a_call_with_a_backtrace_counts_once(read):
    kernels = [kernel(25, 30, correlationId=5)]

    profile = read({STRINGS: CALL_NAMES, RUNTIME: CALLS, KERNEL: kernels})

    assert rows(profile, "api_calls", "name", "start_ns") == [
        ("cudaMalloc", 10),
        ("cuMemAlloc_v2", 20),
        ("cudaMalloc", 30),
    ]
    joined = "SELECT count(*) FROM kernels JOIN api_calls USING (process_id, correlation_id)"
    assert column(profile, joined) == [1]


@pytest.mark.parametrize(
    ("enum", "starts"),
    [
        pytest.param([{"id": 0, "name": BACKTRACE}], [9, 20, 30], id="numbered-anew"),
        pytest.param([{"id": 67, "name": "OTHER"}], [10, 20, 30], id="no-such-class"),
        pytest.param([{"id": "?", "name": BACKTRACE}], [10, 20, 30], id="no-number"),
    ],
)
def test_the_files_own_enum_says_which_rows_carry_backtraces(read, enum, starts):
    profile = read({STRINGS: CALL_NAMES, RUNTIME: CALLS, "ENUM_NSYS_EVENT_CLASS": enum})

    assert profile.table("api_calls")["start_ns"].to_pylist() == starts


ENDS = ("src_device_id", "dst_device_id", "path")
BETWEEN = {"srcDeviceId": 0, "dstDeviceId": 3}


@pytest.mark.parametrize(
    ("copied", "kind", "ends"),
    [
        pytest.param(memcpy(0, 5, 77), "unknown", (None, None, None), id="an-unknown-kind"),
        pytest.param(memcpy(0, 5, HTOD, deviceId=1), "HtoD", (None, 1, None), id="to-a-device"),
        pytest.param(memcpy(0, 5, DTOH, deviceId=2), "DtoH", (2, None, None), id="from-a-device"),
        pytest.param(
            memcpy(0, 5, PTOP, deviceId=0, **BETWEEN), "PtoP", (0, 3, "direct"), id="pushed"
        ),
        pytest.param(
            memcpy(0, 5, PTOP, deviceId=3, **BETWEEN), "PtoP", (0, 3, "direct"), id="pulled"
        ),
        pytest.param(
            memcpy(0, 5, DTOD, deviceId=3, **BETWEEN), "DtoD", (0, 3, "direct"), id="two-devices"
        ),
        pytest.param(
            memcpy(0, 5, DTOD, deviceId=1, srcDeviceId=1, dstDeviceId=1), "DtoD", (1, 1, None),
            id="one-device",
        ),
        pytest.param(memcpy(0, 5, DTOD, deviceId=1), "DtoD", (1, 1, None), id="device-not-told"),
        pytest.param(memcpy(0, 5, 3, deviceId=2), "HtoA", (None, 2, None), id="to-an-array"),
        pytest.param(memcpy(0, 5, 4, deviceId=2), "AtoH", (2, None, None), id="from-an-array"),
        pytest.param(memcpy(0, 5, 6, deviceId=2), "AtoD", (2, 2, None), id="array-to-device"),
    ],
)  # fmt: skip
def test_a_copy_lies_where_its_memory_does_not_where_it_ran(read, copied, kind, ends):
    assert rows(read({MEMCPY: [copied]}), "memcpys", "memcpy_kind", *ENDS) == [(kind, *ends)]


def test_a_peer_copy_is_known_by_its_activity_not_by_its_call(read):
    between = {"srcDeviceId": 0, "dstDeviceId": 1, "correlationId": 5}
    call = {"start": 0, "end": 3, "nameId": 2, "globalTid": pid(9), "correlationId": 5}
    names = [{"id": 1, "value": "f"}, {"id": 2, "value": "cuMemcpyDtoDAsync"}]
    tables = {STRINGS: names, MEMCPY: [memcpy(4, 9, PTOP, **between)], RUNTIME: [call]}

    profile = read(tables)

    assert profile.table("api_calls")["name"].to_pylist() == ["cuMemcpyDtoDAsync"]
    assert profile.table("memcpys")["memcpy_kind"].to_pylist() == ["PtoP"]


def half(start, kind, device, **columns):
    kinds = {"srcKind": DEVICE, "dstKind": DEVICE, "deviceId": device}
    return memcpy(start, start + 5, kind, **(kinds | columns))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(half(5, HTOD, 3), (0, 3, "staged"), id="a-pair"),
        pytest.param(half(5, HTOD, 3, correlationId=2), (0, None, None), id="other-call"),
        pytest.param(half(5, HTOD, 3, globalPid=pid(8)), (0, None, None), id="other-process"),
        pytest.param(half(5, HTOD, 0), (0, None, None), id="one-device"),
        pytest.param(half(5, HTOD, 3, srcKind=PAGEABLE), (0, None, None), id="from-the-host"),
        pytest.param(half(5, HTOD, 3, bytes=63), (0, None, None), id="other-size"),
        pytest.param(half(-5, HTOD, 3), (0, None, None), id="wrong-order"),
    ],
)
def test_two_halves_through_the_host_are_one_staged_peer_copy(read, second, expected):
    profile = read({MEMCPY: [half(0, DTOH, 0), second]})

    found = {start: ends for start, *ends in rows(profile, "memcpys", "start_ns", *ENDS)}
    assert tuple(found[0]) == expected


def test_processes_that_number_their_calls_alike_keep_their_pairs_apart(read):
    other = {"globalPid": pid(8)}
    copies = [
        half(0, DTOH, 0),
        half(1, HTOD, 3),
        half(2, DTOH, 5, **other),
        half(3, HTOD, 6, **other),
    ]

    assert rows(read({MEMCPY: copies}), "memcpys", *ENDS) == [
        (0, 3, "staged"),
        (0, 3, "staged"),
        (5, 6, "staged"),
        (5, 6, "staged"),
    ]


@pytest.mark.parametrize("first", [{}, {"srcKind": DEVICE, "dstKind": DEVICE}])
def test_ends_of_copies_are_the_same_where_a_copy_may_be_half_of_another(read, first):
    copies = [
        memcpy(0, 4, HTOD, deviceId=3, **first),
        memcpy(5, 9, DTOH, deviceId=2),
        memcpy(10, 11, PTOP, srcDeviceId=1, dstDeviceId=4),
        memcpy(12, 13, PTOP, srcDeviceId=1),
        memcpy(14, 15, DTOD, deviceId=None),
    ]

    ((src, dst),) = read({MEMCPY: copies}).columns("memcpys", "src_device_id", "dst_device_id")

    assert src.tolist() == [UNKNOWN, 2, 1, 1, UNKNOWN]
    assert dst.tolist() == [3, UNKNOWN, 4, UNKNOWN, UNKNOWN]


def test_names_of_calls_are_those_that_calls_have_and_take_no_query(read, monkeypatch):
    texts = ["cudaFree_v3020", "a_v3020\n", "b_v123", "c_v12345", "_v3020", "d_v3020_v4000"]
    names = [{"id": number, "value": text} for number, text in enumerate([*texts, "a_kernel"])]
    call = {"start": 0, "end": 1, "globalTid": pid(9), "correlationId": 1}
    calls = [call | {"nameId": number} for number in (*range(len(texts)), None, 99)]
    profile = read({STRINGS: names, RUNTIME: calls})
    monkeypatch.setattr(duckdb, "connect", None)

    names = profile.loaded("api_calls").names

    assert [*names.numbers] == [*range(len(texts))]
    assert names.columns["name"] == [
        "cudaFree", "a_v3020\n", "b_v123", "c_v12345", "", "d_v3020"
    ]  # fmt: skip


def test_small_tables_take_no_query(read, monkeypatch):
    tables = {
        KERNEL: [kernel(0, 9)],
        "TARGET_INFO_GPU": [{"id": 0, "name": "A100", "busLocation": ""}],
        "TARGET_INFO_CUDA_CONTEXT_INFO": [{"processId": 9, "deviceId": 0}],
        "PROCESSES": [{"pid": 9, "name": None}, {"pid": 9, "name": "b"}, {"pid": 9, "name": "a"}],
    }
    profile = read(tables)
    monkeypatch.setattr(duckdb, "connect", None)

    (device,), (run,) = (profile.table(name).to_pylist() for name in ("devices", "runs"))

    assert (device["device_id"], device["name"], device["bus_id"]) == (0, "A100", None)
    assert (run["process_id"], run["command"]) == (9, "b")
    assert profile.events == 1


def test_a_staged_copy_in_chunks_is_staged_in_every_row(read):
    chunks = [half(0, DTOH, 0), half(5, HTOD, 3), half(6, DTOH, 0), half(9, HTOD, 3)]

    assert rows(read({MEMCPY: chunks}), "memcpys", *ENDS) == [(0, 3, "staged")] * 4


def test_rows_without_times_are_left_out(read):
    tables = {KERNEL: [kernel(0, 0), kernel(0, 3), kernel(4, 4), kernel(5, None), kernel(9, 6)]}

    profile = read(tables)

    assert column(profile, "SELECT end_ns FROM kernels ORDER BY 1") == [3, 4]
    assert profile.origin.warnings == (
        "3 records without times were left out: when they ran could not be collected",
    )


def test_api_calls_are_told_apart_by_name_and_lose_their_version(read):
    names = ["cudaLaunchKernel_v7000", "cuMemcpyDtoDAsync_v2", "cudaMemcpy_ptsz"]
    strings = [{"id": n, "value": name} for n, name in enumerate(names)]
    call = {"start": 0, "end": 9, "globalTid": pid(9) | 12, "correlationId": 1}
    tables = {STRINGS: strings, RUNTIME: [call | {"nameId": n, "start": n} for n in range(3)]}

    assert rows(read(tables), "api_calls", "api", "name", "process_id", "thread_id") == [
        ("runtime", "cudaLaunchKernel", 9, 12),
        ("driver", "cuMemcpyDtoDAsync_v2", 9, 12),
        ("runtime", "cudaMemcpy_ptsz", 9, 12),
    ]


def nvtx(start, end, kind=59, **columns):
    given = {"text": None, "textId": None, "domainId": 0, "globalTid": pid(9) | 12}
    return {"start": start, "end": end, "eventType": kind} | given | columns


def test_ranges_have_their_text_wherever_it_is_kept(read):
    events = [
        nvtx(0, None, 75, text="NCCL", domainId=2),
        nvtx(0, None, 75, text="other process", domainId=2, globalTid=pid(8)),
        nvtx(1, 9, text="epoch 0"),
        nvtx(2, 3, textId=1, domainId=2),
        nvtx(4, 5, 60, text="copy"),
        nvtx(6, None, 59, text="still open"),
        nvtx(7, 7, 34, text="a mark"),
    ]

    profile = read({"NVTX_EVENTS": [nvtx(0, 0, 0, text="", textId=0), *events]})

    assert rows(profile, "nvtx_ranges", "start_ns", "text", "domain", "range_kind") == [
        (1, "epoch 0", "", "push_pop"),
        (2, "saxpy(float*)", "NCCL", "push_pop"),
        (4, "copy", "", "start_end"),
    ]


def test_graphs_recorded_as_a_whole_are_told(read):
    tables = {GRAPH_TRACE: [kernel(0, 9, graphId=4)], MEMSET: [kernel(1, 2, bytes=8, memKind=2)]}

    profile = read(tables)

    assert column(profile, "SELECT graph_id FROM graph_launches") == [4]
    assert column(profile, "SELECT memory_kind FROM memsets") == ["device"]
    assert profile.origin.warnings == (
        (
            "CUDA graphs were recorded as a whole: their kernels and copies are missing here. "
            "Record with nsys --cuda-graph-trace=node."
        ),
    )


def test_what_nsys_doubts_is_told_and_nothing_else(read):
    events = [
        {"text": "Not all CUDA events might have been collected.", "severity": 2},
        {"text": "Number of CUDA events collected: 4", "severity": 1},
        {"text": "No NVTX events collected. Does the process use NVTX?", "severity": 2},
        {"text": "Not all CUDA events might have been collected.\nMore.", "severity": 3},
    ]
    tables = {"DIAGNOSTIC_EVENT": events, KERNEL: [kernel(0, 9)]}

    profile = read(tables)

    assert profile.origin.warnings == (
        'nsys reported: "Not all CUDA events might have been collected."',
    )


TRACED = [
    {"name": "PROCESS_0:COLLECT_CUDA_TRACE", "value": "true"},
    {"name": "PROCESS_0:COLLECT_NVTX_TRACE", "value": "true"},
]
NOT_COLLECTED = [
    "CUDA injection initialization failed.",
    (
        "Installed CUDA driver version (12.6) is not supported by this build of Nsight Systems. "
        "CUDA trace will be collected using libraries for driver version 12.4"
    ),
    "CUDA profiling might have not been started correctly.",
    "CUDA profiling stopped unexpectedly: the application has crashed.",
    "Could not load the CUPTI library. Please make sure the installed CUDA version is supported.",
    "Installed CUDA driver version (11.2) is not supported.",
    "CUDA trace collection disabled due to Confidential Compute mode.",
    "CUDA tracing is not supported on NVIDIA Crypto Mining Processors (CMP).",
    "A client is already subscribed to CUPTI. CUPTI does not support multiple subscriber.",
    "Not all CUDA events might have been collected.",
    "No CUDA events collected. Does the process use CUDA?",
    "Zero CUDA events were collected. Does the application use CUDA?",
]
COLLECTED = [
    "CUDA device 0: Unified Memory trace is not supported on this device.",
    (
        "CUDA hardware tracing is not supported on this system. A legacy (software instrumented) "
        "trace was collected instead."
    ),
    "Not all NVTX events might have been collected.",
]


def diagnosed(text, **tables):
    """What nsys said of a recording in which CUDA and NVTX were to be traced, and tables of it."""
    said = {"META_DATA_CAPTURE": TRACED, "DIAGNOSTIC_EVENT": [{"text": text, "severity": 3}]}
    return said | tables


@pytest.mark.parametrize("text", NOT_COLLECTED)
def test_what_nsys_could_not_collect_is_unknown_and_not_zero(read, text):
    profile = read(diagnosed(text, **{RUNTIME: [call(0, 9, 1)]}))

    assert profile.table("api_calls").num_rows == 1
    assert not any(map(profile.has, ("kernels", "memcpys", "memsets", "graph_launches")))
    rows = {row["activity_group"]: row for row in totals(profile).to_pylist()}
    assert (rows["kernels"]["calls"], rows["gpu_activities"]["total_ns"]) == (None, None)
    assert profile.origin.warnings == (
        f'nsys reported: "{text}"',
        f'What GPUs did is unknown: nsys could not collect it ("{text}")',
    )


@pytest.mark.parametrize("text", COLLECTED)
def test_what_nsys_says_of_other_things_leaves_no_work_none(read, text):
    profile = read(diagnosed(text, **{RUNTIME: [call(0, 9, 1)]}))

    assert profile.table("kernels").num_rows == 0
    assert profile.origin.warnings[-1] == "CUDA calls were recorded, but no GPU work was recorded"


def test_gpu_work_that_is_there_was_collected(read):
    profile = read(diagnosed(NOT_COLLECTED[0], **{KERNEL: [kernel(0, 9)]}))

    assert profile.table("kernels").num_rows == 1
    assert profile.table("memcpys").num_rows == 0


def test_a_recording_of_which_cuda_alone_was_asked_and_not_collected_is_refused(tmp_path):
    path = write(tmp_path / "x.sqlite", diagnosed(NOT_COLLECTED[0], META_DATA_CAPTURE=TRACED[:1]))

    with pytest.raises(EmptyRecordingError) as caught:
        read_profile(path)

    assert caught.value.message == (
        f"{path}: nothing to report, what GPUs did is unknown: nsys could not collect it "
        f'("{NOT_COLLECTED[0]}")'
    )
    assert caught.value.hint == "See `gpuprof doctor`, then record again."


@pytest.mark.parametrize(
    ("name", "returned", "is_known"),
    [
        pytest.param("cudaLaunchKernel_v7000", 0, False, id="launched"),
        pytest.param("cudaLaunchKernel_v7000", 700, True, id="failed"),
        pytest.param("cudaMalloc_v3020", 0, True, id="starts-no-work"),
    ],
)
def test_work_that_calls_started_and_nsys_did_not_record_is_unknown(read, name, returned, is_known):
    tables = {
        STRINGS: [{"id": 1, "value": name}],
        RUNTIME: [call(0, 9, 1, returnValue=returned)],
    }

    profile = read(tables)

    assert profile.has("kernels") == is_known
    assert profile.origin.warnings == (
        (
            "CUDA calls were recorded, but no GPU work was recorded"
            if is_known
            else "What GPUs did is unknown: cudaLaunchKernel was called, and nsys recorded no "
            "work that calls started"
        ),
    )


def test_what_held_up_the_program_is_told_with_who_did(read):
    held = {"start": 1, "end": 4, "globalTid": pid(9) | 12, "nameId": 1}
    tables = {
        "PROFILER_OVERHEAD": [held],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [held | {"start": 2, "nameId": None}],
        KERNEL: [kernel(0, 9)],
    }

    assert rows(read(tables), "overheads") == [
        (1, 4, "profiler", "saxpy(float*)", 9, 12),
        (2, 4, "cuda", None, 9, 12),
    ]


@pytest.mark.parametrize(
    ("columns", "end_ns", "device_id", "faults"),
    [
        pytest.param({"end": 8, "deviceId": 1, "numberOfPageFaults": 23}, 8, 1, 23, id="all"),
        pytest.param({}, 3, None, None, id="start-alone"),
    ],
)
def test_page_faults_of_gpus_and_of_the_cpu(read, columns, end_ns, device_id, faults):
    tables = {
        KERNEL: [kernel(0, 9)],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [{"start": 3, "globalPid": pid(9)} | columns],
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [{"start": 1, "globalPid": pid(9), "CpuInstruction": 1}],
    }

    rows = read(tables).table("page_faults").to_pylist()

    assert [tuple(row.values()) for row in rows] == [
        (1, 1, "cpu", None, 9, 1),
        (3, end_ns, "gpu", device_id, 9, faults),
    ]


def test_calls_of_other_libraries_are_told_with_their_library(read):
    made = {"start": 1, "end": 4, "globalTid": pid(9) | 12, "textId": 1, "requestHandle": 5}
    os_call = {"start": 3, "end": 9, "globalTid": pid(9) | 13, "nameId": None, "eventClass": 27}
    tables = {
        # A wait for two requests has two rows.
        "MPI_START_WAIT_EVENTS": [made, made | {"requestHandle": 6}],
        "MPI_P2P_EVENTS": [made | {"start": 2}, made | {"start": 3, "end": None}],
        "UCP_EVENTS": [made | {"start": 2, "end": 3}],
        "OSRT_API": [os_call],
        KERNEL: [kernel(0, 9)],
    }

    assert sorted(rows(read(tables), "host_calls")) == [
        (1, 4, "mpi", "saxpy(float*)", 9, 12),
        (2, 3, "ucx", "saxpy(float*)", 9, 12),
        (2, 4, "mpi", "saxpy(float*)", 9, 12),
        (3, 9, "os", "unknown", 9, 13),
    ]


def test_a_wait_names_the_stream_on_which_its_event_was_recorded_last(read):
    place = {"deviceId": 0, "contextId": 1, "globalPid": pid(9)}
    none = 2**32 - 1
    events = [
        place | {"deviceId": device, "streamId": stream, "correlationId": number, "eventId": 5}
        for device, stream, number in ((0, 7, 10), (1, 8, 20), (0, 9, 40))
    ]
    sync = place | {"start": 1, "end": 2, "syncType": 2, "streamId": 13, "eventId": 5}
    tables = {
        KERNEL: [kernel(0, 9)],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            *events,
            events[0] | {"globalPid": pid(8), "correlationId": 25, "streamId": 99},
        ],
        nsys_export.SYNCHRONIZATION: [
            sync | {"correlationId": 30},
            sync | {"correlationId": 11},
            sync | {"correlationId": 9},
            sync | {"correlationId": 50, "eventId": none, "streamId": none, "syncType": 4},
        ],
    }
    profile = read(tables)

    columns = ("correlation_id", "sync_kind", "stream_id", "event_id")
    columns += ("src_device_id", "src_stream_id")
    assert sorted(rows(profile, "synchronizations", *columns)) == [
        (9, "stream_wait", 13, 5, None, None),
        (11, "stream_wait", 13, 5, 0, 7),
        (30, "stream_wait", 13, 5, 1, 8),
        (50, "context", None, None, None, None),
    ]
    assert rows(profile, "cuda_events", "stream_id", "event_id")[0] == (7, 5)


@pytest.mark.parametrize(
    ("folder", "exporter", "recorder"),
    [
        pytest.param(
            "/opt/nvidia/nsight-systems/2024.5.1/target-linux-x64",
            "2024.5.1.113",
            "2024.5.1.113",
            id="exported-by-the-same",
        ),
        pytest.param(
            "/usr/local/cuda-11.4/NsightSystems-cli-2021.3.2/target-linux-x64",
            "2023.4.4.54",
            "2021.3.2",
            id="exported-by-a-newer-one",
        ),
        pytest.param(
            "/opt/nvidia/nsight-systems-cli/2024.5.1/target", "2024.5.11.2", "2024.5.1", id="close"
        ),
        pytest.param(
            "/opt/nvidia/hpc_sdk/Linux_x86_64/23.9/profilers/Nsight_Systems/target-linux-x64",
            "2023.3.1.92",
            None,
            id="in-the-hpc-sdk",
        ),
        pytest.param(None, "2024.5.1.113", None, id="no-folder"),
    ],
)
def test_the_version_that_recorded_is_not_the_one_that_exported(read, folder, exporter, recorder):
    system = [
        {"name": "DeviceEnvironment", "value": "TOKEN=/nsight-systems/2019.1.1/secret"},
        *([] if folder is None else [{"name": "TargetInstallDir", "value": folder}]),
    ]
    tables = {
        KERNEL: [kernel(0, 9)],
        "TARGET_INFO_SYSTEM_ENV": system,
        "META_DATA_EXPORT": [{"name": "EXPORT_PRODUCT_VERSION", "value": exporter}],
    }

    origin = read(tables).origin

    assert (origin.tool_version, origin.exporter_version) == (recorder, exporter)
    assert origin.recorder == (f"nsys {recorder}" if recorder else f"nsys (exported by {exporter})")


@pytest.mark.parametrize(
    ("rows", "host"),
    [
        pytest.param([("Hostname", "node17.example")], "node17.example", id="nsys"),
        pytest.param([("HOSTNAME", "node17")], "node17", id="other-letters"),
        pytest.param([("Hostname", REMOVED)], None, id="recorded-by-gpuprof"),
        pytest.param([("Hostname", "")], None, id="empty"),
        pytest.param([("Hostname", None)], None, id="null"),
        pytest.param([("DeviceEnvironment", "HOSTNAME=node17")], None, id="environment"),
    ],
)
def test_the_host_is_the_one_that_nsys_names(read, rows, host):
    system = [{"name": name, "value": value} for name, value in rows]
    tables = {KERNEL: [kernel(0, 9)], "TARGET_INFO_SYSTEM_ENV": system}

    assert read(tables).origin.host == host


def test_the_command_is_told_without_its_environment(read):
    capture = {
        "PROCESS_0:COMMAND": "bash",
        "PROCESS_0:ARGUMENT_1": "API_TOKEN=hunter2 python train.py",
        "PROCESS_0:ARGUMENT_0": "-c",
        "PROCESS_0:ENVIRONMENT_0": "SECRET=1",
    }
    rows = [{"name": name, "value": value} for name, value in capture.items()]
    tables = {"META_DATA_CAPTURE": rows, KERNEL: [kernel(0, 9)]}

    profile = read(tables)

    assert profile.origin.command == "bash -c API_TOKEN=*** python train.py"


def test_devices_are_numbered_as_the_process_numbers_them(read):
    gpu = {"id": 5, "name": "A100", "totalMemory": 4_000_000, "memoryBandwidth": 1_000}
    gpu |= {"computeMajor": 8, "computeMinor": 0, "busLocation": "0000:01:00.0", "smCount": 108}
    mapped = {"gpuId": 5, "cudaId": 0, "pid": 9}
    tables = {"TARGET_INFO_GPU": [gpu], "TARGET_INFO_CUDA_DEVICE": [mapped]}

    (device,) = read(tables | {KERNEL: [kernel(0, 9)]}).table("devices").to_pylist()

    assert {name: value for name, value in device.items() if value is not None} == {
        "device_id": 0,
        "process_id": 9,
        "name": "A100",
        "total_memory_bytes": 4_000_000,
        "memory_bandwidth_bytes_per_s": 1_000,
        "compute_capability": "8.0",
        "multiprocessors": 108,
        "bus_id": "0000:01:00.0",
    }


def test_processes_of_one_file_are_its_runs(read):
    kernels = [kernel(0, 9, globalPid=pid(9)), kernel(1, 2, globalPid=pid(4))]

    profile = read({KERNEL: kernels, "PROCESSES": [{"pid": 4, "name": "python3"}]})

    assert rows(profile, "runs", "run_id", "process_id", "command") == [
        (0, 4, "python3"),
        (1, 9, None),
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM kernels", [3]),
        ("SELECT count(*) FROM kernels WHERE device_id = 1", [2]),
        ("SELECT start_ns FROM kernels WHERE stream_id IN (7, 8) AND device_id = 1", [5]),
        ("SELECT max(end_ns) FROM kernels GROUP BY device_id HAVING sum(stream_id) > 8", [9]),
        ("SELECT k.start_ns FROM kernels k JOIN memcpys m USING (correlation_id)", [7]),
        ("SELECT start_ns FROM kernels ORDER BY stream_id DESC, device_id LIMIT 1", [7]),
    ],
)
def test_a_query_reads_every_column_that_it_names(read, sql, expected):
    kernels = [
        kernel(1, 4, streamId=8),
        kernel(5, 6, deviceId=1),
        kernel(7, 9, deviceId=1, streamId=9, correlationId=4),
    ]
    tables = {KERNEL: kernels, MEMCPY: [memcpy(0, 1, HTOD, correlationId=4)]}

    assert column(read(tables), sql) == expected


def test_an_environment_among_the_names_disturbs_no_analysis(read):
    names = ["ncclDevKernel_AllReduce_Sum_f32", "PATH=/opt/nccl\0SHELL=/bin/sh"]
    strings = [{"id": number, "value": name} for number, name in enumerate(names, 1)]
    profile = read({STRINGS: strings, KERNEL: [kernel(0, 9)]})

    (row,) = report(profile).arrow("collectives").to_pylist()

    assert (row["collective"], row["total_ns"]) == ("AllReduce", 9)


def test_a_name_that_is_not_utf_8_is_a_name_still(tmp_path):
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)]})
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE StringIds SET value = CAST(X'6bc3a9726efc207e5c0a' AS TEXT)")
        database.commit()

    names = read_profile(path).table("kernels").column("name").to_pylist()
    assert names == [r"k\xC3\xA9rn\xFC ~\x5C\x0A"]


def test_a_gpu_whose_name_is_not_utf_8_has_a_name_still(tmp_path):
    gpu = {"id": 0, "name": "A100", "busLocation": ""}
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)], "TARGET_INFO_GPU": [gpu]})
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE TARGET_INFO_GPU SET name = CAST(X'41313030FC' AS TEXT)")
        database.commit()

    assert read_profile(path).table("devices").column("name").to_pylist() == [r"A100\xFC"]


@pytest.mark.parametrize(
    "wal", ["no -wal", "an empty -wal", "an empty -wal of no use", "a -wal with a row in it"]
)
def test_nothing_is_written_beside_the_users_file(tmp_path, wal):
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9)]})
    code = (
        "import sqlite3, sys, os; c = sqlite3.connect(sys.argv[1]); "
        "c.execute('PRAGMA journal_mode = wal'); "
        f"c.execute('INSERT INTO {KERNEL} SELECT * FROM {KERNEL}'); c.commit(); os._exit(0)"
    )
    if wal == "a -wal with a row in it":
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    elif wal != "an empty -wal of no use":
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = wal")
    if wal.startswith("an empty -wal"):
        (tmp_path / "x.sqlite-wal").touch()
    (tmp_path / "x.sqlite-shm").unlink(missing_ok=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    rows = read_profile(path).table("kernels").num_rows

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert rows == (2 if wal == "a -wal with a row in it" else 1)


def test_a_database_whose_marks_lie_deep_in_it_is_recognised(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("BEGIN")
        for number in range(40):
            columns = ", ".join(f"column_{n} INTEGER" for n in range(150))
            database.execute(f"CREATE TABLE EVENTS_{number} ({columns})")
        database.commit()
    write(path, {KERNEL: [kernel(0, 9)]})

    assert b"StringIds" not in path.read_bytes()[:65_536]
    assert find_reader(path) is nsys_sqlite.READER


@pytest.mark.parametrize("sums", [kernel_summary, activity_summary, activity_sums])
def test_two_numbers_of_one_name_are_one_kernel(read, sums):
    names = [{"id": 1, "value": "a"}, {"id": 2, "value": "a"}, {"id": 3, "value": "b"}]
    times = [(0, 4, 1), (5, 6, 2), (7, 9, 1), (10, 15, 3), (20, 21, 8), (22, 23, 9)]
    profile = read({STRINGS: names, KERNEL: [kernel(*t) for t in times]})

    found = sums(profile).select(["name", "calls", "total_ns", "min_ns", "max_ns"])

    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("a", 3, 7, 1, 4),
        ("b", 1, 5, 5, 5),
        ("unknown", 2, 2, 1, 1),
    ]
