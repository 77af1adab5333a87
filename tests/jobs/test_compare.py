"""Jobs of different numbers of ranks, compared."""

from drawn_jobs import job as stepping_job
from jobs.joint import ranks_of

import gpuprof
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
