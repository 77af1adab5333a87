"""Jobs of different numbers of ranks, compared."""

import pytest
from drawn_jobs import job as stepping_job
from ranks.joint import job_report, ranks_of
from readers.nsys.test_nsys_sqlite import TRACED
from readers.nsys_export import HTOD, KERNEL, MEMCPY, NVTX, kernel, memcpy, pid, write

import gpuprof
from gpuprof.analyses.reports import report
from gpuprof.base.errors import GateError
from gpuprof.readers import read_profile
from gpuprof.readers.merged_ranks import joined


def test_jobs_of_different_numbers_of_ranks_are_compared_by_step():
    two, four = ([100, 120], [200, 220, 210, 205])
    small, large = (joined(ranks_of(stepping_job(compute))) for compute in (two, four))

    result = gpuprof.compare([("two", small), ("four", large)])

    assert result.variants["step_ns"].to_dict() == {"two": 1_000, "four": 1_000}
    assert "four takes the same time per step on 4 devices instead of 2" in result.verdict
    assert any("summed over devices: 2 of two and 4 of four" in note for note in result.notes)


def test_a_slower_larger_job_is_told_with_its_devices_and_without_sums():
    small = joined(ranks_of(stepping_job([100, 120])))
    # All of a step is compute, which no other rank waits for.
    large = joined(ranks_of(stepping_job([200, 220, 210, 205], ends_ns=900)))

    result = gpuprof.compare([("two", small), ("four", large)])

    assert "per step on 4 devices instead of 2" in result.verdict
    assert "GPU time" not in result.verdict
    assert "kernel time" not in result.verdict
    assert result.variants["devices"].to_dict() == {"two": 2, "four": 4}


def test_jobs_of_as_many_devices_say_nothing_of_them():
    first, second = (joined(ranks_of(stepping_job(c))) for c in ([100, 120], [300, 320]))

    result = gpuprof.compare([("first", first), ("second", second)])

    assert "devices instead of" not in result.verdict
    assert not any("summed over devices" in note for note in result.notes)


def job_with_a_failed_trace(folder):
    """Four ranks alike; the CUDA trace of rank 2 failed, and its ranges were recorded."""
    folder.mkdir()
    ranges = [
        {"start": at, "end": at + 90, "text": "step", "eventType": 59, "globalTid": pid(9) | 1}
        for at in range(0, 600, 100)
    ]
    for rank in range(4):
        tables = {"META_DATA_CAPTURE": TRACED, NVTX: ranges}
        if rank != 2:
            tables[KERNEL] = [kernel(at + rank, at + 50 + rank) for at in range(0, 600, 100)]
            tables[MEMCPY] = [memcpy(at + 50, at + 60, HTOD) for at in range(0, 600, 100)]
        write(folder / f"rank{rank}.sqlite", tables)
    return folder


@pytest.mark.parametrize(
    "metric",
    ["gpu_activity_ns", "kernel_ns", "transfer_bytes", "step_ns", "exposed_transfer_ns", "devices"],
)
def test_a_gate_fails_on_a_job_of_which_one_trace_failed(tmp_path, metric):
    work = write(tmp_path / "work.sqlite", {KERNEL: [kernel(0, 900)], MEMCPY: [memcpy(0, 9, HTOD)]})

    result = gpuprof.compare([("work", work), ("job", job_with_a_failed_trace(tmp_path / "job"))])

    with pytest.raises(GateError, match=f"{metric} of job is not known"):
        result.fail_if(f"{metric} > 1.05x")
    assert (
        "job: What GPUs did is unknown: no CUDA call was recorded (in 1 of 4 files: rank2.sqlite)."
        in result.notes
    )


def test_sums_of_a_job_of_which_one_trace_failed_are_what_the_others_list(tmp_path):
    folder = job_with_a_failed_trace(tmp_path / "job")
    joined_totals = report(read_profile(folder), ["totals"]).rows("totals")
    files = [read_profile(file) for file in sorted(folder.iterdir())]

    assert job_report(files, ["totals"]).rows("totals") == joined_totals
    kernels = {row["activity_group"]: row for row in joined_totals}["kernels"]
    assert (kernels["total_ns"], kernels["listed_ns"]) == (None, 3 * 6 * 50)
