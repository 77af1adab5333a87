"""Databases that nvprof wrote."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from nvprof_database import EPOCH_NS, PID, PREFIX, at, thread, write

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
PAGEABLE, PINNED, DEVICE = 1, 2, 3


def _read(tmp_path, *arguments, **rows):
    path = write(tmp_path / "run.nvvp", *arguments, **rows)
    assert find_reader(path) is nvprof_sqlite.READER
    return gpuprof.read_profile(path)


def _rows(profile, table, *columns):
    rows = profile.table(table).select(list(columns)).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_kernel_gives_all_its_columns(tmp_path):
    row = at(
        *(100, 250),
        name=2,
        deviceId=1,
        contextId=2,
        streamId=7,
        correlationId=30,
        gridX=1,
        gridY=2,
        gridZ=3,
        blockX=4,
        blockY=5,
        blockZ=6,
        registersPerThread=8,
        staticSharedMemory=9,
        dynamicSharedMemory=10,
        graphNodeId=11,
    )
    profile = _read(tmp_path, ["stencil"], concurrent_kernel=[row])

    (kernel,) = profile.table("kernels").to_pylist()

    assert kernel == {
        "start_ns": 0,
        "end_ns": 150,
        "name": "stencil",
        "process_id": None,
        "device_id": 1,
        "context_id": 2,
        "stream_id": 7,
        "correlation_id": 30,
        "grid_x": 1,
        "grid_y": 2,
        "grid_z": 3,
        "block_x": 4,
        "block_y": 5,
        "block_z": 6,
        "registers_per_thread": 8,
        "static_shared_memory_bytes": 9,
        "dynamic_shared_memory_bytes": 10,
        "graph_node_id": 11,
    }


def test_kernels_of_both_tables_count_once_each(tmp_path):
    profile = _read(
        tmp_path,
        ["side", "alone"],
        concurrent_kernel=[at(0, 1, name=2), at(1, 2, name=2)],
        kernel=[at(2, 3, name=3)],
    )

    assert _rows(profile, "kernels", "name") == [("side",), ("side",), ("alone",)]
    assert profile.query("SELECT count(*) AS n FROM kernels")["n"].to_pylist() == [3]


def test_kernel_names_are_demangled(tmp_path):
    if kernel_names.demangled("_Z3fooIfLi5EEvPT_") == "_Z3fooIfLi5EEvPT_":
        pytest.skip("no C++ library here")
    profile = _read(tmp_path, ["_Z3fooIfLi5EEvPT_"], kernel=[at(0, 1, name=2)])

    assert _rows(profile, "kernels", "name") == [("void foo<float, 5>(float*)",)]
    assert profile.origin.warnings == ()


def test_names_that_nothing_can_demangle_stay_and_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_names, "_library", lambda: None)

    profile = _read(tmp_path, ["_Z3foov"], kernel=[at(0, 1, name=2)])

    assert _rows(profile, "kernels", "name") == [("_Z3foov",)]
    assert profile.origin.warnings == (
        "Some kernel names are as the compiler mangled them: nothing here reads them.",
    )


def test_peer_copies_live_in_a_table_of_their_own(tmp_path):
    pushed = {"deviceId": 0, "srcDeviceId": 0, "dstDeviceId": 1}
    pulled = {"deviceId": 0, "srcDeviceId": 1, "dstDeviceId": 0}
    memory = {"srcKind": DEVICE, "dstKind": DEVICE}
    profile = _read(
        tmp_path,
        memcpy=[at(0, 5, copyKind=HTOD, bytes=10, srcKind=PAGEABLE, dstKind=DEVICE)],
        memcpy2=[
            at(5, 9, copyKind=PTOP, bytes=20, **pushed, **memory),
            at(9, 12, copyKind=PTOP, bytes=30, **pulled, **memory),
        ],
    )

    assert _rows(
        profile, "memcpys", "memcpy_kind", "bytes", "src_device_id", "dst_device_id", "path"
    ) == [
        ("HtoD", 10, None, 0, None),
        ("PtoP", 20, 0, 1, "direct"),
        ("PtoP", 30, 1, 0, "direct"),
    ]


def test_device_of_a_copy_is_where_its_memory_lies(tmp_path):
    kinds = {HTOD: (None, 3), DTOH: (3, None), DTOD: (3, 3)}
    copies = [at(kind, 20, copyKind=kind, deviceId=3, bytes=1) for kind in kinds]

    profile = _read(tmp_path, memcpy=copies)

    assert _rows(profile, "memcpys", "src_device_id", "dst_device_id") == list(kinds.values())


def test_staged_pairs_of_one_correlation_are_a_peer_copy(tmp_path):
    half = {"bytes": 64, "srcKind": DEVICE, "dstKind": DEVICE, "correlationId": 9}
    profile = _read(
        tmp_path,
        memcpy=[
            at(0, 5, copyKind=DTOH, deviceId=1, **half),
            at(5, 9, copyKind=HTOD, deviceId=0, **half),
        ],
    )

    assert _rows(profile, "memcpys", "memcpy_kind", "src_device_id", "dst_device_id", "path") == [
        ("DtoH", 1, 0, "staged"),
        ("HtoD", 1, 0, "staged"),
    ]


def test_memory_kinds_are_cuptis_not_those_of_nsys(tmp_path):
    kinds = {
        0: "unknown",
        PAGEABLE: "pageable",
        PINNED: "pinned",
        DEVICE: "device",
        4: "array",
        5: "managed",
        99: "unknown",
    }
    copies = [
        at(n, n + 1, copyKind=HTOD, srcKind=number, dstKind=DEVICE, bytes=1)
        for n, number in enumerate(kinds)
    ]

    profile = _read(tmp_path, memcpy=copies, memset=[at(0, 1, bytes=4, memoryKind=DEVICE)])

    assert _rows(profile, "memcpys", "src_memory_kind") == [(word,) for word in kinds.values()]
    assert _rows(profile, "memsets", "memory_kind", "bytes") == [("device", 4)]


def test_unknown_kinds_of_copies_are_kept(tmp_path):
    profile = _read(tmp_path, memcpy=[at(0, 1, copyKind=77, bytes=5)])

    assert _rows(profile, "memcpys", "memcpy_kind", "bytes") == [("unknown", 5)]


def test_times_stay_exact_integers_since_the_first_activity(tmp_path):
    profile = _read(
        tmp_path,
        ["f"],
        kernel=[at(31, 62, name=2)],
        runtime=[at(0, 7, cbid=211, processId=PID)],
    )

    assert _rows(profile, "kernels", "start_ns", "end_ns") == [(31, 62)]
    assert _rows(profile, "api_calls", "start_ns", "end_ns") == [(0, 7)]
    assert profile.origin.epoch_ns == EPOCH_NS
    assert profile.origin.recorded_at == "2022-04-29T04:26:02Z"


def test_a_clock_that_counts_from_the_machines_start_gives_no_date(tmp_path):
    row = {"start": 541_004_026_277_019, "end": 541_004_026_277_020, "name": 2}
    profile = _read(tmp_path, ["f"], kernel=[row])

    assert _rows(profile, "kernels", "start_ns", "end_ns") == [(0, 1)]
    assert (profile.origin.epoch_ns, profile.origin.recorded_at) == (None, None)


def test_records_without_times_are_left_out_counted_and_told(tmp_path):
    untimed = {"start": 0, "end": 0, "name": 2}
    unended = {"start": EPOCH_NS, "end": 0, "name": 2}
    profile = _read(
        tmp_path,
        ["f"],
        kernel=[untimed, unended, at(5, 5, name=2)],
        memcpy2=[{"start": 0, "end": 0, "copyKind": PTOP}],
    )

    assert _rows(profile, "kernels", "start_ns", "end_ns") == [(0, 0)]
    assert profile.origin.warnings == (
        "3 records without times left out: when they ran could not be collected",
    )


def test_api_calls_have_names_threads_and_processes(tmp_path):
    call = {"processId": PID, "threadId": -7, "correlationId": 3}
    profile = _read(
        tmp_path,
        ["f"],
        kernel=[at(0, 1, name=2)],
        runtime=[at(0, 1, cbid=211, **call), at(1, 2, cbid=99999, **call)],
        driver=[at(2, 3, cbid=1, **call)],
    )

    assert _rows(
        profile, "api_calls", "api", "name", "process_id", "thread_id", "correlation_id"
    ) == [
        ("runtime", "cudaLaunchKernel", PID, -7, 3),
        ("runtime", "runtime call 99999", PID, -7, 3),
        ("driver", "cuInit", PID, -7, 3),
    ]
    assert _rows(profile, "kernels", "process_id") == [(PID,)]


def test_process_and_command_come_from_the_files_own_names(tmp_path):
    names = [
        {"objectKind": 1, "objectId": PID.to_bytes(4, "little") + bytes(8), "name": 2},
        {"objectKind": 2, "objectId": thread(5), "name": 3},
    ]
    profile = _read(
        tmp_path, ["python train.py", "worker", "f"], name=names, kernel=[at(0, 1, name=4)]
    )

    assert _rows(profile, "runs", "process_id", "command") == [(PID, "python train.py")]
    assert profile.origin.command == "python train.py"


def test_ranges_join_the_records_that_open_and_close_them(tmp_path):
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

    profile = _read(tmp_path, ["outer", "inner", "NCCL"], marker=marker)

    assert _rows(
        profile, "nvtx_ranges", "start_ns", "end_ns", "text", "domain", "range_kind", "thread_id"
    ) == [
        (0, 10, "outer", "NCCL", "push_pop", -5),
        (2, 5, "inner", "", "push_pop", -5),
        (20, 30, "outer", "", "start_end", None),
    ]
    assert profile.table("nvtx_ranges")["process_id"].to_pylist() == [PID] * 3
    assert not any(map(profile.has, ("kernels", "memcpys", "memsets", "api_calls")))
    assert profile.origin.warnings == ("What GPUs did is unknown: no CUDA call was recorded",)


def test_a_range_ends_where_its_id_is_closed_next(tmp_path):
    opens, closes = 2, 4
    records = [(opens, 10, 1), (opens, 12, 2), (closes, 20, 1), (opens, 30, 1), (closes, 40, 1)]
    common = {"objectKind": 2, "objectId": thread(5), "name": 2}
    marker = [
        {"flags": flags, "timestamp": EPOCH_NS + time, "id": number, **common}
        for flags, time, number in records
    ]

    profile = _read(tmp_path, ["step"], marker=marker)

    assert _rows(profile, "nvtx_ranges", "start_ns", "end_ns") == [(0, 10), (20, 30)]


def test_page_faults_of_unified_memory_are_counted(tmp_path):
    profile = _read(
        tmp_path,
        unified_memory_counter=[
            at(0, 5, counterKind=4, value=23, srcId=1, dstId=0, processId=PID),
            # Of the CPU's faults the value is an address, and the end means nothing.
            at(7, 0, counterKind=3, value=0x5E0000, srcId=0, dstId=0, processId=PID) | {"end": 0},
            at(8, 9, counterKind=1, value=4096, srcId=0, dstId=1, processId=PID),
        ],
    )

    columns = ("start_ns", "end_ns", "processor", "device_id", "process_id", "faults")
    assert _rows(profile, "page_faults", *columns) == [
        (0, 5, "gpu", 1, PID, 23),
        (7, 7, "cpu", None, PID, 1),
    ]
    assert not any("without times" in warning for warning in profile.origin.warnings)


def test_migrations_of_unified_memory_are_copies_and_faults_are_not(tmp_path):
    place = {"srcId": 0, "dstId": 1, "processId": PID}
    profile = _read(
        tmp_path,
        unified_memory_counter=[
            at(0, 5, counterKind=1, value=4096, **place),
            at(5, 9, counterKind=2, value=8192, **place),
            at(9, 10, counterKind=8, value=16384, **place),
            at(10, 11, counterKind=3, value=1, **place),
        ],
    )

    assert _rows(
        profile, "memcpys", "memcpy_kind", "bytes", "device_id", "src_device_id", "dst_device_id"
    ) == [
        ("UVM_HtoD", 4096, 1, None, 1),
        ("UVM_DtoH", 8192, 0, 0, None),
        ("UVM_DtoD", 16384, 1, 0, 1),
    ]


def test_synchronizations_find_their_device_by_their_context(tmp_path):
    profile = _read(
        tmp_path,
        ["f"],
        kernel=[at(0, 1, name=2)],
        context=[{"contextId": 2, "deviceId": 1}],
        synchronization=[
            at(0, 1, type=3, contextId=2, streamId=7),
            at(1, 2, type=4, contextId=2, streamId=-1),
        ],
    )

    assert _rows(profile, "synchronizations", "sync_kind", "device_id", "stream_id") == [
        ("stream", 1, 7),
        ("context", 1, None),
    ]


def test_a_stream_wait_names_the_stream_on_which_its_event_was_recorded_last(tmp_path):
    """As MXNet's NCCL does in a real file: one event is recorded on one stream after another."""
    wait = {"type": 2, "contextId": 2, "cudaEventId": 167}
    profile = _read(
        tmp_path,
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
    assert _rows(profile, "synchronizations", *columns) == [
        (1, 22, 167, None, None),
        (1, 22, 167, 0, 14),
        (0, 14, 167, 1, 22),
        (1, 22, None, None, None),
    ]
    events = ("device_id", "stream_id", "correlation_id", "event_id")
    assert sorted(_rows(profile, "cuda_events", *events)) == [
        (0, 14, 2587, 167),
        (1, 22, 2628, 167),
    ]


def test_overheads_are_of_the_profiler_or_of_cuda(tmp_path):
    process, thread = PID.to_bytes(4, "little") + bytes(9), PID.to_bytes(4, "little")
    thread += (77).to_bytes(4, "little") + bytes(5)
    profile = _read(
        tmp_path,
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
    assert _rows(profile, "overheads", *columns) == [
        (-4, "profiler", "CUPTI instrumentation", PID, None),
        (-3, "cuda", "Driver compiler", PID, 77),
        (1, "profiler", None, PID, 77),
    ]


def test_devices_are_those_that_cuda_saw(tmp_path):
    common = {"name": 2, "computeCapabilityMajor": 7, "globalMemoryBandwidth": 898_048_000}
    profile = _read(
        tmp_path,
        ["Tesla V100", "f"],
        kernel=[at(0, 1, name=3)],
        device=[
            {"id": 0, "globalMemorySize": 34_089_926_656, **common},
            {"id": 1, "isCudaVisible": 0, **common},
        ],
    )

    assert _rows(
        profile,
        "devices",
        "device_id",
        "name",
        "total_memory_bytes",
        "memory_bandwidth_bytes_per_s",
        "compute_capability",
    ) == [(0, "Tesla V100", 34_089_926_656, 898_048_000_000, "7.0")]


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


def test_metrics_recorded_beside_times_are_a_doubt(tmp_path):
    profile = _read(tmp_path, ["f"], kernel=[at(0, 1, name=2)], metric=[{"id": 1}])

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
            rows = _rows(profile, table, *columns) if profile.has(table) else []
            assert sorted(rows, key=repr) == sorted(said, key=repr), table
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
