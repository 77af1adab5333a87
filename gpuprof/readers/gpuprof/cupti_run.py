"""What ``gpuprof record --recorder cupti`` left of one process: CUPTI's activity records.

A folder of ``process.json`` and one Parquet file per table, columns named as in CUPTI.
Source: https://docs.nvidia.com/cupti/, "CUPTI Activity API" (CUpti_ActivityKernel,
CUpti_ActivityMemcpy, CUpti_ActivityMemcpyPtoP, CUpti_ActivityMarker).
"""

import re
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
from gpuprof.model import borders, data_model, schema
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.common.parquet_columns import FilePart, opened
from gpuprof.readers.input_format import Reader

PROCESS: Final = "process.json"
FORMAT: Final = "gpuprof-cupti"
_DRIVER: Final = 4
_START_FLAG: Final = 2
_END_FLAG: Final = 4
# CUPTI's words for what a record does not have.
_NONE: Final = 2**32 - 1
_ABSENT: Final = {
    "device_id": _NONE, "context_id": _NONE, "stream_id": _NONE, "correlation_id": _NONE,
    "graph_node_id": 0,
}  # fmt: skip
# Columns of the data model that CUPTI calls by another name, and the words of its numbers.
_TIMES: Final = ("start_ns", "end_ns")
_NAMES: Final = {
    "start_ns": "start", "end_ns": "end", "static_shared_memory_bytes": "static_shared_memory",
    "dynamic_shared_memory_bytes": "dynamic_shared_memory", "memcpy_kind": "copy_kind",
    "src_memory_kind": "src_kind", "dst_memory_kind": "dst_kind",
}  # fmt: skip
_WORDS: Final[Mapping[str, Mapping[int, str]]] = {
    "memcpy_kind": cuda.MEMCPY_KINDS,
    **dict.fromkeys(
        ("src_memory_kind", "dst_memory_kind", "memory_kind"), cuda.CUPTI_MEMORY_KINDS
    ),
}  # fmt: skip

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
_OF_GPUS: Final = ("kernels", "memcpys", "peer_memcpys", "memsets")
_TEXTS: Final = "texts"
_GIVES: Final = (
    "kernels", "memcpys", "memsets", "api_calls", "nvtx_ranges", "synchronizations",
)  # fmt: skip
_VERSION: Final = re.compile(r"(?<=.)_v\d+\Z", re.DOTALL)
_HINT: Final = "Was the recording moved or cut short?"

Columns = dict[str, npt.NDArray[np.uint64]]


class _Header(msgspec.Struct):
    """What is read of `PROCESS`."""

    process_id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


def read(folder: Path) -> Profile:
    """Read one process.

    Raises:
        CorruptFileError: A file is missing or broken.
        EmptyRecordingError: Neither kernels nor copies were recorded.
    """
    try:
        header = msgspec.convert(json_input.load(folder / PROCESS), _Header)
    except (OSError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        msg = f"{folder}: its file {PROCESS} is missing or damaged{why}"
        raise CorruptFileError(msg, _HINT) from error
    tables, untimed = {}, 0
    for name, columns in _COLUMNS.items():
        rows = _rows(folder, name, dict.fromkeys(columns, pa.uint64()))
        tables[name] = {column: rows[column].to_numpy() for column in columns}
        if "start" in columns:
            # CUPTI gives 0 for a time that it could not tell.
            start, end = tables[name]["start"], tables[name]["end"]
            is_timed = (start > 0) & (end >= start)
            tables[name] = {column: of[is_timed] for column, of in tables[name].items()}
            untimed += int((~is_timed).sum()) if name in _OF_GPUS else 0
    texts = _rows(folder, _TEXTS, {"text": pa.string()})["text"].to_pylist()
    if not any(len(tables[name]["start"]) for name in _OF_GPUS):
        msg = f"{folder}: CUPTI recorded no kernels and no copies"
        raise EmptyRecordingError(msg, "Did the program use a GPU?")
    starts = (columns["start"] for columns in tables.values() if "start" in columns)
    origin_ns = min(int(start.min()) for start in starts if len(start))
    records = counted(untimed, "record", "records")
    doubt = f"{records} without times left out: when they ran could not be collected"
    process = _Process(tables, texts, origin_ns, header.process_id)
    warnings = (doubt,) if untimed else ()
    origin = Origin(folder, NAME, "cupti", epoch_ns=origin_ns, warnings=warnings)
    return Profile(origin, {name: getattr(process, name)() for name in _GIVES})


def _rows(folder: Path, name: str, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """The columns of a file.

    Raises:
        CorruptFileError: It is missing or damaged, or a column is missing or of another type.
    """
    path, where = folder / f"{name}.parquet", f"{folder}, table {name}"
    try:
        if not path.is_file():  # A pipe would be waited for.
            raise FileNotFoundError(path)
        file = opened(part := FilePart.of_file(path), ())
        borders.check_names(where, file.schema_arrow)
        borders.check_growth(where, file.metadata, part.size)
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


class _Process:
    """One process's records, and the tables that are made of them."""

    def __init__(
        self, tables: Mapping[str, Columns], texts: list[str], origin_ns: int, process_id: int
    ) -> None:
        self._tables = tables
        self._texts = texts
        self._origin = np.uint64(origin_ns)
        self._process_id = process_id

    def kernels(self) -> pa.Table:
        """Kernels, named as their authors wrote them."""
        names = self._text(self._tables["kernels"]["name"], demangled)
        return self._table(data_model.KERNELS, "kernels", name=names.fill_null(cuda.UNKNOWN))

    def memcpys(self) -> pa.Table:
        """Copies and peer copies, which CUPTI keeps apart.

        The ends of a peer copy are told; else the host is one of them, or both are the device.
        """
        rows = self._tables["memcpys"]
        kinds, device = _words(rows["copy_kind"], cuda.MEMCPY_KINDS), rows["device_id"]
        from_host = np.array([kind.startswith("Hto") for kind in kinds], bool)
        to_host = np.array([kind.endswith("toH") for kind in kinds], bool)
        ends = {
            name: pa.array(device.astype(np.int64), mask=is_host)
            for name, is_host in (("src_device_id", from_host), ("dst_device_id", to_host))
        }
        direct = pa.array(["direct"] * len(self._tables["peer_memcpys"]["start"]), pa.string())
        copies = self._table(data_model.MEMCPYS, "memcpys", **ends)
        return pa.concat_tables(
            [copies, self._table(data_model.MEMCPYS, "peer_memcpys", path=direct)]
        )

    def memsets(self) -> pa.Table:
        """Memsets."""
        return self._table(data_model.MEMSETS, "memsets")

    def api_calls(self) -> pa.Table:
        """Calls; ``cudaMalloc_v3020`` names when the arguments of ``cudaMalloc`` last changed."""
        rows = self._tables["api_calls"]
        names = self._text(rows["name"], lambda name: _VERSION.sub("", name))
        apis = np.where(rows["kind"] == _DRIVER, "driver", "runtime")
        return self._table(
            data_model.API_CALLS, "api_calls", name=names.fill_null(cuda.UNKNOWN), api=apis
        )

    def nvtx_ranges(self) -> pa.Table:
        """A range is a marker that starts and one of the same id that ends it."""
        rows = self._tables["markers"]
        texts, domains = (self._text(rows[name]).to_pylist() for name in ("name", "domain"))
        times_ns = (rows["timestamp"] - self._origin).astype(np.int64)
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
        return data_model.NVTX_RANGES.table(ranges)

    def synchronizations(self) -> pa.Table:
        """Waits."""
        kinds = self._tables["synchronizations"]["type"].tolist()
        words = pa.array([cuda.SYNC_KINDS.get(number) for number in kinds], pa.string())
        return self._table(data_model.SYNCHRONIZATIONS, "synchronizations", sync_kind=words)

    def _table(self, spec: schema.Schema, table: str, **columns_made: Any) -> pa.Table:
        """A table of the data model: columns that were made, and those that CUPTI has."""
        rows = self._tables[table]
        columns = {"process_id": np.full(len(rows["start"]), self._process_id)} | columns_made
        for name in spec.columns.keys() - columns_made.keys():
            of_cupti = _NAMES.get(name, name)
            if of_cupti not in rows:
                continue
            values = rows[of_cupti]
            if name in _TIMES:
                columns[name] = (values - self._origin).astype(np.int64)
            elif name in _WORDS:
                columns[name] = _words(values, _WORDS[name])
            else:
                columns[name] = pa.array(values.astype(np.int64), mask=values == _ABSENT.get(name))
        return spec.conform(pa.table(columns))

    def _text(self, numbers: npt.NDArray[np.uint64], of: Callable[[str], str] = str) -> pa.Array:
        """Names for their numbers, each made once; null where a kill cut them off."""
        texts = pa.array([of(text) for text in self._texts], pa.string())
        return texts.take(pa.array(numbers, mask=numbers >= len(self._texts)))


def _words(values: npt.NDArray[np.uint64], names: Mapping[int, str]) -> list[str]:
    return [names.get(number, cuda.UNKNOWN) for number in values.tolist()]


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
    gives=_GIVES,
    cannot="Ranges do not show whether they were pushed and popped, or started and ended.",
    read=read,
    recognises_folder=_recognises,
)
