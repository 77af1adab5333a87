"""Ranks side by side: whose own work is longest, by drawn steps of known lengths."""

import pytest
from drawing import draw
from drawn_jobs import ALL_REDUCE, STEP_NS, job

from gpuprof.analyses.time.ranks import RANKS, ranks


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


def test_own_times_within_a_percent_are_no_outliers():
    rows = ranks(job([300, 300, 300, 300, 305, 300])).to_pylist()

    assert rows[0]["device_id"] == 4
    assert not any(row["is_slow"] for row in rows)


def test_of_four_devices_none_is_called_slow():
    rows = ranks(job([300, 300, 300, 400])).to_pylist()

    assert rows[0]["device_id"] == 3
    assert {row["is_slow"] for row in rows} == {None}


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


def test_one_device_has_nothing_beside_it():
    assert ranks(job([300])).to_pylist() == []
    assert ranks(draw()).schema == RANKS.arrow
