"""Pauses of a device while another one of its program only exchanges data belong to that exchange.

The device that pauses has nothing to mend: the step is as long as the exchange makes it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gpuprof.base.units import say_ns
from gpuprof.findings.scope import Finding, Scope
from gpuprof.model.intervals import difference, intersection, together

# Copies with the host are no exchange: each device has its own.
_EXCHANGES: Final = {
    "exposed_peer_copies",
    "staged_copies",
    "collective_transfer",
    "collective_waiting",
    "same_stream",
}
# In other pauses the host is late for a reason of its own.
_PAUSES: Final = {"waits_for_device", "waits_for_stream", "synchronising_call"}


def with_exchanges(costs: Mapping[Scope, Sequence[Finding]]) -> dict[Scope, list[Finding]]:
    """What costs each device time, with pauses as a part of what they are spent on elsewhere.

    Args:
        costs: The findings of each scope, each of another cause; those of one phase are of one
            program.
    """
    exchanges = [
        finding
        for of_scope in costs.values()
        for finding in of_scope
        if finding.cause in _EXCHANGES and finding.scope.has_steps and len(finding.instants)
    ]
    exchanges.sort(key=lambda finding: -finding.cost_ns)
    return {scope: _of_scope(scope, of_scope, exchanges) for scope, of_scope in costs.items()}


def _of_scope(
    scope: Scope, of_scope: Sequence[Finding], exchanges: Sequence[Finding]
) -> list[Finding]:
    by_cause = {finding.cause: finding for finding in of_scope}
    for pause in (finding for finding in of_scope if finding.cause in _PAUSES):
        for exchange in exchanges:
            if (
                exchange.scope is scope
                or exchange.scope.phase != scope.phase
                or exchange.scope.device.number not in scope.devices
            ):
                continue
            pauses = by_cause[pause.cause]
            # The exchange itself, without pauses beside it.
            at_once = intersection(pauses.instants, exchange.instants)
            at_once = difference(at_once, exchange.scope.device.idle)
            if not (cost_ns := pause.scope.per_step(at_once)):
                continue
            rest_ns = max(pauses.cost_ns - cost_ns, 0)
            by_cause[pause.cause] = pauses._replace(
                cost_ns=rest_ns,
                win_ns=min(pauses.win_ns, rest_ns),
                instants=difference(pauses.instants, at_once),
            )
            device = f"device {exchange.scope.device.device_id}"
            prior = by_cause.get(exchange.cause)
            by_cause[exchange.cause] = exchange._replace(
                scope=pause.scope,
                phrase=f"is idle while {device} {exchange.phrase}",
                cost_ns=cost_ns,
                win_ns=cost_ns,
                instants=at_once,
            )
            if prior is not None:
                by_cause[exchange.cause] = prior._replace(
                    phrase=f"{prior.phrase}, with pauses of {say_ns(cost_ns)} while {device} does",
                    cost_ns=prior.cost_ns + cost_ns,
                    win_ns=prior.win_ns + cost_ns,
                    instants=together([prior.instants, at_once]),
                )
    return [*by_cause.values()]
