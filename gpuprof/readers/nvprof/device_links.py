"""The links of the devices that nvprof found in the machine: NVLink and PCIe.

Source: CUPTI's CUpti_ActivityNvLink and CUpti_ActivityPcie,
https://docs.nvidia.com/cupti/api/structlist.html. CUPTI gives an NVLink's bandwidth in kB/s for
both directions together: 40 GB/s for one link of a P100, 50 GB/s for one of a V100.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.cuda import pcie_bytes_per_s
from gpuprof.model import borders, schema
from gpuprof.readers.nvprof.activities import DEVICE, PREFIX
from gpuprof.readers.sqlite.source import SqliteFile

NVLINK: Final = f"{PREFIX}NVLINK"
PCIE: Final = f"{PREFIX}PCIE"
_NVLINK_COLUMNS: Final = (
    "typeDev0", "typeDev1", "nvlinkVersion", "physicalNvLinkCount", "bandwidth", "flag",
)  # fmt: skip
_PCIE_COLUMNS: Final = ("pcieGeneration", "linkWidth")
# CUPTI's CUpti_DevType, CUpti_LinkFlag and CUpti_PcieDeviceType.
_GPU, _PROCESSOR, _PEER_ACCESS, _PCIE_GPU = 1, 2, 2, 0
_BYTES_PER_S_OF_ONE_WAY: Final = 1000 // 2


def links(file: SqliteFile) -> pa.Table | None:
    """The table ``links``; None where the database has no room for any."""
    if not {NVLINK, PCIE} & file.columns.keys() or DEVICE not in file.columns:
        return None
    return schema.LINKS.table([*_nvlinks(file), *_pcie(file)])


def _nvlinks(file: SqliteFile) -> Iterator[dict[str, Any]]:
    if not _has(file, NVLINK, *_NVLINK_COLUMNS, "idDev0", "idDev1") or not _has(
        file, DEVICE, "id", "uuid"
    ):
        return
    device = dict(borders.rows_of(file.rows(f"SELECT hex(uuid), id FROM {DEVICE}"), str, int))
    chosen = ", ".join(f"CAST({name} AS INTEGER)" for name in _NVLINK_COLUMNS)
    rows = file.rows(f"SELECT hex(idDev0), hex(idDev1), {chosen} FROM {NVLINK}")
    for first, second, *values in borders.rows_of(rows, str, str, *[int] * len(_NVLINK_COLUMNS)):
        first_kind, second_kind, version, count, bandwidth, flag = values
        # A processor with NVLink (POWER) is the host; it stands at the second end here.
        ends = sorted([(first_kind, first), (second_kind, second)], key=lambda end: end[0] != _GPU)
        (kind, gpu), (peer_kind, peer) = ends
        if kind == _GPU and gpu in device and (peer_kind == _PROCESSOR or peer in device):
            yield {
                "device_id": device[gpu],
                "peer_device_id": device[peer] if peer_kind == _GPU else None,
                "link": f"NVLink {version} x{count}",
                "bytes_per_s": _rate(bandwidth * _BYTES_PER_S_OF_ONE_WAY),
                "has_peer_access": bool(flag & _PEER_ACCESS),
            }


def _pcie(file: SqliteFile) -> Iterator[dict[str, Any]]:
    if not _has(file, PCIE, *_PCIE_COLUMNS, "type", "id"):
        return
    chosen = ", ".join(f"CAST({name} AS INTEGER)" for name in _PCIE_COLUMNS)
    rows = file.rows(f"SELECT hex(id), {chosen} FROM {PCIE} WHERE type = {_PCIE_GPU}")
    for number, generation, lanes in borders.rows_of(rows, str, int, int):
        yield {
            "device_id": int.from_bytes(bytes.fromhex(number)[:4], "little"),
            "link": f"PCIe {generation} x{lanes}",
            "bytes_per_s": _rate(pcie_bytes_per_s(generation, lanes) or 0),
        }


def _rate(bytes_per_s: int) -> int | None:
    """A rate that a link can have; 0, and what is no rate, are unknown."""
    return bytes_per_s if 0 < bytes_per_s <= schema.LARGEST else None


def _has(file: SqliteFile, table: str, *columns: str) -> bool:
    return set(columns) <= file.columns.get(table, {}).keys()
