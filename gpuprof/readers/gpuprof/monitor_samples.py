"""The samples of a run's monitor, with the epoch that each belongs to."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import json_input
from gpuprof.base.json_values import integer
from gpuprof.base.manifest import MONITOR
from gpuprof.base.units import NS_PER_S
from gpuprof.model import schema
from gpuprof.readers.common.json_rows import typed

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
    path, rows = folder / MONITOR, []
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    for line in lines:
        try:
            row = json_input.loads(line)
            unix_ns = integer(row.get("unix_ns"))
            (sample,) = typed(schema.MONITOR, [row])
        except (ValueError, AttributeError, OverflowError):
            continue  # The last line is cut off where gpuprof was killed in its midst.
        if unix_ns is not None and unix_ns in _TIMES_NS:
            rows.append((unix_ns, sample))
    if not rows:
        return None
    origin_ns = rows[0][0] if epoch_ns is None else epoch_ns
    spans = [
        (range(start_ns, start_ns + round(e["seconds"] * NS_PER_S)), e["epoch"])
        for e in epochs
        if (start_ns := e.get("started_at_unix_ns")) is not None and e["seconds"] is not None
    ]
    return schema.MONITOR.table([
        sample
        | {"time_ns": at - origin_ns, "epoch": next((e for span, e in spans if at in span), None)}
        for at, sample in rows
    ])  # fmt: skip
