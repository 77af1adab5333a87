"""What copies are, derived in SQL from the recorded columns: an oracle for the arrays."""

from functools import cache

import duckdb

from gpuprof.base.cuda import HOST_MEMCPY_KINDS, PEER_MEMCPY_KINDS
from gpuprof.model.derived import (
    DEVICE_COPY_KINDS,
    FROM_HOST_KINDS,
    HOST,
    PEER_DEVICE_COPY,
    PEER_STAGED,
    TO_HOST_KINDS,
    UNKNOWN,
)


def _listed(words):
    return "(" + ", ".join(f"'{word}'" for word in sorted(words)) + ")"


IS_STAGED = "(path IS NOT DISTINCT FROM 'staged')"
CROSSES = "((src_device_id <> dst_device_id) IS TRUE)"
IS_DEVICE_COPY = f"(memcpy_kind IN {_listed(DEVICE_COPY_KINDS)})"
IS_PEER = (
    f"({IS_STAGED} OR memcpy_kind IN {_listed(PEER_MEMCPY_KINDS)}"
    f" OR ({IS_DEVICE_COPY} AND {CROSSES}))"
)
FROM_HOST = f"memcpy_kind IN {_listed(FROM_HOST_KINDS)}"
TO_HOST = f"memcpy_kind IN {_listed(TO_HOST_KINDS)}"
DERIVED = {
    "is_staged": IS_STAGED,
    "is_peer": IS_PEER,
    "is_transfer": f"({IS_PEER} OR memcpy_kind IN {_listed(HOST_MEMCPY_KINDS)})",
    "is_counted": f"(NOT ({IS_STAGED} AND memcpy_kind = 'HtoD'))",
    "movement": f"CASE WHEN {IS_STAGED} THEN '{PEER_STAGED}'"
    f" WHEN {IS_DEVICE_COPY} AND {CROSSES} THEN '{PEER_DEVICE_COPY}' ELSE memcpy_kind END",
    "route": f"CASE WHEN {IS_STAGED} THEN 'staged'"
    " WHEN starts_with(memcpy_kind, 'UVM') THEN 'uvm' ELSE 'direct' END",
    # A peer copy runs on its source when pushed and on its destination when pulled, so that
    # only the recorded ends tell; of all other copies, the device they run on is the one end.
    "src": f"CASE WHEN {IS_STAGED} THEN src_device_id WHEN {FROM_HOST} THEN {HOST}"
    f" WHEN {TO_HOST} THEN coalesce(src_device_id, device_id) ELSE src_device_id END",
    "dst": f"CASE WHEN {IS_STAGED} THEN dst_device_id WHEN {TO_HOST} THEN {HOST}"
    f" WHEN {FROM_HOST} THEN coalesce(dst_device_id, device_id) ELSE dst_device_id END",
}
# The k-th half to the host and the k-th half from the host of one launch are one copy, which
# takes the time of both.
COPIES = """
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
    FROM memcpys WHERE is_transfer AND NOT is_staged"""
BUSY = "start_ns, end_ns, movement, is_transfer FROM memcpys"
COPIES_BY_DEVICE = f"""
    SELECT coalesce(device_id, CASE WHEN NOT is_staged
        THEN coalesce(src_device_id, dst_device_id) END, {UNKNOWN}) AS busy_device_id, {BUSY}
    UNION ALL SELECT src_device_id, {BUSY} WHERE NOT is_staged AND src_device_id <> device_id
    UNION ALL SELECT dst_device_id, {BUSY} WHERE NOT is_staged
        AND dst_device_id <> coalesce(device_id, src_device_id)
        AND dst_device_id IS DISTINCT FROM src_device_id"""


@cache
def _connection():
    connection = duckdb.connect()
    # DuckDB 1.5 takes two tables with the same columns for one.
    connection.execute("SET disabled_optimizers = 'common_subplan'")
    # Few rows: threads would cost more than they help.
    connection.execute("SET threads = 1")
    return connection


def answer(profile, sql):
    """The rows of a SELECT over memcpys with derived columns, copies and copies_by_device."""
    _connection().register("recorded", profile.table("memcpys"))
    derived = ", ".join(f"{made} AS {name}" for name, made in DERIVED.items())
    views = f"memcpys AS (SELECT *, {derived} FROM recorded), copies AS ({COPIES}), "
    views += f"copies_by_device AS ({COPIES_BY_DEVICE})"
    return _connection().sql(f"WITH {views} {sql}").to_arrow_table().to_pylist()
