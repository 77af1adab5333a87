"""From the tables of a Nsight Systems export to a profile: origin, doubts, devices and processes.

An activity's ``deviceId`` is the ordinal that CUDA gave the GPU in that process, so that under
CUDA_VISIBLE_DEVICES two processes call different GPUs 0. Exports of nsys 2025 and later tell each
process' GPUs in TARGET_INFO_CUDA_DEVICE, those of 2020 in TARGET_INFO_CUDA_GPU; those between
list contexts only, from which it is seen that processes share a number.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, excerpt
from gpuprof.base.secrets import REMOVED, masked_words
from gpuprof.base.units import counted
from gpuprof.model import borders, data_model, schema
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.origin import Origin
from gpuprof.model.pairs import distinct
from gpuprof.model.profile import Profile, Source
from gpuprof.model.schema import Schema
from gpuprof.model.table import Computed, Table, in_memory
from gpuprof.readers.nsys import export_schema, model_tables
from gpuprof.readers.nsys.columns import Export, as_computed, columns_at_once, low_bits

CUDA_TABLES: Final = ("kernels", "memcpys", "memsets", "api_calls", "synchronizations")
_GPU_TABLES: Final = ("kernels", "memcpys", "memsets", "graph_launches")
# Begins the names of the tables of what CUDA did, on the host or on a device.
_CUPTI: Final = "CUPTI_ACTIVITY_KIND_"
GIVES: Final = (
    *CUDA_TABLES, "cuda_events", "host_calls", "page_faults", "nvtx_ranges", "graph_launches",
    "overheads", "gpu_metrics", "memory_events", "devices", "runs",
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
_LAUNCHES: Final = (
    "cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "cudaMemcpy", "cuMemcpy",
    "cudaMemset", "cuMemset",
)  # fmt: skip
# Of CPU samples, of libraries that are not read here, or of ranges that a program need not have.
_BESIDE_THE_POINT: Final = re.compile(
    r"IP/backtrace|IP samples|Scheduling information|event sampling|context switch|VSync"
    r"|^(?:No|Zero) (?!CUDA).* events (?:were )?collected"
    r"|^Not all (?!CUDA|NVTX).* events might|^(?!CUDA|NVTX).* profiling (?:might|stopped)"
)
_CUDA: Final = re.compile(r"CUDA|CUPTI")
# Of CUDA, but no reason why GPU work should be missing.
_COLLECTED: Final = re.compile(r"collected instead|Unified Memory|UVM|page fault|[Bb]acktrace")

_FAILED: Final = re.compile(r"fail|stopped|not (?:been )?started|[Cc]annot|[Cc]ould not|disabled")
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
    # The settings of the recording that are read; the others may hold secrets.
    capture: dict[str, list[str]] = {}
    for name, value in export.select(SETTINGS, name=str, value=str):
        if READ_SETTINGS.fullmatch(name):
            capture.setdefault(name.rpartition(":")[2], []).append(value)
    diagnoses = _diagnoses(export)
    sources: dict[str, Source] = {**model_tables.tables(export), **_small_tables(export)}
    # A call, a wait or GPU work.
    activities = [table for table in export.columns if table.startswith(_CUPTI)]
    has_records = any(map(export.has_rows, activities))
    if not has_records:
        sources = {n: of for n, of in sources.items() if n not in {*CUDA_TABLES, *_GPU_TABLES}}
    fault = None
    if sources.keys().isdisjoint(_GPU_TABLES):
        fault = _fault(export, capture, diagnoses, has_records=has_records)
    warnings = (
        *(f'nsys reported: "{line}"' for line in diagnoses),
        *_notes(sources.keys(), fault, sum(export.untimed_rows.values())),
        *_device_notes(export),
    )
    return Profile(
        _origin(export, capture, warnings),
        _recorded(export.path, sources, capture, fault),
        stored=sum(export.most_rows.values()),
    )


def _check_columns(export: Export) -> None:
    for table, needed in export_schema.NEEDED.items():
        for column in needed if table in export.columns else ():
            if column not in export.columns[table]:
                msg = f"{export.path}: table {table} has no column {column}"
                raise CorruptFileError(
                    msg, "Export the report again: nsys export --type sqlite FILE."
                )


def _diagnoses(export: Export) -> list[str]:
    """The first line of each different warning or error that touches what is read here.

    The texts are those of nsys 2019.5 to 2026.2, such as "CUDA injection initialization failed."
    and "CUDA profiling might have not been started correctly.".
    """
    severe = (export_schema.WARNING, export_schema.ERROR)
    lines: dict[str, None] = {}
    for severity, text in export.select(export_schema.DIAGNOSTICS, severity=object, text=object):
        line = str(text or "").split("\n")[0].strip()
        if text and severity in severe and not _BESIDE_THE_POINT.search(line):
            lines[line] = None
    return [*lines]


def _fault(
    export: Export,
    capture: Mapping[str, list[str]],
    diagnoses: Sequence[str],
    *,
    has_records: bool,
) -> str | None:
    """Why GPU work may have been done though none is in the file.

    Where CUDA was traced and not one call is in the file, the trace may have failed: an export
    does not always hold what nsys says of it, and a program may also have called nothing.
    """
    about_cuda = [line for line in diagnoses if _CUDA.search(line) and not _COLLECTED.search(line)]
    if about_cuda:
        # A failure tells more.
        shown = next(filter(_FAILED.search, about_cuda), about_cuda[0])
        return f'nsys could not collect it ("{shown}")'
    if not has_records:
        is_off = "COLLECT_CUDA_TRACE" in capture and not _was_on(capture, "CUDA")
        return "CUDA was not traced" if is_off else "no CUDA call was recorded"
    runtime, strings = export_schema.RUNTIME, export_schema.STRINGS
    if not (export.has(runtime, "nameId") and export.has(strings, "id", "value")):
        return None
    texts = {i: t for i, t in export.select(strings, id=int, value=str) if t.startswith(_LAUNCHES)}
    returned = "returnValue" if export.has(runtime, "returnValue") else None
    names, values = columns_at_once(export.stored(runtime), ["nameId", returned])
    is_launch = np.isin(names, [*texts])
    launches = names[is_launch & (values == 0) if returned else is_launch]
    if not len(launches):
        return None
    call = texts[int(launches[0])].partition("_v")[0]
    return f"{call} was called, and nsys recorded no work that calls started"


def _recorded(
    path: Path, sources: dict[str, Source], capture: Mapping[str, list[str]], fault: str | None
) -> dict[str, Source]:
    """The tables, and an empty one where something was traced and nothing happened."""
    if fault is None:
        # nsys leaves a table without rows out of the file.
        empty = (*CUDA_TABLES, "graph_launches")
        sources = {name: data_model.BY_NAME[name].empty() for name in empty} | sources
    if _was_on(capture, "NVTX"):
        sources.setdefault("nvtx_ranges", data_model.NVTX_RANGES.empty())
    if sources.keys() & {*CUDA_TABLES, "nvtx_ranges"}:
        return sources
    if _was_on(capture, "CUDA"):
        msg = f"{path}: nothing to report, what GPUs did is unknown: {fault}"
        raise EmptyRecordingError(msg, "See `gpuprof doctor`, then record again.")
    msg = f"{path}: nothing to report, {fault}"
    raise EmptyRecordingError(msg, "Record with `gpuprof record`, or nsys --trace=cuda,nvtx.")


def _was_on(capture: Mapping[str, list[str]], trace: str) -> bool:
    """Whether the settings of a recording say that something was traced."""
    return "true" in capture.get(f"COLLECT_{trace}_TRACE", ())


def _origin(export: Export, capture: Mapping[str, list[str]], warnings: tuple[str, ...]) -> Origin:
    table = next((table for table in _METADATA if export.has(table, "name", "value")), "")
    versions = dict(export.select(table, name=str, value=str))
    exporter = versions.get("EXPORT_PRODUCT_VERSION")
    system: dict[str, str] = {}
    for name, value in export.select(SYSTEM, name=str, value=str):
        system.setdefault("hostname" if name.lower() == "hostname" else name, value)
    # An export names the version that exported it alone. The folder is named after the first three
    # numbers of the version that recorded, but for those within the HPC SDK.
    recorder = export.recorder_version
    installed = _INSTALLED.search(system.get("TargetInstallDir", ""))
    if not recorder and installed is not None:
        is_exporter = f"{exporter}.".startswith(f"{installed[1]}.")
        recorder = exporter if is_exporter else installed[1]
    starts = export.select("TARGET_INFO_SESSION_START_TIME", utcEpochNs=int, utcTime=str)[:1]
    epoch_ns, utc = next((of for of in starts if 0 <= of[0] <= schema.LARGEST), (None, ""))
    return Origin(
        export.path,
        export.reader,
        "nsys",
        recorder,
        versions.get("EXPORT_SCHEMA_VERSION"),
        _command(capture),
        f"{utc}Z" if utc else None,
        epoch_ns,
        warnings=warnings,
        exporter_version=exporter,
        # What `gpuprof record` keeps has none.
        host=system["hostname"] if system.get("hostname", "") not in {"", REMOVED} else None,
    )


def _command(capture: Mapping[str, list[str]]) -> str | None:
    """The command line in the settings of a recording, its secrets masked."""
    if "COMMAND" not in capture:
        return None
    numbered = {0: capture["COMMAND"][0]}
    for name in filter(_ARGUMENT.fullmatch, capture):
        numbered[int(name.removeprefix("ARGUMENT_")) + 1] = capture[name][0]
    words = map(numbered.__getitem__, sorted(numbered))
    return _ASSIGNMENT.sub(r"\1=...", " ".join(masked_words(words)))


def _notes(recorded: Collection[str], fault: str | None, untimed: int) -> list[str]:
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


RENUMBERED: Final = (
    "Processes number different GPUs alike (CUDA_VISIBLE_DEVICES), so devices have the numbers of "
    "the machine here."
)


def _small_tables(export: Export) -> dict[str, Source]:
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
    return in_memory(data_model.DEVICES, checked_table(where, data_model.DEVICES, devices))


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
    processes = distinct(numbers.make(*columns)).tolist()
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
    return in_memory(data_model.RUNS, checked_table(where, data_model.RUNS, runs))


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


def _device_notes(export: Export) -> list[str]:
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
