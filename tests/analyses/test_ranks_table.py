"""Ranks side by side, and groups that behave alike, by drawn steps of known lengths."""

import pytest
from drawing import draw
from drawn_jobs import ALL_REDUCE, STEP_NS, job

from gpuprof.analyses.ranks import rank_groups, rank_quantiles, ranks
from gpuprof.base.units import number_ranges
from gpuprof.model.data_model import KERNELS


def test_the_device_that_computes_longest_comes_first():
    rows = ranks(job([300, 300, 300, 300, 400, 300])).to_pylist()

    assert [row["device_id"] for row in rows] == [4, 0, 1, 2, 3, 5]
    first, second = rows[:2]
    assert first["steps"] == second["steps"] >= 6
    assert first["step_ns"] == second["step_ns"] == STEP_NS
    assert (first["own_ns"], second["own_ns"]) == (STEP_NS - 150, STEP_NS - 250)
    assert first["own_ratio"] == pytest.approx(850 / 750)
    assert (first["slowest_share"], second["slowest_share"]) == (1, 0)
    assert (first["is_slow"], second["is_slow"]) == (True, False)
    assert (first["longer_part"], first["longer_ns"]) == ("compute", 100)
    assert (second["longer_part"], second["longer_ns"]) == (None, None)
    assert (first["exposed_communication_ns"], second["exposed_communication_ns"]) == (150, 250)


def test_of_devices_that_take_equally_long_none_is_the_slowest():
    rows = ranks(job([300, 400, 400, 300])).to_pylist()

    assert [row["slowest_share"] for row in rows] == [0, 0, 0, 0]


def test_own_times_within_a_percent_are_no_outliers():
    rows = ranks(job([300, 300, 300, 300, 305, 300])).to_pylist()

    assert rows[0]["device_id"] == 4
    assert not any(row["is_slow"] for row in rows)


def test_of_two_devices_none_is_called_slow():
    rows = ranks(job([300, 400])).to_pylist()

    assert rows[0]["device_id"] == 1
    assert {row["is_slow"] for row in rows} == {None}


@pytest.mark.parametrize("factor", [1.3, 2])
def test_a_device_that_slows_down_is_slow_from_that_step_on_by_its_whole_factor(factor):
    """At twice the time steps become so much longer for all that they are another phase."""
    rows = ranks(job([300] * 5, 30, late_from={3: (20, factor)})).to_pylist()

    own_ns = STEP_NS - 250
    slowest, *others = sorted(rows, key=lambda row: row["device_id"] != 3)
    assert (slowest["is_slow"], slowest["slow_from_step"], slowest["slow_to_step"]) == (
        *(True, 20, None),
    )
    assert slowest["slow_ratio"] == pytest.approx(1 + 300 * (factor - 1) / own_ns)
    assert (slowest["longer_part"], slowest["longer_ns"]) == ("compute", round(300 * (factor - 1)))
    assert slowest["own_ratio"] == 1
    assert not any(row["is_slow"] for row in others)
    assert {row["slow_ratio"] for row in others} == {None}


def test_a_device_that_is_slow_for_a_while_says_until_when():
    rows = ranks(job([300] * 5, 30, late_from={3: (5, 1.3), 4: (18, 1.3)}, late_to=11)).to_pylist()

    slow = {row["device_id"]: row for row in rows if row["is_slow"]}
    assert [(n, row["slow_from_step"], row["slow_to_step"]) for n, row in slow.items()] == [
        (3, 5, 11)
    ]


def test_a_device_whose_recording_ends_early_leaves_the_others_their_steps():
    whole = job([300] * 4 + [400], 30)
    kernels = [
        row
        for row in whole.table("kernels").to_pylist()
        if row["device_id"] or row["start_ns"] < 12 * STEP_NS
    ]
    rows = {
        row["device_id"]: row
        for row in ranks(whole.with_table("kernels", KERNELS.table(kernels))).to_pylist()
    }

    assert rows[0]["steps"] <= 12
    assert {rows[device]["steps"] for device in (1, 2, 3, 4)} == {29}
    assert {device for device in rows if rows[device]["is_slow"]} == {4}


def test_ranks_are_those_of_the_devices():
    rank_of = [{"device_id": device, "rank": 10 + device} for device in range(2)]

    rows = ranks(job([300, 400], devices=rank_of)).to_pylist()

    assert [(row["device_id"], row["rank"]) for row in rows] == [(1, 11), (0, 10)]


def test_without_steps_whole_recordings_are_set_side_by_side():
    kernels = [(0, 500), (0, 800, {"device_id": 1}), (500, 800, ALL_REDUCE)]

    rows = ranks(draw(kernels=kernels)).to_pylist()

    assert [(row["phase"], row["device_id"], row["own_ns"]) for row in rows] == [
        (None, 1, 800),
        (None, 0, 500),
    ]


@pytest.mark.parametrize("analysis", [ranks, rank_groups, rank_quantiles])
def test_one_device_has_nothing_beside_it(analysis):
    assert analysis(job([300])).num_rows == 0


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


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([0, 1], "0 and 1"), ([0, 1, 2, 5, 7, 8, 9], "0 to 2, 5 and 7 to 9"), ([], "")],
)
def test_numbers_are_said_as_ranges(numbers, text):
    assert number_ranges(numbers) == text
