"""The causes that findings name: stable, so that programs can act on them."""

from typing import Final, NamedTuple

# Cause -> what it means, and by which means it can be saved.
CAUSES: Final = {
    "exposed_peer_copies": (
        "A device waits for copies between devices. Fewer bytes save up to all of it; hiding the"
        " copies behind compute saves at most the compute time of the device."
    ),
    "staged_copies": (
        "A device waits for copies between devices that go through the host, and in the pauses"
        " beside them: the two devices lack peer access."
    ),
    "exposed_host_copies": "A device waits for copies from or to the host.",
    "pageable_memory": "Asynchronous copies use pageable memory, which makes them wait.",
    "unified_memory": (
        "Pages of managed memory migrate while kernels wait for them, or one by one as the host"
        " touches them."
    ),
    "collective_transfer": "A collective moves data, and no compute hides it.",
    "collective_waiting": (
        "A collective waits for the last rank to arrive; if one rank is recorded, it may wait."
    ),
    "same_stream": "Collectives run on a stream that also computes, so that nothing hides them.",
    "host_late": "The work that ended a pause was launched within it: the host was late.",
    "between_steps": (
        "The host was late, and between the marks of two steps: it loaded a batch, for example."
    ),
    "synchronising_call": (
        "The host was late because it had waited in a synchronising call until a device had"
        " nothing left to do, perhaps for a number that each step reads back: the time in this"
        " call, and in the launch after it."
    ),
    "mpi": "The host was late because it was in MPI.",
    "small_kernels": "Kernels are so short that the device waits for the launch of the next one.",
    "waits_for_stream": "The work that ended a pause was launched before it: its stream waited.",
    "waits_for_device": "The same, and work on another device ended just before.",
    "idle": "The device pauses, and the recording does not tell why.",
    "local_copies": "Copies within a device's memory and memsets run alone.",
    "layout_conversions": "Kernels convert the layout of tensors.",
    "copy_kernels": "Kernels copy or cast tensors.",
    "no_tensor_cores": "Matrix products and convolutions leave Tensor Cores unused.",
    "low_occupancy": (
        "Kernels of the program's own, other than products of matrices and their kin, leave room"
        " for more warps, which may hide how long memory takes: what they use most of (registers,"
        " shared memory or threads of a block) allows no more than a quarter of them."
    ),
    "small_grids": "Kernels have blocks for less than half of the multiprocessors, and run alone.",
    "unbalanced_devices": "Devices compute for different times in a step.",
    "setup": (
        "Idle time outside steps: before, between and after phases; without steps, in one-time"
        " calls, where code is loaded, and in pauses longer than all work. Nowhere where the next"
        " work was launched before."
    ),
    "copies_outside_steps": "Copies outside steps: before, between and after phases.",
    "waits_outside_steps": (
        "Pauses outside steps whose next work was launched before: the device waited, perhaps for"
        " work that the recording does not hold."
    ),
    "incomplete": "Calls and kernels are missing among those that were recorded.",
    "kernels_rerun": (
        "The profiler ran kernels one at a time, and again, to count their metrics: pauses are its"
        " own."
    ),
    "truncated": "The records of a device end while the host goes on launching.",
    "no_training": "Only initialisation was recorded.",
    "no_kernels": "Copies and memsets were recorded, but no kernel.",
}


class Mend(NamedTuple):
    """The change of a program that mends a cause.

    Args:
        change: As `gpuprof predict --what` takes it, with what the finding names in place of
            ``{names}``.
        words: What is different then.
    """

    change: str
    words: str


# Every cause that a change mends. Messages, pauses of other kinds, and collectives that need other
# sizes or another order, are none.
_WITHOUT_COPIES: Final = Mend(r"drop=^({names})\b", "without these copies")
_NO_LAUNCH_COST: Final = Mend("no-launch-cost", "if launches took no time")
MENDS: Final = {
    "exposed_peer_copies": _WITHOUT_COPIES,
    "staged_copies": Mend("link[PtoP_staged]={names}", "with direct copies over {names}"),
    "exposed_host_copies": _WITHOUT_COPIES,
    "pageable_memory": Mend("hide={names}", "if these copies ran ahead from pinned memory"),
    "collective_waiting": Mend("balance", "if no rank waited for another"),
    "same_stream": Mend("streams={names}", "on a stream that no compute waits for"),
    "host_late": _NO_LAUNCH_COST,
    "small_kernels": _NO_LAUNCH_COST,
    "local_copies": Mend(r"drop=^({names})\b", "without these copies and memsets"),
    "layout_conversions": Mend("drop={names}", "without these kernels"),
    "copy_kernels": Mend("scale={names}:0.5", "if these kernels took half the time"),
    "no_tensor_cores": Mend("scale={names}:0.75", "if these kernels took a quarter less time"),
}
