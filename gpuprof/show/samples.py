"""Samples of GPUs and host as people and programs read them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from gpuprof.base.units import format_clock, format_rate, say_bytes
from gpuprof.show.output import write_stdout

Sample = Mapping[str, Any]

_TITLES: Final = ("Device", "Busy", "Memory", "Power", "Temp", "Clock", "PCIe in", "PCIe out")


def show(samples: Iterable[Sequence[Sample]], form: str) -> None:
    """Print each sample as it comes: a table, or a line of JSON for each device.

    On a terminal each table takes the place of the one before.
    """
    console = Console(highlight=False)
    if form == "json":
        for rows in samples:
            if not write_stdout("".join(json.dumps(row) + "\n" for row in rows)):
                return
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            for rows in samples:
                live.update(_table(rows), refresh=True)
    else:
        for rows in samples:
            with console.capture() as shown:
                console.print(_table(rows))
            if not write_stdout(shown.get()):
                return


def _table(rows: Sequence[Sample]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in _TITLES:
        table.add_column(title, justify="left" if title == "Device" else "right")
    for row in rows:
        is_host = row["device_id"] is None
        busy = row.get("cpu_utilisation" if is_host else "gpu_utilisation")
        table.add_row(
            "host" if is_host else f"GPU {row['device_id']}",
            # Whole percent, as NVML counts.
            _rounded(None if busy is None else 100 * busy, "%"),
            _memory(row.get("memory_used_bytes"), row.get("memory_total_bytes")),
            _rounded(row.get("power_w"), "W"),
            _rounded(row.get("temperature_c"), "C"),
            format_clock(row.get("sm_clock_hz")),
            format_rate(row.get("pcie_received_bytes_per_s")),
            format_rate(row.get("pcie_sent_bytes_per_s")),
        )
    return table


def _memory(used_bytes: int | None, total_bytes: int | None) -> str:
    """Such as "3.65 of 151 GB": a table of 80 columns has no room for more."""
    if used_bytes is None or total_bytes is None:
        return "n/a"
    used, total = say_bytes(used_bytes), say_bytes(total_bytes)
    (number, unit), (_, total_unit) = used.split(), total.split()
    return f"{number if unit == total_unit else used} of {total}"


def _rounded(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f} {unit}"
