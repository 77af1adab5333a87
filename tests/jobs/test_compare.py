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
    assert "step" in result.verdict
