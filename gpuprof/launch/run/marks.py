"""The epochs that a script marked, from the lines that `gpuprof.annotate` wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuprof.base import json_input
from gpuprof.base.manifest import MARKS

_FIELDS = ("epoch", "seconds", "steps", "started_at_unix_ns")


Rows = tuple[Mapping[str, Any], ...]


def marked(folder: Path) -> tuple[Rows, Rows, tuple[str, ...]]:
    """The epochs of a run: those of the lowest rank where several processes marked some.

    Adding them up would count the same epoch more than once. Without ranks they are those of
    the first process to end one.

    Returns:
        ``epoch``, ``seconds``, ``steps`` and ``started_at_unix_ns`` of one process; ``process_id``,
        ``rank`` (null if it has none), ``epochs`` and ``seconds_per_epoch`` of each, in the order
        of ranks; and what to know about them, a sentence each.
    """
    by_process: dict[Any, list[dict[str, Any]]] = {}
    for mark in json_input.lines(folder / MARKS):
        if isinstance(mark, dict) and {"epoch", "seconds", "steps"} <= mark.keys():
            by_process.setdefault(mark.get("process_id"), []).append(mark)
    # Without a rank, last.
    ordered = sorted(
        by_process.values(), key=lambda of: (of[0].get("rank") is None, of[0].get("rank") or 0)
    )
    epochs = tuple({k: m[k] for k in _FIELDS if k in m} for m in (ordered[0] if ordered else ()))
    processes = tuple(
        {
            "process_id": marks[0].get("process_id"),
            "rank": marks[0].get("rank"),
            "epochs": len(marks),
            "seconds_per_epoch": mean_seconds(tuple(marks)),
        }
        for marks in ordered
    )
    if len(processes) <= 1:
        return epochs, processes, ()
    rank = processes[0]["rank"]
    whose = "the first to end one" if rank is None else f"rank {rank}"
    doubt = f"{len(processes)} processes marked epochs; those of {whose} are kept."
    return epochs, processes, (doubt,)


def mean_seconds(epochs: Rows) -> float | None:
    """Mean seconds per epoch; None where none was marked."""
    return sum(e["seconds"] for e in epochs) / len(epochs) if epochs else None


def seconds_per_step(epochs: Rows) -> float | None:
    """Seconds of the epochs whose steps were marked, per step; None where none were."""
    counted = [e for e in epochs if e["steps"]]
    return (
        sum(e["seconds"] for e in counted) / sum(e["steps"] for e in counted) if counted else None
    )
