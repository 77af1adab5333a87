"""Small Nsight Systems exports, made by hand so that each result can be checked by eye."""

import sqlite3
from contextlib import closing

import pyarrow as pa
from pyarrow import parquet

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
STRINGS = "StringIds"

HTOD, DTOH, DTOD, PTOP = 1, 2, 8, 10
PAGEABLE, PINNED, DEVICE = 0, 1, 2


def pid(number):
    """A process as nsys numbers it: 24 bits of machine and process above 24 bits of thread."""
    return (1 << 48) | (number << 24)


def kernel(start, end, name=1, **columns):
    given = {"deviceId": 0, "streamId": 7, "correlationId": 1, "globalPid": pid(9)}
    return {"start": start, "end": end, "demangledName": name} | given | columns


def memcpy(start, end, kind, size=64, **columns):
    given = {
        "deviceId": 0,
        "streamId": 7,
        "correlationId": 1,
        "globalPid": pid(9),
        "srcKind": DEVICE if kind in {DTOH, DTOD, PTOP} else PINNED,
        "dstKind": DEVICE if kind in {HTOD, DTOD, PTOP} else PINNED,
        "srcDeviceId": None,
        "dstDeviceId": None,
    }
    return {"start": start, "end": end, "bytes": size, "copyKind": kind} | given | columns


def write(path, tables, drop=()):
    """Write the rows of each table; its columns are those of its first row, less ``drop``."""
    with closing(sqlite3.connect(path)) as database:
        for table, rows in ({STRINGS: [{"id": 1, "value": "saxpy(float*)"}]} | tables).items():
            names = [name for name in rows[0] if name not in drop]
            kinds = {n: "TEXT" if isinstance(rows[0][n], str) else "INTEGER" for n in names}
            columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
            database.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" for _ in names)
            database.executemany(
                f"INSERT INTO {table} VALUES ({marks})", [[r[n] for n in names] for r in rows]
            )
        database.commit()
    return path


def export(folder, tables, suffix):
    """The tables as the files of an export, by way of the same tables in SQLite."""
    folder.mkdir()
    database = write(folder.parent / "x.sqlite", tables)
    with closing(sqlite3.connect(database)) as connection:
        names = [r[0] for r in connection.execute("SELECT name FROM sqlite_master")]
        for name in names:
            cursor = connection.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in cursor])
            stored(folder / f"{name}{suffix}", table)
    return folder


def stored(path, table):
    """Write one table as a file of Parquet or Arrow."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)
