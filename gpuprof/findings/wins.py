"""What mending a finding wins of a step: by a replay of the recording with the change that does.

A bound counts the time in which a cause holds up a device. A replay knows what else the step waits
for then: a device that no longer waits for a copy may wait for its host.
"""

from typing import Final

from gpuprof.base.errors import UsageError
from gpuprof.facts.launches import activities
from gpuprof.findings.causes import MENDS
from gpuprof.findings.contract import Finding, Replayed, Scope, usual_of
from gpuprof.findings.transfers import hiding
from gpuprof.model.profile import Profile
from gpuprof.predict.build import graph_of
from gpuprof.predict.effects import PREDICT_READS, Effect, Steps, doubt, effect
from gpuprof.predict.replay import replay

# A replay of so many kernels and copies, with their calls, takes about 0.2 s.
MOST_OPERATIONS: Final = 30_000
_TOO_MANY: Final = f"over {MOST_OPERATIONS:,} kernels and copies: ask `gpuprof predict`"
_NONE: Final = "no change that `gpuprof predict` knows mends it"
_BALANCE: Final = "balance"
_COPIES: Final = {"exposed_peer_copies", "exposed_host_copies"}
# A device that idles could do something: where free launches win less than this share of the time,
# they are not what mends it.
_IDLE: Final = {"host_late", "small_kernels"}
_LEAST_MENDED: Final = 0.1
_OTHER_WAITS: Final = "the host waits for more than launches"


def with_win(finding: Finding) -> Finding:
    """A finding with what the change that mends it wins of a step, where a replay can tell."""
    mend = MENDS.get(finding.cause)
    if mend is None or finding.names is None or not finding.win_ns:
        return finding._replace(replayed=Replayed("", None, "", _NONE))
    change = mend.change.format(names="|".join(finding.names))
    reason = _reason(finding.scope, change)
    if reason:
        proposed = change if reason == _TOO_MANY else ""
        return finding._replace(replayed=Replayed(proposed, None, "", reason))
    try:
        won = _effect(finding.scope, change)
    except UsageError as error:
        return finding._replace(replayed=Replayed("", None, "", error.message))
    # A change also mends what other findings are about, such as the pauses beside copies.
    won_ns = min(max(usual_of(won.won_ns), 0), finding.win_ns)
    words = mend.words.format(names=" or ".join(finding.names))
    if finding.cause in _IDLE and won_ns < _LEAST_MENDED * finding.win_ns:
        return finding._replace(replayed=Replayed(change, None, words, _OTHER_WAITS))
    with_replay = finding._replace(replayed=Replayed(change, won_ns, words, won.assumptions))
    return _with_hiding(with_replay) if finding.cause in _COPIES else with_replay


def _with_hiding(finding: Finding) -> Finding:
    """The same with what hiding its copies wins in a replay, in its means."""
    scope = finding.scope
    labels = graph_of(scope.profile).operations.labels
    kinds = {label.text.partition(" ")[0] for label in labels}.intersection(finding.names or ())
    won = _effect(scope, *(f"hide={kind}" for kind in sorted(kinds)))
    # What hides copies from pauses and local copies is not compute.
    won_ns = min(max(usual_of(won.won_ns), 0), finding.cost_ns, scope.compute_ns)
    return finding._replace(means=f"{hiding(won_ns, scope)} (replay)")


def _effect(scope: Scope, *changes: str) -> Effect:
    steps = Steps((scope.device.number,), None, is_of_all=False)
    if scope.has_steps:
        steps = Steps(scope.devices, (scope.start_ns, scope.end_ns))
    return effect(scope.profile, changes, steps)


def _reason(scope: Scope, change: str) -> str:
    """Why a change is not replayed; empty where it is."""
    if not scope.has_steps and scope.profile.selection.windows is not None:
        return "a part of a recording without steps: nothing is replayed"
    if not scope.has_steps and change == _BALANCE:
        return "without steps it is not known when each rank would have begun"
    return scope.profile.unrestricted.once(_doubt)


def _doubt(profile: Profile) -> str:
    if len(activities(profile)) > MOST_OPERATIONS:
        return _TOO_MANY
    profile.expect(PREDICT_READS)
    graph = graph_of(profile)
    return doubt(replay(graph, graph.weights, is_usual=True))
