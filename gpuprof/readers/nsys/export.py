"""From the tables of a Nsight Systems export to a profile: origin, doubts, empty or absent."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, excerpt
from gpuprof.base.secrets import REMOVED, masked_words
from gpuprof.base.units import counted
from gpuprof.model import borders, schema
from gpuprof.model.derived import UNKNOWN as NO_VALUE
from gpuprof.model.profile import Origin, Profile, Source
from gpuprof.model.schema import Schema
from gpuprof.model.table import Computed, Table, in_memory
from gpuprof.readers.nsys import device_ordinals, diagnostics, export_schema, model_tables
from gpuprof.readers.nsys.columns import Export, as_computed, columns_at_once

CUDA_TABLES: Final = ("kernels", "memcpys", "memsets", "api_calls", "synchronizations")
_GPU_TABLES: Final = ("kernels", "memcpys", "memsets", "graph_launches")
# Begins the names of the tables of what CUDA did, on the host or on a device.
_CUPTI: Final = "CUPTI_ACTIVITY_KIND_"
GIVES: Final = (
    *CUDA_TABLES, "cuda_events", "host_calls", "page_faults", "nvtx_ranges", "graph_launches",
    "overheads", "devices", "runs",
)  # fmt: skip
CANNOT: Final = (
    "Kernels and copies inside CUDA graphs are recorded only with --cuda-graph-trace=node."
)

SETTINGS: Final = "META_DATA_CAPTURE"
READ_SETTINGS: Final = re.compile(
    r".*COLLECT_(?:CUDA|NVTX)_TRACE|PROCESS_0:COMMAND|PROCESS_0:ARGUMENT_.+", re.DOTALL
)

# Its other rows hold the environment.
SYSTEM: Final = "TARGET_INFO_SYSTEM_ENV"
_INSTALLED: Final = re.compile(r"nsight-?systems(?:-cli)?[/-](\d{4}(?:\.\d+){2,3})/", re.IGNORECASE)
_METADATA: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# Beginnings of the names of calls that start GPU work.
LAUNCHES: Final = (
    "cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "cudaMemcpy", "cuMemcpy",
    "cudaMemset", "cuMemset",
)  # fmt: skip
# NAME=value in a command line may hold a secret.
_ASSIGNMENT: Final = re.compile(r"\b([A-Z_][A-Z0-9_]*)=\S+")
_ARGUMENT: Final = re.compile(r"ARGUMENT_\d{1,9}", re.ASCII)


def profile(export: Export) -> Profile:
    """The recording that an export holds.

    Raises:
        CorruptFileError: A table lacks the columns without which it says nothing.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
    """
    _check_columns(export)
    capture = _capture(export)
    diagnoses = _diagnoses(export)
    sources: dict[str, Source] = model_tables.tables(export) | dict(_small_tables(export))
    has_records = _has_cuda_records(export)
    if not has_records:
        sources = {n: of for n, of in sources.items() if n not in {*CUDA_TABLES, *_GPU_TABLES}}
    fault = None if sources.keys() & {*_GPU_TABLES} else _fault(export, capture, diagnoses)
    warnings = (
        *(f'nsys reported: "{line}"' for line in diagnoses),
        *notes(sources.keys(), fault, sum(export.untimed_rows.values())),
        *_device_warnings(export),
    )
    return Profile(
        _origin(export, capture, warnings),
        with_empty(export.path, sources, capture, fault),
        stored=sum(export.most_rows.values()),
    )


def _check_columns(export: Export) -> None:
    for table, needed in export_schema.NEEDED.items():
        missing = [c for c in needed if table in export.columns and c not in export.columns[table]]
        if missing:
            msg = f"{export.path}: table {table} has no column {missing[0]}"
            raise CorruptFileError(msg, "Export the report again: nsys export --type sqlite FILE.")
    if export_schema.STRINGS in export.columns:
        ids = np.array(export.texts.numbers, np.int64)
        borders.check_keys(export.path, export_schema.STRINGS, "id", ids)


def _has_cuda_records(export: Export) -> bool:
    """Whether a call, a wait or GPU work was recorded."""
    tables = [table for table in export.columns if table.startswith(_CUPTI)]
    return any(map(export.has_rows, tables))


def _fault(
    export: Export, capture: Mapping[str, list[str]], diagnoses: Sequence[str]
) -> str | None:
    """Why GPU work may have been done though none is in the file.

    Where CUDA was traced and not one call is in the file, the trace may have failed: an export
    does not always hold what nsys says of it, and a program may also have called nothing.
    """
    if faults := diagnostics.faults(diagnoses):
        return f'nsys could not collect it ("{faults[0]}")'
    if not _has_cuda_records(export):
        is_off = "COLLECT_CUDA_TRACE" in capture and not was_on(capture, "CUDA")
        return "CUDA was not traced" if is_off else "no CUDA call was recorded"
    runtime, strings = export_schema.RUNTIME, export_schema.STRINGS
    if not (export.has(runtime, "nameId") and export.has(strings, "id", "value")):
        return None
    texts = {i: t for i, t in export.select(strings, id=int, value=str) if t.startswith(LAUNCHES)}
    returned = "returnValue" if export.has(runtime, "returnValue") else None
    names, values = columns_at_once(export.stored(runtime), ["nameId", returned])
    is_launch = np.isin(names, [*texts])
    launches = names[is_launch & (values == 0) if returned else is_launch]
    if not len(launches):
        return None
    call = texts[int(launches[0])].partition("_v")[0]
    return f"{call} was called, and nsys recorded no work that calls started"


def with_empty(
    path: Path,
    sources: Mapping[str, Source],
    capture: Mapping[str, list[str]],
    fault: str | None,
) -> dict[str, Source]:
    """The tables, and an empty one where something was traced and nothing happened.

    Raises:
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
    """
    tables: dict[str, Source] = dict(sources)
    if fault is None:
        # nsys leaves a table without rows out of the file.
        empty = (*CUDA_TABLES, "graph_launches")
        tables = {name: schema.BY_NAME[name].empty() for name in empty} | tables
    if was_on(capture, "NVTX"):
        tables.setdefault("nvtx_ranges", schema.NVTX_RANGES.empty())
    if not tables.keys() & {*CUDA_TABLES, "nvtx_ranges"}:
        raise _nothing(path, capture, fault)
    return tables


def _small_tables(export: Export) -> Iterator[tuple[str, Source]]:
    """Devices and processes; what they hold that they should not is told to who asks for them."""
    owner = model_tables.owners(export)
    makers: dict[str, Callable[[], pa.Table]] = {}
    if any(table in export.columns for table in export_schema.GPUS):
        makers["devices"] = partial(_devices, export)
    if owner is not None:
        makers["runs"] = partial(_runs, export, *owner)
    for name, make in makers.items():
        spec = schema.BY_NAME[name]
        if name == "runs" and owner is not None and owner[0] in export_schema.EVENTS:
            yield name, partial(_table_of, spec, make)
            continue
        try:
            rows = make()
        except CorruptFileError:
            yield name, partial(_table_of, spec, make)
        else:
            yield name, rows if spec.fault(rows) is None else partial(_table_of, spec, make)


def _table_of(spec: Schema, make: Callable[[], pa.Table]) -> Table:
    return in_memory(spec, make())


def _devices(export: Export) -> pa.Table:
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
    where = f"{export.path}, table devices"
    return checked_table(where, schema.DEVICES, [_device(*row) for row in rows])


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


def _runs(export: Export, table: str, process: Computed | str) -> pa.Table:
    numbers = as_computed(process)
    columns = columns_at_once(export.stored(table), numbers.reads)
    all_processes = numbers.make(*columns) if numbers.make and len(columns[0]) else columns[0]
    processes = np.unique(all_processes).tolist()
    # What no process is known of comes last.
    processes.sort(key=lambda number: (number == NO_VALUE, number))
    commands: dict[int | None, str] = {}
    for pid, name in export.select("PROCESSES", pid=int, name=str):
        commands.setdefault(pid, name)
    numbered = [None if number == NO_VALUE else number for number in processes]
    return checked_table(
        f"{export.path}, table runs",
        schema.RUNS,
        [
            {"run_id": place, "process_id": number, "command": commands.get(number)}
            for place, number in enumerate(numbered)
        ],
    )


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


def _nothing(
    path: Path, capture: Mapping[str, list[str]], fault: str | None
) -> EmptyRecordingError:
    """The error for a recording of neither CUDA nor NVTX."""
    if was_on(capture, "CUDA"):
        msg = f"{path}: nothing to report, what GPUs did is unknown: {fault}"
        return EmptyRecordingError(msg, "See `gpuprof doctor`, then record again.")
    msg = f"{path}: nothing to report, {fault}"
    return EmptyRecordingError(msg, "Record with `gpuprof record`, or nsys --trace=cuda,nvtx.")


def _capture(export: Export) -> Mapping[str, list[str]]:
    """The settings of the recording that are read; the others may hold secrets."""
    values: dict[str, list[str]] = {}
    for name, value in export.select(SETTINGS, name=str, value=str):
        if READ_SETTINGS.fullmatch(name):
            values.setdefault(name.rpartition(":")[2], []).append(value)
    return values


def was_on(capture: Mapping[str, list[str]], trace: str) -> bool:
    """Whether the settings of a recording say that something was traced."""
    return "true" in capture.get(f"COLLECT_{trace}_TRACE", ())


def _origin(export: Export, capture: Mapping[str, list[str]], warnings: tuple[str, ...]) -> Origin:
    table = next((table for table in _METADATA if export.has(table, "name", "value")), "")
    versions = dict(export.select(table, name=str, value=str))
    exporter = versions.get("EXPORT_PRODUCT_VERSION")
    epoch, utc = _started(export)
    return Origin(
        export.path,
        export.reader,
        "nsys",
        export.recorder_version or _recorder_version(export, exporter),
        versions.get("EXPORT_SCHEMA_VERSION"),
        command(capture),
        utc,
        epoch,
        warnings=warnings,
        exporter_version=exporter,
        host=_host(export),
    )


def _host(export: Export) -> str | None:
    """The name of the host; None in what `gpuprof record` keeps."""
    rows = export.select(SYSTEM, name=str, value=str)
    names = [value for name, value in rows if name.lower() == "hostname"]
    return names[0] if names and names[0] not in {"", REMOVED} else None


def _recorder_version(export: Export, exporter: str | None) -> str | None:
    """The version that recorded, as far as the folder tells from which it ran.

    An export names the version that exported it alone. The folder is named after the first
    three numbers of its version, but for those within the HPC SDK.
    """
    rows = export.select(SYSTEM, name=str, value=str)
    folders = [value for name, value in rows if name == "TargetInstallDir"]
    installed = _INSTALLED.search(folders[0]) if folders else None
    if installed is None:
        return None
    is_exporter = exporter is not None and f"{exporter}.".startswith(f"{installed[1]}.")
    return exporter if is_exporter else installed[1]


def _started(export: Export) -> tuple[int | None, str | None]:
    rows = export.select("TARGET_INFO_SESSION_START_TIME", utcEpochNs=int, utcTime=str)
    if not rows or not 0 <= rows[0][0] <= schema.LARGEST:
        return None, None
    return rows[0][0], f"{rows[0][1]}Z"


def command(capture: Mapping[str, list[str]]) -> str | None:
    """The command line in the settings of a recording, its secrets masked."""
    if "COMMAND" not in capture:
        return None
    numbered = sorted(
        (int(name.removeprefix("ARGUMENT_")), values[0])
        for name, values in capture.items()
        if _ARGUMENT.fullmatch(name)
    )
    words = [capture["COMMAND"][0], *(word for _, word in numbered)]
    return _ASSIGNMENT.sub(r"\1=...", " ".join(masked_words(words)))


def notes(recorded: Collection[str], fault: str | None, untimed: int) -> list[str]:
    """What a reader of the numbers must know.

    Args:
        recorded: Names of the tables that something was recorded of.
        fault: Why GPU work may have been done though none is in the file; None where it is.
        untimed: How many activities have no times.
    """
    warnings = []
    if "graph_launches" in recorded:
        warnings.append(
            "CUDA graphs were recorded as a whole: their kernels and copies are missing here. "
            "Record with nsys --cuda-graph-trace=node."
        )
    if untimed:
        verb, pronoun = ("was", "it") if untimed == 1 else ("were", "they")
        records = f"{counted(untimed, 'record', 'records')} without times {verb} left out"
        warnings.append(f"{records}: when {pronoun} ran could not be collected")
    if fault is not None:
        warnings.append(f"What GPUs did is unknown: {fault}")
    elif not {"kernels", "memcpys", "memsets"} & {*recorded}:
        warnings.append("CUDA calls were recorded, but no GPU work was recorded")
    return warnings


def _device_warnings(export: Export) -> list[str]:
    if export.machine_numbers:
        return [device_ordinals.RENUMBERED]
    if export.device_numbers():
        return []
    contexts = export.select(export_schema.PROCESSES[1], processId=int, deviceId=int)
    doubt = device_ordinals.shared(contexts)
    return [doubt] if doubt else []


def _diagnoses(export: Export) -> list[str]:
    if not export.has(diagnostics.TABLE, "severity", "text"):
        return []
    rows = export.rows(diagnostics.TABLE, "severity", "text")
    return diagnostics.doubts(text for severity, text in rows if severity in diagnostics.SEVERE)
