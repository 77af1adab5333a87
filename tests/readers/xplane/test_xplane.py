from collections import Counter
from pathlib import Path

import pytest
import xspaces
from recording_checks import refusal, rows

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, UnknownFormatError
from gpuprof.native import xspace
from gpuprof.readers import read_profile
from gpuprof.readers.xplane import event_columns as xplane_events

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
REAL = CORPUS / "xplane" / "xprof__34.83.195.179_6003.xplane.pb"
needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="the corpus of real files is not here"
)


def field(key, value):
    return xspaces.field(key, value.encode() if isinstance(value, str) else value)


class Plane:
    """A plane of XSpace, written by hand: names get keys in the order of their first use."""

    def __init__(self, name):
        self.name, self.lines, self.kinds, self.names = name, [], {}, {}
        self.own = b""

    def key(self, names, name):
        # The second hundred, so that keys need two bytes as in real files.
        return names.setdefault(name, 150 + len(names))

    def value(self, name, value):
        stat = field(1, self.key(self.names, name))
        if isinstance(value, bytes):  # A value as it is written.
            return stat + value
        if isinstance(value, tuple):
            return stat + field(7, self.key(self.names, value[0]))
        return stat + (field(3, value) if isinstance(value, int) else field(5, value))

    def line(self, name, *events, line_id=1, start_ns=1_000):
        text = field(1, line_id) + field(2, name) + field(3, start_ns)
        for kind, start_ps, duration_ps, values in events:
            event = field(1, self.key(self.kinds, kind)) + field(2, start_ps)
            event += field(3, duration_ps)
            stats = b"".join(field(4, self.value(k, v)) for k, v in values.items())
            text += field(4, event + stats)
        self.lines.append(text)
        return self

    def stat(self, name, value):
        self.own += field(6, self.value(name, value))
        return self

    def bytes(self):
        text = field(2, self.name) + b"".join(field(3, line) for line in self.lines)
        for number_, names in ((4, self.kinds), (5, self.names)):
            for name, key in names.items():
                entry = field(1, key) + field(2, field(1, key) + field(2, name))
                text += field(number_, entry)
        return field(1, text + self.own)


def written(folder, *planes, tail=b""):
    path = folder / "host.xplane.pb"
    path.write_bytes(b"".join(plane.bytes() for plane in planes) + tail)
    return path


def gpu(*events, device=0, line="Stream #7(Compute,MemcpyH2D)"):
    return Plane(f"/device:GPU:{device}").line(line, *events)


KERNEL = ("gemm", 5_000_000, 2_000_000, {"correlation_id": 3})


def test_a_profile_of_the_host_alone_is_refused(tmp_path):
    path = written(tmp_path, Plane("/host:CPU").line("python", ("f", 0, 1, {})))

    message = refusal(path, EmptyRecordingError)

    assert message == f"{path} has no GPU activity: only the host was profiled"


def test_an_empty_gpu_tells_the_profilers_error_without_the_hosts_name(tmp_path):
    error = field(2, "DESKTOP-1: Failed to load libcupti") + field(4, "DESKTOP-1")
    path = written(tmp_path, Plane("/device:GPU:0"), tail=error)

    with pytest.raises(EmptyRecordingError) as caught:
        read_profile(path)

    assert caught.value.message == (
        f"{path}: nothing was recorded on its GPUs: Failed to load libcupti"
    )
    assert "CUPTI" in caught.value.hint


def test_a_profile_of_a_tpu_is_refused_by_name(tmp_path):
    path = written(tmp_path, Plane("/device:TPU:0").line("Steps", ("0", 0, 1, {})))

    with pytest.raises(EmptyRecordingError, match="profile of a TPU"):
        read_profile(path)


def test_a_kernel_has_its_time_its_place_and_its_launch(tmp_path):
    details = "regs:38 static_shared:8 dynamic_shared:16 grid:160,2,3 block:1024,4,5 occ_pct:50"
    values = {"correlation_id": 72, "context_id": "$$5", "kernel_details": (details,)}
    kernel = ("gemm", 5_000_000, 2_000_000, {**values, "cuda_graph_node_id": 9})
    path = written(tmp_path, gpu(kernel, device=4, line="Stream #134(Compute)"))

    assert read_profile(path).table("kernels").to_pylist() == [
        {
            "start_ns": 6_000, "end_ns": 8_000, "device_id": 4, "context_id": 5, "stream_id": 134,
            "process_id": None, "correlation_id": 72, "name": "gemm", "grid_x": 160, "grid_y": 2,
            "grid_z": 3, "block_x": 1024, "block_y": 4, "block_z": 5, "registers_per_thread": 38,
            "static_shared_memory_bytes": 8, "dynamic_shared_memory_bytes": 16,
            "graph_node_id": 9,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "details", "expected"),
    [
        pytest.param(
            "MemcpyH2D",
            "kind_src:pinned kind_dst:device size:64 dest:3 async:1",
            ("HtoD", "pinned", "device", 64, None, 3, None),
            id="host-to-device",
        ),
        pytest.param(
            "MemcpyD2H",
            "size:8 dest:3 async:1",
            ("DtoH", None, None, 8, 3, None, None),
            id="before-memory-kinds-were-told",
        ),
        pytest.param(
            "MemcpyD2D", "size:8 dest:3 async:1", ("DtoD", None, None, 8, 3, 3, None), id="local"
        ),
        pytest.param(
            "MemcpyP2P",
            "kind_src:device kind_dst:device size:8 dest:0 async:1",
            ("PtoP", "device", "device", 8, 3, 0, "direct"),
            id="peer",
        ),
        pytest.param(
            "MemcpyOther", "size:8 dest:3", ("unknown", None, None, 8, None, None, None), id="other"
        ),
        pytest.param("MemcpyH2D", "", ("HtoD", None, None, None, None, 3, None), id="no-details"),
    ],
)
@pytest.mark.parametrize("refers", [True, False], ids=["reference", "text"])
def test_a_copy_tells_its_kind_its_memories_and_its_devices(
    tmp_path, name, details, expected, refers
):
    values = {"memcpy_details": (details,) if refers else details}
    path = written(tmp_path, gpu((name, 0, 1_000, values), device=3))

    columns = ("memcpy_kind", "src_memory_kind", "dst_memory_kind", "bytes")
    columns += ("src_device_id", "dst_device_id", "path")
    assert rows(path, "memcpys", *columns) == [expected]


def test_memsets_and_allocations_are_no_kernels(tmp_path):
    memset = ("Memset", 0, 1_000, {"memset_details": "kind:device num_bytes:512 async:1"})
    path = written(tmp_path, gpu(KERNEL, memset, ("MemoryAlloc", 0, 1_000, {})))

    assert rows(path, "kernels", "name") == [("gemm",)]
    assert rows(path, "memsets", "bytes", "memory_kind") == [(512, "device")]


def test_a_graph_recorded_as_a_whole_is_no_kernel(tmp_path):
    path = written(tmp_path, gpu(KERNEL, ("CudaGraph", 0, 9_000, {"cuda_graph_id": 4})))

    assert rows(path, "kernels", "name") == [("gemm",)]
    assert rows(path, "graph_launches", "graph_id", "end_ns") == [(4, 1_009)]


def test_lines_that_the_profiler_derives_are_not_counted_again(tmp_path):
    plane = gpu(KERNEL).line("TensorFlow Ops", ("MatMul", 5_000_000, 2_000_000, {}))

    assert rows(written(tmp_path, plane), "kernels", "name") == [("gemm",)]


def test_a_numbered_step_of_the_script_is_a_range_on_the_host(tmp_path):
    host = Plane("/host:CPU").line(
        "python",
        ("train", 3_000_000, 9_000_000, {"step_num": 5}),
        ("MatMul", 4_000_000, 1_000_000, {"id": 5}),
        line_id=77,
    )
    path = written(tmp_path, host, gpu(KERNEL))

    assert rows(path, "nvtx_ranges", "text", "range_kind", "start_ns", "end_ns", "thread_id") == [
        ("train#5", "annotation", 4_000, 13_000, 77)
    ]


def test_calls_of_the_cuda_api_are_found_among_the_hosts_events(tmp_path):
    host = Plane("/host:CPU").line(
        "python",
        ("cuLaunchKernel", 3_000_000, 1_000_000, {"correlation_id": 3}),
        ("cudaFree", 1_000_000, 1_000_000, {}),
        ("cumsum", 1_000_000, 1_000_000, {}),
    )
    path = written(tmp_path, host, gpu(KERNEL))

    assert rows(path, "api_calls", "api", "name", "correlation_id", "start_ns") == [
        ("runtime", "cudaFree", None, 2_000),
        ("driver", "cuLaunchKernel", 3, 4_000),
    ]
    assert not read_profile(written(tmp_path, gpu(KERNEL))).has("api_calls")


def test_the_start_of_the_profile_and_its_warnings_are_told(tmp_path):
    environment = Plane("Task Environment").stat("profile_start_time", 1_700_000_000_000_000_000)
    path = written(tmp_path, environment, gpu(KERNEL), tail=field(3, "dropped 5 events"))
    origin = read_profile(path).origin

    assert origin.epoch_ns == 1_700_000_000_000_000_000
    assert origin.warnings == ("The profiler reported: dropped 5 events",)


@pytest.mark.parametrize(
    ("hosts", "host"), [(["node-7"], "node-7"), (["node-7", "node-8"], None), ([], None)]
)
def test_the_one_host_that_was_profiled_is_told(tmp_path, hosts, host):
    tail = b"".join(field(4, name) for name in hosts)

    assert read_profile(written(tmp_path, gpu(KERNEL), tail=tail)).origin.host == host


def test_the_devices_memory_is_read(tmp_path):
    plane = gpu(KERNEL).stat("memory_size", 8).stat("memory_bandwidth", 9)
    plane = plane.stat("compute_cap_major", 7).stat("compute_cap_minor", 0)

    columns = ("total_memory_bytes", "memory_bandwidth_bytes_per_s", "compute_capability")
    assert rows(written(tmp_path, plane), "devices", "device_id", *columns) == [(0, 8, 9, "7.0")]


def test_a_profile_cut_off_anywhere_is_refused_or_shorter(tmp_path):
    whole = gpu(KERNEL, ("MemcpyP2P", 0, 9, {"memcpy_details": "size:1 dest:0"})).bytes()
    path = tmp_path / "cut.xplane.pb"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises((CorruptFileError, EmptyRecordingError)):
            read_profile(path, "xplane")


def test_events_are_the_same_however_many_are_decoded_at_once(tmp_path, monkeypatch):
    kinds = ("gemm", "MemcpyH2D", "relu")
    events = [(kinds[n % 3], n * 7_000_000, 5_000_000, {"correlation_id": n}) for n in range(50)]
    path = written(tmp_path, gpu(*events), gpu(*reversed(events), device=1))
    whole = {name: read_profile(path).table(name) for name in ("kernels", "memcpys")}
    monkeypatch.setattr(xplane_events, "_BATCH_EVENTS", 7)

    assert {name: read_profile(path).table(name) for name in whole} == whole
    assert [whole[name].num_rows for name in whole] == [66, 34]
    assert whole["kernels"]["correlation_id"].to_pylist()[:4] == [0, 0, 2, 2]


def test_a_number_beyond_64_bits_is_unknown(tmp_path):
    details = f"regs:{'9' * 30} grid:1,x,{'9' * 30}"
    path = written(tmp_path, gpu(("gemm", 0, 1_000, {"kernel_details": details})))

    assert rows(path, "kernels", "registers_per_thread", "grid_x", "grid_y", "grid_z") == [
        (None, 1, None, None)
    ]


def test_the_excerpt_for_a_browser_names_the_file_beside_it(tmp_path):
    path = tmp_path / "host.trace.json"
    path.write_text('{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[]}')

    with pytest.raises(UnknownFormatError) as caught:
        read_profile(path)

    assert "cut to a million events" in caught.value.message
    assert caught.value.hint == "Read the .xplane.pb file beside it."


@needs_corpus
def test_a_real_profile_reads_as_a_slower_decoder_counts_it():
    calls, total, size = Counter(), Counter(), Counter()
    for plane in xspace.space(REAL.read_bytes()).planes:
        for line in plane.lines if plane.name.startswith("/device:GPU") else ():
            for event in plane.events(line) if line.name.startswith("Stream #") else ():
                key = plane.name[-1], line.name.split("(")[0], event.metadata.name
                calls[key] += 1
                total[key] += event.duration_ps // 1_000
                details = plane.stats_of(event).get("memcpy_details", b"")
                size[key] += int(details.split("size:")[1].split()[0]) if details else 0

    profile = read_profile(REAL)
    found = [
        *(({**row, "bytes": 0}) for row in profile.table("kernels").to_pylist()),
        *(
            {**row, "name": {"HtoD": "MemcpyH2D", "DtoH": "MemcpyD2H"}[row["memcpy_kind"]]}
            for row in profile.table("memcpys").to_pylist()
        ),
    ]
    read = Counter(), Counter(), Counter()
    for row in found:
        key = str(row["device_id"]), f"Stream #{row['stream_id']}", row["name"]
        read[0][key] += 1
        read[1][key] += row["end_ns"] - row["start_ns"]
        read[2][key] += row["bytes"]
    assert (calls, total, size) == read
    assert sum(calls.values()) == 1_556
