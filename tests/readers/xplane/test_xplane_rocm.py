"""XPlane profiles of ROCm: copies that bear HIP's names, and calls among the host's events.

Made by hand as xla's rocm_collector.cc writes them: with roctracer the type of a copy is
MemcpyOther, its name ``CopyDeviceToDevice``, and a launch on the host bears the kernel's name.
"""

import pytest
from recording_checks import rows
from test_xplane import KERNEL, Plane, written

from gpuprof.analyses.api_calls import launch_latency
from gpuprof.readers import find_reader, read_profile

COPIES, KERNELS = 53, 25
DETAILS = "regs:0 static_shared:0 dynamic_shared:0 grid:4,1,1 block:256,1,1 occ_pct:50"


def of_bytes(size, dest=0):
    return {"memcpy_details": (f"kind:Unknown size:{size} dest:{dest} async:1",)}


def calls(*events):
    """The plane of HIP's calls: a line for each thread."""
    return Plane("/host:ROCTRACER").line("Host Threads/77", *events, line_id=77)


def gpu(*events, device=0, line="Stream #8(MemcpyOther,Kernel)"):
    plane = Plane(f"/device:GPU:{device}").stat("device_vendor", ("AMD",))
    return plane.line(line, *events)


def activity(number, name, values):
    """An event at its own time, with its correlation id."""
    return name, number * 10_000_000, 2_000_000, {"correlation_id": number, **values}


def call(number, name):
    return name, number * 10_000_000 - 5_000_000, 1_000_000, {"correlation_id": number}


@pytest.fixture
def profile(tmp_path):
    """25 kernels and 53 copies of 655,360 bytes, each with its call."""
    sizes = [12_288] * (COPIES - 1) + [16_384]
    copies = [activity(n + 1, "CopyDeviceToDevice", of_bytes(size)) for n, size in enumerate(sizes)]
    kernels = [
        activity(n + 1 + COPIES, "Cijk_Ailk_Bljk_SB_MT64x64x16", {"kernel_details": (DETAILS,)})
        for n in range(KERNELS)
    ]
    asked = [call(n + 1, "hipMemcpyDtoDAsync") for n in range(COPIES)]
    launched = [call(n + 1 + COPIES, "Cijk_Ailk_Bljk_SB_MT64x64x16") for n in range(KERNELS)]
    return written(tmp_path, calls(*asked, *launched), gpu(*copies, *kernels))


def test_copies_of_rocm_are_no_kernels(profile):
    read = read_profile(profile)

    assert find_reader(profile).name == "xplane"
    assert read.table("kernels").num_rows == KERNELS
    copies = read.table("memcpys")
    assert (copies.num_rows, sum(copies.column("bytes").to_pylist())) == (COPIES, 655_360)
    assert set(rows(profile, "memcpys", "memcpy_kind", "src_device_id", "dst_device_id")) == {
        ("DtoD", 0, 0)
    }
    assert read.origin.warnings == ()


def test_calls_of_hip_are_the_hosts_calls_and_launch_the_kernels(profile):
    read = read_profile(profile)

    assert set(rows(profile, "api_calls", "api", "name", "thread_id")) == {
        ("runtime", "hipMemcpyDtoDAsync", 77),
        ("runtime", "hip*LaunchKernel", 77),
    }
    launched = launch_latency(read).to_pylist()
    assert sum(row["calls"] for row in launched) == KERNELS + COPIES


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        pytest.param("CopyHostToDevice", None, ("HtoD", None, 0), id="named-in"),
        pytest.param("CopyDeviceToHost", None, ("DtoH", 0, None), id="named-out"),
        pytest.param("CopyDeviceToDevice", "hipMemcpyHtoDAsync", ("HtoD", None, 0), id="pinned-in"),
        pytest.param("CopyDeviceToDevice", "hipMemcpyDtoH", ("DtoH", 0, None), id="pinned-out"),
        pytest.param("CopyDeviceToDevice", "hipMemcpyAsync", ("DtoD", 0, 0), id="not-told"),
        pytest.param("CopyDeviceToDevice", "hipMemcpyPeer", ("PtoP", None, None), id="peer"),
        pytest.param("CopyHostToDevice", "hipMemcpyDtoD", ("HtoD", None, 0), id="plain-name"),
        pytest.param("MemcpyOther", None, ("unknown", None, None), id="other"),
        pytest.param("MemcpyOther", "hipMemcpyHtoD", ("HtoD", None, 0), id="other-in"),
        pytest.param("MemcpyH2D", None, ("HtoD", None, 0), id="rocprofiler"),
        pytest.param("Memcpy", None, ("unknown", None, None), id="known-by-its-details"),
        pytest.param("__amd_rocclr_copyBuffer", None, ("unknown", None, None), id="by-a-kernel"),
    ],
)
def test_a_copy_has_the_direction_that_its_name_or_its_call_tells(tmp_path, name, asked, expected):
    host = calls(*([call(1, asked)] if asked else []), call(2, "hipFree"))
    path = written(tmp_path, host, gpu(activity(1, name, of_bytes(64))))

    assert rows(path, "memcpys", "memcpy_kind", "src_device_id", "dst_device_id", "bytes") == [
        (*expected, 64)
    ]
    assert rows(path, "kernels", "name") == []


@pytest.mark.parametrize(
    ("name", "values", "table"),
    [
        pytest.param("FillBuffer", {}, "memsets", id="fill"),
        pytest.param(
            "hipMemsetAsync",
            {"memset_details": "kind:Unknown num_bytes:8"},
            "memsets",
            id="details",
        ),
        pytest.param(
            "__amd_rocclr_fillBufferAligned", {"kernel_details": DETAILS}, "memsets", id="by-kernel"
        ),
        pytest.param(
            "__amd_rocclr_copyBuffer",
            {"kernel_details": DETAILS, **of_bytes(8)},
            "memcpys",
            id="both",
        ),
        pytest.param("gemm", {"kernel_details": DETAILS}, "kernels", id="kernel"),
        pytest.param("hipifyKernel", {}, "kernels", id="kernel-of-a-name-like-a-call"),
        pytest.param("hipKernel", {"kernel_details": DETAILS}, "kernels", id="kernel-by-details"),
        pytest.param("CopyHostToDevice", {"kernel_details": DETAILS}, "kernels", id="by-details"),
        pytest.param("hipMalloc", {"memalloc_details": "num_bytes:8"}, None, id="allocation"),
        pytest.param("hipFree", {}, None, id="call"),
        pytest.param("Marker", {}, None, id="marker"),
    ],
)
def test_each_activity_is_of_one_table(tmp_path, name, values, table):
    path = written(tmp_path, gpu(activity(1, name, values), KERNEL))
    profile = read_profile(path)

    counts = {t: profile.table(t).num_rows for t in ("kernels", "memcpys", "memsets")}
    expected = {"kernels": 1, "memcpys": 0, "memsets": 0}
    assert counts == expected | ({table: expected[table] + 1} if table else {})


def test_what_rocm_does_not_tell_of_copies_is_a_note(tmp_path):
    vague = activity(1, "CopyDeviceToDevice", of_bytes(64, dest=3))
    path = written(tmp_path, calls(call(1, "hipMemcpyAsync")), gpu(vague), gpu(KERNEL, device=1))

    assert rows(path, "memcpys", "memcpy_kind", "src_device_id", "dst_device_id") == [
        ("DtoD", None, None)
    ]
    pinned, between = read_profile(path).origin.warnings
    assert pinned == (
        "ROCm calls copies of pinned memory device-to-device, too: what 1 copy of this kind "
        "moved is not known."
    )
    assert between == (
        "ROCm does not tell copies between devices from those within one: 1 copy (DtoD) may be "
        "either."
    )


def test_a_copy_of_cuda_is_what_its_activity_says_whatever_was_called(tmp_path):
    host = Plane("/host:CPU").line("python", call(1, "cuMemcpyDtoDAsync"))
    plane = Plane("/device:GPU:0").line(
        "Stream #7(MemcpyP2P)", activity(1, "MemcpyP2P", {"memcpy_details": "size:8 dest:1"})
    )

    assert rows(
        written(tmp_path, host, plane), "memcpys", "memcpy_kind", "src_device_id", "dst_device_id"
    ) == [("PtoP", 0, 1)]
