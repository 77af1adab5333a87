"""What people read for the keys of tables and JSON: one label per thing, for every output."""

from typing import Final

# The recorder that measures times and marks only.
TIMING_ONLY: Final = "none"
LABELS: Final = {
    # Parts of the time of devices.
    "kernels_common": "common kernels",
    "kernels_new": "new kernels",
    "kernels_gone": "removed kernels",
    "graphs": "CUDA graphs",
    # Groups of totals.
    "communication_kernels": "communication kernels",
    "peer_transfers": "peer transfers",
    "gpu_activities": "GPU activities",
    "api_calls": "API calls",
    # Ways of copies.
    "staged": "through the host",
    "uvm": "managed memory",
    # Kinds of copies.
    "PtoP_staged": "PtoP through the host",
    "DtoD_peer": "DtoD between devices",
    "UVM_HtoD": "managed HtoD",
    "UVM_DtoH": "managed DtoH",
    "UVM_DtoD": "managed DtoD",
    "local_copies": "local copies",
    "unknown_copies": "copies of unknown kind",
    # Causes of pauses.
    "mpi_call": "MPI call",
    "nccl_call": "NCCL call",
    "ucx_call": "UCX call",
    "os_call": "OS call",
    "cuda_call": "CUDA call",
    "python_function": "Python function",
}


def label(key: str) -> str:
    """The label of a key, which is the key itself where that is a term of the field."""
    return LABELS.get(key, key)


def copy_label(name: str) -> str:
    """What people read for an operation of a prediction: of a copy between two ends, its label.

    ``PtoP_staged 0->1`` is ``PtoP through the host 0->1``; all others stay as they are.
    """
    kind, space, ends = name.partition(" ")
    return f"{label(kind)}{space}{ends}" if "->" in ends else name
