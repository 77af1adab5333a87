"""Findings of collectives: waiting for the last rank, data that nothing hides, one stream."""

import itertools

import pytest
from collective_jobs import REDUCE, US, Job
from drawing import draw
from test_findings import causes, kernel, rows, steps


def test_the_rank_that_comes_last_is_named_with_what_kept_it():
    profile = Job(4, 20, seed=7, names=(REDUCE,), late="kernels").drawn()

    row = next(row for row in rows(profile) if row["cause"] == "collective_waiting")
    assert row["where"] == "device 2"
    assert row["device_id"] != 2
    assert "came last to" in row["suggestion"]
    assert "kernels:" in row["suggestion"]


@pytest.mark.parametrize("apart_ns", [5_000 * US, 0])
def test_clocks_that_are_apart_hide_no_waiting(apart_ns):
    profile = Job(2, 20, seed=9).drawn(late_ns={1: apart_ns}.items())

    assert "collective_waiting" in causes(profile)


REDUCES = kernel(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", stream_id=7)


def test_collectives_on_the_stream_of_compute_cannot_be_hidden():
    events = (0, 2, 60, kernel()), (1, 60, 80, REDUCES), (1, 80, 99, kernel(name="end"))
    apart = (0, 2, 60, kernel()), (1, 60, 80, REDUCES | {"stream_id": 20}), events[2]

    assert "same_stream" in causes(steps(8, 100, *events))
    assert "collective_transfer" in causes(steps(8, 100, *apart))


def test_many_small_collectives_are_to_be_joined():
    small = [(1, 10 + n, 11 + n, REDUCES | {"stream_id": 20}) for n in range(60)]
    profile = steps(8, 100, (0, 2, 8, kernel()), *small, (1, 72, 99, kernel(name="end")))

    row = next(row for row in rows(profile) if row["cause"] == "collective_transfer")
    assert "60 calls a step, 1.000 us each" in row["finding"]
    assert row["suggestion"].startswith("join small collectives")


def test_a_single_copy_is_said_to_be_one():
    copy = {"memcpy_kind": "HtoD", "dst_device_id": 0, "src_memory_kind": "pinned", "bytes": 8}
    profile = draw(kernels=[(0, 50), (95, 100)], memcpys=[(50, 80, copy)])

    assert ", one copy)" in rows(profile)[0]["finding"]


def test_first_calls_that_set_up_connections_are_set_up():
    """The first AllReduce takes 20 ms, the others 20 us."""
    calls = [
        (0, 20_000 * US),
        *((20_000 * US + n * 100 * US, 20_000 * US + (n * 100 + 20) * US) for n in range(1, 40)),
    ]
    compute = [(end, start) for (_, end), (start, _) in itertools.pairwise(calls)]
    profile = draw(
        kernels=[
            *((start, end, REDUCES | {"stream_id": 20}) for start, end in calls),
            *((start, end, kernel()) for start, end in compute),
        ]
    )

    row = next(row for row in rows(profile) if row["cause"] == "setup")
    assert "20.00 ms in first collectives" in row["finding"]
