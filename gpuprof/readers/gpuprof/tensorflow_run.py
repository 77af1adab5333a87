"""``tensorflow-<pid>.json``: what gpuprof's own recorder saw of one process with TensorFlow.

Written by `gpuprof record --recorder tensorflow`, format_version 1 (`gpuprof-tensorflow`).
Copies between logical devices of one kind count as peer transfers. Their time is not known:
TensorFlow traces the hand-over of a pointer, not the transfer.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.json_input import integer, text
from gpuprof.base.secrets import masked_words
from gpuprof.base.units import counted
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.run_folder import Row, typed
from gpuprof.readers.input_format import Reader

FORMAT: Final = "gpuprof-tensorflow"
FORMAT_VERSION: Final = 1
_MARK: Final = b'"gpuprof-tensorflow"'
_LONGEST_SHOWN: Final = 40
_Kind = TypeVar("_Kind", dict[str, Any], list[Any])


def read(path: Path) -> Profile:
    """Read one process's recording.

    Raises:
        InputError: The file cannot be opened.
        CorruptFileError: It is not JSON, or lacks what the format requires.
    """
    try:
        document = json_input.load(path)
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
    try:
        return _profile(path, document)
    except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        msg = f"{path}: breaks the rules of the format {FORMAT}: {error}"
        raise CorruptFileError(msg, "Was the file edited?") from error


def _profile(path: Path, document: Row) -> Profile:
    # What the process said of itself is optional, and nothing where it is of another type.
    process = _of_type(dict, document.get("process"))
    devices = enumerate(_of_type(list, process.get("devices")))
    copies = typed(data_model.TENSOR_COPIES, document["tensor_copies"])
    for row in copies:
        size, calls = row["bytes_per_call"], row["calls"]
        row["bytes"] = None if size is None or calls is None else size * calls
    tables = {
        "functions": typed(data_model.FUNCTIONS, document["functions"]),
        "operations": typed(data_model.OPERATIONS, document["operations"]),
        "tensor_copies": copies,
        "devices": [{"device_id": number, "name": text(name)} for number, name in devices],
    }
    # Absent from recordings of gpuprof before 2026-11-23.
    if "graphs" in document:
        graphs = document["graphs"]
        inputs = [row for trace, graph in enumerate(graphs) for row in _inputs(trace, graph)]
        tables["operation_inputs"] = typed(data_model.OPERATION_INPUTS, inputs)
        variables = [
            {
                "function": graph["function"],
                "variable": graph["names"][number],
                "device": graph["devices"][number],
                "bytes": size,
            }
            for graph in graphs
            for number, size in graph["variables"]
        ]
        tables["variables"] = typed(data_model.VARIABLES, variables)
    data = [row for row in copies if not row["is_control"]]
    sources = {
        n: data_model.BY_NAME[n].conform(data_model.BY_NAME[n].table(rows))
        for n, rows in tables.items()
    }
    sources["activity_summary"] = data_model.ACTIVITY_SUMMARY.table(_summary(data))
    command = process.get("command")
    words = [text(word) or "" for word in command] if isinstance(command, list) else None
    origin = Origin(
        source=path,
        reader="tensorflow-run",
        tool="tensorflow",
        tool_version=text(process.get("tensorflow_version")),
        schema_version=text(document["format_version"]),
        command=None if words is None else " ".join(masked_words(words)),
        epoch_ns=integer(process.get("start_unix_ns")),
        warnings=tuple(_warnings(document, data)),
    )
    return Profile(origin, sources)


def _of_type(kind: type[_Kind], value: object) -> _Kind:
    return value if isinstance(value, kind) else kind()


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


def _summary(copies: list[Row]) -> list[Row]:
    """Copies by kind; PtoP even where there are none, which says that none were made."""
    by_kind: dict[str, list[Row]] = {"PtoP": []}
    for row in copies:
        by_kind.setdefault(memcpy_kind(row), []).append(row)
    sizes = {kind: [row["bytes"] for row in rows] for kind, rows in by_kind.items()}
    return [
        {
            "activity_kind": "memcpy",
            "section": "memcpy",
            "name": kind,
            "calls": sum(row["calls"] for row in rows),
            "total_ns": None if rows else 0,
            "bytes": None if None in sizes[kind] else sum(sizes[kind]),
        }
        for kind, rows in by_kind.items()
    ]


def _warnings(document: Row, copies: list[Row]) -> Iterator[str]:
    yield from map(str, _of_type(list, document.get("notes")))
    # For what part of the time TensorFlow's profiler ran, where not for all.
    windows = _of_type(dict, document.get("windows"))
    recorded_ns, span_ns, count = (
        integer(windows.get(key)) for key in ("recorded_ns", "span_ns", "count")
    )
    if recorded_ns is None or span_ns is None or count is None:
        yield "It is unknown for which part of the time TensorFlow's profiler ran."
    elif recorded_ns < span_ns:
        yield (
            f"TensorFlow's profiler ran for {recorded_ns / span_ns:.0%} of the time, in "
            f"{counted(count, 'window', 'windows')}. Calls are those within them; numbers per step "
            "are exact."
        )
    unknown = sum(row["calls"] for row in copies if row["bytes"] is None)
    if unknown:
        total = sum(row["calls"] for row in copies)
        yield f"Sizes of {unknown} of {total} copies between devices are unknown."


def memcpy_kind(copy: Row) -> str:
    """HtoD and DtoH between the host and a GPU; PtoP between two devices of one kind."""
    ends = _is_host(copy["src_device"]), _is_host(copy["dst_device"])
    return {(True, False): "HtoD", (False, True): "DtoH"}.get(ends, "PtoP")


def _is_host(device: str) -> bool:
    return device.rpartition(":")[0].endswith("CPU")


_GIVES: Final = (
    "functions", "operations", "tensor_copies", "operation_inputs", "variables", "devices",
    "activity_summary",
)  # fmt: skip
READER: Final = Reader(
    name="tensorflow-run",
    title="What `gpuprof record --recorder tensorflow` saw of one process",
    versions="format_version 1 (TensorFlow 2.19 to 2.21)",
    gives=_GIVES,
    cannot="The durations of copies and all activity of GPU kernels are unknown.",
    read=read,
    recognises=lambda head: head.lstrip().startswith(b"{") and _MARK in head[:200],
)
