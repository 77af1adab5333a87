"""Devices and processes of an export, whose numbers need not mean the same GPU to all processes.

An activity's ``deviceId`` is the ordinal that CUDA gave the GPU in that process, so that under
CUDA_VISIBLE_DEVICES two processes call different GPUs 0. Exports of nsys 2025 and later tell each
process' GPUs in TARGET_INFO_CUDA_DEVICE, those of 2020 in TARGET_INFO_CUDA_GPU; those between
list contexts only, from which it is seen that processes share a number.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, excerpt
from gpuprof.model import borders, schema
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import distinct
from gpuprof.model.profile import Source
from gpuprof.model.schema import Schema
from gpuprof.model.table import Computed, Table, in_memory
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.columns import Export, as_computed, columns_at_once, low_bits

RENUMBERED: Final = (
    "Processes number different GPUs alike (CUDA_VISIBLE_DEVICES), so devices have the numbers of "
    "the machine here."
)


def small_tables(export: Export) -> dict[str, Source]:
    """Devices and processes, each read when it is asked for."""
    tables: dict[str, Source] = {}
    _, old, gpu = export_schema.GPUS
    if old in export.columns or gpu in export.columns:
        tables["devices"] = partial(_devices, export)
    # Where the export lists no processes, those of its activities.
    for table in export_schema.PROCESSES:
        if export.has(table, "processId"):
            return tables | {"runs": partial(_runs, export, table, "processId")}
    for table in (export_schema.RUNTIME, export_schema.KERNEL):
        if global_id := export.pick(table, "globalPid", "globalTid"):
            process = Computed((global_id,), low_bits(24))
            return tables | {"runs": partial(_runs, export, table, process)}
    return tables


def _devices(export: Export) -> Table:
    mapped, old, gpu = export_schema.GPUS
    table = gpu if {mapped, gpu} <= export.columns.keys() or old not in export.columns else old
    names = [*export.columns[table] & _DEVICE_COLUMNS.keys()]
    listed = [dict(zip(names, row, strict=True)) for row in export.rows(table, *names)]
    rows: list[tuple[Any, Any, Mapping[str, Any]]]
    if table == old:
        rows = [(row.get("deviceId"), row.get("pid"), row) for row in listed]
    elif mapped in export.columns:
        # Each process may number the devices in its own way (CUDA_VISIBLE_DEVICES).
        keys = ("gpuId", "cudaId", "pid")
        uses = export.rows(mapped, *keys) if export.has(mapped, *keys) else []
        rows = [(u[1], u[2], row) for row in listed for u in uses if u[0] == row.get("id")]
    else:
        rows = [(row.get("id", row.get("deviceId")), None, row) for row in listed]
    rows = [(export.machine_numbers.get((p, n), n), p, row) for n, p, row in rows]
    devices = [_device(*row) for row in rows]
    where = f"{export.path}, table devices"
    return in_memory(schema.DEVICES, checked_table(where, schema.DEVICES, devices))


# The columns of devices that are read, whichever of them a version has.
_DEVICE_COLUMNS: Final = dict.fromkeys((
    "id", "deviceId", "pid", "name", "totalMemory", "globalMemorySize", "memoryBandwidth",
    "globalMemoryBandwidth", "clockRate", "computeMajor", "computeMinor", "smMajor", "smMinor",
    "computeCapabilityMajor", "computeCapabilityMinor", "smCount", "numMultiprocessors",
    "busLocation", "pciBusId",
))  # fmt: skip
# nsys 2020.3 gives the memory in MiB and no bandwidth; later versions give bytes.
_MIB: Final = 1 << 20


def _device(number: Any, process: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    def pick(*names: str) -> Any:
        return next((row[name] for name in names if name in row), None)

    memory = pick("totalMemory", "globalMemorySize")
    if isinstance(memory, int) and memory < _MIB:
        memory *= _MIB
    major = pick("computeMajor", "smMajor", "computeCapabilityMajor")
    minor = pick("computeMinor", "smMinor", "computeCapabilityMinor")
    return {
        "device_id": number,
        "process_id": process,
        "name": pick("name"),
        "total_memory_bytes": memory,
        "memory_bandwidth_bytes_per_s": pick("memoryBandwidth", "globalMemoryBandwidth") or None,
        "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
        "clock_hz": pick("clockRate") or None,
        "multiprocessors": pick("smCount", "numMultiprocessors") or None,
        "bus_id": pick("busLocation", "pciBusId") or None,
    }


def _runs(export: Export, table: str, process: Computed | str) -> Table:
    numbers = as_computed(process)
    columns = columns_at_once(export.stored(table), numbers.reads)
    all_processes = numbers.make(*columns) if numbers.make and len(columns[0]) else columns[0]
    processes = distinct(all_processes).tolist()
    # What no process is known of comes last.
    processes.sort(key=lambda number: (number == UNKNOWN, number))
    commands: dict[int | None, str] = {}
    for pid, name in export.select("PROCESSES", pid=int, name=str):
        commands.setdefault(pid, name)
    numbered = [None if number == UNKNOWN else number for number in processes]
    runs = [
        {"run_id": place, "process_id": number, "command": commands.get(number)}
        for place, number in enumerate(numbered)
    ]
    where = f"{export.path}, table runs"
    return in_memory(schema.RUNS, checked_table(where, schema.RUNS, runs))


def checked_table(where: str, spec: Schema, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of a small table.

    Raises:
        CorruptFileError: A value is of another type.
    """
    for place, row in enumerate(rows, 1):
        for name, value in row.items():
            is_text = spec.columns[name].dtype == schema.TEXT
            if not isinstance(value, str | None if is_text else int | None):
                msg = f"{where}: column {name} holds {excerpt(value)} in row {place:,}"
                raise CorruptFileError(msg, borders.HINT)
    try:
        return spec.table(rows)
    except OverflowError as error:
        msg = f"{where}: {error}"
        raise CorruptFileError(msg, borders.HINT) from error


def device_notes(export: Export) -> list[str]:
    """What a reader must know of the numbers of devices."""
    if export.machine_numbers:
        return [RENUMBERED]
    if export.device_numbers:
        return []
    contexts = export.select(export_schema.PROCESSES[1], processId=int, deviceId=int)
    counts = Counter(ordinal for _, ordinal in set(contexts))
    many = sorted(ordinal for ordinal, processes in counts.items() if processes > 1)
    if not many:
        return []
    numbers = ", ".join(map(str, many))
    shared = f"Several processes use device {numbers}: whether it is the same GPU to all of them"
    return [f"{shared} this export does not tell; here it is one."]
