"""Folders as `gpuprof record --recorder cupti` leaves them, made by hand: rows as dicts."""

import json

import pyarrow as pa
from pyarrow import parquet

from gpuprof.readers.gpuprof import cupti_run as cupti

# Near the clock of real recordings, where a float steps by 256 ns.
EPOCH_NS = 1_760_000_000_000_000_000
PLACE = {"device_id": 0, "context_id": 1, "stream_id": 7, "correlation_id": 1}


def at(start, end, **columns):
    """Times since the test's epoch, as the recorder holds them."""
    return {"start": EPOCH_NS + start, "end": EPOCH_NS + end, **PLACE, **columns}


def write(folder, texts=("saxpy(float*)",), process=None, **tables):
    """A process of which the tables that are named hold rows, of which absent columns are 0."""
    folder.mkdir(exist_ok=True)
    header = {"format": cupti.FORMAT, "format_version": 1, "process_id": 42} | (process or {})
    (folder / cupti.PROCESS).write_text(json.dumps(header), encoding="utf-8")
    for name, columns in COLUMNS.items():
        rows = [dict.fromkeys(columns, 0) | row for row in tables.get(name, ())]
        kinds = pa.schema([(column, pa.uint64()) for column in columns])
        parquet.write_table(pa.Table.from_pylist(rows, kinds), folder / f"{name}.parquet")
    parquet.write_table(pa.table({"text": pa.array(texts)}), folder / "texts.parquet")
    return folder


def replace(folder, table, column, values):
    """Other values, of any type, in a column; None takes it out."""
    path = folder / f"{table}.parquet"
    rows = parquet.read_table(path)
    place = rows.column_names.index(column)
    changed = rows.remove_column(place)
    parquet.write_table(
        changed if values is None else changed.add_column(place, column, pa.array(values)), path
    )


COLUMNS = {
    "kernels": [
        *("start", "end", *PLACE, "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
        *("registers_per_thread", "static_shared_memory", "dynamic_shared_memory"),
        *("graph_node_id", "name"),
    ],
    "memcpys": [
        *("start", "end", *PLACE, "bytes", "copy_kind", "src_kind", "dst_kind", "graph_node_id")
    ],
    "peer_memcpys": [
        *("start", "end", *PLACE, "bytes", "copy_kind", "src_kind", "dst_kind", "graph_node_id"),
        *("src_device_id", "dst_device_id"),
    ],
    "memsets": ["start", "end", *PLACE, "bytes", "memory_kind"],
    "api_calls": ["start", "end", "kind", "process_id", "thread_id", "correlation_id", "name"],
    "markers": ["timestamp", "id", "flags_", "process_id", "thread_id", "name", "domain"],
    "synchronizations": ["start", "end", "context_id", "stream_id", "correlation_id", "type"],
}
