"""Kernels with few warps or few blocks: drawn and real."""

import pytest
from commands import CORPUS
from measured import scope_of
from recordings import kernel, trace

from gpuprof.facts import needless_copies
from gpuprof.findings.findings import findings
from gpuprof.findings.unfilled_gpus import of_scope as of_occupancy
from gpuprof.readers import read_profile

MS = 1_000_000
V100 = {"device_id": 0, "compute_capability": "7.0", "multiprocessors": 80}
ONE = {f"{part}_{side}": 1 for part in ("grid", "block") for side in "xyz"} | {
    "static_shared_memory_bytes": 0,
    "dynamic_shared_memory_bytes": 0,
    "registers_per_thread": 32,
}
# 255 registers of 128 threads: 2 blocks of 4 warps, an eighth of 64.
HUNGRY = {"grid_x": 1600, "block_x": 128, "registers_per_thread": 255}
FULL = {"grid_x": 1600, "block_x": 256}
FEW = {"grid_x": 8, "block_x": 256}


def ran(name, start, end, **sizes):
    return kernel(name, int(start * MS), int(end * MS), device_id=0, **ONE | sizes)


def found(*kernels, devices=(V100,), steps=()):
    profile = trace(kernels=[*kernels], devices=[*devices], memcpys=[])
    return [*of_occupancy(scope_of(profile, steps))]


def test_a_kernel_with_few_warps_costs_its_time():
    (finding,) = found(ran("rays", 0, 8, **HUNGRY), ran("fill", 8, 10, **FULL))

    assert finding.cause == "low_occupancy"
    assert finding.phrase == (
        "runs rays with 12.5 % of the warps that a GPU can hold, for 255 registers a thread"
    )
    assert (finding.cost_ns, finding.win_ns) == (8 * MS, 7 * MS)
    assert "__launch_bounds__" in finding.suggestion
    assert not finding.is_sure


def test_a_kernel_with_few_blocks_costs_its_time_and_is_told_from_it():
    (finding,) = found(ran("scan", 0, 8, **FEW | {"registers_per_thread": 255}))

    assert finding.cause == "small_grids"
    assert finding.phrase == "runs scan with 8 blocks of 256 threads on 80 multiprocessors"
    assert (finding.cost_ns, finding.win_ns) == (8 * MS, int(7.2 * MS))
    assert "more blocks" in finding.suggestion


def test_two_kernels_of_one_cause_are_one_finding():
    (finding,) = found(
        ran("rays", 0, 4, **HUNGRY), ran("hits", 4, 10, **HUNGRY), ran("fill", 10, 11, **FULL)
    )

    assert finding.where == "hits"
    assert finding.phrase.startswith("runs hits with 12.5 %")
    assert "and rays with" in finding.phrase
    assert finding.cost_ns == 10 * MS


def test_costs_are_of_a_step():
    steps = [(0, 10 * MS), (10 * MS, 20 * MS), (20 * MS, 30 * MS)]
    kernels = [ran("rays", begin, begin + 4, **HUNGRY) for begin in (0, 10, 20)]

    assert [finding.cost_ns for finding in found(*kernels, steps=steps)] == [4 * MS]


NO_FAULT = {
    "full-occupancy": [ran("rays", 0, 8, **FULL)],
    "a-quarter": [ran("rays", 0, 8, **HUNGRY | {"registers_per_thread": 128})],
    "gemm": [ran("void cutlass::Kernel2<cutlass_80_simt_sgemm>", 0, 8, **HUNGRY)],
    "products-of-ones-own": [ran("sgemm_tiled(float*)", 0, 8, **HUNGRY)],
    "convolution": [ran("volta_scudnn_128x64_relu", 0, 8, **HUNGRY)],
    "attention": [ran("flash_fwd_kernel", 0, 8, **HUNGRY)],
    "communication": [ran("ncclKernel_AllReduce", 0, 8, **FEW)],
    "small-share": [ran("rays", 0, 1, **HUNGRY), ran("fill", 1, 20, **FULL)],
    "short-kernels": [ran("rays", n / 100, (n + 1) / 100, **HUNGRY) for n in range(100)],
    "launched-well-elsewhere": [ran("rays", 0, 4, **HUNGRY), ran("rays", 4, 8, **FULL)],
    "less-than-a-wave": [ran("rays", 0, 8, **HUNGRY | {"grid_x": 80})],
    "others-beside": [ran("scan", 0, 8, **FEW), ran("fill", 0, 9, **FULL)],
    "calls-side-by-side": [ran("scan", n, n + 8, **FEW) for n in range(8)],
    "half-of-the-gpu": [ran("scan", 0, 8, **FULL | {"grid_x": 40})],
    "unknown": [ran("rays", 0, 8, **HUNGRY | {"dynamic_shared_memory_bytes": None})],
}


@pytest.mark.parametrize("kernels", NO_FAULT.values(), ids=NO_FAULT)
def test_nothing_is_said_where_few_warps_are_no_fault_or_not_known(kernels):
    assert found(*kernels) == []


def test_nothing_is_said_of_an_unknown_gpu():
    assert found(ran("rays", 0, 8, **HUNGRY), devices=[V100 | {"multiprocessors": None}]) == []
    assert found(ran("rays", 0, 8, **HUNGRY), devices=[V100 | {"compute_capability": None}]) == []


def test_large_recordings_are_not_searched(monkeypatch):
    monkeypatch.setattr(needless_copies, "_MOST_EVENTS", 1)

    assert found(ran("rays", 0, 8, **HUNGRY), ran("fill", 8, 9, **FULL)) == []


def test_what_is_sure_comes_before_few_warps():
    """The device idles for a fifth: less than what more warps may win, and no guess."""
    profile = trace(
        kernels=[ran("rays", 20 * n, 20 * n + 16, **HUNGRY) for n in range(4)],
        devices=[V100],
        memcpys=[],
    )
    causes = [row["cause"] for row in findings(profile).to_pylist()]

    assert causes[-1] == "low_occupancy"
    assert len(causes) > 1


SAID_BY_NOBODY = {
    "xmma-at-8-percent": "nsys-sqlite/LeiWang1999__memfusion_artifact__report1.sqlite",
    "cutlass-at-17-percent": "nsys-sqlite/lukas-ruettger__dphpc-gemm__nsys.log.sqlite",
    "cudnn-at-25-percent": "nvprof-sqlite/m-goldstein__GPU_ML__timeline.nvvp",
    "nccl-in-2-blocks": "nvprof-sqlite/UCBerkeley-Spr__blinkplus-nccl-base__output.nvvp",
    "kernels-of-8-us-in-1-block": "nsys-sqlite/IkerCanut__fire_spread__report1.sqlite",
    "half-full": "nsys-sqlite/lockfuehrer__beast_ressoruces__report1.sqlite",
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real recordings is not here")
@pytest.mark.parametrize("name", SAID_BY_NOBODY.values(), ids=SAID_BY_NOBODY)
def test_an_expert_does_not_say_it_of_these_recordings(name):
    causes = {row["cause"] for row in findings(read_profile(CORPUS / name)).to_pylist()}

    assert causes.isdisjoint({"low_occupancy", "small_grids"})
