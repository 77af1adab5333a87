"""What is derived from the data model and asked for again and again, each fact declared once.

Queries, also those of users, name these columns and tables as if they were recorded.

A transfer is a copy between the memories of two devices, the host being one. A peer transfer
is one between two GPUs: PtoP, a device copy whose source and destination differ, and a copy
that was staged through the host. The two halves of a staged copy (DtoH on the source device,
HtoD on the destination) are two rows of ``memcpys``: their times add up, the copy and its bytes
count once. All other copies between the same device's memories, or within the host's, are local
copies.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpuprof.base.cuda import (
    COMMUNICATION_PATTERN,
    HOST_MEMCPY_KINDS,
    LOCAL_MEMCPY_KINDS,
    PEER_MEMCPY_KINDS,
    WAITING_CALLS,
)

# Stands for the host where a device id is expected; null means that the end is unknown.
HOST: Final = -1
# Stands for an unknown device where a number is needed.
UNKNOWN: Final = -2
# Within the memory of a device, or from one to another: which of both, their ends tell.
DEVICE_COPY_KINDS: Final = LOCAL_MEMCPY_KINDS - {"HtoH"}
FROM_HOST_KINDS: Final = frozenset({"HtoD", "HtoA", "UVM_HtoD"})
TO_HOST_KINDS: Final = frozenset({"DtoH", "AtoH", "UVM_DtoH"})
PEER_STAGED: Final = "PtoP_staged"
PEER_DEVICE_COPY: Final = "DtoD_peer"
PEER_MOVEMENTS: Final = PEER_MEMCPY_KINDS | {PEER_STAGED, PEER_DEVICE_COPY}
TRANSFER_MOVEMENTS: Final = PEER_MOVEMENTS | HOST_MEMCPY_KINDS
# What readers warn of where the profiler made kernels wait for it.
KERNELS_RERUN: Final = (
    "Metrics or events were also recorded, so kernels ran one at a time, and some ran repeatedly."
)


def known(number: int) -> int | None:
    """A number, None for `UNKNOWN`."""
    return None if number == UNKNOWN else number


def movement(kind: str, *, is_staged: bool, is_peer: bool) -> str:
    """The kind of copy as the fact of that name has it."""
    if is_staged:
        return PEER_STAGED
    return PEER_DEVICE_COPY if is_peer and kind in DEVICE_COPY_KINDS else kind


class Fact(NamedTuple):
    """A column that is made of others.

    Args:
        sql: SQL over columns of the same row.
        doc: What it says.
    """

    sql: str
    doc: str


class Relation(NamedTuple):
    """A table that is made of another.

    Args:
        of: That table.
        columns: Column -> what it says.
        sql: A SELECT from that table, by its bare name.
    """

    of: str
    columns: Mapping[str, str]
    sql: str


def _sql_list(words: frozenset[str]) -> str:
    return "(" + ", ".join(f"'{word}'" for word in sorted(words)) + ")"


_IS_STAGED: Final = "(path IS NOT DISTINCT FROM 'staged')"
_CROSSES: Final = "((src_device_id <> dst_device_id) IS TRUE)"
_IS_DEVICE_COPY: Final = f"(memcpy_kind IN {_sql_list(DEVICE_COPY_KINDS)})"
_IS_PEER: Final = (
    f"({_IS_STAGED} OR memcpy_kind IN {_sql_list(PEER_MEMCPY_KINDS)}"
    f" OR ({_IS_DEVICE_COPY} AND {_CROSSES}))"
)
_FROM_HOST: Final = f"memcpy_kind IN {_sql_list(FROM_HOST_KINDS)}"
_TO_HOST: Final = f"memcpy_kind IN {_sql_list(TO_HOST_KINDS)}"
_BUSY: Final = "start_ns, end_ns, movement, is_transfer FROM memcpys"

# Table -> column -> what it is, beside its recorded columns; null where what it is made of is.
_FACTS: Final[Mapping[str, Mapping[str, Fact]]] = {
    "kernels": {
        "is_communication": Fact(
            f"regexp_matches(name, '{COMMUNICATION_PATTERN}', 'i')",
            "Whether it moves data between devices (such as NCCL) in place of computing.",
        ),
        "name_hash": Fact("(hash(name) >> 1)::BIGINT", "A number of the name, in every recording."),
    },
    "api_calls": {
        "is_waiting": Fact(
            f"regexp_matches(name, '{WAITING_CALLS}')",
            "Whether the call returns when work on a device has ended.",
        ),
        "is_async": Fact("name LIKE '%Async%'", "Whether the call says that it does not wait."),
    },
    "memcpys": {
        "is_staged": Fact(_IS_STAGED, "Whether it is half of a peer copy through the host."),
        "is_peer": Fact(_IS_PEER, "Whether it moves data between two GPUs."),
        "is_transfer": Fact(
            f"({_IS_PEER} OR memcpy_kind IN {_sql_list(HOST_MEMCPY_KINDS)})",
            "Whether it moves data between the memories of two devices, the host being one.",
        ),
        "is_counted": Fact(
            f"(NOT ({_IS_STAGED} AND memcpy_kind = 'HtoD'))",
            "False for the second half of a staged copy: neither another call nor more bytes.",
        ),
        "movement": Fact(
            f"CASE WHEN {_IS_STAGED} THEN '{PEER_STAGED}'"
            f" WHEN {_IS_DEVICE_COPY} AND {_CROSSES} THEN '{PEER_DEVICE_COPY}'"
            " ELSE memcpy_kind END",
            "The memcpy kind; peer transfers that are not called PtoP have kinds of their own.",
        ),
        "route": Fact(
            f"CASE WHEN {_IS_STAGED} THEN 'staged'"
            " WHEN starts_with(memcpy_kind, 'UVM') THEN 'uvm' ELSE 'direct' END",
            "How it went: direct, staged or uvm.",
        ),
        # A peer copy runs on its source when pushed and on its destination when pulled, so that
        # only the recorded ends tell; of all other copies, the device they run on is the one end.
        "src": Fact(
            f"CASE WHEN {_IS_STAGED} THEN src_device_id WHEN {_FROM_HOST} THEN {HOST}"
            f" WHEN {_TO_HOST} THEN coalesce(src_device_id, device_id) ELSE src_device_id END",
            f"Device whose memory is read; {HOST} for the host, null where unknown.",
        ),
        "dst": Fact(
            f"CASE WHEN {_IS_STAGED} THEN dst_device_id WHEN {_TO_HOST} THEN {HOST}"
            f" WHEN {_FROM_HOST} THEN coalesce(dst_device_id, device_id) ELSE dst_device_id END",
            f"Device whose memory is written; {HOST} for the host, null where unknown.",
        ),
    },
}
RELATIONS: Final[Mapping[str, Relation]] = {
    # The k-th half to the host and the k-th half from the host of one launch are one copy, which
    # takes the time of both.
    "copies": Relation(
        "memcpys",
        {
            "memcpy_kind": "Kind; PtoP for staged copies.",
            "src_memory_kind": "Kind of memory that is read; device for staged copies.",
            "dst_memory_kind": "Kind of memory that is written; device for staged copies.",
            "path": "direct, staged or uvm.",
            "src": f"Device whose memory is read; {HOST} for the host, null where unknown.",
            "dst": f"Device whose memory is written; {HOST} for the host, null where unknown.",
            "start_ns": "Start, of a staged copy that of its first half.",
            "end_ns": "End, of a staged copy that of its second half.",
            "duration_ns": "Time that it takes; of a staged copy both halves together.",
            "bytes": "Bytes; null where unknown.",
            "device_id": "Device that it runs on; of a staged copy one of both.",
            "process_id": "Process.",
            "correlation_id": "Correlation id of the call that launched it.",
            "is_counted": "False where a window holds the second half of a staged copy alone: the"
            " window before counts the copy and its bytes.",
        },
        """
        SELECT 'PtoP' AS memcpy_kind, 'device' AS src_memory_kind, 'device' AS dst_memory_kind,
            'staged' AS path, any_value(src) AS src, any_value(dst) AS dst,
            min(start_ns) AS start_ns, max(end_ns) AS end_ns,
            CAST(sum(end_ns - start_ns) AS BIGINT) AS duration_ns, max(bytes) AS bytes,
            any_value(device_id) AS device_id, process_id, correlation_id,
            bool_or(is_counted) AS is_counted
        FROM (
            SELECT src, dst, start_ns, end_ns, bytes, device_id, process_id, correlation_id,
                is_counted, row_number() OVER (
                    PARTITION BY process_id, correlation_id, is_counted ORDER BY start_ns) AS nth
            FROM memcpys WHERE is_staged
        )
        GROUP BY process_id, correlation_id, nth
        UNION ALL
        SELECT memcpy_kind, src_memory_kind, dst_memory_kind, route AS path, src, dst, start_ns,
            end_ns, end_ns - start_ns AS duration_ns, bytes, device_id, process_id, correlation_id,
            true AS is_counted
        FROM memcpys WHERE is_transfer AND NOT is_staged""",
    ),
    "copies_by_device": Relation(
        "memcpys",
        {
            "busy_device_id": f"Device on which the copy takes time; {UNKNOWN} where none is known."
            " A copy between two devices has a row for each.",
            "start_ns": "Start.",
            "end_ns": "End.",
            "movement": "As in memcpys.",
            "is_transfer": "As in memcpys.",
        },
        # To list a copy's devices and to take the list apart is ten times as slow.
        f"""
        SELECT coalesce(device_id, CASE WHEN NOT is_staged
            THEN coalesce(src_device_id, dst_device_id) END, {UNKNOWN}) AS busy_device_id, {_BUSY}
        UNION ALL SELECT src_device_id, {_BUSY} WHERE NOT is_staged AND src_device_id <> device_id
        UNION ALL SELECT dst_device_id, {_BUSY} WHERE NOT is_staged
            AND dst_device_id <> coalesce(device_id, src_device_id)
            AND dst_device_id IS DISTINCT FROM src_device_id""",
    ),
}


def facts(table: str) -> Mapping[str, Fact]:
    """What a table has beside its recorded columns."""
    return _FACTS.get(table, {})
