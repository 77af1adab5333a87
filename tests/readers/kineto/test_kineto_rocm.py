"""PyTorch's traces of ROCm: strings for numbers, HIP's names, copies among the kernels."""

import pytest
import rocm
from recording_checks import rows

from gpuprof.analyses.api_calls import synchronising_calls
from gpuprof.analyses.collectives import collectives
from gpuprof.analyses.totals import totals
from gpuprof.readers import find_reader, read_profile

AS_LOCAL = "of this kind moved is not known."


def copies(path):
    return rows(path, "memcpys", "memcpy_kind", "bytes", "src_device_id", "dst_device_id")


def test_a_trace_of_rocm_is_read_although_numbers_are_strings(tmp_path):
    path = rocm.written(tmp_path)
    profile = read_profile(path)

    assert find_reader(path).name == "kineto"
    assert [row[0] for row in rows(path, "kernels", "name")] == [
        "Cijk_Ailk_Bljk_SB_MT64x64x16",
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    ]
    assert (
        rows(path, "kernels", "device_id", "stream_id", "grid_x", "block_x", "process_id")
        == [(0, 3, 4, 256, rocm.PID)] * 2
    )
    assert profile.table("api_calls").num_rows == 11
    assert rows(path, "devices", "name", "total_memory_bytes", "compute_capability") == [
        ("AMD Instinct MI300X", 206_141_652_992, "9.4")
    ]
    assert profile.origin.warnings == ()


def test_every_copy_has_the_direction_and_the_bytes_that_its_call_asks_for(tmp_path):
    assert copies(rocm.written(tmp_path)) == [
        ("HtoD", 9_216, None, 0),
        ("DtoH", 4_096, 0, None),
        ("HtoD", 1_024, None, 0),
        ("DtoD", 2_048, 0, 0),
        ("DtoD", 512, 0, 0),
    ]


def test_memsets_are_no_kernels_whoever_fills(tmp_path):
    assert rows(rocm.written(tmp_path), "memsets", "start_ns", "memory_kind") == [
        (290_000, None),
        (295_000, "device"),
    ]


def test_hips_calls_are_launches_and_waits(tmp_path):
    profile = read_profile(rocm.written(tmp_path))
    waits = synchronising_calls(profile).column("name").to_pylist()

    assert set(profile.table("api_calls").column("api").to_pylist()) == {"runtime"}
    assert sorted(waits) == ["hipDeviceSynchronize", "hipMemcpyWithStream"]
    assert totals(profile).to_pylist()[0]["calls"] == 2


def test_kernels_of_rccl_are_communication(tmp_path):
    [found] = collectives(read_profile(rocm.written(tmp_path))).to_pylist()

    assert (found["calls"], found["total_ns"]) == (1, 60_000)


# Until 2022: copies are kernels, without arguments but for the correlation.
OLD = (
    rocm.call("hipMemcpyWithStream", 100, 1, size="9216", kind="1", src="0x1", dst="0x2"),
    {"ph": "X", "cat": "Kernel", "name": "CopyHostToDevice", "pid": 2, "tid": 1}
    | {"ts": 120, "dur": 9, "args": {"correlation": 1}},
    rocm.call("hipMemcpyWithStream", 130, 2, size="64", kind="2", src="0x1", dst="0x2"),
    {"ph": "X", "cat": "Kernel", "name": "CopyDeviceToDevice", "pid": 2, "tid": 1}
    | {"ts": 140, "dur": 9, "args": {"correlation": 2}},
    {"ph": "X", "cat": "Kernel", "name": "FillBuffer", "pid": 2, "tid": 1}
    | {"ts": 160, "dur": 9, "args": {}},
    {"ph": "X", "cat": "Kernel", "name": "Marker", "pid": 2, "tid": 1}
    | {"ts": 170, "dur": 0, "args": {}},
    {"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 2, "tid": 1}
    | {"ts": 180, "dur": 9, "args": {}},
)


def test_copies_among_the_kernels_of_old_traces_are_copies(tmp_path):
    path = rocm.written(tmp_path, *OLD)

    assert rows(path, "kernels", "name", "device_id", "stream_id") == [("gemm", 2, 1)]
    assert copies(path) == [("HtoD", 9_216, None, 2), ("DtoH", 64, 2, None)]
    assert read_profile(path).table("memsets").num_rows == 1


@pytest.mark.parametrize(
    "name",
    ["CopyDeviceToDevice", "Memcpy DtoD (Device -> Device)", "__amd_rocclr_copyBuffer.kd"],
)
def test_a_copy_whose_call_says_nothing_keeps_its_kind_with_a_note(tmp_path, name):
    category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    vague = rocm.work(category, name, 200, 5, 99, bytes=8)
    profile = read_profile(rocm.written(tmp_path, *rocm.EVENTS, vague))
    kinds = profile.table("memcpys").column("memcpy_kind").to_pylist()

    assert kinds.count("unknown") == ("rocclr" in name)
    noted = [note for note in profile.origin.warnings if note.endswith(AS_LOCAL)]
    assert len(noted) == ("rocclr" not in name)


@pytest.mark.parametrize("name", ["Memcpy  ( -> )", "Memcpy <unknown> (? -> ?)", "CopyImage"])
def test_a_copy_without_a_direction_is_unknown_and_no_kernel(tmp_path, name):
    category = "kernel" if name == "CopyImage" else "gpu_memcpy"
    path = rocm.written(tmp_path, rocm.call("hipFree", 1, 1), rocm.work(category, name, 9, 5, 2))

    assert copies(path) == [("unknown", None, None, None)]
    assert rows(path, "kernels", "name") == []


def test_a_copy_in_several_parts_has_the_bytes_of_its_call_once_at_most(tmp_path):
    parts = [rocm.work("gpu_memcpy", "Memcpy DtoH (Device -> Host)", ts, 5, 1) for ts in (9, 19)]
    path = rocm.written(tmp_path, rocm.copy_call("hipMemcpy", 1, 1, 4_096, 2), *parts)

    assert copies(path) == [("DtoH", None, 0, None)] * 2


def test_between_which_devices_a_local_copy_was_is_unknown_where_there_are_several(tmp_path):
    other = rocm.work("kernel", "gemm", 400, 5, 50, device=1)
    path = rocm.written(tmp_path, *rocm.EVENTS, other, devices=2)

    assert [row for row in copies(path) if row[0] == "DtoD"] == [
        ("DtoD", 2_048, None, None),
        ("DtoD", 512, None, None),
    ]
    [note] = read_profile(path).origin.warnings
    assert note == (
        "ROCm does not tell copies between devices from those within one: 2 copies (DtoD) "
        "may be either."
    )


def test_a_peer_copy_is_known_by_its_call(tmp_path):
    peer = rocm.call("hipMemcpyPeerAsync", 1, 1)
    path = rocm.written(
        tmp_path, peer, rocm.work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 9, 5, 1, bytes=8)
    )

    assert copies(path) == [("PtoP", 8, None, None)]


def test_a_kernel_of_cuda_keeps_its_name_whatever_it_is(tmp_path):
    cuda = rocm.call("cudaLaunchKernel", 1, 1)
    path = rocm.written(tmp_path, cuda, rocm.kernel("CopyHostToDevice", 9, 5, 1))

    assert rows(path, "kernels", "name") == [("CopyHostToDevice",)]


@pytest.mark.parametrize(
    ("calls", "note", "tables"),
    [
        pytest.param(
            ["cudaLaunchKernel"],
            "CUDA calls launched GPU work, but none was recorded: kernels and copies are unknown.",
            set(),
            id="launched",
        ),
        pytest.param(
            ["hipModuleLaunchKernel"],
            "HIP calls launched GPU work, but none was recorded: kernels and copies are unknown.",
            set(),
            id="launched-by-hip",
        ),
        pytest.param(
            ["cudaMalloc", "cudaFree"],
            "CUDA calls were recorded, but no GPU work.",
            {"kernels", "memcpys", "memsets"},
            id="not-launched",
        ),
    ],
)
def test_a_trace_without_gpu_work_says_so_and_gives_no_zeros(tmp_path, calls, note, tables):
    events = [rocm.call(name, 10 + n, n) for n, name in enumerate(calls)]
    profile = read_profile(rocm.written(tmp_path, *events))

    assert profile.origin.warnings == (note,)
    assert profile.sources.keys() & {"kernels", "memcpys", "memsets"} == tables
    assert profile.table("api_calls").num_rows == len(calls)
