"""Words for what copies are, and the numbers that stand for the host and for what is unknown.

A transfer is a copy between the memories of two devices, the host being one. A peer transfer
is one between two GPUs: PtoP, a device copy whose source and destination differ, and a copy
that was staged through the host. The two halves of a staged copy (DtoH on the source device,
HtoD on the destination) are two rows of ``memcpys``: their times add up, the copy and its bytes
count once. All other copies between the same device's memories, or within the host's, are local
copies.
"""

from typing import Final

from gpuprof.base.cuda import HOST_MEMCPY_KINDS, LOCAL_MEMCPY_KINDS, PEER_MEMCPY_KINDS

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


def if_known(number: int) -> int | None:
    """A number, None for `UNKNOWN`."""
    return None if number == UNKNOWN else number


def movement(kind: str, *, is_staged: bool, is_peer: bool) -> str:
    """The kind of copy as the fact of that name has it."""
    if is_staged:
        return PEER_STAGED
    return PEER_DEVICE_COPY if is_peer and kind in DEVICE_COPY_KINDS else kind
