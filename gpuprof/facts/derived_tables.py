"""What a query finds beside the recorded columns: those that are made of them, and tables of these.

The two halves of a staged copy are two rows of ``memcpys``, and one of ``copies``.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base import cuda
from gpuprof.facts.copies import PATHS, Copies, copy_rows, transfer_rows
from gpuprof.model.derived import HOST, UNKNOWN
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Bytes, Column, Flag, Id, Ns, Schema, Text
from gpuprof.model.words import Words

_SRC: Final = Id(f"Device whose memory is read; {HOST} for the host, null where unknown.")
_DST: Final = Id(f"Device whose memory is written; {HOST} for the host, null where unknown.")
_PATH: Final = Text("How it went: direct, staged through the host, or uvm.")
_IS_TRANSFER: Final = Flag(
    "Whether it moves data between the memories of two devices, the host being one."
)
_MOVEMENT: Final = Text(
    "The memcpy kind; peer transfers that are not called PtoP have kinds of their own."
)

# Table -> column -> what it is, beside its recorded columns.
COLUMNS: Final[Mapping[str, Mapping[str, Column]]] = {
    "kernels": {
        "is_communication": Flag(
            "Whether it moves data between devices (such as NCCL) in place of computing."
        ),
    },
    "api_calls": {
        "is_waiting": Flag("Whether the call returns when work on a device has ended."),
        "is_async": Flag("Whether the call says that it does not wait."),
    },
    "memcpys": {
        "is_staged": Flag("Whether it is half of a peer copy through the host."),
        "is_peer": Flag("Whether it moves data between two GPUs."),
        "is_transfer": _IS_TRANSFER,
        "is_counted": Flag(
            "False for the second half of a staged copy: neither another call nor more bytes."
        ),
        "movement": _MOVEMENT,
        "route": _PATH,
        "src": _SRC,
        "dst": _DST,
    },
}


def with_derived(profile: Profile, name: str, columns: Collection[str]) -> pa.Table:
    """Some columns of a table by its start, recorded and derived ones, texts as dictionaries.

    The recording has the table; there is one column at least.
    """
    derived = [column for column in COLUMNS.get(name, {}) if column in columns]
    recorded = [column for column in columns if column not in derived]
    if name != "memcpys" and derived:
        read = [*dict.fromkeys((*recorded, "name"))]
        rows = profile.arrow(name, read, has_dictionaries=True)
        derived_columns = {column: _flags(rows["name"], _OF_NAMES[column]) for column in derived}
        rows = rows.select(recorded)
    else:
        rows = profile.arrow(name, recorded, has_dictionaries=True) if recorded else pa.table({})
        copies = _by_start(copy_rows(profile)) if derived else None
        derived_columns = {column: _COPY_COLUMNS[column](copies) for column in derived}
    return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **derived_columns})


def _flags(texts: pa.ChunkedArray, holds: Callable[[str], bool]) -> pa.ChunkedArray:
    """Whether something holds of texts in dictionaries: each is looked at once per piece."""
    pieces = [
        pa.array([text is not None and holds(text) for text in piece.dictionary.to_pylist()])
        .take(piece.indices)
        for piece in texts.chunks
    ]  # fmt: skip
    return pa.chunked_array(pieces, pa.bool_())


_OF_NAMES: Final[Mapping[str, Callable[[str], bool]]] = {
    "is_communication": cuda.is_communication,
    "is_waiting": cuda.is_waiting,
    "is_async": lambda name: "Async" in name,
}


def _by_start(copies: Copies) -> Copies:
    return copies.take(np.argsort(copies.start_ns, kind="stable"))


def _numbers(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.astype(np.int64), mask=values == UNKNOWN)


def _words(numbers: npt.NDArray[Any], words: Collection[str | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int32), pa.array(words, pa.string()))


def _movement(copies: Copies) -> pa.Array:
    words = Words()
    numbers = copies.movements(words.place)
    return _words(numbers, words.words)


_COPY_COLUMNS: Final[Mapping[str, Callable[[Any], pa.Array]]] = {
    "is_staged": lambda copies: pa.array(copies.is_staged == 1),
    "is_peer": lambda copies: pa.array(copies.is_peer == 1),
    "is_transfer": lambda copies: pa.array(copies.is_transfer == 1),
    "is_counted": lambda copies: pa.array(copies.is_counted == 1),
    "movement": _movement,
    "route": lambda copies: _words(copies.path, PATHS),
    "src": lambda copies: _numbers(copies.src),
    "dst": lambda copies: _numbers(copies.dst),
}


def _copies(profile: Profile) -> pa.Table:
    copies = _by_start(transfer_rows(profile))
    return pa.table(
        {
            "memcpy_kind": _words(copies.kind, copies.kinds),
            "src_memory_kind": _words(copies.src_memory, copies.src_memories),
            "dst_memory_kind": _words(copies.dst_memory, copies.dst_memories),
            "path": _words(copies.path, PATHS),
            "src": _numbers(copies.src),
            "dst": _numbers(copies.dst),
            "start_ns": copies.start_ns,
            "end_ns": copies.end_ns,
            "duration_ns": copies.duration_ns,
            "bytes": _numbers(copies.bytes),
            "device_id": _numbers(copies.device),
            "process_id": _numbers(copies.process),
            "correlation_id": _numbers(copies.correlation),
            "is_counted": copies.is_counted == 1,
        }
    )


def _copies_by_device(profile: Profile) -> pa.Table:
    pieces = [
        pa.table(
            {
                "busy_device_id": copies.device.astype(np.int64),
                "start_ns": copies.start_ns,
                "end_ns": copies.end_ns,
                "movement": _movement(copies),
                "is_transfer": copies.is_transfer == 1,
            }
        )
        for copies in copy_rows(profile).by_device()
    ]
    rows = pa.concat_tables(pieces).unify_dictionaries() if pieces else _BY_DEVICE.empty()
    return rows.take(np.argsort(rows["start_ns"].to_numpy(), kind="stable"))


_COPIES: Final = Schema(
    "copies",
    "one transfer, a staged one as one copy",
    {
        "memcpy_kind": Text("Kind; PtoP for staged copies."),
        "src_memory_kind": Text("Kind of memory that is read; device for staged copies."),
        "dst_memory_kind": Text("Kind of memory that is written; device for staged copies."),
        "path": _PATH,
        "src": _SRC,
        "dst": _DST,
        "start_ns": Ns("Start, of a staged copy that of its first half."),
        "end_ns": Ns("End, of a staged copy that of its second half."),
        "duration_ns": Ns("Time that it takes; of a staged copy both halves together."),
        "bytes": Bytes("Bytes; null where unknown."),
        "device_id": Id("Device that it runs on; of a staged copy one of both."),
        "process_id": Id("Process."),
        "correlation_id": Id("Correlation id of the call that launched it."),
        "is_counted": Flag(
            "False where a window holds the second half of a staged copy alone: the window before"
            " counts the copy and its bytes."
        ),
    },
)
_BY_DEVICE: Final = Schema(
    "copies_by_device",
    "one copy on one device that it keeps busy; a copy between two devices has a row for each",
    {
        "busy_device_id": Id(f"Device on which it takes time; {UNKNOWN} where none is known."),
        "start_ns": Ns("Start."),
        "end_ns": Ns("End."),
        "movement": _MOVEMENT,
        "is_transfer": _IS_TRANSFER,
    },
)
# Tables that are made of `SOURCE`: their columns, and what makes them of a recording, by start.
SOURCE: Final = "memcpys"
TABLES: Final[Mapping[str, tuple[Schema, Callable[[Profile], pa.Table]]]] = {
    _COPIES.name: (_COPIES, _copies),
    _BY_DEVICE.name: (_BY_DEVICE, _copies_by_device),
}
