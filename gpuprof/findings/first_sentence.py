"""The first sentence of a report: how long a step takes, what costs most of it, what can be won.

It has at most 30 words, and one base for its shares.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuprof.base.units import say_ns, say_share

# Cause -> what time goes to, to follow "1.38 ms in".
IN_WORDS: Final = {
    "exposed_peer_copies": "exposed copies between devices",
    "staged_copies": "copies between devices through the host",
    "exposed_host_copies": "exposed copies with the host",
    "pageable_memory": "copies of pageable memory",
    "unified_memory": "migrations of managed memory",
    "collective_transfer": "exposed collectives",
    "collective_waiting": "waits in collectives for other ranks",
    "same_stream": "collectives on a stream that computes",
    "host_late": "pauses as the host launches late",
    "between_steps": "pauses between marked steps",
    "synchronising_call": "pauses after a synchronising call",
    "mpi": "pauses for MPI",
    "small_kernels": "waits for launches of small kernels",
    "waits_for_stream": "waits for a stream",
    "waits_for_device": "waits for another device",
    "idle": "pauses of unknown cause",
    "local_copies": "copies or memsets within a device",
    "layout_conversions": "layout conversions",
    "copy_kernels": "kernels that copy or cast tensors",
    "elementwise_kernels": "element-wise kernels",
    "unfused_attention": "attention that is not fused",
    "no_tensor_cores": "products without Tensor Cores",
    "low_occupancy": "kernels with few warps",
    "small_grids": "kernels with few blocks",
    "idle_sms": "kernels that leave multiprocessors idle",
    "unbalanced_devices": "unequal work of devices",
    "setup": "set-up",
    "copies_outside_steps": "copies outside steps",
    "waits_outside_steps": "waits outside steps",
}
# What is said of recordings that lack what costs follow from.
LACKING: Final = {
    "incomplete": "but most of it was not recorded, so that pauses tell nothing",
    "kernels_rerun": "but pauses are those of the profiler, which ran kernels again",
    "no_training": "but only initialisation was recorded",
    "no_kernels": "but no kernel was recorded",
    "truncated": "but its records end before the program does",
}
# Causes that are a part of what a device computes.
_COMPUTE: Final = {
    "layout_conversions",
    "copy_kernels",
    "elementwise_kernels",
    "unfused_attention",
    "no_tensor_cores",
    "low_occupancy",
    "small_grids",
    "idle_sms",
}
# From here on compute is the answer, and what else there is can only win little.
_NEARLY_ALL: Final = 0.9
_MOST: Final = 0.5
# Causes of which the recording cannot show what mending them wins, and what is said of that.
UNKNOWN_WINS: Final = {"idle"}
UNKNOWN_WIN: Final = "unknown"
# A replay that wins less wins nothing that could be measured.
NOTHING_SHARE: Final = 0.001


def first_sentence(
    subject: str, compute_share: float, worst: Mapping[str, Any] | None, *, base: str = "it"
) -> str:
    """Say how long something takes, the cause that is worth most to mend, and what that can win.

    Args:
        subject: What takes how long: ``A step takes 4.57 ms``.
        compute_share: How much of it is compute.
        worst: What is worth most to mend, as a row of ``findings``; None where nothing is.
        base: What the cost of the cause is a share of.
    """
    compute = f"{subject}, {say_share(compute_share)} of it compute"
    if worst is None:
        return f"{compute if compute_share >= _MOST else subject}; nothing was found to win"
    cause = worst["cause"]
    if cause in LACKING:
        return f"{subject}, {LACKING[cause]}"
    if base == "it" and compute_share >= _NEARLY_ALL and cause not in _COMPUTE | UNKNOWN_WINS:
        return f"{compute}; {winnings(worst)} from {IN_WORDS[cause]}"
    cost = time_and_share(worst, "cost")
    return f"{subject}, of {base} {cost} in {IN_WORDS[cause]}; {winnings(worst, cost)}"


def winnings(worst: Mapping[str, Any], cost: str = "") -> str:
    """What can be won, in a replay where there is one.

    Args:
        worst: Costs, wins and their shares, as in a row of ``findings``.
        cost: Its cost as it was said before; empty where it was not.
    """
    has_replay = worst.get("predicted_win_ns") is not None
    won = time_and_share(worst, "predicted_win" if has_replay else "win")
    if worst.get("cause") in UNKNOWN_WINS:
        return "what can be won is not known"
    if not worst["win_ns"]:
        return "nothing can be won by itself"
    if has_replay and worst["predicted_win_share"] < NOTHING_SHARE:
        return "next to nothing can be won by itself"
    if has_replay:
        return f"{'all of that' if won == cost else won} can be won"
    return f"at most {'all of that' if won == cost else won} can be won"


def time_and_share(worst: Mapping[str, Any], column: str) -> str:
    """What something costs or wins: ``1.38 ms (30.2 %)``."""
    return f"{say_ns(worst[f'{column}_ns'])} ({say_share(worst[f'{column}_share'])})"
