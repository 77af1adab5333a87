"""``tensorflow-<pid>.json``: what gpuprof's own recorder saw of one process with TensorFlow.

Written by `gpuprof record --recorder tensorflow`, format_version 1 (`gpuprof-tensorflow`).
Copies between logical devices of one kind count as peer transfers. Their time is not known:
TensorFlow traces the hand-over of a pointer, not the transfer.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.json_values import integer, text
from gpuprof.base.secrets import masked_words
from gpuprof.base.units import counted
from gpuprof.model.profile import Origin, Profile
from gpuprof.model.schema import (
    ACTIVITY_SUMMARY,
    BY_NAME,
    FUNCTIONS,
    OPERATION_INPUTS,
    OPERATIONS,
    TENSOR_COPIES,
    VARIABLES,
    Schema,
)
from gpuprof.readers.common.json_rows import Row, typed
from gpuprof.readers.input_format import Reader

FORMAT: Final = "gpuprof-tensorflow"
FORMAT_VERSION: Final = 1
_MARK: Final = b'"gpuprof-tensorflow"'
_LONGEST_SHOWN: Final = 40


def read(path: Path) -> Profile:
    """Read one process's recording.

    Raises:
        InputError: The file cannot be opened.
        CorruptFileError: It is not JSON, or lacks what the format requires.
    """
    document = _document(path)
    try:
        copies = [_copy(row) for row in typed(TENSOR_COPIES, document["tensor_copies"])]
        tables = {
            "functions": typed(FUNCTIONS, document["functions"]),
            "operations": typed(OPERATIONS, document["operations"]),
            "tensor_copies": copies,
            "devices": _devices(_process(document).get("devices")),
        }
        # Absent from recordings of gpuprof before 2026-11-23.
        if "graphs" in document:
            graphs = [(trace, graph) for trace, graph in enumerate(document["graphs"])]
            inputs = [row for trace, graph in graphs for row in _inputs(trace, graph)]
            tables["operation_inputs"] = typed(OPERATION_INPUTS, inputs)
            variables = [row for _, graph in graphs for row in _variables(graph)]
            tables["variables"] = typed(VARIABLES, variables)
        sources = {name: _table(BY_NAME[name], rows) for name, rows in tables.items()}
        sources["activity_summary"] = ACTIVITY_SUMMARY.table(_summary(copies))
        return Profile(_origin(path, document, copies), sources)
    except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        msg = f"{path}: breaks the rules of the format {FORMAT}: {error}"
        raise CorruptFileError(msg, "Was the file edited?") from error


def _document(path: Path) -> Row:
    try:
        document: Row = json_input.load(path)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    except ValueError as error:
        msg = f"{path}: the JSON is {error}"
        raise CorruptFileError(msg, "Was the file edited or cut off?") from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if str(version) != str(FORMAT_VERSION):
        shown = " ".join(str(version).split())[:_LONGEST_SHOWN]
        msg = f"{path}: expected format_version {FORMAT_VERSION} of {FORMAT}, found {shown}"
        raise CorruptFileError(msg, "Was it recorded with a newer gpuprof?")
    return document


def _table(schema: Schema, rows: list[Row]) -> pa.Table:
    return schema.conform(schema.table(rows))


def _copy(row: Row) -> Row:
    size, calls = row["bytes_per_call"], row["calls"]
    return row | {"bytes": None if size is None or calls is None else size * calls}


def _inputs(trace: int, graph: Row) -> Iterator[Row]:
    """What the operations of a graph take; numbers are places in its lists of names and devices."""
    names, devices = graph["names"], graph["devices"]
    handles = {number for number, _ in graph["variables"]}
    for maker, output, taker, size in graph["inputs"]:
        if not 0 <= min(maker, taker) <= max(maker, taker) < min(len(names), len(devices)):
            msg = f"a graph of {len(names)} operations has none of the number {max(maker, taker)}"
            raise ValueError(msg)
        yield {
            "function": graph["function"],
            "tensor": f"{names[maker]}:{output}",
            "src_device": devices[maker],
            "dst_operation": names[taker],
            "dst_device": devices[taker],
            "bytes": size,
            "is_variable": maker in handles,
            "trace": trace,
            "calls": graph["calls"],
        }


def _variables(graph: Row) -> Iterator[Row]:
    for number, size in graph["variables"]:
        name, device = graph["names"][number], graph["devices"][number]
        yield {"function": graph["function"], "variable": name, "device": device, "bytes": size}


def _process(document: Row) -> Row:
    """What the process said of itself; nothing where that is of another type."""
    process = document.get("process")
    return process if isinstance(process, dict) else {}


def _devices(names: object) -> list[Row]:
    listed = names if isinstance(names, list) else []
    return [{"device_id": number, "name": text(name)} for number, name in enumerate(listed)]


def _summary(copies: list[Row]) -> list[Row]:
    """Copies by kind; PtoP even where there are none, which says that none were made."""
    data = [row for row in copies if not row["is_control"]]
    kinds = dict.fromkeys(["PtoP", *map(memcpy_kind, data)])
    return [_sum(kind, [row for row in data if memcpy_kind(row) == kind]) for kind in kinds]


def _sum(kind: str, rows: list[Row]) -> Row:
    sizes = [row["bytes"] for row in rows]
    return {
        "activity_kind": "memcpy",
        "section": "memcpy",
        "name": kind,
        "calls": sum(row["calls"] for row in rows),
        "total_ns": None if rows else 0,
        "bytes": None if None in sizes else sum(sizes),
    }


def memcpy_kind(copy: Row) -> str:
    """HtoD and DtoH between the host and a GPU; PtoP between two devices of one kind."""
    ends = _is_host(copy["src_device"]), _is_host(copy["dst_device"])
    return {(True, False): "HtoD", (False, True): "DtoH"}.get(ends, "PtoP")


def _is_host(device: str) -> bool:
    return device.rpartition(":")[0].endswith("CPU")


def _origin(path: Path, document: Row, copies: Iterable[Row]) -> Origin:
    process = _process(document)
    return Origin(
        source=path,
        reader="tensorflow-run",
        tool="tensorflow",
        tool_version=text(process.get("tensorflow_version")),
        schema_version=text(document["format_version"]),
        command=_command(process.get("command")),
        epoch_ns=integer(process.get("start_unix_ns")),
        warnings=tuple(_warnings(document, list(copies))),
    )


def _command(words: object) -> str | None:
    if not isinstance(words, list):
        return None
    return " ".join(masked_words([text(word) or "" for word in words]))


def _warnings(document: Row, copies: list[Row]) -> Iterable[str]:
    notes = document.get("notes")
    yield from (str(note) for note in (notes if isinstance(notes, list) else ()))
    yield from _coverage(document.get("windows"))
    data = [row for row in copies if not row["is_control"]]
    unknown = sum(row["calls"] for row in data if row["bytes"] is None)
    if unknown:
        total = sum(row["calls"] for row in data)
        yield f"Sizes of {unknown} of {total} copies between devices are unknown."


def _coverage(windows: object) -> Iterator[str]:
    """For what part of the time TensorFlow's profiler ran, where not for all."""
    coverage = windows if isinstance(windows, dict) else {}
    recorded_ns, span_ns, count = (
        integer(coverage.get(key)) for key in ("recorded_ns", "span_ns", "count")
    )
    if recorded_ns is None or span_ns is None or count is None:
        yield "It is unknown for which part of the time TensorFlow's profiler ran."
    elif recorded_ns < span_ns:
        yield (
            f"TensorFlow's profiler ran for {recorded_ns / span_ns:.0%} of the time, in "
            f"{counted(count, 'window', 'windows')}. Calls are those within them; numbers per step "
            "are exact."
        )


def _recognises(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and _MARK in head[:200]


READER: Final = Reader(
    name="tensorflow-run",
    title="What `gpuprof record --recorder tensorflow` saw of one process",
    versions="format_version 1 (TensorFlow 2.19 to 2.21)",
    gives=(
        "functions",
        "operations",
        "tensor_copies",
        "operation_inputs",
        "variables",
        "devices",
        "activity_summary",
    ),
    cannot="The durations of copies and all activity of GPU kernels are unknown.",
    read=read,
    recognises=_recognises,
)
