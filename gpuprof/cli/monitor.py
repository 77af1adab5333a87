"""``gpuprof monitor``: what GPUs and host are doing now."""

import click

from gpuprof.cli.options import format_option, time_option


@click.command(name="monitor")
@time_option("--interval", "interval_ns", "Time between two samples, such as 500ms.", default="1s")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Stop after N samples.")
@format_option(
    "Format of samples; json has a line for each device, in base units.", "terminal", "json"
)
def command(*, interval_ns: int, count: int | None, form: str) -> None:
    """Show what GPUs and host are doing.

    Busy time, memory, power, clocks and PCIe traffic: of GPUs through NVML (nvidia-ml-py), of the
    host through psutil. The extra `monitor` installs both. Ctrl-C ends it. `record` keeps the
    same samples with a run.

    \b
    Example:
      gpuprof monitor
      gpuprof monitor --count 1 --format json
    """
    from gpuprof.base.errors import MissingToolError, install  # noqa: PLC0415 - start-up time of --help
    from gpuprof.launch.run.monitor import samples, sources  # noqa: PLC0415
    from gpuprof.show.monitor import show  # noqa: PLC0415

    of = sources()
    if not of:
        msg = "neither nvidia-ml-py nor psutil is installed here"
        raise MissingToolError(msg, install("monitor"))
    try:
        show(samples(of, interval_ns, count), form)
    except KeyboardInterrupt:
        if count is not None:  # else it is how this ends
            raise
