"""What ``gpuprof record --recorder cupti`` left of one process: CUPTI's activity records.

A folder of ``process.json`` and one Parquet file per table, columns named as in CUPTI.
Source: https://docs.nvidia.com/cupti/, "CUPTI Activity API" (CUpti_ActivityKernel,
CUpti_ActivityMemcpy, CUpti_ActivityMemcpyPtoP, CUpti_ActivityMarker).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base import cuda, json_input
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.base.kernel_names import demangled
from gpuprof.base.units import counted
from gpuprof.model import borders, schema
from gpuprof.model.profile import Origin, Profile
from gpuprof.readers.input_format import Reader

PROCESS: Final = "process.json"
FORMAT: Final = "gpuprof-cupti"
SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
_DRIVER: Final = 4
_START_FLAG: Final = 2
_END_FLAG: Final = 4
# CUPTI's word for a stream or context that a record does not have.
_NONE: Final = 2**32 - 1

_PLACE: Final = ("start", "end", "device_id", "context_id", "stream_id", "correlation_id")
_COPY: Final = (*_PLACE, "bytes", "copy_kind", "src_kind", "dst_kind", "graph_node_id")
# What is read of each table, all of it unsigned numbers.
_COLUMNS: Final = {
    "kernels": (
        *_PLACE, "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
        "registers_per_thread", "static_shared_memory", "dynamic_shared_memory", "graph_node_id",
        "name",
    ),
    "memcpys": _COPY,
    "peer_memcpys": (*_COPY, "src_device_id", "dst_device_id"),
    "memsets": (*_PLACE, "bytes", "memory_kind"),
    "api_calls": ("start", "end", "kind", "process_id", "thread_id", "correlation_id", "name"),
    "markers": ("timestamp", "id", "flags_", "process_id", "thread_id", "name", "domain"),
    "synchronizations": ("start", "end", "context_id", "stream_id", "correlation_id", "type"),
}  # fmt: skip
_TEXTS: Final = "texts"
_HINT: Final = "Was the recording moved or cut short?"

Columns = dict[str, npt.NDArray[np.uint64]]
Ints = npt.NDArray[np.int64]


class _Header(msgspec.Struct):
    """What is read of `PROCESS`."""

    process_id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


def read(folder: Path) -> Profile:
    """Read one process.

    Raises:
        CorruptFileError: A file is missing or broken.
        EmptyRecordingError: Neither kernels nor copies were recorded.
    """
    process_id = _process_id(folder)
    recorded = {name: _table_of(folder, name) for name in _COLUMNS}
    tables = {name: _timed(columns) for name, columns in recorded.items()}
    texts = _rows(folder, _TEXTS, {"text": pa.string()})["text"].to_pylist()
    gpu = ("kernels", "memcpys", "peer_memcpys", "memsets")
    if not any(len(tables[name]["start"]) for name in gpu):
        msg = f"{folder}: CUPTI recorded no kernels and no copies"
        raise EmptyRecordingError(msg, "Did the program use a GPU?")
    starts = (columns["start"] for columns in tables.values() if "start" in columns)
    origin_ns = min(int(start.min()) for start in starts if len(start))
    process = _Process(tables, texts, origin_ns, process_id)
    untimed = sum(len(recorded[name]["start"]) - len(tables[name]["start"]) for name in gpu)
    origin = Origin(folder, NAME, "cupti", epoch_ns=origin_ns, warnings=_warnings(untimed))
    return Profile(origin, {name: make(process) for name, make in _TABLES.items()})


def _process_id(folder: Path) -> int:
    try:
        header = json_input.load(folder / PROCESS)
        return msgspec.convert(header, _Header).process_id
    except (OSError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        msg = f"{folder}: its file {PROCESS} is missing or damaged{why}"
        raise CorruptFileError(msg, _HINT) from error


def _table_of(folder: Path, name: str) -> Columns:
    rows = _rows(folder, name, dict.fromkeys(_COLUMNS[name], pa.uint64()))
    return {column: rows[column].to_numpy() for column in rows.column_names}


def _rows(folder: Path, name: str, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """The columns of a file.

    Raises:
        CorruptFileError: It is missing or damaged, or a column is missing or of another type.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    path, where = folder / f"{name}.parquet", f"{folder}, table {name}"
    try:
        if not path.is_file():  # A pipe would be waited for.
            raise FileNotFoundError(path)
        with pq.ParquetFile(path) as file:
            borders.check_names(where, file.schema_arrow)
            borders.check_growth(where, file.metadata, path.stat().st_size)
            missing = [column for column in kinds if column not in file.schema_arrow.names]
            rows = None if missing else file.read([*kinds])
    except borders.DAMAGE as error:
        msg = f"{where}: its file is missing or damaged"
        raise CorruptFileError(msg, _HINT) from error
    if rows is None:
        msg = f"{where}: it has no column {missing[0]}"
        raise CorruptFileError(msg, _HINT)
    rows = borders.cast(where, rows, kinds)
    for column in rows.column_names:
        if rows[column].null_count:
            row = rows[column].is_valid().index(False).as_py() + 1
            msg = f"{where}: column {column} holds no value in row {row:,}"
            raise CorruptFileError(msg, _HINT)
    return rows


def _timed(columns: Columns) -> Columns:
    """Without records whose time CUPTI could not tell, which it gives as 0."""
    if "start" not in columns:
        return columns
    is_timed = (columns["start"] > 0) & (columns["end"] >= columns["start"])
    return {name: values[is_timed] for name, values in columns.items()}


def _warnings(untimed: int) -> tuple[str, ...]:
    if not untimed:
        return ()
    records = counted(untimed, "record", "records")
    return (f"{records} without times left out: when they ran could not be collected",)


class _Process:
    """One process's records, and the columns that tables are made of."""

    def __init__(
        self, tables: Mapping[str, Columns], texts: list[str], origin_ns: int, process_id: int
    ) -> None:
        self.tables = tables
        self.texts = texts
        self.origin_ns = origin_ns
        self.process_id = process_id

    def times(self, table: str) -> dict[str, Ints]:
        """``start_ns`` and ``end_ns`` since the origin."""
        rows = self.tables[table]
        origin = np.uint64(self.origin_ns)
        return {f"{end}_ns": (rows[end] - origin).astype(np.int64) for end in ("start", "end")}

    def place(self, table: str) -> dict[str, Any]:
        """Times, device, context, stream, process and correlation id."""
        rows = self.tables[table]
        names = [n for n in ("device_id", "context_id", "stream_id", "correlation_id") if n in rows]
        return {
            **self.times(table),
            **{name: _nullable(rows[name], _NONE) for name in names},
            "process_id": np.full(len(rows["start"]), self.process_id),
        }

    def text(self, numbers: npt.NDArray[np.uint64], of: Callable[[str], str] = str) -> pa.Array:
        """Names for their numbers, each made once; null where a kill cut them off."""
        texts = pa.array([of(text) for text in self.texts], pa.string())
        return texts.take(pa.array(numbers, mask=numbers >= len(self.texts)))


def _nullable(values: npt.NDArray[np.uint64], nothing: int) -> pa.Array:
    """Numbers, null where CUPTI has none."""
    return pa.array(values.astype(np.int64), mask=values == nothing)


def _kinds(values: npt.NDArray[np.uint64], names: Mapping[int, str]) -> list[str]:
    return [names.get(int(value), cuda.UNKNOWN) for value in values]


def _table(shape: schema.Schema, columns: Mapping[str, Any]) -> pa.Table:
    return shape.conform(pa.table(dict(columns)))


def _kernels(process: _Process) -> pa.Table:
    rows = process.tables["kernels"]
    sizes = [f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz"]
    columns = {
        **process.place("kernels"),
        **{name: rows[name].astype(np.int64) for name in (*sizes, "registers_per_thread")},
        "static_shared_memory_bytes": rows["static_shared_memory"].astype(np.int64),
        "dynamic_shared_memory_bytes": rows["dynamic_shared_memory"].astype(np.int64),
        "graph_node_id": _graph_node(rows),
        "name": process.text(rows["name"], demangled).fill_null(cuda.UNKNOWN),
    }
    return _table(schema.KERNELS, columns)


def _memcpys(process: _Process) -> pa.Table:
    """Copies and peer copies, which CUPTI keeps apart."""
    parts = [_copies(process, name) for name in ("memcpys", "peer_memcpys")]
    return pa.concat_tables(parts)


def _copies(process: _Process, table: str) -> pa.Table:
    rows = process.tables[table]
    kinds = _kinds(rows["copy_kind"], cuda.MEMCPY_KINDS)
    columns = {
        **process.place(table),
        "memcpy_kind": kinds,
        "src_memory_kind": _kinds(rows["src_kind"], cuda.CUPTI_MEMORY_KINDS),
        "dst_memory_kind": _kinds(rows["dst_kind"], cuda.CUPTI_MEMORY_KINDS),
        "bytes": rows["bytes"].astype(np.int64),
        "graph_node_id": _graph_node(rows),
        **_ends(rows, kinds),
    }
    return _table(schema.MEMCPYS, columns)


def _ends(rows: Columns, kinds: list[str]) -> dict[str, Any]:
    """Devices at both ends: those of a peer copy are told, else the host is one of them."""
    if "src_device_id" in rows:
        ends = {f"{e}_device_id": rows[f"{e}_device_id"].astype(np.int64) for e in ("src", "dst")}
        return {**ends, "path": ["direct"] * len(kinds)}
    device = rows["device_id"].astype(np.int64)
    from_host = np.array([kind.startswith("Hto") for kind in kinds], bool)
    to_host = np.array([kind.endswith("toH") for kind in kinds], bool)
    return {
        "src_device_id": pa.array(device, mask=from_host),
        "dst_device_id": pa.array(device, mask=to_host),
    }


def _graph_node(rows: Columns) -> pa.Array:
    return pa.array(rows["graph_node_id"].view(np.int64), mask=rows["graph_node_id"] == 0)


def _memsets(process: _Process) -> pa.Table:
    rows = process.tables["memsets"]
    columns = {
        **process.place("memsets"),
        "bytes": rows["bytes"].astype(np.int64),
        "memory_kind": _kinds(rows["memory_kind"], cuda.CUPTI_MEMORY_KINDS),
    }
    return _table(schema.MEMSETS, columns)


def _api_calls(process: _Process) -> pa.Table:
    rows = process.tables["api_calls"]
    columns = {
        **process.times("api_calls"),
        "api": np.where(rows["kind"] == _DRIVER, "driver", "runtime"),
        "name": process.text(rows["name"], _without_version).fill_null(cuda.UNKNOWN),
        **{n: rows[n].astype(np.int64) for n in ("process_id", "thread_id", "correlation_id")},
    }
    return _table(schema.API_CALLS, columns)


def _without_version(name: str) -> str:
    """``cudaMalloc`` of ``cudaMalloc_v3020``, which names when its arguments last changed."""
    stem, _, version = name.rpartition("_v")
    return stem if stem and version.isdecimal() else name


def _nvtx_ranges(process: _Process) -> pa.Table:
    """A range is a marker that starts and one of the same id that ends it."""
    rows = process.tables["markers"]
    texts, domains = (process.text(rows[name]).to_pylist() for name in ("name", "domain"))
    times_ns = (rows["timestamp"] - np.uint64(process.origin_ns)).astype(np.int64)
    place = {n: rows[n].astype(np.int64).tolist() for n in ("process_id", "thread_id")}
    started: dict[int, int] = {}
    ranges = []
    for row in np.argsort(times_ns, kind="stable").tolist():
        number, flags = int(rows["id"][row]), int(rows["flags_"][row])
        if flags & _START_FLAG:
            started[number] = row
        elif flags & _END_FLAG and number in started:
            first = started.pop(number)
            ranges.append({
                "start_ns": int(times_ns[first]),
                "end_ns": int(times_ns[row]),
                "text": texts[first],
                "domain": domains[first],
                **{name: values[first] for name, values in place.items()},
            })  # fmt: skip
    return schema.NVTX_RANGES.table(ranges)


def _synchronizations(process: _Process) -> pa.Table:
    rows = process.tables["synchronizations"]
    kinds = [SYNC_KINDS.get(int(kind)) for kind in rows["type"]]
    columns = {**process.place("synchronizations"), "sync_kind": pa.array(kinds, pa.string())}
    return _table(schema.SYNCHRONIZATIONS, columns)


_TABLES: Final = {
    "kernels": _kernels,
    "memcpys": _memcpys,
    "memsets": _memsets,
    "api_calls": _api_calls,
    "nvtx_ranges": _nvtx_ranges,
    "synchronizations": _synchronizations,
}


def _recognises(folder: Path) -> bool:
    if not (folder / PROCESS).is_file():
        return False
    try:
        with (folder / PROCESS).open(encoding="utf-8") as file:
            return f'"format": "{FORMAT}"' in file.read(1024)
    except (OSError, ValueError):
        return False


NAME: Final = "cupti"
READER: Final = Reader(
    name=NAME,
    title="What `gpuprof record --recorder cupti` saw of one process (a folder)",
    versions="format_version 1 (CUPTI 12.6 to 13)",
    gives=tuple(_TABLES),
    cannot="Ranges do not show whether they were pushed and popped, or started and ended.",
    read=read,
    recognises_folder=_recognises,
)
