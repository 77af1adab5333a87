"""Findings as cards: what a thing costs and can win, what to do, and where it can be seen."""

from typing import Any, Final

from gpuprof.analyses.reports import Report
from gpuprof.base.units import capital, say_ns, say_share
from gpuprof.findings.causes import time_and_share, winnings
from gpuprof.show import Row
from gpuprof.show.cells import clean
from gpuprof.show.overview import advice, first_findings, replay_command

Card = dict[str, Any]
_NONE: Final = {"cost": "", "of": "", "win": "", "bar": None, "start_ns": None}


def cards(result: Report) -> tuple[list[Card], str]:
    """The first and the costly findings, a card for what is mended in one place.

    Returns:
        Of each card its ``head``, what its causes cost together, empty where it has one; and its
        ``parts``, one per cause. Then how many more findings there are; empty for none.
    """
    shown, more = first_findings(result)
    of_families = [
        {"head": f"{capital(head)}." if head else "", "parts": [_part(result, row) for row in rows]}
        for head, rows in shown
    ]
    return of_families, more


def _part(result: Report, row: Row) -> Card:
    """One cause: its figures, empty where it costs no time; its sentence, advice and places."""
    words = {
        "finding": f"{capital(clean(row['finding']))}.",
        "advice": clean(advice(row)),
        "replay": replay_command(row),
        "table": row["table"],
    }
    if not row.get("cost_ns"):
        return words | _NONE
    predicted, cost = row["predicted_win_share"], time_and_share(row, "cost")
    return words | {
        "cost": say_ns(row["cost_ns"]),
        "of": f"{say_share(row['cost_share'])} of {'a step' if row['steps'] else 'the span'}",
        "win": winnings(row, cost),
        # In percent: what it costs, and what of that can be won.
        "bar": [
            100 * min(share, 1)
            for share in (row["cost_share"], row["win_share"] if predicted is None else predicted)
        ],
        "start_ns": row["start_ns"],
        "end_ns": row["end_ns"],
        "owner": result.device_names.called(row["device_id"]),
    }
