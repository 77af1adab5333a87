"""Which link joins two memories, and what share of its peak copies reach."""

import pytest
from drawing import draw

from gpuprof.analyses.device_map import device_map
from gpuprof.analyses.peer_matrix import peer_matrix
from gpuprof.analyses.reports import report
from gpuprof.model.table import Selection

NVLINK = {
    "device_id": 1,
    "peer_device_id": 0,
    "link": "NVLink 2 x1",
    "bytes_per_s": 25_000_000_000,
    "has_peer_access": True,
}
PCIE = [
    {"device_id": n, "link": f"PCIe 3 x{lanes}", "bytes_per_s": lanes * 1_000_000_000}
    for n, lanes in ((0, 16), (1, 16), (2, 8))
]
PEER = {"memcpy_kind": "PtoP", "path": "direct", "bytes": 100}


def peaks(profile):
    names = ("src", "dst", "link", "peak_bytes_per_s", "peak_share")
    return [tuple(row[n] for n in names) for row in peer_matrix(profile).to_pylist()]


def copy(src, dst, **other):
    return (0, 10, PEER | {"src_device_id": src, "dst_device_id": dst} | other)


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
def test_a_link_is_the_same_in_both_directions(ends):
    profile = draw(memcpys=[copy(*ends)], links=[NVLINK])

    assert peaks(profile) == [
        (f"device {ends[0]}", f"device {ends[1]}", "NVLink 2 x1", 25_000_000_000, 0.4)
    ]


def test_a_rate_beyond_the_peak_is_no_share_and_is_told():
    profile = draw(kernels=[(0, 10, {})], memcpys=[copy(0, 1, bytes=300)], links=[NVLINK])

    assert peaks(profile) == [("device 0", "device 1", "NVLink 2 x1", 25_000_000_000, None)]
    (note,) = report(profile, ["peer_matrix"]).notes
    assert note == (
        "Copies from device 0 to device 1 reached 30.0 GB/s, more than the peak of NVLink"
        " 2 x1 (25.0 GB/s): they took another link, or a figure of this recording is wrong. Their"
        " share of the peak is n/a."
    )


def test_copies_to_the_host_take_the_devices_own_link():
    profile = draw(memcpys=[(0, 10, {"bytes": 40, "device_id": 2})], links=[NVLINK, *PCIE])

    assert peaks(profile) == [("host", "device 2", "PCIe 3 x8", 8_000_000_000, 0.5)]


def test_devices_without_a_link_of_their_own_meet_over_the_narrower_pcie():
    profile = draw(memcpys=[copy(0, 2)], links=[NVLINK, *PCIE])

    assert peaks(profile)[0][2:4] == ("PCIe 3 x8", 8_000_000_000)


UNNAMED = {
    "no-link-listed": draw(memcpys=[copy(0, 2)], links=[NVLINK]),
    "no-links-recorded": draw(memcpys=[copy(0, 1)]),
    "unknown-ends": draw(memcpys=[copy(None, None)], links=[NVLINK]),
    "bridges-are-not-in-a-name": draw(
        memcpys=[copy(0, 1)],
        devices=[
            {"device_id": n, "name": "NVIDIA A100 80GB PCIe", "compute_capability": "8.0"}
            for n in (0, 1)
        ],
    ),
}


@pytest.mark.parametrize("profile", UNNAMED.values(), ids=UNNAMED)
def test_a_link_that_nobody_names_stays_unknown(profile):
    assert [row[2:] for row in peaks(profile)] == [(None, None, None)]


def test_a_staged_copy_crosses_two_links_and_has_none():
    half = {"path": "staged", "correlation_id": 1}
    profile = draw(
        memcpys=[
            copy(0, 1, memcpy_kind="DtoH", **half),
            copy(0, 1, memcpy_kind="HtoD", device_id=1, **half),
        ],
        links=[NVLINK, *PCIE],
    )

    assert [row[2:] for row in peaks(profile)] == [(None, None, None)]


@pytest.mark.parametrize(
    ("name", "capability", "link", "peak"),
    [
        ("Tesla P100-PCIE-16GB", "6.0", "PCIe 3 x16", 15_753_846_153),
        ("NVIDIA A100-PCIE-40GB", "8.0", "PCIe 4 x16", 31_507_692_307),
        ("NVIDIA H100 PCIe", "9.0", "PCIe 5 x16", 63_015_384_615),
        ("NVIDIA GH200 120GB", "9.0", "NVLink-C2C", 450_000_000_000),
        ("NVIDIA A100-PCIE-40GB", None, None, None),
        ("Tesla K40-PCIE", "3.5", None, None),
        ("Tesla V100-SXM2-16GB", "7.0", None, None),
        (None, "8.0", None, None),
    ],
)
def test_few_names_tell_the_link_to_the_host(name, capability, link, peak):
    device = {"device_id": 0, "name": name, "compute_capability": capability}
    profile = draw(memcpys=[(0, 10, {"bytes": 1})], devices=[device])

    assert peaks(profile)[0][2:4] == (link, peak)


def test_a_part_of_a_recording_keeps_its_links():
    profile = draw(memcpys=[copy(0, 1)], links=[NVLINK]).restricted(Selection(((0, 5),), 0))

    assert peaks(profile)[0][2] == "NVLink 2 x1"


def test_devices_are_listed_with_their_links():
    profile = draw(memcpys=[(0, 1)], devices=[{"device_id": n} for n in range(3)])
    profile = profile.with_table("links", draw(links=[NVLINK, *PCIE]).table("links"))

    names = ("device_id", "links", "accessible_peers")
    assert [tuple(row[n] for n in names) for row in device_map(profile).to_pylist()] == [
        (0, "PCIe 3 x16 (host), NVLink 2 x1 (1)", "1"),
        (1, "PCIe 3 x16 (host), NVLink 2 x1 (0)", "0"),
        (2, "PCIe 3 x8 (host)", None),
    ]
