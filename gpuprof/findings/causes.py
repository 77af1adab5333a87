"""Findings and their causes, which are stable, so that programs can act on them; what mends each.

A bound counts the time in which a cause holds up a device. A replay knows what else the step waits
for then: a device that no longer waits for a copy may wait for its host.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpuprof.base.errors import UsageError
from gpuprof.base.units import say_share
from gpuprof.facts.launches import activities
from gpuprof.findings.scope import Scope, usual_of
from gpuprof.model.intervals import NOTHING, Intervals
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.predict.build import graph_of
from gpuprof.predict.effects import PREDICT_READS, Effect, Steps, doubt, effect
from gpuprof.predict.replay import replay

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
    "elementwise_kernels": (
        "Kernels of one operation on each element, copies and casts among them, take at least 30 %"
        " of the compute time."
    ),
    "unfused_attention": (
        "Attention is computed in separate kernels (a product, scaling, masks, softmax, a product),"
        " which take at least 20 % of the compute time; those between the products can be saved."
    ),
    "no_tensor_cores": "Matrix products and convolutions leave Tensor Cores unused.",
    "low_occupancy": (
        "Kernels of the program's own, other than products of matrices and their kin, leave room"
        " for more warps, which may hide how long memory takes: what they use most of (registers,"
        " shared memory or threads of a block) allows no more than a quarter of them."
    ),
    "small_grids": "Kernels have blocks for less than half of the multiprocessors, and run alone.",
    "idle_sms": (
        "Less than half of the multiprocessors are active while kernels compute, by samples of"
        " nsys, and no kernel was found that has few blocks."
    ),
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

# Every cause that a change mends: that change, as `gpuprof predict --what` takes it, with what the
# finding names in place of ``{names}``, and what is different then. Messages, pauses of other
# kinds, and collectives that need other sizes or another order, are none.
_WITHOUT_COPIES: Final = (r"drop=^({names})\b", "without these copies")
_NO_LAUNCH_COST: Final = ("no-launch-cost", "if launches took no time")
MENDS: Final = {
    "exposed_peer_copies": _WITHOUT_COPIES,
    "staged_copies": ("link[PtoP_staged]={names}", "with direct copies over {names}"),
    "exposed_host_copies": _WITHOUT_COPIES,
    "pageable_memory": ("hide={names}", "if these copies ran ahead from pinned memory"),
    "collective_waiting": ("balance", "if no rank waited for another"),
    "same_stream": ("streams={names}", "on a stream that no compute waits for"),
    "host_late": _NO_LAUNCH_COST,
    "small_kernels": _NO_LAUNCH_COST,
    "local_copies": (r"drop=^({names})\b", "without these copies and memsets"),
    "layout_conversions": ("drop={names}", "without these kernels"),
    "copy_kernels": ("scale={names}:0.5", "if these kernels took half the time"),
    "elementwise_kernels": ("scale={names}:0.5", "if these kernels took half the time"),
    "no_tensor_cores": ("scale={names}:0.75", "if these kernels took a quarter less time"),
}
NO_CHANGE: Final = "no change that `gpuprof predict` knows mends it"
# A replay of so many kernels and copies, with their calls, takes about 0.2 s.
MOST_OPERATIONS: Final = 30_000
_TOO_MANY: Final = f"over {MOST_OPERATIONS:,} kernels and copies: ask `gpuprof predict`"
_COPIES: Final = {"exposed_peer_copies", "exposed_host_copies"}
# A device that idles could do something: where free launches win less than this share of the time,
# they are not what mends it.
_IDLE: Final = {"host_late", "small_kernels"}
_LEAST_MENDED: Final = 0.1


class Finding(NamedTuple):
    """One thing that costs a device time.

    Args:
        cause: Its stable name, documented in `gpuprof/docs`.
        scope: Where it was measured.
        phrase: What the device does, to follow its name: ``waits for copies from the host``.
        cost_ns: What it costs a step.
        win_ns: What mending it can win of a step at most, by ``means``.
        means: How, in a phrase: ``fewer bytes``.
        suggestion: What to do, in the framework's own words where the operation is known.
        table: The table that tells more.
        where: Operation, range, call, route or rank; empty where none is known.
        names: What the change that mends it (see `MENDS`) names: kernels, kinds of copies, a link;
            empty where it names nothing, None where no change mends it.
        is_sure: Whether the recording tells that this is what costs the time.
        change: That change, as `gpuprof predict --what` takes it; empty where none can be replayed.
        won_ns: What it wins of a step in a replay, at most ``win_ns``; None for no prediction.
        different: What is different then, in a phrase; empty where nothing was replayed.
        assumptions: What the replay assumes; why there is none, where there is none.
        instants: When it costs that, until `with_families` has added up the costs of its family.
        seen_ns: From when to when it can be seen: the longest of these times, of a typical step
            where there are steps; None where that is not known.
        of_family_ns: What its family costs a step in this scope, can win of it at most, and wins
            in a replay, None where there is none.
    """

    cause: str
    scope: Scope
    phrase: str
    cost_ns: int
    win_ns: int
    means: str
    suggestion: str
    table: str
    where: str = ""
    names: tuple[str, ...] | None = None
    is_sure: bool = True
    change: str = ""
    won_ns: int | None = None
    different: str = ""
    assumptions: str = ""
    instants: Intervals = NOTHING
    seen_ns: tuple[int, int] | None = None
    of_family_ns: tuple[int, int, int | None] = (0, 0, None)

    def share(self, ns: int) -> float:
        """A time as a share of the step; 0 of steps without length."""
        return ns / self.scope.step_ns if self.scope.step_ns else 0.0


def hiding(won_ns: int, scope: Scope) -> str:
    """By which means copies can be won back, where hiding them wins so much of a step."""
    return f"fewer bytes; hiding them behind compute wins {say_share(won_ns / scope.step_ns)}"


def with_win(finding: Finding) -> Finding:
    """A finding with what the change that mends it wins of a step, where a replay can tell."""
    change, words = MENDS.get(finding.cause, ("", ""))
    if not change or finding.names is None or not finding.win_ns:
        return finding._replace(assumptions=NO_CHANGE)
    change = change.format(names="|".join(finding.names))
    scope = finding.scope
    is_part = not scope.has_steps and scope.profile.selection.windows is not None
    reason = "a part of a recording without steps: nothing is replayed" if is_part else ""
    if not reason and not scope.has_steps and change == "balance":
        reason = "without steps it is not known when each rank would have begun"
    if reason := reason or _doubt(scope.profile):
        return finding._replace(change=change if reason == _TOO_MANY else "", assumptions=reason)
    try:
        won = _effect(scope, change)
    except UsageError as error:
        return finding._replace(assumptions=error.message)
    # A change also mends what other findings are about, such as the pauses beside copies.
    won_ns = min(max(usual_of(won.won_ns), 0), finding.win_ns)
    mended = finding._replace(
        change=change, different=words.format(names=" or ".join(finding.names))
    )
    if finding.cause in _IDLE and won_ns < _LEAST_MENDED * finding.win_ns:
        return mended._replace(assumptions="the host waits for more than launches")
    mended = mended._replace(won_ns=won_ns, assumptions=won.assumptions)
    if finding.cause not in _COPIES:
        return mended
    labels = graph_of(scope.profile).operations.labels
    kinds = {label.text.partition(" ")[0] for label in labels}.intersection(finding.names)
    hidden = _effect(scope, *(f"hide={kind}" for kind in sorted(kinds)))
    # What hides copies from pauses and local copies is not compute.
    hidden_ns = min(max(usual_of(hidden.won_ns), 0), finding.cost_ns, scope.compute_ns)
    return mended._replace(means=f"{hiding(hidden_ns, scope)} (replay)")


def won_together(findings: Sequence[Finding]) -> int | None:
    """What the changes that mend some findings win of a step in one replay; None for no replay.

    No more than what they win one by one.
    """
    replayed = [finding for finding in findings if finding.won_ns is not None]
    if not replayed:
        return None
    won_ns = sum(finding.won_ns or 0 for finding in replayed)
    if len(replayed) > 1:
        changes = dict.fromkeys(finding.change for finding in replayed)
        try:
            in_one_ns = usual_of(_effect(replayed[0].scope, *changes).won_ns)
        except UsageError:  # of changes that do not go together
            in_one_ns = max(finding.won_ns or 0 for finding in replayed)
        won_ns = min(won_ns, max(in_one_ns, 0))
    return won_ns


def _effect(scope: Scope, *changes: str) -> Effect:
    steps = Steps((scope.device.number,), None, is_of_all=False)
    if scope.has_steps:
        steps = Steps(scope.devices, (scope.start_ns, scope.end_ns))
    return effect(scope.profile, changes, steps)


@once_per_recording
def _doubt(profile: Profile) -> str:
    """Why nothing of a recording is replayed; empty where it can be."""
    # All files of a job together may take as long as one file.
    most = MOST_OPERATIONS >> (profile.file_count - 1).bit_length()
    if len(activities(profile)) > most:
        return _TOO_MANY
    profile.expect(PREDICT_READS)
    graph = graph_of(profile)
    return doubt(replay(graph, graph.weights, is_usual=True))
