"""Where copies go: the two ends of each as SQL over `memcpys`, and staged halves as one copy."""

from typing import Final

from gpuprof.analyses.movement import IS_STAGED, IS_TRANSFER

# Stands for the host where a device id is expected; null means that the end is unknown.
HOST: Final = -1

_FROM_HOST: Final = "memcpy_kind IN ('HtoD', 'HtoA', 'UVM_HtoD')"
_TO_HOST: Final = "memcpy_kind IN ('DtoH', 'AtoH', 'UVM_DtoH')"
# A peer copy runs on its source when pushed and on its destination when pulled, so that
# only the recorded ends tell; of all other copies, the device they run on is the one end.
SRC: Final = (
    f"CASE WHEN {IS_STAGED} THEN src_device_id WHEN {_FROM_HOST} THEN {HOST}"
    f" WHEN {_TO_HOST} THEN coalesce(src_device_id, device_id) ELSE src_device_id END"
)
DST: Final = (
    f"CASE WHEN {IS_STAGED} THEN dst_device_id WHEN {_TO_HOST} THEN {HOST}"
    f" WHEN {_FROM_HOST} THEN coalesce(dst_device_id, device_id) ELSE dst_device_id END"
)
PATH: Final = (
    f"CASE WHEN {IS_STAGED} THEN 'staged' WHEN starts_with(memcpy_kind, 'UVM') THEN 'uvm'"
    " ELSE 'direct' END"
)

# One row per transfer: the k-th half to the host and the k-th half from the host of one
# launch are one copy, which takes the time of both.
EACH_TRANSFER: Final = f"""(
    SELECT any_value(memcpy_kind) AS memcpy_kind, any_value(src_memory_kind) AS src_memory_kind,
        any_value(dst_memory_kind) AS dst_memory_kind, any_value(path) AS path,
        any_value(src) AS src, any_value(dst) AS dst, min(start_ns) AS start_ns,
        max(end_ns) AS end_ns, CAST(sum(duration_ns) AS BIGINT) AS duration_ns,
        max(bytes) AS bytes, any_value(device_id) AS device_id,
        any_value(process_id) AS process_id, any_value(correlation_id) AS correlation_id
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY process_id, correlation_id, to_host ORDER BY start_ns) AS nth
        FROM (
            SELECT 'PtoP' AS memcpy_kind, 'device' AS src_memory_kind,
                'device' AS dst_memory_kind, 'staged' AS path, {SRC} AS src, {DST} AS dst,
                start_ns, end_ns, end_ns - start_ns AS duration_ns, bytes, device_id,
                process_id, correlation_id, memcpy_kind = 'DtoH' AS to_host
            FROM memcpys WHERE {IS_STAGED}
        )
    )
    GROUP BY process_id, correlation_id, nth
    UNION ALL
    SELECT memcpy_kind, src_memory_kind, dst_memory_kind, {PATH} AS path, {SRC} AS src,
        {DST} AS dst, start_ns, end_ns, end_ns - start_ns AS duration_ns, bytes, device_id,
        process_id, correlation_id
    FROM memcpys WHERE {IS_TRANSFER} AND NOT {IS_STAGED}
)"""
