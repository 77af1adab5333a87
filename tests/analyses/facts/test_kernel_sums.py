"""Sums of kernels taken in passing are those that a query of their own gives."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gpuprof.analyses.facts.kernel_sums import KernelSums
from gpuprof.analyses.facts.timeline import kernel_sums, timelines
from gpuprof.analyses.totals.activity_summary import activity_sums
from gpuprof.profile import Origin, Profile, View

KERNELS = View("SELECT * FROM raw_kernels", names="SELECT number AS name_id, name FROM raw_names")


def recording(names, columns):
    """A recording whose file numbers the names of its kernels."""

    def prepare(connection):
        numbers = pa.array([*names], columns["name_id"].type)
        words = pa.table({"number": numbers, "name": [*names.values()]})
        connection.register("raw_names", words)
        connection.register("raw_kernels", pa.table(columns))

    return Profile(
        Origin(Path("run.sqlite"), "made-by-hand", "hand"), {"kernels": KERNELS}, prepare
    )


def both_ways(*given):
    """What one query gives, and what is taken from the pass over the kernels."""
    queried, passed = recording(*given), recording(*given)
    timelines(passed)
    assert kernel_sums(queried) is None
    return activity_sums(queried), activity_sums(passed)


@pytest.mark.parametrize(
    ("seed", "kind"), [*((seed, pa.int64()) for seed in range(5)), (5, pa.uint64())]
)
def test_what_is_summed_in_passing_is_what_a_query_gives(seed, kind):
    rng = np.random.default_rng(seed)
    # Two numbers of one name, some without a name, and kernels of equal totals.
    names = {1: "gemm", 2: "relu", 3: "gemm", 7: "", 8: None, 60_000: "ncclAllReduce"}
    start = np.arange(0, 400_000, 2)
    number = rng.choice([*names, 9], len(start))
    columns = {
        "start_ns": start,
        "end_ns": start + rng.integers(0, 10, len(start)),
        "device_id": rng.integers(0, 2, len(start)),
        "name_id": pa.array(number, kind, mask=rng.random(len(start)) < 0.1),
    }

    queried, passed = both_ways(names, columns)

    assert passed.to_pylist() == queried.to_pylist()
    assert {*passed.column("name").to_pylist()} == {"gemm", "relu", "", "ncclAllReduce", "unknown"}


@pytest.mark.parametrize(
    ("number", "kind"), [(-7, pa.int64()), (1 << 40, pa.int64()), (1 << 40, pa.uint64())]
)
def test_numbers_that_are_no_places_leave_the_sums_to_a_query(number, kind):
    names = {1: "gemm", number: "relu"}
    columns = {"start_ns": [0, 9], "end_ns": [5, 11], "name_id": pa.array([1, number], kind)}

    queried, passed = both_ways(names, columns)

    profile = recording(names, columns)
    timelines(profile)
    assert kernel_sums(profile) is None
    assert passed.to_pylist() == queried.to_pylist()


def test_sums_grow_with_the_numbers_that_are_met():
    sums = KernelSums()
    for numbers, durations in (([2, -1], [5, 7]), ([], []), ([4, 2], [3, 1])):
        sums.add(np.array(numbers, np.int64), np.array(durations, np.int64))

    assert sums.calls.tolist() == [1, 0, 0, 2, 0, 1]
    assert sums.total_ns.tolist() == [7, 0, 0, 6, 0, 3]
    assert [sums.min_ns[3], sums.max_ns[3]] == [1, 5]
