"""What costs the devices of one recording time, and what the change that mends it wins.

Each file of a job is looked at by itself: `gpuprof.findings.findings` ranks the costs of all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from gpuprof.base.units import say_ns
from gpuprof.facts.launches import activities
from gpuprof.facts.step_times import typical_steps
from gpuprof.findings import (
    costly_kernels,
    exposed_collectives,
    exposed_copies,
    late_hosts,
    unfilled_gpus,
)
from gpuprof.findings.causes import CAUSES, WITHOUT_COST, family_of
from gpuprof.findings.scope import Finding, Scope, scopes
from gpuprof.findings.whole_recording import incomplete, of_recording
from gpuprof.findings.wins import with_win, won_together
from gpuprof.model.analysis import per_file
from gpuprof.model.intervals import NOTHING, Intervals, difference, intersection, together
from gpuprof.model.profile import Profile, once_per_profile
from gpuprof.model.schema import Count, Flag, Id, Instant, Ns, Schema, Share, Text

# Less of a step is not worth a sentence.
LEAST_SHARE: Final = 0.01
# Causes that the calls of all ranks together divide otherwise than one recording does.
DIVIDED_ANEW: Final = ("collective_waiting", "collective_transfer")
# Copies of pageable memory are what copies are about if they are this much of them.
_MOST: Final = 0.5
# A recording that is set-up by so much says so first.
_ALL: Final = 0.9

FINDINGS: Final = Schema(
    "findings",
    "one thing that costs time",
    {
        "rank": Count("1 for what is worth most to mend.", required=True),
        "cause": Text("Its stable name, explained by `gpuprof help findings`.", required=True),
        "family": Text(
            "What its line in a report is about; causes of one are in one line.", required=True
        ),
        "where": Text("Operation, range, call, route or rank; null where unknown."),
        "device_id": Id("Device that loses most by it; null where unknown."),
        "phase": Text("Marks of the steps; null where the recording has no steps."),
        "steps": Count("Steps that were measured; null where there are none."),
        "step_ns": Ns(
            "Median length of a step, the mean where that is a tenth more; else the device's span."
        ),
        "cost_ns": Ns("Time that it costs a step, or the span.", required=True),
        "cost_share": Share("cost_ns / step_ns.", required=True),
        "win_ns": Ns("What mending it can win of that at most.", required=True),
        "win_share": Share("win_ns / step_ns.", required=True),
        "predicted_win_ns": Ns(
            "What `change` wins of it in a replay; null where there is no prediction."
        ),
        "predicted_win_share": Share("predicted_win_ns / step_ns."),
        "family_cost_ns": Ns(
            "What its family costs on the device that pays most of it; no time counts twice.",
            required=True,
        ),
        "family_win_ns": Ns(
            "What mending all of the family can win of that at most.", required=True
        ),
        "family_predicted_win_ns": Ns(
            "What the changes that mend parts of it win together in a replay; or null."
        ),
        "win": Text("What it can win, in words.", required=True),
        "change": Text("What mends it, as `gpuprof predict --what` takes it; null for nothing."),
        "assumptions": Text("What the replay assumes, or why there is no prediction."),
        "command": Text("Command that tells more of the replay; null for none."),
        "means": Text("By what it can be won.", required=True),
        "total_win_ns": Ns("win_ns of all steps of the phase.", required=True),
        "start_ns": Instant(
            "Start of the longest time that it costs at once, in a typical step where there are"
            " steps; of that step where such times are not known; null where there is none."
        ),
        "end_ns": Instant("End of that."),
        "finding": Text("What it is, in a sentence.", required=True),
        "suggestion": Text("What to try.", required=True),
        "table": Text("Table that tells more.", required=True),
    },
)
# Columns that are called as in a `Finding`, and others that are those of findings.
_ALIKE: Final = (
    *("cause", "cost_ns", "win_ns", "is_sure", "phrase", "means"),
    *("different", "assumptions", "suggestion", "table"),
)
_OF_FINDINGS: Final = (
    *("device_id", "phase", "cause", "family", "where", "steps", "step_ns", "cost_ns", "win_ns"),
    *("predicted_win_ns", "family_cost_ns", "family_win_ns", "family_predicted_win_ns"),
    *("change", "assumptions", "means", "suggestion", "table", "start_ns", "end_ns"),
)
COSTS: Final = Schema(
    "costs_of_devices",
    "one thing that costs one device time in one phase",
    {name: FINDINGS.columns[name] for name in _OF_FINDINGS}
    | {
        "order": Count("0 for what steps pay; less is said before, more after it.", required=True),
        "all_steps": Count("Steps of the phase; 1 where there are none.", required=True),
        "is_sure": Flag("Whether it can be won for sure.", required=True),
        "phrase": Text("What the device does, as the end of a sentence."),
        "different": Text("What is different after the change, in a phrase."),
    },
)
Row = dict[str, Any]

# What a device waits for others is won where these are mended.
_OF_OTHERS: Final = {"collective_waiting", "waits_for_device", "unbalanced_devices"}
# What costs a device time in a step, by family of causes: those first that need nothing of what
# `scopes` has computed ahead, as copies do, which takes longest.
_FAMILIES: Final[Sequence[Callable[[Scope], Iterator[Finding]]]] = (
    late_hosts.of_scope,
    costly_kernels.of_scope,
    exposed_copies.of_memory,
    unfilled_gpus.of_scope,
    exposed_collectives.of_scope,
    exposed_copies.of_copies,
)
# What copies cost is known without kernels; what a device does in pauses is not.
_COPIES: Final = {"exposed_peer_copies", "staged_copies", "exposed_host_copies", "pageable_memory"}


@per_file(COSTS, needs=("kernels", "memcpys"), device_texts=("phrase", "where", "suggestion"))
def costs_of_devices(profile: Profile) -> pa.Table:
    """What costs the devices of one recording time, of what it can tell, however little."""
    return COSTS.table(
        [
            {
                **{name: getattr(cost, name) for name in _ALIKE},
                "device_id": cost.scope.device.device_id,
                "phase": cost.scope.phase or None,
                "family": family_of(cost.cause),
                "order": order,
                "where": cost.where or None,
                "steps": len(cost.scope.start_ns) if cost.scope.has_steps else None,
                "all_steps": cost.scope.steps,
                "step_ns": cost.scope.step_ns,
                "predicted_win_ns": cost.won_ns,
                "family_cost_ns": cost.of_family_ns[0],
                "family_win_ns": cost.of_family_ns[1],
                "family_predicted_win_ns": cost.of_family_ns[2],
                "change": cost.change or None,
                **dict(zip(("start_ns", "end_ns"), cost.seen_ns or (None, None), strict=True)),
            }
            for order, cost in _with_predictions(_of_recording(profile))
        ]
    )


def _of_recording(profile: Profile) -> list[tuple[int, Finding]]:
    """What the recording can tell, each with its order."""
    of_steps = [cost for costs in findings_of_scopes(profile).values() for cost in costs]
    of_devices: dict[tuple[str, int], list[Finding]] = {}
    for finding in of_recording(profile, scopes(profile)):
        place = finding.scope.phase, finding.scope.device.number
        of_devices.setdefault(place, []).append(finding)
    of_all = [f for alike in of_devices.values() for f in _with_families(_with_details(alike))]
    lacking = {finding.cause for finding in of_all}
    # From a single copy nothing follows, unless a kernel ran.
    is_copy = len(activities(profile.unrestricted)) == 1 and not any(
        scope.device.kernels_ns for scope in scopes(profile)
    )
    if incomplete(profile) is not None:
        of_all = [finding for finding in of_all if finding.cause in WITHOUT_COST]
    if incomplete(profile) is not None or is_copy or "no_training" in lacking:
        of_steps = []
    has_steps = any(scope.has_steps for scope in scopes(profile))

    def order(finding: Finding) -> int:
        """What the steady state pays before set-up.

        A recording that is all set-up says so first, and one without steps if most of it is. What
        takes most of the time with copies is true without kernels, too.
        """
        share = finding.share(finding.cost_ns)
        if "no_kernels" in lacking and finding.cause in _COPIES and share >= _MOST:
            return CAUSES["no_kernels"].order
        if finding.cause == "setup" and share >= (_ALL if has_steps else _MOST):
            return 0
        return CAUSES[finding.cause].order

    return [
        (order(finding), finding)
        for finding in (*of_all, *of_steps)
        if finding.cost_ns or finding.cause in WITHOUT_COST
    ]


def _with_predictions(costs: Sequence[tuple[int, Finding]]) -> list[tuple[int, Finding]]:
    """The same with predictions for the device of each phase on which a cause can win most."""
    worth = [
        (cost.win_ns, cost.cost_ns, -place)
        for place, (_, cost) in enumerate(costs)
        if cost.share(cost.cost_ns) >= LEAST_SHARE or cost.cause in WITHOUT_COST
    ]
    by_win = [-place for _, _, place in sorted(worth)]
    first = {(costs[at][1].cause, costs[at][1].scope.phase): at for at in by_win}
    findings = [*costs]
    for at in first.values():
        findings[at] = costs[at][0], with_win(costs[at][1])
    by_order = sorted((costs[at][0], family_of(cause)) for (cause, _), at in first.items())
    order_of = {family: order for order, family in reversed(by_order)}
    families: dict[tuple[str, str], list[int]] = {}
    for (cause, phase), at in first.items():
        if costs[at][0] == order_of[family_of(cause)]:
            families.setdefault((family_of(cause), phase), []).append(at)
    for places in families.values():
        parts = [findings[at][1] for at in places]
        won_ns = won_together(sorted(parts, key=lambda part: (-(part.won_ns or 0), -part.cost_ns)))
        for at, part in zip(places, parts, strict=True):
            findings[at] = (
                findings[at][0],
                part._replace(of_family_ns=(*part.of_family_ns[:2], won_ns)),
            )
    return findings


@once_per_profile
def findings_of_scopes(profile: Profile) -> Mapping[Scope, Sequence[Finding]]:
    """All that costs each device time, however little, by what was looked at."""
    most_compute_ns: dict[str, int] = {}
    for scope in scopes(profile):
        most_ns = max(most_compute_ns.get(scope.phase, 0), scope.compute_ns)
        most_compute_ns[scope.phase] = most_ns
    costs: dict[Scope, list[Finding]] = {scope: [] for scope in scopes(profile)}
    for family in _FAMILIES:
        for scope, of_scope in costs.items():
            of_scope.extend(family(scope))
    for scope, of_scope in costs.items():
        # A device that computes less than another would wait for that one in the time it saves.
        slack_ns = most_compute_ns[scope.phase] - scope.compute_ns if scope.has_steps else 0
        costs[scope] = [
            f if f.cause in _OF_OTHERS else f._replace(win_ns=max(f.win_ns - slack_ns, 0))
            for f in _joined(of_scope)
        ]
    exchanges = [
        finding
        for of_scope in costs.values()
        for finding in of_scope
        if finding.cause in _EXCHANGES and finding.scope.has_steps and len(finding.instants)
    ]
    exchanges.sort(key=lambda finding: -finding.cost_ns)
    return {
        scope: _with_families(_with_details(_with_exchanges(scope, of_scope, exchanges)))
        for scope, of_scope in costs.items()
    }


def _joined(of_scope: Sequence[Finding]) -> list[Finding]:
    """The findings of a scope, those that are about the same time joined."""
    by_cause: dict[str, Finding] = {}
    for finding in of_scope:
        prior = by_cause.setdefault(finding.cause, finding)
        if prior is not finding:
            # At another time: in the words of the costlier one.
            costlier = max(prior, finding, key=lambda cost: cost.cost_ns)
            cost_ns, win_ns = prior.cost_ns + finding.cost_ns, prior.win_ns + finding.win_ns
            instants = together([prior.instants, finding.instants])
            by_cause[finding.cause] = costlier._replace(
                cost_ns=cost_ns, win_ns=win_ns, instants=instants
            )
    staged, waits = by_cause.get("staged_copies"), by_cause.get("waits_for_device")
    if staged is not None and waits is not None:
        staged = staged.with_details()
        # Devices wait for the halves that the others copy.
        by_cause["staged_copies"] = staged._replace(
            cost_ns=staged.cost_ns + waits.cost_ns,
            win_ns=staged.win_ns + waits.win_ns,
            phrase=f"{staged.phrase}, with pauses of {say_ns(waits.cost_ns)} beside them",
            instants=together([staged.instants, waits.instants]),
        )
        del by_cause["waits_for_device"]
    pageable, copies = by_cause.get("pageable_memory"), by_cause.get("exposed_host_copies")
    if pageable is not None and copies is not None and pageable.cost_ns >= _MOST * copies.cost_ns:
        # Copies of pinned memory, and those that are meant to wait, cost the rest.
        has_others = copies.share(copies.cost_ns - pageable.cost_ns) >= LEAST_SHARE
        most = pageable.phrase.removeprefix("waits for ")
        of_all = f"waits for copies from and to the host, most of them {most}"
        by_cause["pageable_memory"] = pageable._replace(
            phrase=of_all if has_others else pageable.phrase,
            cost_ns=copies.cost_ns,
            win_ns=copies.win_ns,
            where=copies.with_details().where,
            instants=copies.instants,
        )
        del by_cause["exposed_host_copies"]
    small, late = by_cause.get("small_kernels"), by_cause.get("host_late")
    if small is not None and late is not None:
        # The host is late for small kernels; what is left has another reason.
        rest_ns = max(late.cost_ns - small.cost_ns, 0)
        by_cause["host_late"] = late._replace(cost_ns=rest_ns, win_ns=min(late.win_ns, rest_ns))
    return [*by_cause.values()]


def _with_details(of_scope: Sequence[Finding]) -> list[Finding]:
    """The findings of a scope, those that are worth a sentence with all their fields.

    A job of many files divides the sum of some anew, and takes the words of the costliest.
    """
    divided = [finding for finding in of_scope if finding.cause in DIVIDED_ANEW]
    costliest = max(divided, key=lambda finding: finding.cost_ns, default=None)
    sum_ns = sum(finding.cost_ns for finding in divided)
    costs_ns = [sum_ns if finding is costliest else finding.cost_ns for finding in of_scope]
    return [
        finding.with_details()._replace(seen_ns=_seen_ns(finding))
        if finding.share(cost_ns) >= LEAST_SHARE or finding.cause in WITHOUT_COST
        else finding._replace(details=None)
        for finding, cost_ns in zip(of_scope, costs_ns, strict=True)
    ]


def _with_families(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one scope with what each's family costs and can win, each time once.

    Costs of a family may be of the same time, as copies of two kinds that run at once: together
    they cost that time once. What costs little is no part of a family.
    """
    families: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.share(finding.cost_ns) >= LEAST_SHARE:
            families.setdefault(family_of(finding.cause), []).append(finding)
    sums: dict[str, tuple[int, int, None]] = {}
    for family, parts in families.items():
        cost_ns, win_ns = sum(f.cost_ns for f in parts), sum(f.win_ns for f in parts)
        at_once = [finding for finding in parts if len(finding.instants)]
        if len(at_once) > 1:
            once_ns = at_once[0].scope.per_step(together([part.instants for part in at_once]))
            cost_ns = min(cost_ns, cost_ns - sum(part.cost_ns for part in at_once) + once_ns)
        sums[family] = cost_ns, min(win_ns, cost_ns), None
    return [
        finding._replace(
            instants=NOTHING,
            of_family_ns=sums.get(
                family_of(finding.cause), (finding.cost_ns, finding.win_ns, None)
            ),
        )
        for finding in findings
    ]


def _seen_ns(finding: Finding) -> tuple[int, int] | None:
    """From when to when a finding can be seen: a typical step where its instants are not kept."""
    scope, instants = finding.scope, finding.instants
    if scope.has_steps:
        step = int(typical_steps(scope.end_ns - scope.start_ns)[0])
        typical = Intervals(scope.start_ns[step : step + 1], scope.end_ns[step : step + 1])
        inside = intersection(instants, typical)
        instants = inside if len(inside) else instants if len(instants) else typical
    if not len(instants):
        return None
    longest = int((instants.end - instants.start).argmax())
    return int(instants.start[longest]), int(instants.end[longest])


# Copies with the host are no exchange: each device has its own.
_EXCHANGES: Final = {
    "exposed_peer_copies",
    "staged_copies",
    "collective_transfer",
    "collective_waiting",
    "same_stream",
}
# Pauses of a device while another one of its program only exchanges data belong to that exchange:
# the step is as long as it makes it. In other pauses the host is late for a reason of its own.
_PAUSES: Final = {"waits_for_device", "waits_for_stream", "synchronising_call"}


def _with_exchanges(
    scope: Scope, of_scope: Sequence[Finding], exchanges: Sequence[Finding]
) -> list[Finding]:
    """What costs a device time, with its pauses as a part of what they are spent on elsewhere."""
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
            device, detailed = f"device {exchange.scope.device.device_id}", exchange.with_details()
            prior = by_cause.get(exchange.cause)
            by_cause[exchange.cause] = detailed._replace(
                scope=pause.scope,
                phrase=f"is idle while {device} {detailed.phrase}",
                cost_ns=cost_ns,
                win_ns=cost_ns,
                instants=at_once,
            )
            if prior is not None:
                prior = prior.with_details()
                by_cause[exchange.cause] = prior._replace(
                    phrase=f"{prior.phrase}, with pauses of {say_ns(cost_ns)} while {device} does",
                    cost_ns=prior.cost_ns + cost_ns,
                    win_ns=prior.win_ns + cost_ns,
                    instants=together([prior.instants, at_once]),
                )
    return [*by_cause.values()]
