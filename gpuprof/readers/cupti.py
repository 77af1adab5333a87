"""What ``gpuprof record --recorder cupti`` left of one process: CUPTI's activity records.

A folder of ``process.json`` and one Parquet file per table, columns named as in CUPTI.
Source: https://docs.nvidia.com/cupti/, "CUPTI Activity API" (CUpti_ActivityKernel,
CUpti_ActivityMemcpy, CUpti_ActivityMemcpyPtoP, CUpti_ActivityMarker).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof import cuda, json_input, schema
from gpuprof.errors import CorruptFileError, EmptyRecordingError
from gpuprof.profile import Origin, Profile
from gpuprof.readers.contract import Reader
from gpuprof.readers.demangle import demangled

PROCESS: Final = "process.json"
FORMAT: Final = "gpuprof-cupti"
SYNC_KINDS: Final = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
_DRIVER: Final = 4
_START_FLAG: Final = 2
_END_FLAG: Final = 4
# CUPTI's word for a stream or context that a record does not have.
_NONE: Final = 2**32 - 1

Columns = dict[str, npt.NDArray[np.uint64]]
Ints = npt.NDArray[np.int64]


def read(folder: Path) -> Profile:
    """Read one process.

    Raises:
        CorruptFileError: A file is missing or broken.
        EmptyRecordingError: Neither kernels nor copies were recorded.
    """
    process, tables, texts = _content(folder)
    starts = [
        int(columns["start"].min())
        for columns in tables.values()
        if "start" in columns and len(columns["start"])
    ]
    gpu = ("kernels", "memcpys", "peer_memcpys", "memsets")
    if not any(len(tables[name]["start"]) for name in gpu if name in tables):
        msg = f"{folder}: CUPTI recorded no kernels and no copies"
        raise EmptyRecordingError(msg, "Did the program use a GPU?")
    origin_ns = min(starts)
    made = _Process(tables, texts, origin_ns, int(process["process_id"]))
    origin = Origin(folder, NAME, "cupti", epoch_ns=origin_ns)
    return Profile(origin, {name: make(made) for name, make in _TABLES.items()})


def _content(folder: Path) -> tuple[dict[str, Any], dict[str, Columns], list[str]]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    try:
        process = json_input.load(folder / PROCESS)
        tables = {
            name: _timed({
                column: values.to_numpy()
                for column, values in zip(
                    columns, pq.read_table(folder / f"{name}.parquet").columns, strict=True
                )
            })
            for name, columns in process["columns"].items()
        }  # fmt: skip
        texts = pq.read_table(folder / "texts.parquet")["text"].to_pylist()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        msg = f"{folder}: one of its files is missing or damaged"
        raise CorruptFileError(msg, "Was the recording moved or cut short?") from error
    return process, tables, texts


def _timed(columns: Columns) -> Columns:
    """Without records whose time CUPTI could not tell, which it gives as 0."""
    if "start" not in columns:
        return columns
    known = (columns["start"] > 0) & (columns["end"] >= columns["start"])
    return {name: values[known] for name, values in columns.items()}


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
            **{name: _known(rows[name], _NONE) for name in names},
            "process_id": np.full(len(rows["start"]), self.process_id),
        }

    def text(self, numbers: npt.NDArray[np.uint64], of: Callable[[str], str] = str) -> pa.Array:
        """Names for their numbers, each made once; null where a kill cut them off."""
        known = pa.array([of(text) for text in self.texts], pa.string())
        return known.take(pa.array(numbers, mask=numbers >= len(self.texts)))


def _known(values: npt.NDArray[np.uint64], nothing: int) -> pa.Array:
    """Numbers, null where CUPTI has none."""
    return pa.array(values.astype(np.int64), mask=values == nothing)


def _kinds(values: npt.NDArray[np.uint64], names: Mapping[int, str]) -> list[str]:
    return [names.get(int(value), cuda.UNKNOWN) for value in values]


def _table(shape: schema.Schema, columns: Mapping[str, Any]) -> pa.Table:
    return shape.conform(pa.table(dict(columns)))


def _kernels(process: _Process) -> pa.Table:
    rows = process.tables["kernels"]
    sizes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    columns = {
        **process.place("kernels"),
        **{name: rows[name] for name in (*sizes, "registers_per_thread")},
        "static_shared_memory_bytes": rows["static_shared_memory"],
        "dynamic_shared_memory_bytes": rows["dynamic_shared_memory"],
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
    started: dict[int, int] = {}
    made = []
    for row in np.argsort(rows["timestamp"], kind="stable"):
        number, flags = int(rows["id"][row]), int(rows["flags_"][row])
        if flags & _START_FLAG:
            started[number] = row
        elif flags & _END_FLAG and number in started:
            first = started.pop(number)
            made.append({
                "start_ns": int(rows["timestamp"][first]) - process.origin_ns,
                "end_ns": int(rows["timestamp"][row]) - process.origin_ns,
                "text": texts[first],
                "domain": domains[first],
                "process_id": int(rows["process_id"][first]),
                "thread_id": int(rows["thread_id"][first]),
            })  # fmt: skip
    return schema.NVTX_RANGES.table(made)


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
    cannot="whether a range was pushed and popped, or started and ended",
    read=read,
    recognises_folder=_recognises,
)
