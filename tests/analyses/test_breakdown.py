"""Each device's span, split exactly."""

import itertools

import pytest
from drawing import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MOVES, painted, rows

from gpuprof.analyses.breakdown import ANALYSIS, breakdown
from gpuprof.facts.timeline import timelines
from gpuprof.model.table import Selection

PARTS = (
    "span_ns compute_ns exposed_communication_ns exposed_transfer_ns exposed_local_copy_ns idle_ns"
)
NCCL = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)"}
LOCAL = {"memcpy_kind": "DtoD"}
PEER = {"memcpy_kind": "PtoP", "src_device_id": 0, "dst_device_id": 1, "path": "direct"}


def split(profile):
    return {
        row["device_id"]: tuple(row[name] for name in PARTS.split())
        for row in breakdown(profile).to_pylist()
    }


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        pytest.param(
            {"kernels": [(0, 10)], "memcpys": [(5, 15)]},
            {0: (15, 10, 0, 5, 0, 0)},
            id="half-hidden",
        ),
        pytest.param(
            {"kernels": [(0, 10)], "memcpys": [(10, 20)]},
            {0: (20, 10, 0, 10, 0, 0)},
            id="touching-is-not-overlap",
        ),
        pytest.param(
            {
                "kernels": [(0, 10), (5, 20, NCCL)],
                "memcpys": [(15, 30), (25, 40, LOCAL)],
                "memsets": [(38, 45), (50, 60)],
            },
            {0: (60, 10, 10, 10, 25, 5)},
            id="first-of-compute-communication-transfer-local",
        ),
        pytest.param(
            {"kernels": [(0, 10), (0, 5, {"device_id": 1})], "memcpys": [(4, 8, PEER)]},
            {0: (10, 10, 0, 0, 0, 0), 1: (8, 5, 0, 3, 0, 0)},
            id="peer-copy-hidden-on-the-source-exposed-on-the-destination",
        ),
        pytest.param(
            {
                "kernels": [(0, 1), (0, 1, {"device_id": 1})],
                "memcpys": [
                    (2, 5, PEER | {"memcpy_kind": "DtoH", "path": "staged", "device_id": 0}),
                    (5, 9, PEER | {"memcpy_kind": "HtoD", "path": "staged", "device_id": 1}),
                ],
            },
            {0: (5, 1, 0, 3, 0, 1), 1: (9, 1, 0, 4, 0, 4)},
            id="each-half-of-a-staged-copy-on-its-own-device",
        ),
        pytest.param(
            {"memcpys": [(0, 4, {"memcpy_kind": "UVM_HtoD"}), (6, 9, {"memcpy_kind": "unknown"})]},
            {0: (9, 0, 0, 4, 3, 2)},
            id="migrations-are-transfers-and-unknown-kinds-are-not",
        ),
        pytest.param(
            {"kernels": [(3, 3), (5, 9)], "memcpys": [(20, 20)]},
            {0: (17, 4, 0, 0, 0, 13)},
            id="activities-of-length-0-widen-the-span-only",
        ),
        pytest.param(
            {"graph_launches": [(0, 50)], "memcpys": [(40, 60)]},
            {0: (60, 50, 0, 10, 0, 0)},
            id="graph-recorded-as-a-whole-is-no-idle-time",
        ),
        pytest.param(
            {"kernels": [(0, 5), (2, 9, {"device_id": None})]},
            {0: (5, 5, 0, 0, 0, 0), None: (7, 7, 0, 0, 0, 0)},
            id="unknown-device-is-a-row-of-its-own",
        ),
    ],
)
def test_drawn_spans_split_exactly(tables, expected):
    assert split(draw(**tables)) == expected


def test_busy_is_exposed_and_hidden():
    row = breakdown(draw(kernels=[(0, 10)], memcpys=[(8, 18), (12, 20)])).to_pylist()[0]

    assert (row["busy_transfer_ns"], row["exposed_transfer_ns"], row["hidden_transfer_ns"]) == (
        12,
        10,
        2,
    )
    assert row["hidden_transfer_fraction"] == pytest.approx(2 / 12)


def test_share_hidden_of_no_transfer_is_unknown():
    row = breakdown(draw(kernels=[(0, 10)])).to_pylist()[0]

    assert (row["busy_transfer_ns"], row["hidden_transfer_fraction"]) == (0, None)


def test_recording_without_copies_has_no_exposed_transfers_to_show():
    profile = draw(kernels=[(0, 10)])
    without = type(profile)(profile.origin, {"kernels": profile.sources["kernels"]})

    assert profile.has(*ANALYSIS.needs)
    assert not without.has(*ANALYSIS.needs)


DEVICES = st.sampled_from([0, 1])
KERNELS = rows({"device_id": DEVICES, "name": st.sampled_from(["matmul", NCCL["name"]])})


@given(KERNELS, rows(MOVES), rows({"device_id": DEVICES}, max_size=4))
def test_any_recording_splits_as_its_instants_do(kernels, memcpys, memsets):
    profile = draw(kernels=kernels, memcpys=memcpys, memsets=memsets)

    assert split(profile) == {
        device: tuple(map(len, parts))
        for device, parts in painted(kernels, memcpys, memsets).items()
    }
    for one, row in zip(timelines(profile), breakdown(profile).to_pylist(), strict=True):
        assert one.idle.length == row["idle_ns"]


@settings(max_examples=25)
@given(KERNELS, rows(MOVES), st.sets(st.integers(-5, 90), max_size=4))
def test_parts_of_adjacent_windows_add_up_to_the_whole(kernels, memcpys, cuts):
    profile = draw(kernels=kernels, memcpys=memcpys)
    borders = [-10, *sorted(cuts), 100]
    added = {}
    for window in itertools.pairwise(borders):
        for device, part in split(profile.restricted(Selection((window,)))).items():
            before = added.get(device, (0,) * len(part))
            added[device] = tuple(a + b for a, b in zip(before, part, strict=True))

    assert added == {device: whole for device, whole in split(profile).items() if whole[0]}


def test_a_part_may_be_one_device_in_some_windows():
    profile = draw(kernels=[(0, 10), (0, 10, {"device_id": 1})], memcpys=[(8, 30)])

    assert split(profile.restricted(Selection(device_id=1))) == {1: (10, 10, 0, 0, 0, 0)}
    assert split(profile.restricted(Selection(((5, 9), (20, 99)), device_id=0))) == {
        0: (14, 4, 0, 10, 0, 0)
    }


def test_layout_conversions_are_a_part_of_compute():
    convert = {"name": "void cudnn::ops::nchwToNhwcKernel<float, float>(int)"}
    profile = draw(kernels=[(0, 40), (30, 60, convert), (60, 100)])

    [row] = breakdown(profile).to_pylist()
    assert (row["compute_ns"], row["layout_conversion_ns"]) == (100, 30)
