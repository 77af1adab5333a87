"""From the tables of a Nsight Systems export to a profile: origin, doubts, empty or absent."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from gpuprof.base.cuda import MEMCPY_KINDS, NSYS_MEMORY_KINDS, UNKNOWN
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, GpuprofError
from gpuprof.base.secrets import REMOVED, masked_words
from gpuprof.base.units import counted
from gpuprof.model import borders, schema
from gpuprof.model.database import Loader
from gpuprof.model.profile import Origin, Profile
from gpuprof.model.stored import Values
from gpuprof.model.views import View
from gpuprof.readers.nsys import devices, diagnostics
from gpuprof.readers.nsys import tables as nsys_tables
from gpuprof.readers.nsys.tables import Tables

if TYPE_CHECKING:
    import duckdb

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
READ_SETTINGS: Final = (
    "WHERE name LIKE '%COLLECT_CUDA_TRACE' "
    "OR name LIKE '%COLLECT_NVTX_TRACE' OR name = 'PROCESS_0:COMMAND' "
    "OR name LIKE 'PROCESS_0:ARGUMENT_%'"
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
FIRST_ROWS: Final = 100_000


@dataclass(frozen=True)
class Export:
    """An export's tables, whichever files they lie in.

    Args:
        path: What the user named.
        reader: Name of the reader.
        columns: Table name to the names of its columns.
        rows: All rows of a small SELECT, whose tables it names by bare names.
        prepare: Makes the tables visible to DuckDB as ``raw.NAME``; see `Profile`.
        failure: What a failed query says about the file.
        filled: Table name to the columns that hold no null, where the file says so.
        most_rows: Table name to about how many rows it holds, where that is known.
        recorder_version: Version of nsys that recorded, where the tables are of a report.
        integers: Columns of a small table, piece by piece; None where only queries read them.
    """

    path: Path
    reader: str
    columns: Mapping[str, frozenset[str]]
    rows: Callable[[str], list[tuple[Any, ...]]]
    prepare: "Callable[[duckdb.DuckDBPyConnection], Loader | None]"
    failure: Callable[[Exception], GpuprofError | None]
    filled: Mapping[str, frozenset[str]] = field(default_factory=dict)
    most_rows: Mapping[str, int] = field(default_factory=dict)
    recorder_version: str | None = None
    integers: Callable[[str, Sequence[str]], list[list[Values]] | None] = lambda *_: None

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with these columns."""
        return set(columns) <= self.columns.get(table, frozenset()) and table in self.columns

    def select(self, table: str, where: str = "", **kinds: type | UnionType) -> list[Any]:
        """Rows of a small table whose values are of these types; none where a column is absent."""
        if not self.has(table, *kinds):
            return []
        sql = f"SELECT {', '.join(kinds)} FROM {table} {where}"
        return borders.rows_of(self.rows(sql), *kinds.values())


def profile(export: Export) -> Profile:
    """The recording that an export holds.

    Raises:
        CorruptFileError: A table lacks the columns without which it says nothing.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
    """
    _check_columns(export)
    untimed = _untimed(export)
    tables = Tables(
        export.columns,
        _kinds(export, "ENUM_CUDA_MEMCPY_OPER", MEMCPY_KINDS),
        _kinds(export, "ENUM_CUDA_MEM_KIND", NSYS_MEMORY_KINDS),
        _backtrace_class(export),
        export.filled,
        frozenset(untimed),
    )
    if not _may_be_staged(export, nsys_tables.halves(tables)):
        tables = replace(tables, has_staged=False)
    capture = _capture(export)
    diagnoses = _diagnoses(export)
    numbers = devices.machine_numbers(_device_numbers(export))
    views = devices.renumbered(nsys_tables.views(tables), numbers)
    if not _has_cuda_records(export):
        views = {n: view for n, view in views.items() if n not in {*CUDA_TABLES, *_GPU_TABLES}}
    fault = None if views.keys() & {*_GPU_TABLES} else _fault(export, capture, diagnoses)
    sources = _sources(export, views, capture, fault)
    warnings = (
        *(f'nsys reported: "{line}"' for line in diagnoses),
        *notes(views.keys(), fault, sum(untimed.values())),
        *_device_warnings(export, numbers),
    )
    return Profile(
        _origin(export, capture, warnings),
        sources,
        export.prepare,
        export.failure,
        stored=sum(export.most_rows.values()),
    )


def _check_columns(export: Export) -> None:
    for table, needed in nsys_tables.NEEDED.items():
        missing = [c for c in needed if table in export.columns and c not in export.columns[table]]
        if missing:
            msg = f"{export.path}: table {table} has no column {missing[0]}"
            raise CorruptFileError(msg, "Export the report again: nsys export --type sqlite FILE.")
    if nsys_tables.STRINGS in export.columns:
        borders.check_keys(export.path, nsys_tables.STRINGS, "id", export.rows)


def _has_cuda_records(export: Export) -> bool:
    """Whether a call, a wait or GPU work was recorded."""
    tables = [table for table in export.columns if table.startswith(_CUPTI)]
    return any(export.rows(f"SELECT 1 FROM {table} LIMIT 1") for table in tables)


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
    runtime, strings = nsys_tables.RUNTIME, nsys_tables.STRINGS
    if not (export.has(runtime, "nameId") and export.has(strings, "id", "value")):
        return None
    is_launch = " OR ".join(f"s.value LIKE '{name}%'" for name in LAUNCHES)
    succeeded = "r.returnValue = 0" if export.has(runtime, "returnValue") else "true"
    launches = export.rows(
        f"SELECT s.value FROM {runtime} r JOIN {strings} s ON s.id = r.nameId"
        f" WHERE ({is_launch}) AND {succeeded} LIMIT 1"
    )
    if not launches:
        return None
    call = str(launches[0][0]).partition("_v")[0]
    return f"{call} was called, and nsys recorded no work that calls started"


def _sources(
    export: Export,
    views: Mapping[str, View],
    capture: Mapping[str, list[str]],
    fault: str | None,
) -> dict[str, pa.Table | View]:
    """The views, and an empty table where something was traced and nothing happened."""
    sources: dict[str, pa.Table | View] = dict(views)
    if fault is None:
        # nsys leaves a table without rows out of the file.
        empty = (*CUDA_TABLES, "graph_launches")
        sources = {name: schema.BY_NAME[name].empty() for name in empty} | sources
    if was_on(capture, "NVTX"):
        sources.setdefault("nvtx_ranges", schema.NVTX_RANGES.empty())
    if not sources.keys() & {*CUDA_TABLES, "nvtx_ranges"}:
        raise nothing(export.path, capture, fault)
    return sources


def nothing(path: Path, capture: Mapping[str, list[str]], fault: str | None) -> EmptyRecordingError:
    """The error for a recording of neither CUDA nor NVTX."""
    if was_on(capture, "CUDA"):
        msg = f"{path}: nothing to report, what GPUs did is unknown: {fault}"
        return EmptyRecordingError(msg, "See `gpuprof doctor`, then record again.")
    msg = f"{path}: nothing to report, {fault}"
    return EmptyRecordingError(msg, "Record with `gpuprof record`, or nsys --trace=cuda,nvtx.")


def _capture(export: Export) -> Mapping[str, list[str]]:
    """The settings of the recording that are read; the others may hold secrets."""
    settings: dict[str, list[str]] = {}
    for name, value in export.select(SETTINGS, READ_SETTINGS, name=str, value=str):
        settings.setdefault(name.rpartition(":")[2], []).append(value)
    return settings


def was_on(capture: Mapping[str, list[str]], trace: str) -> bool:
    """Whether the settings of a recording say that something was traced."""
    return "true" in capture.get(f"COLLECT_{trace}_TRACE", ())


def _origin(export: Export, capture: Mapping[str, list[str]], warnings: tuple[str, ...]) -> Origin:
    table = next((table for table in _METADATA if export.has(table, "name", "value")), "")
    versions = dict(export.select(table, "WHERE name LIKE 'EXPORT_%_VERSION'", name=str, value=str))
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
    rows = export.select(SYSTEM, "WHERE lower(name) = 'hostname'", value=str)
    return rows[0][0] if rows and rows[0][0] not in {"", REMOVED} else None


def _recorder_version(export: Export, exporter: str | None) -> str | None:
    """The version that recorded, as far as the folder tells from which it ran.

    An export names the version that exported it alone. The folder is named after the first
    three numbers of its version, but for those within the HPC SDK.
    """
    if not export.has(SYSTEM, "name", "value"):
        return None
    rows = export.rows(f"SELECT value FROM {SYSTEM} WHERE name = 'TargetInstallDir'")
    installed = _INSTALLED.search(str(rows[0][0])) if rows else None
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


def _device_numbers(export: Export) -> list[tuple[int, int, int | str]]:
    """Each process' number of a device, and which GPU it is."""
    mapped, old, _ = nsys_tables.GPUS
    if export.has(mapped, "pid", "cudaId", "gpuId"):
        return export.select(mapped, pid=int, cudaId=int, gpuId=int | str)
    return export.select(old, pid=int, deviceId=int, pciBusId=int | str)


def _device_warnings(export: Export, numbers: devices.Numbers) -> list[str]:
    if numbers:
        return [devices.RENUMBERED]
    if _device_numbers(export):
        return []
    contexts = export.select(nsys_tables.PROCESSES[1], processId=int, deviceId=int)
    doubt = devices.shared(contexts)
    return [doubt] if doubt else []


def _diagnoses(export: Export) -> list[str]:
    if not export.has(diagnostics.TABLE, "severity", "text"):
        return []
    return diagnostics.doubts(text for (text,) in export.rows(diagnostics.SELECT))


def _untimed(export: Export) -> dict[str, int]:
    """By table, activities whose times CUPTI could not collect, mostly given as 0.

    nsys writes rows in the order of their start, so that these come first: a table is counted
    whole only where its first rows hold one (a count of ten million rows takes seconds).
    """
    tables = [table for table in nsys_tables.TIMED if table in export.columns]
    small = {table: export.integers(table, ("start", "end")) for table in tables}
    counts = {t: sum(map(_untimed_rows, parts)) for t, parts in small.items() if parts is not None}
    uncounted = [table for table in tables if table not in counts]
    first = {table: f'(SELECT start, "end" FROM {table} LIMIT {FIRST_ROWS})' for table in uncounted}
    counted = _count_untimed(export, {table: table for table in _count_untimed(export, first)})
    return {table: count for table, count in counts.items() if count} | counted


def _untimed_rows(times: Sequence[Values]) -> int:
    """How many rows have no times, see `nsys_tables.UNTIMED`."""
    (start, no_start), (end, no_end) = times
    is_untimed = ((start == 0) & (end == 0)) | (end < start)
    for is_null in (no_start, no_end):
        is_untimed |= False if is_null is None else is_null
    return int(is_untimed.sum())


def _may_be_staged(export: Export, halves: Mapping[str, Collection[int]]) -> bool:
    """Whether a copy may be half of a staged one, see `nsys_tables.halves`."""
    parts = export.integers(nsys_tables.MEMCPY, [*halves]) if halves else []
    return parts is None or any(
        np.logical_and.reduce([
            np.isin(column.filled, [*numbers])
            for column, numbers in zip(part, halves.values(), strict=True)
        ]).any()
        for part in parts
    )  # fmt: skip


def _count_untimed(export: Export, rows: Mapping[str, str]) -> dict[str, int]:
    """By table, how many of some rows, given in SQL, have no times, where any has none."""
    counts = [
        f"SELECT '{table}', count(*) FROM {source} t WHERE {nsys_tables.UNTIMED}"
        for table, source in rows.items()
    ]
    counted = export.rows(" UNION ALL ".join(counts)) if counts else []
    return {table: count for table, count in counted if count}


def _kinds(export: Export, table: str, default: Mapping[int, str]) -> Mapping[int, str]:
    """Numbers to words by the file's own enum, so that a renumbering cannot mislabel a copy."""
    words = {word.upper(): word for word in default.values()}
    kinds = {
        number: words.get(re.sub(r"^CUDA_(MEMCPY_KIND|MEMOPR_MEMORY_KIND)_", "", name), UNKNOWN)
        for number, name in export.select(table, id=int, name=str)
    }
    return kinds or default


def _backtrace_class(export: Export) -> int:
    """The class of rows that repeat API calls, by the file's own enum where it has one."""
    if not export.has(nsys_tables.EVENT_CLASSES, "id", "name"):
        return nsys_tables.BACKTRACE_CLASS
    sql = f"SELECT id FROM {nsys_tables.EVENT_CLASSES} WHERE name = '{nsys_tables.BACKTRACE}'"
    numbers = [number for (number,) in export.rows(sql) if isinstance(number, int)]
    return numbers[0] if numbers else nsys_tables.BACKTRACE_CLASS
