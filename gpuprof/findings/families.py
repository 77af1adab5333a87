"""Families of causes: what is mended in one place is one line for people, ranked by what it wins.

Costs of a family may be of the same time, as copies of two kinds that run at once: together they
cost that time once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from gpuprof.base.units import say_ns, say_share
from gpuprof.findings.causes import Finding
from gpuprof.findings.first_sentence import IN_WORDS, NOTHING_SHARE
from gpuprof.model.intervals import NOTHING, together

# Cause -> its family; others are a family of their own.
FAMILIES: Final = {
    "collective_transfer": "collectives",
    "collective_waiting": "collectives",
    "same_stream": "collectives",
    "host_late": "launching",
    "between_steps": "launching",
    "synchronising_call": "launching",
    "small_kernels": "launching",
    "exposed_peer_copies": "copies",
    "staged_copies": "copies",
    "exposed_host_copies": "copies",
    "pageable_memory": "copies",
    "unified_memory": "copies",
    "local_copies": "copies",
    "waits_for_stream": "waiting",
    "waits_for_device": "waiting",
    "unbalanced_devices": "waiting",
    "layout_conversions": "compute",
    "copy_kernels": "compute",
    "elementwise_kernels": "compute",
    "no_tensor_cores": "compute",
    "low_occupancy": "compute",
    "small_grids": "compute",
    "setup": "set_up",
    "copies_outside_steps": "set_up",
    "waits_outside_steps": "set_up",
}
# What costs a step so much of it, to follow "46.8 ms of a step (30.8 %) go to".
_IN_WORDS: Final = {
    "collectives": "collectives",
    "launching": "launching",
    "copies": "copies",
    "waiting": "waiting",
    "compute": "kernels that can be faster",
    "set_up": "what no step pays",
}
Row = Mapping[str, Any]


def family_of(cause: str) -> str:
    """The family of a cause."""
    return FAMILIES.get(cause, cause)


def with_families(findings: Sequence[Finding], least_share: float) -> list[Finding]:
    """The findings of one scope with what each's family costs and can win, each time once.

    Args:
        findings: Of one scope, each of another cause.
        least_share: What costs a smaller share of a step is no part of a family.
    """
    families: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.share(finding.cost_ns) >= least_share:
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


def joined(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of ``findings`` for people: one of each family, with its causes inside the line."""
    for _, of_family in groupby(rows, key=lambda row: row["family"]):
        first, *others = of_family
        yield {**first, **_in_one_line(first, others)} if others else first


def _in_one_line(first: Row, others: Sequence[Row]) -> dict[str, Any]:
    """What the line of a family says otherwise than its first cause: all that it costs and wins."""
    step_ns = first["step_ns"] or 0
    cost_ns, won_ns = first["family_cost_ns"], first["family_predicted_win_ns"]
    share, win_share = (
        first[f"family_{name}_ns"] / step_ns if step_ns else 0.0 for name in ("cost", "win")
    )
    of_a_step = " of a step" if first["steps"] else ""
    parts = [f"{_cost(row, first)} in {IN_WORDS[row['cause']]}" for row in others]
    words = {row["suggestion"]: IN_WORDS[row["cause"]] for row in reversed(others)}
    words.pop(first["suggestion"], None)
    advice = [f"against {cause}: {text}" for text, cause in reversed(words.items())]
    win = f"at most {say_share(win_share)}"
    if won_ns is not None and step_ns:
        is_all = all(row["predicted_win_ns"] is not None for row in (first, *others))
        won = f"{say_ns(won_ns)} ({say_share(won_ns / step_ns)})"
        won = "next to nothing" if won_ns / step_ns < NOTHING_SHARE else won
        win = f"{won} in a replay{'' if is_all else ' of a part of it'}; {win}"
    return {
        "finding": f"{say_ns(cost_ns)}{of_a_step} ({say_share(share)}) go to"
        f" {_IN_WORDS[first['family']]}: {'; '.join([first['finding'], *parts])}",
        "suggestion": "; ".join([first["suggestion"], *advice]),
        "cost_share": share,
        "win_share": win_share,
        "win": win if first["family_win_ns"] else "nothing by itself",
        "predicted_win_ns": won_ns,
    }


def _cost(row: Row, first: Row) -> str:
    """What a cause costs, and where, if that is another place than that of the first one."""
    device, phase = row["device_id"], row["phase"]
    at = "" if device == first["device_id"] or device is None else f" on device {device}"
    of = "" if phase == first["phase"] or phase is None else f' of a step of "{phase}"'
    return f"{say_ns(row['cost_ns'])}{of} ({say_share(row['cost_share'])}){at}"
