import pytest

from gpuprof.base import cuda


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("[CUDA memcpy HtoD]", "HtoD"),
        ("[CUDA memcpy Host-to-Device]", "HtoD"),
        ("[CUDA memcpy Device-to-Host]", "DtoH"),
        ("[CUDA memcpy PtoP]", "PtoP"),
        ("[CUDA memcpy Peer-to-Peer]", "PtoP"),
        ("[CUDA memcpy HtoA]", "HtoA"),
        ("[CUDA memcpy Host-to-Array]", "HtoA"),
        ("[CUDA Unified Memory memcpy HtoD]", "UVM_HtoD"),
        ("[CUDA memcpy Unified Host-to-Device]", "UVM_HtoD"),
        ("[CUDA memcpy Unified Device-to-Host]", "UVM_DtoH"),
        ("[Unified Memory Memcpy DtoH]", "UVM_DtoH"),
        ("[CUDA memcpy something new]", "unknown"),
        ("[CUDA memset]", None),
        ("void kernel<int>(float*)", None),
    ],
)
def test_every_spelling_of_a_copy_is_one_kind(label, expected):
    assert cuda.memcpy_kind(label) == expected


def test_every_kind_number_has_a_class_or_is_unknown():
    transfers = cuda.HOST_MEMCPY_KINDS | cuda.PEER_MEMCPY_KINDS
    classed = cuda.LOCAL_MEMCPY_KINDS | transfers

    assert set(cuda.MEMCPY_KINDS.values()) - classed == {cuda.UNKNOWN}
    assert not cuda.LOCAL_MEMCPY_KINDS & transfers


def test_the_two_tools_number_memory_kinds_differently():
    assert cuda.NSYS_MEMORY_KINDS[1] == "pinned"
    assert cuda.CUPTI_MEMORY_KINDS[2] == "pinned"
    # After 0, which says that it is unknown, CUPTI has the same ones in the same order.
    of_cupti = [cuda.CUPTI_MEMORY_KINDS[number] for number in range(1, 8)]
    assert of_cupti == [cuda.NSYS_MEMORY_KINDS[number] for number in range(7)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", True),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)", True),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", True),
        ("void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)", True),
        ("void sglang::cross_device_reduce_2stage<float, 2>(RankData*)", True),
        ("oneShotAllReduceKernel", True),
        ("two_shot_all_reduce<float>(float*)", True),
        ("ALL_REDUCE_bf16", True),
        ("allreduce_kernel(int)", True),
        ("msccl_all", True),
        ("rcclGenericKernel", True),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>) [clone .kd]", True),
        ("void quickreduce::allreduce_prototype_twoshot<__half>(__half const*)", True),
        ("rocshmem_putmem_kernel", True),
        ("NVSHMEM_put", True),
        ("void at::native::reduce_kernel<512, 1>(T3)", False),
        ("void allreduced(int)", False),
        ("sm80_xmma_gemm_f32f32", False),
    ],
)
def test_communication_kernels_are_told_from_compute(name, expected):
    assert cuda.is_communication(name) is expected


def test_memsets_are_known_by_their_label():
    assert cuda.is_memset("[CUDA memset]")
    assert not cuda.is_memset("[CUDA memcpy HtoD]")


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("CopyHostToDevice", "HtoD"),
        ("CopyDeviceToHost", "DtoH"),
        ("CopyDeviceToDevice", "DtoD"),
        ("CopyDeviceToHost2D", "DtoH"),
        ("CopyDeviceToDevicePeer", "PtoP"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "HtoD"),
        ("MEMORY_COPY_HOST_TO_HOST", "HtoH"),
        ("MEMORY_COPY_NONE", "unknown"),
        ("CopyImageToBuffer", "unknown"),
        ("__amd_rocclr_copyBuffer", "unknown"),
        ("__amd_rocclr_copyBufferAligned.kd", "unknown"),
        ("CopyHostToDevice(float*)", None),
        ("FillBuffer", None),
        ("__amd_rocclr_fillBufferAligned", None),
        ("gemm", None),
    ],
)
def test_operations_of_hip_that_copy_are_told_from_kernels(operation, kind):
    assert cuda.hip_memcpy_kind(operation) == kind


def test_operations_of_hip_that_fill_or_order_are_known():
    assert cuda.is_hip_memset("FillBuffer")
    assert cuda.is_hip_memset("__amd_rocclr_fillBufferAligned.kd")
    assert not cuda.is_hip_memset("fill_kernel")
    assert cuda.is_hip_order("Marker")
    assert not cuda.is_hip_order("markers")


@pytest.mark.parametrize(
    ("call", "kind", "expected"),
    [
        ("hipMemcpyHtoDAsync", None, "HtoD"),
        ("hipMemcpyDtoH", None, "DtoH"),
        ("hipMemcpyDtoDAsync", 1, "DtoD"),
        ("hipMemcpyPeerAsync", None, "PtoP"),
        ("hipMemcpyWithStream", 1, "HtoD"),
        ("hipMemcpyAsync", 2, "DtoH"),
        ("hipMemcpyAsync", 3, "DtoD"),
        ("hipMemcpyAsync", 1024, "DtoD"),
        ("hipMemcpyAsync", 4, None),
        ("hipMemcpyAsync", None, None),
        ("hipMemcpy2DAsync", 1, "HtoD"),
        ("hipMemset", 1, None),
        ("cudaMemcpyAsync", 1, None),
    ],
)
def test_a_call_of_hip_tells_what_it_copies(call, kind, expected):
    assert cuda.hip_call_kind(call, kind) == expected


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("hipMemcpyWithStream", True),
        ("hipMemcpy", True),
        ("hipMemcpyDtoH", True),
        ("hipMemcpyDtoHAsync", False),
        ("hipMemcpyAsync", False),
        ("hipFree", True),
        ("hipFreeAsync", False),
        ("hipStreamSynchronize", True),
        ("hipLaunchKernel", False),
        ("cudaMemcpy", True),
        ("cudaMemcpyAsync", False),
        ("cuMemcpyDtoH_v2", True),
        ("cuMemcpyDtoDAsync_v2", False),
        ("cudaFree", True),
        ("cudaFreeHost", False),
        ("cudaDeviceSynchronize", True),
        ("cuStreamSynchronize", True),
        ("cudaEventSynchronize", True),
        ("cudaStreamWaitEvent", False),
        ("cudaLaunchKernel", False),
    ],
)
def test_calls_that_wait_are_known_of_both_apis(name, waits):
    assert cuda.is_waiting(name) == waits


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "cuGraphLaunch", "hipExtModuleLaunchKernel"])
def test_calls_that_launch_are_known_of_both_apis(name):
    assert cuda.LAUNCHING_CALLS.match(name)
    assert not cuda.LAUNCHING_CALLS.match(name.replace("Launch", "Query"))


def test_hips_calls_are_of_one_api():
    assert cuda.is_hip_call("hipLaunchKernel")
    assert cuda.is_hip_call("__hipPushCallConfiguration")
    assert not cuda.is_hip_call("hipblasSgemm")
    assert [cuda.api(name) for name in ("hipFree", "cudaFree", "cuMemFree_v2")] == [
        "runtime",
        "runtime",
        "driver",
    ]
