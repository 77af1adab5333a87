"""Ranks that behave alike, and how much ranks differ, of steps of known lengths."""

import pytest
from drawn_jobs import job

from gpuprof.analyses.ranks import rank_groups, rank_quantiles
from gpuprof.base.units import number_ranges


def test_ranks_of_one_behaviour_are_one_group():
    # A step takes 1,000 ns: up to 50 ns apart is alike.
    rows = rank_groups(job([300, 310, 320, 100, 110, 500])).to_pylist()

    assert [(row["group"], row["device_ids"]) for row in rows] == [
        (1, "0 to 2"),
        (2, "3 and 4"),
        (3, "5"),
    ]
    assert rows[0]["differs_by"] is None
    assert rows[1]["differs_by"] in {"compute", "exposed collectives"}
    assert abs(rows[1]["difference_ns"]) == 205
    assert rows[2]["compute_ns"] == 500
    assert rows[2]["difference_ns"] in {190, -190}


def test_quantiles_name_the_devices_at_both_ends():
    rows = {
        row["figure"]: row for row in rank_quantiles(job([300, 310, 320, 100, 500])).to_pylist()
    }

    compute = rows["compute_ns"]
    assert [compute[n] for n in ("min_ns", "median_ns", "max_ns")] == [100, 310, 500]
    assert (compute["p10_ns"], compute["p90_ns"]) == (180, 428)
    assert (compute["min_device_id"], compute["max_device_id"]) == (3, 4)
    assert compute["devices"] == 5


def test_one_device_has_no_spread():
    assert rank_groups(job([300])).num_rows == 0
    assert rank_quantiles(job([300])).num_rows == 0


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([0, 1], "0 and 1"), ([0, 1, 2, 5, 7, 8, 9], "0 to 2, 5 and 7 to 9"), ([], "")],
)
def test_numbers_are_said_as_ranges(numbers, text):
    assert number_ranges(numbers) == text
