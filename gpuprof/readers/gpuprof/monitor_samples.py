"""The samples of a run's monitor, with the epoch that each belongs to."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.json_values import integer
from gpuprof.base.manifest import MONITOR
from gpuprof.base.units import NS_PER_S
from gpuprof.model import schema
from gpuprof.readers.common.json_rows import Row, typed

# Any other number is not nanoseconds since 1970.
_TIMES_NS: Final = range(1 << 62)


def samples(
    folder: Path, epochs: Iterable[Mapping[str, Any]], epoch_ns: int | None
) -> pa.Table | None:
    """The table `schema.MONITOR`; None where nothing was sampled.

    Args:
        folder: The run's.
        epochs: As the manifest has them.
        epoch_ns: Unix time that the recording's times count from; the first sample where None.
    """
    rows = list(_rows(folder / MONITOR))
    if not rows:
        return None
    origin_ns = rows[0]["unix_ns"] if epoch_ns is None else epoch_ns
    spans = [
        (
            e["started_at_unix_ns"],
            e["started_at_unix_ns"] + round(e["seconds"] * NS_PER_S),
            e["epoch"],
        )
        for e in epochs
        if e.get("started_at_unix_ns") is not None and e["seconds"] is not None
    ]
    return schema.MONITOR.table([
        {**row, "time_ns": row["unix_ns"] - origin_ns, "epoch": _epoch(row["unix_ns"], spans)}
        for row in rows
    ])  # fmt: skip


def _rows(path: Path) -> Iterator[Row]:
    """Whole samples only: the last line is cut off where gpuprof was killed in its midst."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json_input.loads(line)
            unix_ns = integer(row.get("unix_ns"))
            (sample,) = typed(schema.MONITOR, [row])
        except (ValueError, AttributeError, OverflowError):
            continue
        if unix_ns is not None and unix_ns in _TIMES_NS:
            yield sample | {"unix_ns": unix_ns}


def _epoch(unix_ns: int, spans: list[tuple[int, int, int]]) -> int | None:
    return next((epoch for start, end, epoch in spans if start <= unix_ns < end), None)
