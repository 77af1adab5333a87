"""What the change that mends a finding wins of a step, as a replay with that change tells.

A bound counts the time in which a cause holds up a device; a replay knows what else the step waits
for then.
"""

from collections.abc import Sequence
from typing import Final

from gpuprof.base.errors import UsageError
from gpuprof.facts.launches import activities
from gpuprof.facts.step_times import are_similar, usual_of
from gpuprof.findings.causes import CAUSES
from gpuprof.findings.exposed_copies import hiding
from gpuprof.findings.scope import Finding, Scope, scopes
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.predict.build import graph_of
from gpuprof.predict.effects import PREDICT_READS, Steps, doubt, effect
from gpuprof.predict.replay import replay

NO_CHANGE: Final = "no change that `gpuprof predict` knows mends it"
# A replay of so many kernels and copies, with their calls, takes about 0.2 s.
MOST_OPERATIONS: Final = 30_000
_TOO_MANY: Final = f"over {MOST_OPERATIONS:,} kernels and copies: ask `gpuprof predict`"
_HIDEABLE: Final = {"exposed_peer_copies", "exposed_host_copies"}
# A device that idles could do something: where free launches win less than this share of the time,
# they are not what mends it.
_IDLE: Final = {"host_late", "small_kernels"}
_LEAST_MENDED: Final = 0.1


def with_win(finding: Finding) -> Finding:
    """A finding with what the change that mends it wins of a step, where a replay can tell."""
    change, words = CAUSES[finding.cause].mend
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
        each_won_ns, assumptions = _effect(scope, change)
    except UsageError as error:
        return finding._replace(assumptions=error.message)
    # A change also mends what other findings are about, such as the pauses beside copies.
    won_ns = min(max(usual_of(each_won_ns), 0), finding.win_ns)
    mended = finding._replace(
        change=change, different=words.format(names=" or ".join(finding.names))
    )
    if finding.cause in _IDLE and won_ns < _LEAST_MENDED * finding.win_ns:
        return mended._replace(assumptions="the host waits for more than launches")
    mended = mended._replace(won_ns=won_ns, assumptions=assumptions)
    if finding.cause not in _HIDEABLE:
        return mended
    labels = graph_of(scope.profile).operations.labels
    kinds = {label.text.partition(" ")[0] for label in labels}.intersection(finding.names)
    hidden, _ = _effect(scope, *(f"hide={kind}" for kind in sorted(kinds)))
    # What hides copies from pauses and local copies is not compute.
    hidden_ns = min(max(usual_of(hidden), 0), finding.cost_ns, scope.compute_ns)
    return mended._replace(means=f"{hiding(hidden_ns, scope)} (replay)")


def won_together(findings: Sequence[Finding]) -> int | None:
    """What the changes that mend some findings win of a step in one replay; None for no replay.

    No more than what they win one by one, or what their family can win at most.
    """
    replayed = [finding for finding in findings if finding.won_ns is not None]
    if not replayed:
        return None
    won_ns = sum(finding.won_ns or 0 for finding in replayed)
    if len(replayed) > 1:
        changes = dict.fromkeys(finding.change for finding in replayed)
        try:
            in_one_ns = usual_of(_effect(replayed[0].scope, *changes)[0])
        except UsageError:  # of changes that do not go together
            in_one_ns = max(finding.won_ns or 0 for finding in replayed)
        won_ns = min(won_ns, max(in_one_ns, 0))
    return min(won_ns, max(finding.of_family_ns[1] for finding in findings))


def _effect(scope: Scope, *changes: str) -> tuple[Int64s, str]:
    steps = Steps((scope.device.number,), None, is_of_all=False)
    if scope.has_steps:
        steps = Steps(scope.devices, (scope.start_ns, scope.end_ns))
    if scope.has_steps and "balance" in changes:
        # Ranks of other processes are of the same steps.
        ranks = [
            rank
            for rank in scopes(scope.profile)
            if rank.phase == scope.phase and are_similar(rank.median_ns, scope.median_ns)
        ]
        of_devices = tuple((rank.start_ns, rank.end_ns) for rank in ranks)
        devices = tuple(rank.device.number for rank in ranks)
        steps = steps._replace(devices=devices, of_devices=of_devices)
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
