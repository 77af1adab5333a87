"""Write a recording of any size as another tool does: ``large_recordings.py OUT KERNELS``.

The drawn recording of the documentation is repeated, each time later and with ids of its own.
"""

import argparse
import gzip
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import gpuprof
from gpuprof.base.cuda import CUPTI_MEMORY_KINDS, MEMCPY_KINDS
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

PACKAGE: Final = Path(gpuprof.__file__).parent
SAMPLE: Final = PACKAGE / "docs" / "recordings" / "direct.gpuprof"
CALLS: Final = PACKAGE / "readers" / "nvprof" / "cupti_calls.txt"
TABLES: Final = ("kernels", "memcpys", "api_calls", "nvtx_ranges")
PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
GAP_NS: Final = 100_000
COPIES: Final = {word: number for number, word in MEMCPY_KINDS.items()}
MEMORIES: Final = {word: number for number, word in CUPTI_MEMORY_KINDS.items()}
LONG: Final = {"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "PtoP": "Peer-to-Peer"}
# Of what every kernel is launched with; the drawn ones are launched with nothing known.
SHAPE: Final = {"gridX": 160, "gridY": 1, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1}
# The operations around each launch, as many as in real traces of PyTorch.
OPERATIONS: Final = 8

Row = dict[str, Any]
Round = dict[str, list[Row]]
Tables = dict[str, list[Row]]


def rounds(kernels: int) -> Iterator[Round]:
    """The tables of one repetition after another, until there are about so many kernels."""
    sample = gpuprof.read_profile(SAMPLE)
    tables = {name: sample.table(name).to_pylist() for name in TABLES}
    span = max(row["end_ns"] for rows in tables.values() for row in rows) + GAP_NS
    grows = {"start_ns": span, "end_ns": span, "correlation_id": len(tables["api_calls"])}
    for number in range(max(1, kernels // len(tables["kernels"]))):
        yield {
            name: [
                row | {c: row[c] + number * by for c, by in grows.items() if c in row}
                for row in rows
            ]
            for name, rows in tables.items()
        }


def as_gpuprof(path: Path, repeated: Iterator[Round]) -> None:
    """A file of gpuprof's own."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for of in repeated:
        for name, rows in of.items():
            parts[name].append(data_model.BY_NAME[name].table(rows))
    tables = {name: pa.concat_tables(of_table) for name, of_table in parts.items()}
    write(Profile(Origin(path, "drawn", "scripts/large_recordings.py"), tables), path)


def as_kineto(path: Path, repeated: Iterator[Round]) -> None:
    """A trace of PyTorch's, compressed where the path ends in ``.gz``."""
    is_packed = path.suffix == ".gz"
    with gzip.open(path, "wt", compresslevel=1) if is_packed else path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        file.writelines(f"{json.dumps(event)},\n" for of in repeated for event in kineto_events(of))
        last = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
        file.write(f"{json.dumps(last)}]}}")


def kineto_events(of: Round) -> Iterator[Row]:
    """The events of one repetition, each with its times in microseconds."""
    for row in of["api_calls"]:
        number = row["correlation_id"]
        place = {"pid": 1, "tid": row["thread_id"]}
        shapes = {"Input Dims": [[64, 128], [128, 256]], "Input type": ["float", "float"]}
        for operation in range(OPERATIONS):
            arguments = {"External id": number, **shapes}
            yield event("cpu_op", f"aten::op{operation}", row, place, arguments)
        arrow = {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": number}
        yield arrow | place | {"ts": us(row["start_ns"])}
        arguments = {"External id": number, "correlation": number, "cbid": 211}
        yield event("cuda_runtime", row["name"], row, place, arguments)
    for row in chain(of["kernels"], of["memcpys"]):
        arguments = {
            "External id": row["correlation_id"],
            "correlation": row["correlation_id"],
            "device": row["device_id"],
            "context": row["context_id"],
            "stream": row["stream_id"],
        }
        place = {"pid": row["device_id"], "tid": row["stream_id"]}
        if "name" in row:
            shape = {"grid": [160, 1, 1], "block": [256, 1, 1]}
            yield event("kernel", row["name"], row, place, arguments | shape)
        else:
            ends = [str(row[f"{end}_memory_kind"]).title() for end in ("src", "dst")]
            name = f"Memcpy {row['memcpy_kind']} ({' -> '.join(ends)})"
            yield event("gpu_memcpy", name, row, place, arguments | {"bytes": row["bytes"]})
    for row in of["nvtx_ranges"]:
        name = row["text"].replace("step ", "ProfilerStep#")
        yield event("user_annotation", name, row, {"pid": 1, "tid": row["thread_id"]}, {})


def event(category: str, name: str, row: Row, place: Row, arguments: Row) -> Row:
    """A complete event."""
    times = {"ts": us(row["start_ns"]), "dur": us(row["end_ns"] - row["start_ns"])}
    return {"ph": "X", "cat": category, "name": name, **place, **times, "args": arguments}


def us(nanoseconds: int) -> float:
    """Microseconds."""
    return nanoseconds / 1000


def as_xplane(path: Path, repeated: Iterator[Round]) -> None:
    """A profile of TensorFlow's or JAX's: the kernels of each device, with launch and sizes."""
    names: dict[str, int] = {}
    lines: dict[int, list[bytes]] = {}
    refers = field(4, field(1, 2) + field(7, 3))
    for row in chain.from_iterable(of["kernels"] for of in repeated):
        number = names.setdefault(row["name"], len(names) + 1)
        duration = row["end_ns"] - row["start_ns"]
        times = field(2, row["start_ns"] * 1000) + field(3, duration * 1000)
        launch = field(4, field(1, 1) + field(3, row["correlation_id"]))
        of_event = field(4, field(1, number) + times + launch + refers)
        lines.setdefault(row["device_id"], []).append(of_event)
    details = "regs:38 static_shared:0 dynamic_shared:0 grid:160,1,1 block:1024,1,1 occ_pct:50"
    values = {"correlation_id": 1, "kernel_details": 2, details: 3}
    metadata = b"".join(
        field(at, field(1, key) + field(2, field(1, key) + field(2, text.encode())))
        for at, table in ((4, names), (5, values))
        for text, key in table.items()
    )
    with path.open("wb") as file:
        for device, events in lines.items():
            line = field(1, 7) + field(2, b"Stream #7(Compute)") + field(3, 1) + b"".join(events)
            plane = field(2, b"/device:GPU:%d" % device) + field(3, line) + metadata
            file.write(field(1, plane))


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    """A number of a protocol buffer: seven bits a byte, the top bit where more follow."""
    octets = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def as_nvprof_database(path: Path, repeated: Iterator[Round]) -> None:
    """A database that ``nvprof -o`` writes."""
    numbers: dict[str, int] = {}
    for line in CALLS.read_text("ascii").splitlines():
        api, number, name = line.split()
        if api == "runtime":
            numbers[name] = int(number)
    strings: dict[str, int] = {}

    def tables(of: Round, before: int) -> Tables:
        marks = []
        for number, row in enumerate(of["nvtx_ranges"], before + 1):
            name = strings.setdefault(row["text"], len(strings) + 1)
            for end, flags, of_mark in (("start", 2, name), ("end", 4, 0)):
                mark = {"id": number, "timestamp": row[f"{end}_ns"], "flags": flags}
                marks.append(mark | {"name": of_mark, "domain": 0})
        calls = [
            span(row) | {"cbid": numbers[row["name"]], "processId": 1, "threadId": row["thread_id"]}
            for row in of["api_calls"]
        ]
        kernels = [
            work(row) | SHAPE | {"name": strings.setdefault(row["name"], len(strings) + 1)}
            for row in of["kernels"]
        ]
        copies: Tables = {"MEMCPY": [], "MEMCPY2": []}
        for row in of["memcpys"]:
            copies["MEMCPY2" if row["memcpy_kind"] == "PtoP" else "MEMCPY"].append(copied(row))
        found = {"CONCURRENT_KERNEL": kernels, "RUNTIME": calls, "MARKER": marks, **copies}
        return {f"{PREFIX}{name}": rows for name, rows in found.items()}

    fill(path, (tables(of, 40 * number) for number, of in enumerate(repeated)))
    named = [{"_id_": number, "value": text} for text, number in strings.items()]
    fill(path, [{"StringTable": named, "Version": [{"version": 22}]}])


def span(row: Row) -> Row:
    """Times and correlation id, as both nvprof and nsys name them."""
    return {"start": row["start_ns"], "end": row["end_ns"], "correlationId": row["correlation_id"]}


def work(row: Row) -> Row:
    """Of an activity of a device, where it ran, too."""
    places = ("device", "context", "stream")
    return span(row) | {f"{place}Id": row[f"{place}_id"] for place in places}


def copied(row: Row) -> Row:
    """Of a copy, what and between which memories and devices, too."""
    kinds = {f"{end}Kind": MEMORIES[row[f"{end}_memory_kind"]] for end in ("src", "dst")}
    devices = {f"{end}DeviceId": row[f"{end}_device_id"] for end in ("src", "dst")}
    about = {"copyKind": COPIES[row["memcpy_kind"]], "bytes": row["bytes"]}
    return work(row) | about | kinds | devices


def fill(path: Path, parts: Iterator[Tables] | list[Tables]) -> None:
    """Add rows to tables of a database, which are made of the first rows' columns."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        for part in parts:
            for table, rows in part.items():
                columns = ", ".join(
                    f"{name} {'TEXT' if isinstance(value, str) else 'INTEGER'}"
                    for name, value in rows[0].items()
                )
                database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                places = ", ".join("?" * len(rows[0]))
                values = (tuple(row.values()) for row in rows)
                database.executemany(f"INSERT INTO {table} VALUES ({places})", values)
        database.commit()


def nsys_tables(repeated: Iterator[Round]) -> Iterator[Tables]:
    """The tables of an export of nsys, in parts; its strings come last."""
    strings: dict[str, int] = {}
    for of in repeated:
        kernels = [
            work(row)
            | {"globalPid": 1 << 24}
            | SHAPE
            | dict.fromkeys(
                ("demangledName", "shortName"), strings.setdefault(row["name"], len(strings))
            )
            for row in of["kernels"]
        ]
        calls = [
            span(row)
            | {"globalTid": 1 << 24 | 1}
            | {"nameId": strings.setdefault(row["name"], len(strings))}
            for row in of["api_calls"]
        ]
        ranges = [
            {"start": row["start_ns"], "end": row["end_ns"], "eventType": 59}
            | {"globalTid": 1 << 24 | 1, "textId": strings.setdefault(row["text"], len(strings))}
            for row in of["nvtx_ranges"]
        ]
        copies = [copied(row) | {"globalPid": 1 << 24} for row in of["memcpys"]]
        found = {"KERNEL": kernels, "RUNTIME": calls, "MEMCPY": copies}
        yield {f"{PREFIX}{name}": rows for name, rows in found.items()} | {"NVTX_EVENTS": ranges}
    yield {"StringIds": [{"id": number, "value": text} for text, number in strings.items()]}


def as_nsys_sqlite(path: Path, repeated: Iterator[Round]) -> None:
    """What ``nsys export --type sqlite`` writes."""
    fill(path, nsys_tables(repeated))


def as_nsys_parquet(path: Path, repeated: Iterator[Round]) -> None:
    """The folder that ``nsys export --type parquetdir`` writes."""
    path.mkdir()
    parts: dict[str, list[pa.Table]] = {}
    for tables in nsys_tables(repeated):
        for name, rows in tables.items():
            parts.setdefault(name, []).append(pa.Table.from_pylist(rows))
    for name, of_table in parts.items():
        joined = pa.concat_tables(of_table, promote_options="permissive")
        pq.write_table(joined, path / f"{name}.parquet")


def as_nsys_csv(path: Path, repeated: Iterator[Round]) -> None:
    """The table that ``nsys stats --report cuda_gpu_trace --format csv`` prints."""
    head = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
        "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
    )
    with path.open("w", encoding="utf-8") as file:
        print(head, file=file)
        for row in chain.from_iterable(map(gpu_rows, repeated)):
            duration = row["end_ns"] - row["start_ns"]
            shape, name = "160,1,1,256,1,1,38,0.000,0.000,,,,", row.get("name")
            if name is None:
                rate = f"{row['bytes'] / duration * 1000:.3f}"
                ends = ",".join(str(row[f"{e}_memory_kind"]).title() for e in ("src", "dst"))
                shape = f"{',' * 8},{row['bytes'] / 1e6:.3f},{rate},{ends}"
                name = f"[CUDA memcpy {LONG[row['memcpy_kind']]}]"
            device = f"NVIDIA A100 ({row['device_id']}),{row['context_id']},,{row['stream_id']}"
            times = row["start_ns"], duration, row["correlation_id"]
            print(*times, shape, device, name, sep=",", file=file)


def as_nvprof_csv(path: Path, repeated: Iterator[Round]) -> None:
    """The table that ``nvprof --print-gpu-trace --csv`` prints."""
    with path.open("w", encoding="utf-8") as file:
        print("==1== NVPROF is profiling process 1, command: ./drawn", file=file)
        print(
            "==1== Profiling application: ./drawn", "==1== Profiling result:", sep="\n", file=file
        )
        print(
            '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
            '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
            '"DstMemType","Device","Context","Stream","Name","Correlation_ID"',
            "s,us,,,,,,,,B,B,MB,GB/s,,,,,,,",
            sep="\n",
            file=file,
        )
        for row in chain.from_iterable(map(gpu_rows, repeated)):
            duration = row["end_ns"] - row["start_ns"]
            shape, name = "160,1,1,256,1,1,38,0,0,,,,", row.get("name")
            if name is None:
                ends = ",".join(f'"{str(row[f"{e}_memory_kind"]).title()}"' for e in ("src", "dst"))
                sizes = f"{row['bytes'] / 2**20:.6f},{row['bytes'] / duration / 1.073741824:.6f}"
                shape, name = f"{',' * 9}{sizes},{ends}", f"[CUDA memcpy {row['memcpy_kind']}]"
            device = f'"A100 ({row["device_id"]})","{row["context_id"]}","{row["stream_id"]}"'
            times = f"{row['start_ns'] / 1e9:.9f},{us(duration):.3f}"
            print(f'{times},{shape},{device},"{name}",{row["correlation_id"]}', file=file)


def gpu_rows(of: Round) -> list[Row]:
    """What the devices did, by time."""
    return sorted([*of["kernels"], *of["memcpys"]], key=lambda row: int(row["start_ns"]))


# How a file of each format ends, and what writes one.
WRITERS: Final[tuple[tuple[str, Callable[[Path, Iterator[Round]], None]], ...]] = (
    (".gpuprof", as_gpuprof),
    (".json", as_kineto),
    (".json.gz", as_kineto),
    (".xplane.pb", as_xplane),
    (".sqlite", as_nsys_sqlite),
    ("_pqtdir", as_nsys_parquet),
    (".nsys.csv", as_nsys_csv),
    (".nvvp", as_nvprof_database),
    (".nvprof.csv", as_nvprof_csv),
)


def main() -> None:
    """Make the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    endings = ", ".join(ending for ending, _ in WRITERS)
    parser.add_argument("out", type=Path, help=f"ends in one of {endings}")
    parser.add_argument("kernels", type=int)
    options = parser.parse_args()
    make = next((make for ending, make in WRITERS if options.out.name.endswith(ending)), None)
    if make is None:
        parser.error(f"{options.out} ends in none of {endings}")
    make(options.out, rounds(options.kernels))


if __name__ == "__main__":
    main()
