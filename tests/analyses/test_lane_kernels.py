import pytest
from drawing import draw

from gpuprof.analyses import lane_details as lane_kernels_module
from gpuprof.analyses.lane_details import lane_kernels
from gpuprof.analyses.lanes import typical_step
from gpuprof.model.table import Selection

NCCL = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}


def _rows(profile):
    return [tuple(row.values()) for row in lane_kernels(profile).to_pylist()]


def test_each_kernel_has_its_row_by_device_and_lane():
    profile = draw(
        kernels=[
            (20, 30, {"name": "late"}),
            (0, 10, {"name": "early"}),
            (5, 15, NCCL),
            (0, 4, {"device_id": 1, "name": "other"}),
            (2, 3, {"device_id": None}),
        ],
        memcpys=[(0, 100)],
    )

    assert sorted(_rows(profile), key=str) == sorted(
        [
            (0, "compute", 0, 10, "early", 1),
            (0, "compute", 20, 30, "late", 1),
            (0, "communication", 5, 15, NCCL["name"], 1),
            (1, "compute", 0, 4, "other", 1),
            (None, "compute", 2, 3, "matmul", 1),
        ],
        key=str,
    )
    assert [row[:3] for row in _rows(profile) if row[0] == 0] == [
        (0, "compute", 0),
        (0, "compute", 20),
        (0, "communication", 5),
    ]


@pytest.fixture
def few_rows(monkeypatch):
    """As few rows to 2,000 kernels as a page has to 100,000."""
    most = vars(lane_kernels_module)["_MOST_ROWS"]
    monkeypatch.setattr(lane_kernels_module, "_MOST_ROWS", most // 50)


@pytest.mark.usefixtures("few_rows")
def test_of_many_kernels_each_slice_names_the_longest():
    kernels = [
        (10 * n, 10 * n + (7 if n % 50 == 3 else 5), {"name": "long" if n % 50 == 3 else "short"})
        for n in range(2_000)
    ]

    rows = lane_kernels(draw(kernels=kernels)).to_pylist()

    assert 100 <= len(rows) <= 400
    assert sum(row["kernels"] for row in rows) == 2_000
    assert all(row["end_ns"] > row["start_ns"] for row in rows)
    assert rows == sorted(rows, key=lambda row: row["start_ns"])
    assert {row["name"] for row in rows} == {"long", "short"}
    # Every slice that holds a long one is called after it.
    assert sum(row["name"] == "long" for row in rows) == 40


@pytest.mark.usefixtures("few_rows")
def test_each_kernel_of_a_typical_step_has_its_name():
    steps, per_step = 60, 20
    profile = draw(
        kernels=[(10 * n, 10 * n + 5, {"correlation_id": n}) for n in range(steps * per_step)],
        api_calls=[(10 * n, 10 * n + 1, {"correlation_id": n}) for n in range(steps * per_step)],
        nvtx_ranges=[
            (10 * per_step * n, 10 * per_step * (n + 1), {"text": f"step {n}"})
            for n in range(steps)
        ],
    )
    *_, first, last = typical_step(profile)

    rows = lane_kernels(profile).to_pylist()

    within = [row["kernels"] for row in rows if first <= row["start_ns"] < last]
    outside = [row["kernels"] for row in rows if not first <= row["start_ns"] < last]
    assert within == [1] * per_step
    assert sum(outside) == (steps - 1) * per_step
    assert min(outside) > 1
    assert rows == sorted(rows, key=lambda row: row["start_ns"])


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("kernels", [[(0, 10), (40, 60)], [(n, n + 1) for n in range(600)]])
def test_a_part_of_a_recording_has_its_kernels_alone(kernels):
    profile = draw(kernels=kernels)

    rows = lane_kernels(profile.restricted(Selection(windows=((5, 50),)))).to_pylist()

    assert rows[0]["start_ns"] == 5
    assert max(row["end_ns"] for row in rows) <= 50


def test_of_one_device_only_its_kernels_are_shown():
    profile = draw(kernels=[(0, 10), (5, 15, {"device_id": 1})], memcpys=[(0, 100)])

    part = profile.restricted(Selection(device_id=1))

    assert [row[:4] for row in _rows(part)] == [(1, "compute", 5, 15)]
