"""Causes of findings, which are stable, so that programs can act on them, and sentences of them.

A report's first sentence says how long a step takes, what costs most of it, what can be won. It has
at most 30 words, and one base for its shares. What is mended in one place is one line for people.
This is of words and rows alone, so that to show a result imports none of what made it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from gpuprof.base.units import say_ns, say_share


class Cause(NamedTuple):
    """Why a device takes time, or what a recording lacks.

    Args:
        meaning: What it means, and by which means it can be saved.
        in_words: What time goes to, to follow "1.38 ms in"; what is said of a recording that lacks
            what costs follow from.
        family: Causes of one family are mended in one place; empty for a family of its own.
        mend: The change that mends it, as `gpuprof predict --what` takes it, with what the finding
            names in place of ``{names}``, and what is different then. Empty for none: messages,
            pauses of other kinds, and collectives that need other sizes or another order.
        order: What a recording lacks comes first (-1) where its pauses tell nothing without that;
            what may win nothing at all comes after what wins something (1), and what steps do not
            pay after what they do (2).
        has_cost: Whether it costs time; else costs do not follow from such a recording.
    """

    meaning: str
    in_words: str
    family: str = ""
    mend: tuple[str, str] = ("", "")
    order: int = 0
    has_cost: bool = True


_WITHOUT_COPIES: Final = (r"drop=^({names})\b", "without these copies")
_NO_LAUNCH_COST: Final = ("no-launch-cost", "if launches took no time")
_IN_HALF_THE_TIME: Final = ("scale={names}:0.5", "if these kernels took half the time")
CAUSES: Final = {
    "exposed_peer_copies": Cause(
        "A device waits for copies between devices. Fewer bytes save up to all of it; hiding the"
        " copies behind compute saves at most the compute time of the device.",
        "exposed copies between devices",
        "copies",
        mend=_WITHOUT_COPIES,
    ),
    "staged_copies": Cause(
        "A device waits for copies between devices that go through the host, and in the pauses"
        " beside them: the two devices lack peer access.",
        "copies between devices through the host",
        "copies",
        mend=("link[PtoP_staged]={names}", "with direct copies over {names}"),
    ),
    "exposed_host_copies": Cause(
        "A device waits for copies from or to the host.",
        "exposed copies with the host",
        "copies",
        mend=_WITHOUT_COPIES,
    ),
    "pageable_memory": Cause(
        "Asynchronous copies use pageable memory, which makes them wait.",
        "copies of pageable memory",
        "copies",
        mend=("hide={names}", "if these copies ran ahead from pinned memory"),
    ),
    "unified_memory": Cause(
        "Pages of managed memory migrate while kernels wait for them, or one by one as the host"
        " touches them.",
        "migrations of managed memory",
        "copies",
    ),
    "collective_transfer": Cause(
        "A collective moves data, and no compute hides it.", "exposed collectives", "collectives"
    ),
    "collective_waiting": Cause(
        "A collective waits for the last rank to arrive; if one rank is recorded, it may wait.",
        "waits in collectives for other ranks",
        "collectives",
        mend=("balance", "if no rank waited for another"),
    ),
    "same_stream": Cause(
        "Collectives run on a stream that also computes, so that nothing hides them.",
        "collectives on a stream that computes",
        "collectives",
        mend=("streams={names}", "on a stream of their own"),
    ),
    "host_late": Cause(
        "The work that ended a pause was launched within it: the host was late.",
        "pauses as the host launches late",
        "launching",
        mend=_NO_LAUNCH_COST,
    ),
    "between_steps": Cause(
        "The host was late, and between the marks of two steps: it loaded a batch, for example.",
        "pauses between marked steps",
        "launching",
    ),
    "synchronising_call": Cause(
        "The host was late because it had waited in a synchronising call until a device had"
        " nothing left to do, perhaps for a number that each step reads back: the time in this"
        " call, and in the launch after it.",
        "pauses after a synchronising call",
        "launching",
        mend=(r"drop=^({names})\b", "if nothing were read back"),
    ),
    "mpi": Cause("The host was late because it was in MPI.", "pauses for MPI"),
    "small_kernels": Cause(
        "Kernels are so short that the device waits for the launch of the next one.",
        "waits for launches of small kernels",
        "launching",
        mend=_NO_LAUNCH_COST,
    ),
    "waits_for_stream": Cause(
        "The work that ended a pause was launched before it: its stream waited.",
        "waits for a stream",
        "waiting",
    ),
    "waits_for_device": Cause(
        "The same, and work on another device ended just before.",
        "waits for another device",
        "waiting",
    ),
    "idle": Cause(
        "The device pauses, and the recording does not tell why.", "pauses of unknown cause"
    ),
    "local_copies": Cause(
        "Copies within a device's memory and memsets run alone.",
        "copies or memsets within a device",
        "copies",
        mend=(r"drop=^({names})\b", "without these copies and memsets"),
    ),
    "layout_conversions": Cause(
        "Kernels convert the layout of tensors.",
        "layout conversions",
        "compute",
        mend=("drop={names}", "without these kernels"),
    ),
    "copy_kernels": Cause(
        "Kernels copy or cast tensors.",
        "kernels that copy or cast tensors",
        "compute",
        mend=_IN_HALF_THE_TIME,
    ),
    "elementwise_kernels": Cause(
        "Kernels of one operation on each element, copies and casts among them, take at least 30 %"
        " of the compute time.",
        "element-wise kernels",
        "compute",
        mend=_IN_HALF_THE_TIME,
    ),
    "unfused_attention": Cause(
        "Attention is computed in separate kernels (a product, scaling, masks, softmax, a"
        " product), which take at least 20 % of the compute time; those between the products can"
        " be saved.",
        "attention that is not fused",
        "compute",
    ),
    "no_tensor_cores": Cause(
        "Matrix products and convolutions leave Tensor Cores unused.",
        "products without Tensor Cores",
        "compute",
        mend=("scale={names}:0.75", "if these kernels took a quarter less time"),
    ),
    "low_occupancy": Cause(
        "Kernels of the program's own, other than products of matrices and their kin, leave room"
        " for more warps, which may hide how long memory takes: what they use most of (registers,"
        " shared memory or threads of a block) allows no more than a quarter of them.",
        "kernels with few warps",
        "compute",
        order=1,
    ),
    "small_grids": Cause(
        "Kernels have blocks for less than half of the multiprocessors, and run alone.",
        "kernels with few blocks",
        "compute",
    ),
    "idle_sms": Cause(
        "Less than half of the multiprocessors are active while kernels compute, by samples of"
        " nsys, and no kernel was found that has few blocks.",
        "kernels that leave multiprocessors idle",
        "compute",
    ),
    "unbalanced_devices": Cause(
        "Devices compute for different times in a step.", "unequal work of devices", "waiting"
    ),
    "setup": Cause(
        "Idle time outside steps: before, between and after phases; without steps, in one-time"
        " calls, where code is loaded, and in pauses longer than all work. Nowhere where the next"
        " work was launched before.",
        "set-up",
        "set_up",
        order=2,
    ),
    "copies_outside_steps": Cause(
        "Copies outside steps: before, between and after phases.",
        "copies outside steps",
        "set_up",
        order=2,
    ),
    "waits_outside_steps": Cause(
        "Pauses outside steps whose next work was launched before: the device waited, perhaps for"
        " work that the recording does not hold.",
        "waits outside steps",
        "set_up",
        order=2,
    ),
    "incomplete": Cause(
        "Calls and kernels are missing among those that were recorded.",
        "but most of it was not recorded, so that pauses tell nothing",
        order=-1,
        has_cost=False,
    ),
    "kernels_rerun": Cause(
        "The profiler ran kernels one at a time, and again, to count their metrics: pauses are its"
        " own.",
        "but pauses are those of the profiler, which ran kernels again",
        order=-1,
        has_cost=False,
    ),
    "truncated": Cause(
        "The records of a device, or of a thread, end while the host goes on launching.",
        "but its records end before the program does",
        order=1,
        has_cost=False,
    ),
    "no_training": Cause(
        "Only initialisation was recorded.",
        "but only initialisation was recorded",
        order=-1,
        has_cost=False,
    ),
    "no_kernels": Cause(
        "Copies and memsets were recorded, but no kernel.",
        "but no kernel was recorded",
        order=-1,
        has_cost=False,
    ),
}
WITHOUT_COST: Final = {name for name, cause in CAUSES.items() if not cause.has_cost}
# Causes of which the recording cannot show what mending them wins, and what is said of that.
UNKNOWN_WINS: Final = {"idle"}
UNKNOWN_WIN: Final = "unknown"

# From here on compute is the answer, and what else there is can only win little.
_NEARLY_ALL: Final = 0.9
_MOST: Final = 0.5
# A replay that wins less wins nothing that could be measured.
NOTHING_SHARE: Final = 0.001
_TAKES: Final = {
    "collectives": "collectives take",
    "launching": "launching takes",
    "copies": "copies take",
    "waiting": "waiting takes",
    "compute": "kernels that can be faster take",
    "set_up": "what no step pays takes",
}
Row = Mapping[str, Any]


def family_of(cause: str) -> str:
    """The family of a cause."""
    return CAUSES[cause].family or cause


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
    in_words, is_compute = CAUSES[cause].in_words, CAUSES[cause].family == "compute"
    if cause in WITHOUT_COST:
        return f"{subject}, {in_words}"
    if base == "it" and compute_share >= _NEARLY_ALL and not is_compute | (cause in UNKNOWN_WINS):
        return f"{compute}; {winnings(worst)} from {in_words}"
    cost = time_and_share(worst, "cost")
    return f"{subject}, of {base} {cost} in {in_words}; {winnings(worst, cost)}"


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


def by_family(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of ``findings`` for people: what each family costs and can win, and its causes.

    What a family costs is empty where it has one cause, which says that itself.
    """
    for family, of_family in groupby(rows, key=lambda row: row["family"]):
        parts = [*of_family]
        if len(parts) == 1:
            yield "", parts
            continue
        first, step_ns = parts[0], parts[0]["step_ns"] or 0
        together: dict[str, Any] = {}
        for name in ("cost", "win", "predicted_win"):
            together[f"{name}_ns"] = ns = first[f"family_{name}_ns"]
            together[f"{name}_share"] = ns / step_ns if step_ns and ns is not None else 0.0
        # What only some of them win in a replay says nothing of all.
        if any(part["predicted_win_ns"] is None for part in parts):
            together["predicted_win_ns"] = None
        cost, of_phase = time_and_share(together, "cost"), f' of a step of "{first["phase"]}"'
        of_a_step = " of a step" if first["steps"] else ""
        # Where there are several phases, findings name theirs.
        of_a_step = of_phase if of_phase in first["finding"] else of_a_step
        cost_of_step = cost.replace(" (", f"{of_a_step} (")
        # Below what its family costs of a step, a cause need not say of what.
        below: list[Row] = [
            {**p, "finding": p["finding"].replace(" of a step (", " (")} for p in parts
        ]
        yield f"{_TAKES[family]} {cost_of_step}; {winnings(together, cost)}", below
