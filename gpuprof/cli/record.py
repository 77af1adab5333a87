"""``gpuprof record``: run a program under a profiler."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprof.base.units import counted
from gpuprof.cli.options import folder_option, in_order, parsed, time_option
from gpuprof.launch import AUTO, RECORDERS

if TYPE_CHECKING:
    from gpuprof.launch.recording import Outcome

# It flushes, too: the program's own output follows.
_say: Final = partial(click.echo, err=True)


class _Command(click.Command):
    """Keeps the program's words from click, and notes whether ``--`` stood before them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raw_args = list(args)
        remaining = super().parse_args(ctx, args)
        words: tuple[str, ...] = ctx.params.get("words", ())
        before = raw_args[: len(raw_args) - len(words)]
        ctx.params["as_executable"] = bool(words) and before[-1:] == ["--"]
        return remaining


def _epochs(text: str) -> tuple[int, int]:
    from gpuprof.launch.run.window import parse_epochs  # noqa: PLC0415 - start-up time of --help

    return parse_epochs(text)


# Under the names of `CaptureWindow`'s fields.
_window_options: Final = in_order(
    time_option(
        *("--delay", "delay_ns"),
        "Start to record after this time, such as 90s; the program runs from the start.",
    ),
    time_option(
        *("--duration", "duration_ns"),
        "Record for this time; the program runs to its end.",
    ),
    click.option(
        "--epochs",
        metavar="A:B",
        callback=parsed(_epochs, "give it as 2:4 for epochs 2 and 3, or as 2"),
        help="Record only epochs A to B - 1, as marked by gpuprof.epoch(); 0 is the first.",
    ),
    click.option(
        "--range",
        "range_name",
        metavar="NAME",
        help="Record only the first NVTX range of this name, or NAME@DOMAIN.",
    ),
    click.option(
        "--cuda-profiler",
        is_flag=True,
        help="Record only between cudaProfilerStart and cudaProfilerStop.",
    ),
)


@click.command(
    cls=_Command,
    name="record",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--recorder",
    type=click.Choice([AUTO, *RECORDERS]),
    default=AUTO,
    show_default=True,
    help="Profiler to use; auto takes one that works on this machine.",
)
@click.option("--variant", metavar="NAME", help="Label of the run in comparisons.")
@folder_option("Folder for the run; by default, a new one under gpuprof-runs.")
@click.option("--force", is_flag=True, help="Replace the run in the folder.")
@time_option(
    *("--timeout", "timeout_ns"),
    "Stop a program that runs longer, such as 2h or 90s: first as Ctrl-C does, then by force.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    metavar="N",
    help="Record N runs, with N unrecorded runs between them to measure what recording costs.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=0,
    metavar="K",
    help="With --repeat: first run K times and keep nothing.",
)
@time_option(
    *("--monitor", "monitor_ns"),
    "Time between two samples of GPUs and host; 0s takes none.",
    default="1s",
)
@_window_options
@click.option(
    "--print-command",
    "is_printed",
    is_flag=True,
    help="Print the profiler's command, to run it on another machine, and record nothing.",
)
@click.option("-m", "as_module", is_flag=True, help="What follows is a module, as in python -m.")
@click.argument(
    "words", nargs=-1, required=True, metavar="SCRIPT [ARGS]...", type=click.UNPROCESSED
)
def command(  # noqa: PLR0913 - one per option; click reads the backspace
    *,
    recorder: str,
    variant: str | None,
    folder: Path | None,
    force: bool,
    timeout_ns: int | None,
    is_printed: bool,
    repeat: int | None,
    warmup: int,
    monitor_ns: int,
    as_module: bool,
    as_executable: bool,
    words: tuple[str, ...],
    **part: Any,
) -> int:
    """Run a program and record what its devices do.

    The program runs as it would without gpuprof: its output is shown at once, Ctrl-C reaches
    it, and its exit status is passed on. The run's folder holds the recording, the output and
    a manifest; `report` and `compare` read it.

    Only environment variables that describe how a training runs are kept, and tokens in the
    command are masked. The report of nsys itself holds all variables: look at it before you
    share it. `pack` leaves it out.

    \b
    Example:
        gpuprof record --variant dual train.py --epochs 5
        gpuprof record -m package.train
        gpuprof record --epochs 2:4 train.py
        gpuprof record -- python3 train.py
    """
    from gpuprof.launch.contract import Program  # noqa: PLC0415 - start-up time of --help
    from gpuprof.launch.printed import printed_command  # noqa: PLC0415
    from gpuprof.launch.recording import Options, record  # noqa: PLC0415
    from gpuprof.launch.repeating import RECORDED, Repeats, record_repeatedly  # noqa: PLC0415
    from gpuprof.launch.run.program import executable, module, script  # noqa: PLC0415
    from gpuprof.launch.run.window import CaptureWindow  # noqa: PLC0415

    window = CaptureWindow(**part)
    if is_printed:
        first = () if as_executable else (sys.executable, *(["-m"] if as_module else []))
        elsewhere = Program((*first, *words))
        click.echo(printed_command(recorder, elsewhere, folder, window))
        return 0
    program_of = module if as_module else executable if as_executable else script
    program = program_of(words[0], words[1:])
    options = Options(recorder, variant, folder, force, timeout_ns, window, monitor_ns or None)
    if repeat is None and not warmup:
        return _tell(record(program, options, _say))
    outcome = record_repeatedly(program, options, Repeats(repeat or 1, warmup), _say)
    return _tell(outcome, f"{RECORDED}-1")


def _tell(outcome: "Outcome", first: str = "") -> int:
    """Say how it went on stderr, which is not the program's output, and pass its status on.

    Args:
        outcome: What was recorded.
        first: Of several runs in its folder, the one to look at.
    """
    from gpuprof.base.labels import TIMING_ONLY  # noqa: PLC0415 - start-up time of --help

    folder, manifest = outcome
    for warning in manifest.warnings:
        _say(f"Warning: {warning}")
    if manifest.exit_status:
        _say(f"The program ended with exit status {manifest.exit_status}")
    if manifest.recorder == TIMING_ONLY:
        epochs = counted(len(manifest.epochs), "marked epoch", "marked epochs")
        marked = f"; {epochs} of {manifest.seconds_per_epoch:.3f} s" if manifest.epochs else ""
        _say(f"It ran for {manifest.wall_seconds:.3f} s{marked}\nIts output is in {folder}")
    elif manifest.nothing_recorded:
        _say(f"Warning: {manifest.nothing_recorded}")
        _say(f"Its output is in {folder}")
    else:
        _say(f"Recorded in {folder}\nNext: gpuprof report {shlex.quote(str(folder / first))}")
    return manifest.exit_status or 0
