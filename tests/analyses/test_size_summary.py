"""Sizes of the copies of each kind, and of memsets."""

import pytest
from recordings import copy, trace

from gpuprof.analyses.size_summary import size_summary


def test_nothing_was_moved_and_there_are_no_rows():
    assert size_summary(trace(memcpys=[])).num_rows == 0


def test_each_kind_has_its_sizes_the_largest_total_first():
    copies = [copy("HtoD", 0, 1, bytes=size) for size in (10, 20, 60)]
    profile = trace(
        memcpys=[copy("DtoH", 0, 1, bytes=4), *copies], memsets=[{"bytes": 7}, {"bytes": 9}]
    )

    first, *others = size_summary(profile).to_pylist()

    assert first == {
        "name": "HtoD",
        "calls": 3,
        "bytes": 90,
        "mean_bytes": 30.0,
        "median_bytes": 20.0,
        "min_bytes": 10,
        "max_bytes": 60,
        "stddev_bytes": pytest.approx(700**0.5),
    }
    assert [(row["name"], row["calls"], row["bytes"]) for row in others] == [
        ("memset", 2, 16),
        ("DtoH", 1, 4),
    ]
    assert others[-1]["stddev_bytes"] is None


def test_one_unknown_size_leaves_the_sum_unknown():
    profile = trace(memcpys=[copy("HtoD", 0, 1, bytes=5), copy("HtoD", 1, 2, bytes=None)])

    (row,) = size_summary(profile).to_pylist()

    assert (row["calls"], row["bytes"], row["mean_bytes"]) == (2, None, 5.0)
