import pytest

from gpuprof import cuda


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
    classed = cuda.LOCAL_MEMCPY_KINDS | cuda.TRANSFER_MEMCPY_KINDS

    assert set(cuda.MEMCPY_KINDS.values()) - classed == {cuda.UNKNOWN}
    assert not cuda.LOCAL_MEMCPY_KINDS & cuda.TRANSFER_MEMCPY_KINDS


def test_the_two_tools_number_memory_kinds_differently():
    assert cuda.NSYS_MEMORY_KINDS[1] == "pinned"
    assert cuda.CUPTI_MEMORY_KINDS[1] == "pageable"


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
