"""``gpuprof monitor``: what GPUs and host are doing now."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import click

from gpuprof.cli.options import time_in_ns
from gpuprof.units import NS_PER_S, format_bytes, format_clock, format_rate, format_share

Sample = Mapping[str, Any]
Take = Callable[[], list[Sample]]

_TITLES = (
    ("device", "Device"),
    ("utilisation", "Busy"),
    ("memory", "Memory"),
    ("power", "Power"),
    ("temperature", "Temp"),
    ("clock", "Clock"),
    ("received", "PCIe in"),
    ("sent", "PCIe out"),
)


@click.command(name="monitor")
@click.option(
    "--interval",
    "interval_ns",
    metavar="TIME",
    default="1s",
    show_default=True,
    callback=time_in_ns,
    help="Between two samples, as 500ms.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N samples.")
@click.option("--json", "is_json", is_flag=True, help="For programs: a line for each device.")
def command(*, interval_ns: int, count: int | None, is_json: bool) -> None:
    """Show what GPUs and host are doing.

    Busy time, memory, power, clocks and PCIe traffic: GPUs through NVML (nvidia-ml-py), the host
    through psutil; the extra `monitor` brings both. It ends on Ctrl-C. `record` takes the same
    samples into its run.

    \b
    Example:
      gpuprof monitor
      gpuprof monitor --count 1 --json
    """  # noqa: D301 - click reads the escape
    from gpuprof.errors import MissingToolError  # noqa: PLC0415 - start-up time of --help
    from gpuprof.launch.run.monitor import sample, sources  # noqa: PLC0415

    of = sources()
    if not of:
        msg = "neither nvidia-ml-py nor psutil is installed here"
        raise MissingToolError(msg, "pip install 'gpuprof-toolkit[monitor]'")
    try:
        _show(lambda: list(sample(of)), interval_ns, count, is_json=is_json)
    except KeyboardInterrupt:
        if count is not None:  # else it is how this ends
            raise


def _show(take: Take, interval_ns: int, count: int | None, *, is_json: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - start-up time of --help
    from rich.live import Live  # noqa: PLC0415

    console = Console(highlight=False)
    samples = _samples(take, interval_ns, count)
    if is_json:
        for rows in samples:
            click.echo("\n".join(json.dumps(row) for row in rows))
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            for rows in samples:
                live.update(_table(rows), refresh=True)
    else:
        for rows in samples:
            console.print(_table(rows))


def _samples(take: Take, interval_ns: int, count: int | None) -> Iterator[list[Sample]]:
    """As many as asked for, else for ever; shares of time are counted from the start."""
    for _ in repeat(None) if count is None else repeat(None, count):
        time.sleep(interval_ns / NS_PER_S)
        yield take()


def _table(rows: list[Sample]) -> Any:  # noqa: ANN401 - a table of rich
    from rich.table import Table  # noqa: PLC0415 - start-up time of --help

    table = Table(box=None, pad_edge=False)
    for name, title in _TITLES:
        table.add_column(title, justify="left" if name == "device" else "right")
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Sample) -> list[str]:
    is_host = row["device_id"] is None
    used, total = row.get("memory_used_bytes"), row.get("memory_total_bytes")
    busy = row.get("cpu_utilisation" if is_host else "gpu_utilisation")
    return [
        "host" if is_host else f"GPU {row['device_id']}",
        format_share(busy),
        f"{format_bytes(used)} of {format_bytes(total)}",
        _whole(row.get("power_w"), "W"),
        _whole(row.get("temperature_c"), "C"),
        format_clock(row.get("sm_clock_hz")),
        format_rate(row.get("pcie_received_bytes_per_s")),
        format_rate(row.get("pcie_sent_bytes_per_s")),
    ]


def _whole(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f} {unit}"
