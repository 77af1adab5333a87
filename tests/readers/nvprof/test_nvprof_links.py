"""The links between devices that nvprof's databases list."""

from pathlib import Path

import pytest
from nvprof_database import at, write
from recording_checks import rows

from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "nvprof-sqlite"
COLUMNS = ("device_id", "peer_device_id", "link", "bytes_per_s", "has_peer_access")
GPU, PROCESSOR = 1, 2
DEVICES = [{"id": n, "uuid": bytes([n]) * 16} for n in range(3)]
NVLINK = {"nvlinkVersion": 2, "typeDev0": GPU, "typeDev1": GPU, "flag": 10}


def links(path):
    return rows(path, "links", *COLUMNS)


def made(path, **rows):
    copy = at(0, 5, copyKind=1, bytes=8)
    return write(path, memcpy=[copy], device=DEVICES, **rows)


def uuid(number):
    return bytes([number]) * 16


def test_an_nvlink_has_half_of_its_bandwidth_in_each_direction(tmp_path):
    two = NVLINK | {"idDev0": uuid(0), "idDev1": uuid(2), "physicalNvLinkCount": 2}

    assert links(made(tmp_path / "x.nvvp", nvlink=[two | {"bandwidth": 100_000_000}])) == [
        (0, 2, "NVLink 2 x2", 50_000_000_000, True)
    ]


def test_a_processor_with_nvlink_is_the_host(tmp_path):
    power = NVLINK | {"typeDev0": PROCESSOR, "idDev0": b"\0" * 16, "idDev1": uuid(1), "flag": 4}
    power |= {"physicalNvLinkCount": 3, "bandwidth": 150_000_000}

    assert links(made(tmp_path / "x.nvvp", nvlink=[power])) == [
        (1, None, "NVLink 2 x3", 75_000_000_000, False)
    ]


def test_a_link_of_a_device_that_is_not_listed_is_left_out(tmp_path):
    stranger = NVLINK | {"idDev0": uuid(0), "idDev1": uuid(9)}

    assert links(made(tmp_path / "x.nvvp", nvlink=[stranger])) == []


@pytest.mark.parametrize(
    ("generation", "lanes", "bytes_per_s"),
    [(1, 16, 4_000_000_000), (3, 16, 15_753_846_153), (4, 8, 15_753_846_153), (9, 16, None)],
)
def test_pcie_peaks_follow_from_generation_and_width(tmp_path, generation, lanes, bytes_per_s):
    device = {"type": 0, "id": (1).to_bytes(4, "little")}
    bridge = {"type": 1, "id": (7).to_bytes(4, "little")}
    pcie = [device | {"pcieGeneration": generation, "linkWidth": lanes}, bridge]

    assert links(made(tmp_path / "x.nvvp", pcie=pcie)) == [
        (1, None, f"PCIe {generation} x{lanes}", bytes_per_s, None)
    ]


def test_older_versions_list_no_links(tmp_path):
    path = made(tmp_path / "x.nvvp", without=("NVLINK", "PCIE"))

    assert not read_profile(path).has("links")


def test_the_links_of_a_real_machine_are_those_of_its_data_sheet():
    """A DGX-1 with V100: six NVLinks of 25 GB/s in each direction per GPU, PCIe 3 x16."""
    path = CORPUS / "UCBerkeley-Spr__blinkplus-nccl-base__output.nvvp"
    if not path.exists():
        pytest.skip("the recordings are not on this machine")

    found = links(path)
    for device in range(8):
        own = [row for row in found if device in row[:2]]
        assert sum(row[3] for row in own if row[2].startswith("NVLink 2")) == 6 * 25_000_000_000
        assert [row[2] for row in own if row[1] is None] == ["PCIe 3 x16"]
        assert all(row[4] for row in own if row[1] is not None)
