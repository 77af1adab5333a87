"""Families of causes: what is mended in one place is one line for people, ranked by what it wins.

This is of words and rows alone, so that to show a result imports none of what made it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from gpuprof.findings.first_sentence import time_and_share, winnings

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
    "unfused_attention": "compute",
    "no_tensor_cores": "compute",
    "low_occupancy": "compute",
    "small_grids": "compute",
    "idle_sms": "compute",
    "setup": "set_up",
    "copies_outside_steps": "set_up",
    "waits_outside_steps": "set_up",
}
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
    return FAMILIES.get(cause, cause)


def by_family(rows: Iterable[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows of ``findings`` for people: what each family costs and can win, and its causes.

    What a family costs is empty where it has one cause, which says that itself.
    """
    for _, of_family in groupby(rows, key=lambda row: row["family"]):
        parts = [*of_family]
        yield (_head(parts), [*map(_part, parts)]) if len(parts) > 1 else ("", parts)


def _head(parts: Sequence[Row]) -> str:
    """What a family costs where its first cause costs most, and what can be won of that."""
    first, step_ns = parts[0], parts[0]["step_ns"] or 0
    together: dict[str, Any] = {}
    for name in ("cost", "win", "predicted_win"):
        together[f"{name}_ns"] = time_ns = first[f"family_{name}_ns"]
        together[f"{name}_share"] = time_ns / step_ns if step_ns and time_ns is not None else 0.0
    # What only some of them win in a replay says nothing of all.
    if any(part["predicted_win_ns"] is None for part in parts):
        together["predicted_win_ns"] = None
    cost, of_phase = time_and_share(together, "cost"), f' of a step of "{first["phase"]}"'
    of_a_step = " of a step" if first["steps"] else ""
    # Where there are several phases, findings name theirs.
    of_a_step = of_phase if of_phase in first["finding"] else of_a_step
    cost_of_step = cost.replace(" (", f"{of_a_step} (")
    return f"{_TAKES[first['family']]} {cost_of_step}; {winnings(together, cost)}"


def _part(row: Row) -> Row:
    """A cause below what its family costs of a step."""
    return {**row, "finding": row["finding"].replace(" of a step (", " (")}
