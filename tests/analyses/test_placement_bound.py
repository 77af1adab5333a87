"""What cheaper peer copies could win at most."""

from drawing import draw

from gpuprof.analyses.placement_bound import PLACEMENT_BOUND, placement_bound
from gpuprof.profile import Part

PUSHED = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}
ON_1 = {"device_id": 1}
NAMES = ("measured_ns", "peer_busy_ns", "peer_exposed_ns", "if_free_ns", "if_hidden_ns")


def rows(profile, *names):
    return [tuple(row[name] for name in names) for row in placement_bound(profile).to_pylist()]


def test_nothing_that_ran_bounds_nothing():
    assert placement_bound(draw()).num_rows == 0
    assert placement_bound(draw()).schema == PLACEMENT_BOUND.arrow


def test_bounds_of_a_whole_recording_are_for_the_device_that_waits_longest():
    # Device 0 computes from 0 to 60, device 1 from 0 to 40; the copy runs from 50 to 80.
    profile = draw(kernels=[(0, 60), (0, 40, ON_1), (80, 100, ON_1)], memcpys=[(50, 80, PUSHED)])

    assert rows(profile, "device_id", *NAMES) == [(1, 100, 30, 30, 70, 70)]
    assert rows(profile, "source", "step", "if_none_hidden_ns") == [("recording", None, 100)]


def test_the_bounds_of_one_device_are_its_own():
    # As above: of device 0, whose kernel hides the copy until 60.
    profile = draw(kernels=[(0, 60), (0, 40, ON_1), (80, 100, ON_1)], memcpys=[(50, 80, PUSHED)])

    assert rows(profile.restricted(Part(device_id=0)), "device_id", *NAMES) == [
        (0, 80, 30, 20, 60, 60)
    ]


def test_hidden_copies_cost_their_time_where_nothing_hides_them():
    profile = draw(kernels=[(0, 100)], memcpys=[(10, 30, PUSHED), (90, 110, PUSHED)])
    row = next(r for r in placement_bound(profile).to_pylist())

    assert row["device_id"] == 1
    profile = draw(
        kernels=[(0, 100), (0, 100, ON_1)], memcpys=[(10, 30, PUSHED), (90, 110, PUSHED)]
    )
    assert rows(profile, *NAMES, "if_none_hidden_ns") == [(110, 40, 10, 100, 100, 140)]


def test_hiding_cannot_make_a_step_shorter_than_its_copies():
    profile = draw(kernels=[(0, 10), (0, 10, ON_1)], memcpys=[(10, 90, PUSHED)])

    assert rows(profile, *NAMES) == [(90, 80, 80, 10, 80)]


def test_time_that_a_host_copy_takes_as_well_is_not_won():
    profile = draw(memcpys=[(0, 50, PUSHED), (20, 60, {"memcpy_kind": "HtoD"}), (0, 50, ON_1)])

    assert rows(profile, "device_id", "peer_exposed_ns") == [(0, 20)]


def test_staged_halves_cost_only_the_device_they_run_on():
    half = PUSHED | {"path": "staged", "correlation_id": 1}
    profile = draw(
        kernels=[(0, 10), (0, 10, ON_1)],
        memcpys=[
            (10, 14, half | {"memcpy_kind": "DtoH"}),
            (14, 20, half | {"memcpy_kind": "HtoD"} | ON_1),
        ],
    )

    assert rows(profile, "device_id", "peer_exposed_ns") == [(1, 6)]


def test_each_step_has_its_own_bound():
    profile = draw(
        nvtx_ranges=[(0, 50, {"text": "step 0"}), (50, 100, {"text": "step 1"})],
        api_calls=[(n, n + 1, {"correlation_id": n}) for n in (1, 2, 51, 52)],
        kernels=[(5, 20, {"correlation_id": 1}), (55, 60, {"correlation_id": 51})],
        memcpys=[
            (10, 25, PUSHED | {"correlation_id": 2}),
            (60, 90, PUSHED | {"correlation_id": 52, "device_id": 0}),
        ],
    )

    assert rows(profile, "step", "measured_ns", "peer_exposed_ns", "if_free_ns") == [
        (0, 50, 5, 45),
        (1, 35, 30, 5),
    ]
