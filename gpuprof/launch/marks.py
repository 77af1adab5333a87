"""The epochs that a script marked, from the lines that `gpuprof.annotate` wrote."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuprof.manifest import MARKS

_KEPT = ("epoch", "seconds", "steps", "started_at_unix_ns")


def marked_epochs(folder: Path) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """The epochs (``epoch``, ``seconds``, ``steps``) of a run, and what to know about them.

    Where several processes marked epochs at the same time, as workers of one job do, those of
    the first are taken: adding them up would count the same epoch more than once.
    """
    marks = list(_lines(folder / MARKS))
    processes = list(dict.fromkeys(mark.get("process_id") for mark in marks))
    first = [mark for mark in marks if mark.get("process_id") == processes[0]]
    epochs = tuple({k: mark[k] for k in _KEPT if k in mark} for mark in first)
    if len(processes) > 1:
        return epochs, (
            f"{len(processes)} processes marked epochs; those of the first to end one are kept.",
        )
    return epochs, ()


def mean_seconds(epochs: tuple[Mapping[str, Any], ...]) -> float | None:
    """Mean seconds per epoch; None where none was marked."""
    return sum(e["seconds"] for e in epochs) / len(epochs) if epochs else None


def seconds_per_step(epochs: tuple[Mapping[str, Any], ...]) -> float | None:
    """Seconds of the epochs whose steps were marked, per step; None where none were."""
    counted = [e for e in epochs if e["steps"]]
    return (
        sum(e["seconds"] for e in counted) / sum(e["steps"] for e in counted) if counted else None
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole marks only: the last line is cut off where the program was killed in its midst."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            mark = json.loads(line)
            complete = {"epoch", "seconds", "steps"} <= mark.keys()
        except (ValueError, AttributeError):
            continue
        if complete:
            yield mark
