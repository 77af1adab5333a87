"""What runs on this machine: ``gpuprof record``, ``monitor``, and ``doctor`` on what can."""

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import click

from gpuprof.api.options import WINDOW
from gpuprof.base.errors import MissingToolError, install
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import Manifest
from gpuprof.base.units import counted, say_seconds
from gpuprof.cli.commands import values_of
from gpuprof.cli.terminal import page, say
from gpuprof.doctor import as_json, as_text, findings
from gpuprof.doctor.examined_machine import this_machine
from gpuprof.launch.choice import printed_command
from gpuprof.launch.contract import Program
from gpuprof.launch.recording import Options
from gpuprof.launch.recording import record as record_once
from gpuprof.launch.repeating import RECORDED, record_repeatedly
from gpuprof.launch.run.monitor import samples, sources
from gpuprof.launch.run.program import executable, module, script
from gpuprof.launch.run.window import CaptureWindow
from gpuprof.show.output import write_stdout


def record(values: SimpleNamespace) -> int:
    """Record a program, or print the command that would."""
    window = CaptureWindow(**values_of(values, WINDOW))
    words, as_executable, as_module = values.words, values.as_executable, values.as_module
    if values.is_printed:
        first = () if as_executable else (sys.executable, *(["-m"] if as_module else []))
        program = Program((*first, *words))
        click.echo(printed_command(values.recorder, program, values.folder, window))
        return 0
    program_of = module if as_module else executable if as_executable else script
    program = program_of(words[0], words[1:])
    options = Options(
        *(values.recorder, values.variant, values.folder, values.force, values.timeout_ns),
        *(window, values.monitor_ns or None, values.placement),
    )
    if values.repeat is None and not values.warmup:
        folder, manifest = record_once(program, options, say)
        return _tell(folder, folder, manifest)
    repeats = values.repeat or 1, values.warmup
    folder, manifest = record_repeatedly(program, options, *repeats, say)
    return _tell(folder, folder / f"{RECORDED}-1", manifest)


def _tell(folder: Path, first: Path, manifest: Manifest) -> int:
    """Say how it went on stderr, which is not the program's output, and pass its status on.

    Args:
        folder: What was recorded.
        first: Of several runs in the folder, the one to look at.
        manifest: Of the last run.
    """
    for warning in manifest.warnings:
        if warning not in (manifest.nothing_recorded or ""):
            say(f"Warning: {warning}")
    if manifest.exit_status:
        say(f"The program ended with exit status {manifest.exit_status}")
    if manifest.recorder == TIMING_ONLY:
        epochs = counted(len(manifest.epochs), "marked epoch", "marked epochs")
        marked = f"; {epochs} of {say_seconds(manifest.seconds_per_epoch)}" * bool(manifest.epochs)
        say(f"It ran for {say_seconds(manifest.wall_seconds)}{marked}\nIts output is in {folder}")
    elif manifest.nothing_recorded:
        say(f"Warning: {manifest.nothing_recorded}")
        say(f"Its output is in {folder}")
    else:
        say(f"Recorded in {folder}\nNext: gpuprof report {shlex.quote(str(first))}")
    return manifest.exit_status or 0


def doctor(values: SimpleNamespace) -> int:
    """Print what can be recorded here, and what prevents recording."""
    machine = this_machine()
    checked = findings(machine)
    is_json = values.form == "json"
    write_stdout(as_json(machine, checked) if is_json else as_text(checked, page().width))
    return int(any(finding.state == "problem" for finding in checked))


def monitor(values: SimpleNamespace) -> None:
    """Print what GPUs and host are doing, until Ctrl-C or for so many samples."""
    from gpuprof.show.samples import show  # noqa: PLC0415 - a recording shows none

    of = sources()
    if not of:
        msg = "neither nvidia-ml-py nor psutil is installed here"
        raise MissingToolError(msg, install("monitor"))
    try:
        show(samples(of, values.interval_ns, values.count), values.form)
    except KeyboardInterrupt:
        if values.count is not None:  # else it is how this ends
            raise
