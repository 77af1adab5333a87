"""What counts as a transfer, a peer transfer and a local copy: the one place that says so.

A transfer is a copy between the memories of two devices, the host being one. A peer transfer
is one between two GPUs: PtoP, a device copy whose source and destination differ, and a copy
that was staged through the host. The two halves of a staged copy (DtoH on the source device,
HtoD on the destination) are two rows: their times add up, the copy and its bytes count once.
All other copies between the same device's memories, or within the host's, are local copies.
"""

from typing import Final

from gpuprof.cuda import (
    HOST_MEMCPY_KINDS,
    LOCAL_MEMCPY_KINDS,
    PEER_MEMCPY_KINDS,
)

PEER_STAGED: Final = "PtoP_staged"
PEER_DEVICE_COPY: Final = "DtoD_peer"

PEER_MOVEMENTS: Final = PEER_MEMCPY_KINDS | {PEER_STAGED, PEER_DEVICE_COPY}
TRANSFER_MOVEMENTS: Final = PEER_MOVEMENTS | HOST_MEMCPY_KINDS


def _sql_list(words: frozenset[str]) -> str:
    return "(" + ", ".join(f"'{word}'" for word in sorted(words)) + ")"


# Predicates and expressions over one row of `memcpys`, none of them ever null.
IS_STAGED: Final = "(path IS NOT DISTINCT FROM 'staged')"
_CROSSES: Final = "((src_device_id <> dst_device_id) IS TRUE)"
_IS_DEVICE_COPY: Final = f"(memcpy_kind IN {_sql_list(LOCAL_MEMCPY_KINDS - {'HtoH'})})"
IS_PEER: Final = (
    f"({IS_STAGED} OR memcpy_kind IN {_sql_list(PEER_MEMCPY_KINDS)}"
    f" OR ({_IS_DEVICE_COPY} AND {_CROSSES}))"
)
IS_TRANSFER: Final = f"({IS_PEER} OR memcpy_kind IN {_sql_list(HOST_MEMCPY_KINDS)})"
# False for the second half of a staged copy, which is neither another call nor more bytes.
IS_COUNTED: Final = f"(NOT ({IS_STAGED} AND memcpy_kind = 'HtoD'))"
# The memcpy kind, with the peer transfers that do not bear the name PtoP told apart.
MOVEMENT: Final = (
    f"CASE WHEN {IS_STAGED} THEN '{PEER_STAGED}'"
    f" WHEN {_IS_DEVICE_COPY} AND {_CROSSES} THEN '{PEER_DEVICE_COPY}'"
    " ELSE memcpy_kind END"
)
