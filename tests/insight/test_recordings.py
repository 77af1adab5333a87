"""What an expert who looked at real recordings by hand says first: cause, place and figure."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuprof.analyses.reports import report
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


class Insight(NamedTuple):
    """One of the findings on top.

    Args:
        rank: Its place.
        cause: Its cause.
        place: A text that its sentence, its place or what to do holds.
        share: Its share of a step, or of the device's span; None where none was measured.
    """

    rank: int
    cause: str
    place: str
    share: float | None = None


WARPS = "% of the warps that a GPU can hold, for "
GINDA, JACOBI = "nsys-sqlite/GindaChen__nsys-ai__", "nsys-rep/openhackathons__gpubootcamp__"
FIRST = {
    f"{JACOBI}jacobi_memcpy_sys_report.qdrep": [Insight(1, "staged_copies", "device 7")],
    f"{JACOBI}report1.qdrep": [Insight(1, "mpi", "MPI_Sendrecv", 0.53)],
    "nsys-rep/NERSC__sc21-dl-tutorial__4gpu_bucketcap100mb.qdrep": [
        Insight(1, "layout_conversions", "nchwToNhwcKernel 11.1 %", 0.138),
        Insight(2, "no_tensor_cores", "convolveNd_dgrad_float_engine 13.2 %", 0.14),
        Insight(5, "truncated", "after 13 of 29 steps"),
    ],
    "nsys-rep/hvarS__amlRoofline__report.nsys-rep": [
        Insight(1, "between_steps", "sem_timedwait", 0.334),
        Insight(4, "truncated", "thread 1932 launched after 37.626 s"),
    ],
    f"{GINDA}h100_2gpu_1s.sqlite": [Insight(1, "exposed_host_copies", "host to device", 0.95)],
    f"{GINDA}mfu_2gpu_before.sqlite": [
        Insight(1, "elementwise_kernels", "one operation a kernel", 0.287),
        Insight(2, "host_late", "FSDP::pre_forward", 0.077),
    ],
    "kineto/hta_trace_diff__test__test.json.gz": [
        Insight(1, "local_copies", "CompiledFunctionBackward and ## forward:over_arch ##", 0.115),
        Insight(3, "collective_transfer", "no compute hides", 0.105),
    ],
    "kineto/hta_df_index_resolver__df_index_resolver.json.gz": [
        Insight(1, "small_kernels", "8.00 µs", 0.43),
        Insight(3, "collective_transfer", "404 calls a step"),
    ],
    "kineto/hta_negative_queue_length_values_check__rank0.json.gz": [
        Insight(1, "waits_for_stream", "although its next work is launched", 0.6),
        Insight(2, "collective_waiting", "may wait", 0.15),
    ],
    "xplane/xprof__34.83.195.179_6003.xplane.pb": [
        Insight(1, "no_training", "6 of 8 devices ran no kernel")
    ],
    "nvprof-trace/nanzifan_cfd_gpu_trace.csv": [
        Insight(1, "local_copies", "swap pointers", 0.044),
        Insight(3, "setup", "617 ms", 0.57),
    ],
    "nsys-sqlite/IkerCanut__fire_spread__report1.sqlite": [
        Insight(1, "synchronising_call", "cudaMemcpy, as it reads 4 B back in each step", 0.51)
    ],
    "nsys-sqlite/PolPuigPuy__OpenACC_Project_PolPuig__report2.sqlite": [
        Insight(1, "synchronising_call", "as it copies 1.02 KB to the device in each step", 0.68)
    ],
    "nsys-sqlite/RajaATAli__SC23_Programming-Your-GP__report5.sqlite": [
        Insight(1, "copies_outside_steps", "4.81 GB/s from pageable memory", 0.58),
        Insight(2, "setup", "cuMemAllocManaged", 0.039),
    ],
    "nsys-sqlite/JiangShanCode__CUDATutorial__10_fused_bias_mask_scale_and_add_fp32_report"
    ".sqlite": [Insight(1, "exposed_host_copies", "2.38 GB/s into pageable memory", 0.98)],
    "nsys-sqlite/lockfuehrer__beast_ressoruces__report1.sqlite": [
        Insight(1, "host_late", "", 0.283),
        Insight(2, "pageable_memory", "HtoD", 0.118),
    ],
    "nsys-sqlite/sdroruganti__cuda-kernel-library__report2.sqlite": [
        Insight(1, "unified_memory", "1.55 ms and 734 µs of kernels that fault", 0.953)
    ],
    "nsys-sqlite/frasertajima__WeatherBench2__report1.sqlite": [
        Insight(1, "no_kernels", "the recording has 1 memset only")
    ],
    f"{JACOBI}jacobi_memcpy_nvlink_report.qdrep": [Insight(3, "setup", "316 ms", 0.043)],
    "kineto/hta_trace_filter__sampled_rank-1.json.gz": [
        Insight(1, "incomplete", "1,154 of 258,363 numbered calls")
    ],
    "kineto/hta_timeline_analysis__sampled_rank-0.json.gz": [
        Insight(1, "incomplete", "1,204 of 259,691 numbered calls")
    ],
    "nvprof-sqlite/shukoushuu__EM-Algorithm__analysis.nvprof": [
        Insight(1, "kernels_rerun", "to count their metrics")
    ],
    "nvprof-trace/yichez_ptop_gpu_trace.csv": [
        Insight(1, "no_kernels", "104 copies only; most device 1 to device 0, 40.0 KB each")
    ],
    "nvprof-trace/nanzifan_bfs_gpu_trace_uvm.txt": [
        Insight(1, "no_kernels", "54 copies only"),
        Insight(2, "unified_memory", "with pauses of 7.26 ms"),
    ],
    "nvprof-sqlite/trxe__SyNeRFgine__bonsai.nvvp": [
        Insight(1, "host_late", "97.4 % of it in no call or range that was recorded", 0.076),
        Insight(3, "low_occupancy", f"raytrace with 12.5 {WARPS}181 registers", 0.873),
    ],
    "nsys-sqlite/blbadger__threebody__report1.sqlite": [
        Insight(1, "low_occupancy", f"divergence with 16.7 {WARPS}192 registers", 1.0)
    ],
    "nsys-sqlite/danae-pan__hpc_assignment3__report2.sqlite": [
        Insight(1, "small_grids", "1 block of 32 threads on 114 multiprocessors", 0.897)
    ],
    "nsys-sqlite/mamedov-artem-__parallel_course_2__report4.sqlite": [
        Insight(1, "small_grids", "main_46_gpu with 1 block of 1 thread on 80 multiproc", 0.999)
    ],
    "nsys-sqlite/IllusiveAldeba__nussinov-gpu__report1.sqlite": [
        Insight(1, "small_grids", "nussinov_gpu with 1 block of 512 threads on 28 multiproc", 0.992)
    ],
    "nvprof-trace/stego_gpu_trace_256.txt": [Insight(1, "idle", "116 ms of it at once", 0.999)],
    "nsys-sqlite/Qcompiler__MIXQ__report1.sqlite": [Insight(1, "setup", "99.9", 0.99)],
    "nvprof-sqlite/UCBerkeley-Spr__blinkplus-nccl-base__output.nvvp": [
        Insight(1, "setup", "device 0", 0.97),
        Insight(3, "collective_transfer", "no compute hides", 0.015),
    ],
    "nvprof-sqlite/xprotobeast2__ece408_project__m3.1.timeline.nvvp": [
        Insight(1, "setup", "cudaStreamCreateWithFlags", 0.867)
    ],
    "kineto/param_resnet_kineto.json.gz": [
        Insight(1, "host_late", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter", 0.47)
    ],
    "kineto/brainstorm_a100_rankA.pt.trace.json": [
        Insight(1, "host_late", "proto_tensor.py(268): __torch_function__", 0.716)
    ],
    "kineto/brainstorm_a100_rankB.pt.trace.json": [
        Insight(1, "host_late", "classSR_fused_fsrcnn_arch.py(98): forward", 0.206)
    ],
    "kineto/param_linear_kineto.json.gz": [
        Insight(1, "host_late", "AddmmBackward0", 0.62),
        Insight(2, "no_tensor_cores", "volta_sgemm_64x64_tn", 0.3),
    ],
    "kineto/tb_resnet50_v2_worker0.pt.trace.json.gz": [
        Insight(1, "host_late", "enumerate(DataLoader)#_SingleProcessDataLoaderIter", 0.32)
    ],
}


@cache
def told(name):
    """The rows of the findings, and the first bottom line."""
    if not (CORPUS / name).exists():
        pytest.skip("the corpus of real recordings is not here")
    result = report(read_profile(CORPUS / name), ["findings", "bottom_line"])
    return result.rows("findings"), result.rows("bottom_line")[0]


@pytest.mark.parametrize("name", FIRST)
def test_what_is_said_first_is_what_an_expert_says(name):
    rows, _ = told(name)

    for insight in FIRST[name]:
        row = rows[insight.rank - 1]
        assert row["cause"] == insight.cause
        assert insight.place in f"{row['finding']}; {row['where']}; {row['suggestion']}"
        if insight.share is not None:
            assert row["cost_share"] == pytest.approx(insight.share, rel=0.05)


def test_a_training_that_computes_has_nothing_to_win_from_its_links():
    _, row = told("nsys-rep/NERSC__sc21-dl-tutorial__4gpu_bucketcap100mb.qdrep")

    assert row["between_devices_ns"] < 0.01 * row["step_ns"]


def test_a_solver_that_computes_has_nothing_to_win_from_its_link():
    name = f"{JACOBI}jacobi_memcpy_nvlink_report.qdrep"

    rows, row = told(name)
    assert row["between_devices_ns"] < 0.02 * row["step_ns"]
    steady = [row for row in rows if row["cause"] not in {"setup", "truncated"}]
    assert all(row["win_share"] < 0.05 for row in steady)
