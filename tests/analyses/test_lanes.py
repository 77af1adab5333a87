import numpy as np
import pytest
from drawing import draw
from drawn_jobs import STEP_NS, job
from ranks.joint import job_report, ranks_of

from gpuprof.analyses import lanes as lanes_module
from gpuprof.analyses.lanes import lanes, lanes_over_time, ranks_in_step, typical_step
from gpuprof.facts.timeline import timelines
from gpuprof.model.table import Selection
from gpuprof.readers.merged_ranks import joined

_ONE_TO_ZERO = {"memcpy_kind": "PtoP", "src_device_id": 1, "dst_device_id": 0}


def _rows(profile):
    columns = ("device_id", "lane", "is_exposed", "start_ns", "end_ns", "busy_ns")
    return [tuple(row[name] for name in columns) for row in lanes(profile).to_pylist()]


def test_each_interval_has_its_row_where_there_is_room():
    profile = draw(
        kernels=[(0, 10), (20, 30)],
        memcpys=[(5, 15), (25, 28, {"memcpy_kind": "DtoH"})],
        memsets=[(28, 40)],
    )

    assert _rows(profile) == [
        (0, "compute", True, 0, 10, 10),
        (0, "compute", True, 20, 30, 10),
        (0, "DtoH", False, 25, 28, 3),
        (0, "HtoD", True, 10, 15, 5),
        (0, "HtoD", False, 5, 10, 5),
        (0, "local_copies", True, 30, 40, 10),
        (0, "local_copies", False, 28, 30, 2),
    ]
    assert set(lanes(profile).column("slice_ns").to_pylist()) == {1}


def test_a_peer_copy_is_on_both_devices_and_hidden_on_one():
    profile = draw(kernels=[(0, 10)], memcpys=[(0, 10, _ONE_TO_ZERO)])

    assert _rows(profile) == [
        (0, "compute", True, 0, 10, 10),
        (0, "PtoP", False, 0, 10, 10),
        (1, "PtoP", True, 0, 10, 10),
    ]


@pytest.fixture
def few_rows(monkeypatch):
    """As few rows to 3,000 kernels as a page has to 300,000."""
    most = vars(lanes_module)["_MOST_ROWS"]
    monkeypatch.setattr(lanes_module, "_MOST_ROWS", most // 100)


@pytest.mark.usefixtures("few_rows")
def test_a_typical_step_has_shorter_slices():
    starts = range(0, 30_000, 10)
    profile = draw(
        kernels=[(n, n + 3, {"correlation_id": n}) for n in starts],
        api_calls=[(n, n + 1, {"correlation_id": n}) for n in starts],
        nvtx_ranges=[(1_500 * n, 1_500 * (n + 1), {"text": f"step {n}"}) for n in range(20)],
    )
    *_, first, last = typical_step(profile)

    rows = lanes(profile).to_pylist()

    within = [row for row in rows if first <= row["start_ns"] < last]
    assert {row["slice_ns"] for row in within} == {1}
    assert len(within) == 150
    assert {row["slice_ns"] for row in rows} == {1, 64}
    assert sum(row["busy_ns"] for row in rows) == 9_000


@pytest.mark.usefixtures("few_rows")
def test_many_intervals_share_rows_and_lose_no_time():
    table = lanes(draw(kernels=[(start, start + 3) for start in range(0, 30_000, 10)]))

    assert 400 <= table.num_rows <= 1_200
    assert sum(table.column("busy_ns").to_pylist()) == 9_000
    slice_ns = max(table.column("slice_ns").to_pylist())
    length = np.array(table.column("end_ns")) - np.array(table.column("start_ns"))
    assert slice_ns == 64
    assert length.max() < slice_ns + 3


@pytest.mark.parametrize(("part", "expected"), [((5, 25), 10), ((0, 12), 10), ((12, 18), 0)])
def test_a_part_is_cut_at_its_borders(part, expected):
    profile = draw(kernels=[(0, 10), (20, 30)], memcpys=[(0, 30)])

    rows = _rows(profile.restricted(Selection(windows=(part,))))

    assert sum(row[5] for row in rows if row[1] == "compute") == expected
    assert sum(row[5] for row in rows if row[1] == "HtoD") == part[1] - part[0]


def test_slices_cover_what_the_lanes_cover():
    rng = np.random.default_rng(1)
    starts = rng.integers(0, 1_000_000, 400)
    kernels = [
        (int(s), int(s + d)) for s, d in zip(starts, rng.integers(1, 3_000, 400), strict=True)
    ]
    profile = draw(kernels=kernels[:300], memcpys=kernels[300:])

    slices = lanes_over_time(profile)

    (device,) = timelines(profile)
    for lane, layer in (("compute", 0), ("HtoD", 2)):
        rows = [row for row in slices.to_pylist() if row["lane"] == lane]
        assert sum(row["exposed_ns"] for row in rows) == device.exposed[layer].length
        assert sum(r["exposed_ns"] + r["hidden_ns"] for r in rows) == device.busy[layer].length
        assert all(r["exposed_ns"] + r["hidden_ns"] <= r["end_ns"] - r["start_ns"] for r in rows)


def _rows_of_ranks(files):
    """The rows of the joined recording, which are those of the job read in parts."""
    table = ranks_in_step(joined(files))
    assert job_report(files, ["ranks_in_step"]).tables["ranks_in_step"].equals(table)
    return table.to_pylist()


@pytest.mark.parametrize("compute_ns", [[300, 300], [300, 300, 500]])
def test_slices_of_ranks_add_up_to_the_parts_of_a_step(compute_ns):
    copies = [
        # A half of each is beside compute, which ends 350 ns after the start of a step.
        (STEP_NS * step + 250, STEP_NS * step + 450, {"device_id": 0, "correlation_id": None})
        for step in range(8)
    ]
    rows = _rows_of_ranks(ranks_of(job(compute_ns, memcpys=copies)))

    for device, took_ns in enumerate(compute_ns):
        of_device = [row for row in rows if row["device_id"] == device]
        sums = {
            name: sum(row[name] for row in of_device)
            for name in of_device[0]
            if "start" not in name
        }
        assert sums["compute_ns"] == took_ns
        assert sums["communication_ns"] == 600 - 50 - took_ns
        assert sums["hidden_compute_ns"] == sums["hidden_communication_ns"] == 0
        # Collectives run meanwhile, too.
        copied = sums["transfer_ns"], sums["hidden_transfer_ns"]
        assert copied == ((0, 200) if device == 0 else (0, 0))
        assert len(of_device) == 96
        assert of_device[-1]["end_ns"] - of_device[0]["start_ns"] <= STEP_NS


def test_ranks_without_steps_have_no_rows():
    assert ranks_in_step(draw(kernels=[(0, 10)], memcpys=[])).num_rows == 0
