"""Databases that nvprof wrote."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from nvprof_database import EPOCH_NS, PID, PREFIX, at, thread, write
from recording_checks import rows

import gpuprof
from gpuprof.base import kernel_names
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.readers import find_reader
from gpuprof.readers.nvprof import database as nvprof_sqlite

CORPUS = Path(__file__).parents[4] / "shared/corpus/nvprof-sqlite"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is absent")
DATABASES = sorted(path.name for path in CORPUS.iterdir()) if CORPUS.is_dir() else []
# Every test here must hold for both ways into a file.
pytestmark = pytest.mark.usefixtures("engine")

HTOD, DTOH, DTOD, PTOP = 1, 2, 8, 10
DEVICE = 3


@pytest.fixture
def read(tmp_path):
    """Write a database and read it."""

    def of(*arguments, **tables):
        path = write(tmp_path / "run.nvvp", *arguments, **tables)
        assert find_reader(path) is nvprof_sqlite.READER
        return gpuprof.read_profile(path)

    return of


def test_kernel_gives_all_its_columns(read):
    place = {"name": 2, "deviceId": 1, "contextId": 2, "streamId": 7, "correlationId": 30}
    shape = {"gridX": 1, "gridY": 2, "gridZ": 3, "blockX": 4, "blockY": 5, "blockZ": 6}
    sizes = {"registersPerThread": 8, "staticSharedMemory": 9, "dynamicSharedMemory": 10}
    row = at(100, 250, **place, **shape, **sizes, graphNodeId=11)

    (kernel,) = read(["stencil"], concurrent_kernel=[row]).table("kernels").to_pylist()

    assert kernel == {
        "start_ns": 0, "end_ns": 150, "name": "stencil", "process_id": None, "device_id": 1,
        "context_id": 2, "stream_id": 7, "correlation_id": 30, "grid_x": 1, "grid_y": 2,
        "grid_z": 3, "block_x": 4, "block_y": 5, "block_z": 6, "registers_per_thread": 8,
        "static_shared_memory_bytes": 9, "dynamic_shared_memory_bytes": 10, "graph_node_id": 11,
    }  # fmt: skip


def test_kernels_of_both_tables_count_once_each(read):
    profile = read(
        ["side", "alone"],
        concurrent_kernel=[at(0, 1, name=2), at(1, 2, name=2)],
        kernel=[at(2, 3, name=3)],
    )

    assert rows(profile, "kernels", "name") == [("side",), ("side",), ("alone",)]
    assert profile.query("SELECT count(*) AS n FROM kernels")["n"].to_pylist() == [3]


def test_kernel_names_are_demangled(read):
    if kernel_names.demangled("_Z3fooIfLi5EEvPT_") == "_Z3fooIfLi5EEvPT_":
        pytest.skip("no C++ library here")
    profile = read(["_Z3fooIfLi5EEvPT_"], kernel=[at(0, 1, name=2)])

    assert rows(profile, "kernels", "name") == [("void foo<float, 5>(float*)",)]
    assert profile.origin.warnings == ()


def test_names_that_nothing_can_demangle_stay_and_are_told(read, monkeypatch):
    monkeypatch.setattr(kernel_names, "_library", lambda: None)

    profile = read(["_Z3foov"], kernel=[at(0, 1, name=2)])

    assert rows(profile, "kernels", "name") == [("_Z3foov",)]
    assert profile.origin.warnings == (
        "Some kernel names are as the compiler mangled them: nothing here reads them.",
    )


def test_copies_of_both_tables_lie_where_their_memory_does(read):
    """The halves of a staged copy carry one number."""
    half = {"bytes": 64, "srcKind": DEVICE, "dstKind": DEVICE, "correlationId": 9}
    pushed, pulled = {"srcDeviceId": 0, "dstDeviceId": 1}, {"srcDeviceId": 1, "dstDeviceId": 0}
    profile = read(
        memcpy=[
            at(0, 5, copyKind=HTOD, deviceId=3, bytes=1),
            at(1, 5, copyKind=DTOH, deviceId=3, bytes=2),
            at(2, 5, copyKind=DTOD, deviceId=3, bytes=3),
            at(3, 5, copyKind=77, bytes=4),
            at(6, 9, copyKind=DTOH, deviceId=1, **half),
            at(9, 12, copyKind=HTOD, deviceId=0, **half),
        ],
        memcpy2=[
            at(4, 9, copyKind=PTOP, bytes=5, **pushed),
            at(5, 9, copyKind=PTOP, bytes=6, **pulled),
        ],
    )

    columns = ("memcpy_kind", "bytes", "src_device_id", "dst_device_id", "path")
    assert rows(profile, "memcpys", *columns) == [
        ("HtoD", 1, None, 3, None),
        ("DtoH", 2, 3, None, None),
        ("DtoD", 3, 3, 3, None),
        ("unknown", 4, None, None, None),
        ("PtoP", 5, 0, 1, "direct"),
        ("PtoP", 6, 1, 0, "direct"),
        ("DtoH", 64, 1, 0, "staged"),
        ("HtoD", 64, 1, 0, "staged"),
    ]


def test_memory_kinds_are_cuptis_not_those_of_nsys(read):
    kinds = {0: "unknown", 1: "pageable", 2: "pinned", DEVICE: "device", 4: "array", 5: "managed"}
    kinds[99] = "unknown"
    copies = [at(n, n + 1, copyKind=HTOD, srcKind=number) for n, number in enumerate(kinds)]

    profile = read(memcpy=copies, memset=[at(0, 1, bytes=4, memoryKind=DEVICE)])

    assert rows(profile, "memcpys", "src_memory_kind") == [(word,) for word in kinds.values()]
    assert rows(profile, "memsets", "memory_kind", "bytes") == [("device", 4)]


def test_times_stay_exact_integers_since_the_first_activity(read):
    profile = read(
        ["f"],
        kernel=[at(31, 62, name=2)],
        runtime=[at(0, 7, cbid=211, processId=PID)],
    )

    assert rows(profile, "kernels", "start_ns", "end_ns") == [(31, 62)]
    assert rows(profile, "api_calls", "start_ns", "end_ns") == [(0, 7)]
    assert profile.origin.epoch_ns == EPOCH_NS
    assert profile.origin.recorded_at == "2022-04-29T04:26:02Z"


def test_a_clock_that_counts_from_the_machines_start_gives_no_date(read):
    row = {"start": 541_004_026_277_019, "end": 541_004_026_277_020, "name": 2}
    profile = read(["f"], kernel=[row])

    assert rows(profile, "kernels", "start_ns", "end_ns") == [(0, 1)]
    assert (profile.origin.epoch_ns, profile.origin.recorded_at) == (None, None)


def test_records_without_times_are_left_out_counted_and_told(read):
    untimed = {"start": 0, "end": 0, "name": 2}
    unended = {"start": EPOCH_NS, "end": 0, "name": 2}
    profile = read(
        ["f"],
        kernel=[untimed, unended, at(5, 5, name=2)],
        memcpy2=[{"start": 0, "end": 0, "copyKind": PTOP}],
    )

    assert rows(profile, "kernels", "start_ns", "end_ns") == [(0, 0)]
    assert profile.origin.warnings == (
        "3 records without times left out: when they ran could not be collected",
    )


def test_api_calls_have_names_threads_and_processes(read):
    call = {"processId": PID, "threadId": -7, "correlationId": 3}
    profile = read(
        ["f"],
        kernel=[at(0, 1, name=2)],
        runtime=[at(0, 1, cbid=211, **call), at(1, 2, cbid=99999, **call)],
        driver=[at(2, 3, cbid=1, **call)],
    )

    assert rows(
        profile, "api_calls", "api", "name", "process_id", "thread_id", "correlation_id"
    ) == [
        ("runtime", "cudaLaunchKernel", PID, -7, 3),
        ("runtime", "runtime call 99999", PID, -7, 3),
        ("driver", "cuInit", PID, -7, 3),
    ]
    assert rows(profile, "kernels", "process_id") == [(PID,)]


def test_process_and_command_come_from_the_files_own_names(read):
    names = [
        {"objectKind": 1, "objectId": PID.to_bytes(4, "little") + bytes(8), "name": 2},
        {"objectKind": 2, "objectId": thread(5), "name": 3},
    ]
    profile = read(["python train.py", "worker", "f"], name=names, kernel=[at(0, 1, name=4)])

    assert rows(profile, "runs", "process_id", "command") == [(PID, "python train.py")]
    assert profile.origin.command == "python train.py"


def test_ranges_join_the_records_that_open_and_close_them(read):
    opens, closes, marks = 2, 4, 1
    records = [
        (opens, 10, 1, 2, thread(-5), 2, 4),
        (opens, 12, 2, 2, thread(-5), 3, 0),
        (closes, 15, 2, 2, thread(-5), 0, 0),
        (closes, 20, 1, 2, thread(-5), 0, 4),
        (opens, 30, 3, 1, thread(0), 2, 0),
        (closes, 40, 3, 1, thread(0), 0, 0),
        (opens, 50, 4, 2, thread(-5), 2, 0),  # never closed
        (marks, 60, 5, 2, thread(-5), 2, 0),
    ]
    columns = ("flags", "timestamp", "id", "objectKind", "objectId", "name", "domain")
    marker = [
        dict(zip(columns, (flags, EPOCH_NS + time, *rest), strict=True))
        for flags, time, *rest in records
    ]

    profile = read(["outer", "inner", "NCCL"], marker=marker)

    assert rows(
        profile, "nvtx_ranges", "start_ns", "end_ns", "text", "domain", "range_kind", "thread_id"
    ) == [
        (0, 10, "outer", "NCCL", "push_pop", -5),
        (2, 5, "inner", "", "push_pop", -5),
        (20, 30, "outer", "", "start_end", None),
    ]
    assert profile.table("nvtx_ranges")["process_id"].to_pylist() == [PID] * 3
    assert not any(map(profile.has, ("kernels", "memcpys", "memsets", "api_calls")))
    assert profile.origin.warnings == ("What GPUs did is unknown: no CUDA call was recorded",)


def test_a_range_ends_where_its_id_is_closed_next(read):
    opens, closes = 2, 4
    records = [(opens, 10, 1), (opens, 12, 2), (closes, 20, 1), (opens, 30, 1), (closes, 40, 1)]
    common = {"objectKind": 2, "objectId": thread(5), "name": 2}
    marker = [
        {"flags": flags, "timestamp": EPOCH_NS + time, "id": number, **common}
        for flags, time, number in records
    ]

    profile = read(["step"], marker=marker)

    assert rows(profile, "nvtx_ranges", "start_ns", "end_ns") == [(0, 10), (20, 30)]


def test_counters_of_unified_memory_are_page_faults_or_copies(read):
    place = {"srcId": 0, "dstId": 1, "processId": PID}
    profile = read(
        unified_memory_counter=[
            at(0, 5, counterKind=4, value=23, srcId=1, dstId=0, processId=PID),
            # Of the CPU's faults the value is an address, and the end means nothing.
            at(7, 0, counterKind=3, value=0x5E0000, srcId=0, dstId=0, processId=PID) | {"end": 0},
            at(8, 9, counterKind=1, value=4096, **place),
            at(9, 10, counterKind=2, value=8192, **place),
            at(10, 11, counterKind=8, value=16384, **place),
        ],
    )

    columns = ("start_ns", "end_ns", "processor", "device_id", "process_id", "faults")
    assert rows(profile, "page_faults", *columns) == [
        (0, 5, "gpu", 1, PID, 23),
        (7, 7, "cpu", None, PID, 1),
    ]
    assert not any("without times" in warning for warning in profile.origin.warnings)
    columns = ("memcpy_kind", "bytes", "device_id", "src_device_id", "dst_device_id")
    assert rows(profile, "memcpys", *columns) == [
        ("UVM_HtoD", 4096, 1, None, 1),
        ("UVM_DtoH", 8192, 0, 0, None),
        ("UVM_DtoD", 16384, 1, 0, 1),
    ]


def test_synchronizations_find_their_device_by_their_context(read):
    profile = read(
        ["f"],
        kernel=[at(0, 1, name=2)],
        context=[{"contextId": 2, "deviceId": 1}],
        synchronization=[
            at(0, 1, type=3, contextId=2, streamId=7),
            at(1, 2, type=4, contextId=2, streamId=-1),
        ],
    )

    assert rows(profile, "synchronizations", "sync_kind", "device_id", "stream_id") == [
        ("stream", 1, 7),
        ("context", 1, None),
    ]


def test_a_stream_wait_names_the_stream_on_which_its_event_was_recorded_last(read):
    """As MXNet's NCCL does in a real file: one event is recorded on one stream after another."""
    wait = {"type": 2, "contextId": 2, "cudaEventId": 167}
    profile = read(
        ["f"],
        kernel=[at(0, 1, name=2)],
        context=[{"contextId": 1, "deviceId": 0}, {"contextId": 2, "deviceId": 1}],
        stream=[{"contextId": 1, "streamId": 14}, {"contextId": 2, "streamId": 22}],
        cuda_event=[
            {"correlationId": 2587, "contextId": 2, "streamId": 14, "eventId": 167},
            {"correlationId": 2628, "contextId": 2, "streamId": 22, "eventId": 167},
        ],
        synchronization=[
            at(0, 1, correlationId=2000, streamId=22, **wait),
            at(1, 2, correlationId=2588, streamId=22, **wait),
            at(2, 3, correlationId=2629, streamId=14, **wait),
            at(3, 4, correlationId=2700, type=3, contextId=2, streamId=22, cudaEventId=-1),
        ],
    )

    columns = ("device_id", "stream_id", "event_id", "src_device_id", "src_stream_id")
    assert rows(profile, "synchronizations", *columns) == [
        (1, 22, 167, None, None),
        (1, 22, 167, 0, 14),
        (0, 14, 167, 1, 22),
        (1, 22, None, None, None),
    ]
    events = ("device_id", "stream_id", "correlation_id", "event_id")
    assert sorted(rows(profile, "cuda_events", *events)) == [
        (0, 14, 2587, 167),
        (1, 22, 2628, 167),
    ]


def test_overheads_are_of_the_profiler_or_of_cuda(read):
    process, thread = PID.to_bytes(4, "little") + bytes(9), PID.to_bytes(4, "little")
    thread += (77).to_bytes(4, "little") + bytes(5)
    profile = read(
        ["f"],
        kernel=[at(5, 9, name=2)],
        overhead=[
            at(1, 3, overheadKind=2 << 16, objectKind=1, objectId=process),
            at(2, 4, overheadKind=1, objectKind=2, objectId=thread),
            at(6, 7, overheadKind=99, objectKind=2, objectId=thread),
            {"start": 0, "end": 0, "overheadKind": 1, "objectKind": 1, "objectId": process},
        ],
    )

    columns = ("start_ns", "source", "name", "process_id", "thread_id")
    # The origin is that of what the program did.
    assert rows(profile, "overheads", *columns) == [
        (-4, "profiler", "CUPTI instrumentation", PID, None),
        (-3, "cuda", "Driver compiler", PID, 77),
        (1, "profiler", None, PID, 77),
    ]


def test_devices_are_those_that_cuda_saw(read):
    common = {"name": 2, "computeCapabilityMajor": 7, "globalMemoryBandwidth": 898_048_000}
    profile = read(
        ["Tesla V100", "f"],
        kernel=[at(0, 1, name=3)],
        device=[
            {"id": 0, "globalMemorySize": 34_089_926_656, **common},
            {"id": 1, "isCudaVisible": 0, **common},
        ],
    )

    columns = ("device_id", "name", "total_memory_bytes", "memory_bandwidth_bytes_per_s")
    assert rows(profile, "devices", *columns, "compute_capability") == [
        (0, "Tesla V100", 34_089_926_656, 898_048_000_000, "7.0")
    ]


def test_tables_that_older_versions_lack_may_be_absent(tmp_path):
    absent = ("SYNCHRONIZATION", "UNIFIED_MEMORY_COUNTER", "MEMCPY2", "MARKER", "DEVICE", "NAME")
    path = write(
        tmp_path / "old.nvvp",
        ["f"],
        absent,
        kernel=[at(0, 1, name=2)],
        memcpy=[at(1, 2, copyKind=HTOD, bytes=4)],
    )

    profile = gpuprof.read_profile(path)

    assert profile.table("memcpys").num_rows == 1
    assert not profile.has("synchronizations")
    assert not profile.has("nvtx_ranges")
    assert not profile.has("devices")


def test_metrics_recorded_beside_times_are_a_doubt(read):
    profile = read(["f"], kernel=[at(0, 1, name=2)], metric=[{"id": 1}])

    assert profile.origin.warnings == (
        (
            "Metrics or events were also recorded, so kernels ran one at a time, and some ran"
            " repeatedly."
        ),
    )


def test_damage_that_sqlite_tells_in_bytes_that_are_no_text_is_refused(tmp_path):
    path = write(tmp_path / "run.nvvp", ["f"], kernel=[at(0, 1, name=2)])
    path.write_bytes(path.read_bytes().replace(b"TABLE Version(", b"TABLE \xff\xfe ersion("))

    with pytest.raises(CorruptFileError, match="the database is damaged"):
        nvprof_sqlite.read(path)


@needs_corpus
@pytest.mark.parametrize("name", DATABASES)
def test_real_database_equals_what_sqlite_says(name):
    try:
        profile = gpuprof.read_profile(CORPUS / name)
    except EmptyRecordingError:
        pytest.skip("it has no activities")

    with closing(sqlite3.connect(f"{(CORPUS / name).as_uri()}?mode=ro", uri=True)) as database:
        origin = _origin(database)
        for table, sql in SAID.items():
            columns, said = _said(database, sql, origin)
            found = rows(profile, table, *columns) if profile.has(table) else []
            assert sorted(found, key=repr) == sorted(said, key=repr), table
    if profile.has("api_calls"):
        names = set(profile.table("api_calls")["name"].to_pylist())
        assert all(name.startswith("cu") and " call " not in name for name in names)


TIMES = 'start - :origin AS start_ns, "end" - :origin AS end_ns'
PLACE = "deviceId AS device_id, contextId AS context_id, streamId AS stream_id"
KERNEL = f"SELECT {TIMES}, {PLACE}, gridX AS grid_x, blockX AS block_x FROM {PREFIX}"
CALL = f"SELECT {TIMES}, processId AS process_id, threadId AS thread_id FROM {PREFIX}"
SAID = {
    "kernels": f"{KERNEL}CONCURRENT_KERNEL UNION ALL {KERNEL}KERNEL",
    "memcpys": f"""SELECT {TIMES}, {PLACE}, bytes, correlationId AS correlation_id,
        CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 8 THEN 'DtoD' ELSE '?' END
            AS memcpy_kind,
        CASE srcKind WHEN 1 THEN 'pageable' WHEN 2 THEN 'pinned' WHEN 3 THEN 'device' ELSE '?' END
            AS src_memory_kind
        FROM {PREFIX}MEMCPY""",
    "memsets": f"SELECT {TIMES}, {PLACE}, bytes FROM {PREFIX}MEMSET",
    "api_calls": f"{CALL}RUNTIME UNION ALL {CALL}DRIVER",
    "nvtx_ranges": f"""SELECT o.timestamp - :origin AS start_ns,
        (SELECT c.timestamp FROM {PREFIX}MARKER c WHERE c.id = o.id AND c.flags = 4) - :origin
            AS end_ns,
        (SELECT value FROM StringTable WHERE _id_ = o.name) AS text
        FROM {PREFIX}MARKER o WHERE o.flags = 2""",
}


def _origin(database):
    tables = ("MEMCPY", "MEMSET", "KERNEL", "CONCURRENT_KERNEL", "RUNTIME", "DRIVER")
    starts = [database.execute(f"SELECT min(start) FROM {PREFIX}{t}").fetchone()[0] for t in tables]
    starts.append(database.execute(f"SELECT min(timestamp) FROM {PREFIX}MARKER").fetchone()[0])
    return min(start for start in starts if start is not None)


def _said(database, sql, origin):
    cursor = database.execute(sql, {"origin": origin})
    return [column[0] for column in cursor.description], cursor.fetchall()
