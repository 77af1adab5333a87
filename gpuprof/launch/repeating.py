"""Repeat a run, with runs without a profiler in between, so that its overhead is known.

A folder of repeats holds ``run-1``, ``run-2``, ..., which compare as runs of one variant, and
``plain-1``, ``plain-2``, ...: the same program without a recorder. Which of each two comes first
alternates, so that a machine that warms up or slows down favours neither.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from gpuprof.base.errors import UsageError
from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import Manifest, finish_manifest
from gpuprof.base.units import say_seconds
from gpuprof.launch import all_recorders
from gpuprof.launch.choice import chosen
from gpuprof.launch.contract import Program
from gpuprof.launch.recording import Options, record
from gpuprof.launch.run.folder import check_folder, claimed, default_folder, make_folder
from gpuprof.launch.run.window import WHOLE_RUN

RECORDED: Final = "run"
PLAIN: Final = "plain"


def record_repeatedly(
    program: Program, options: Options, count: int, warmups: int, say: Callable[[str], None]
) -> tuple[Path, Manifest]:
    """Record a program several times into one folder.

    Stops at the first run that fails; what was recorded until then is kept.

    Args:
        program: What to run.
        options: How.
        count: Recorded runs, and as many plain ones.
        warmups: Plain runs before them, whose files are removed.
        say: Takes a line for the person who waits.

    Returns:
        The folder of all runs, and the manifest of the last one.

    Raises:
        GpuprofError: As of `record`.
    """
    if options.placement is not None:
        msg = "--placement cannot be repeated: runs without a recorder have the script's placement"
        raise UsageError(msg, "Record it once.")
    recorder, _ = chosen(options.recorder, program, all_recorders())
    folder = options.folder or default_folder(program, options.variant)
    check_folder(folder, force=options.force)
    make_folder(folder, force=options.force)
    variant = options.variant or folder.resolve().name
    alike = replace(options, variant=variant, force=False)
    with claimed(folder):
        for number in range(1, warmups + 1):
            say(f"Warm-up {number} of {warmups}")
            with tempfile.TemporaryDirectory(
                prefix="gpuprof-warm-up-", ignore_cleanup_errors=True
            ) as parent:
                manifest = _run(program, replace(alike, folder=Path(parent) / PLAIN), PLAIN, say)
            if manifest.exit_status:
                return folder, manifest
        # A run without a recorder costs nothing that plain runs could tell.
        kinds = (RECORDED,) if recorder.name == TIMING_ONLY else (PLAIN, RECORDED)
        numbers = range(1, count + 1)
        ended: dict[str, dict[Path, Manifest]] = {RECORDED: {}, PLAIN: {}}
        for number, kind in [(n, k) for n in numbers for k in kinds[:: 1 if n % 2 else -1]]:
            say(f"{_TITLES[kind]} {number} of {count}")
            place = folder / f"{kind}-{number}"
            manifest = _run(program, replace(alike, folder=place), kind, say)
            if manifest.exit_status:
                break
            ended[kind][place] = manifest
        warning = overhead([*ended[RECORDED].values()], [*ended[PLAIN].values()])
        if warning is not None:
            for place, recorded in ended[RECORDED].items():
                warned = replace(recorded, warnings=(*recorded.warnings, warning))
                finish_manifest(place, warned)
    return folder, warned if warning and not manifest.exit_status else manifest


_TITLES: Final = {RECORDED: "Recorded run", PLAIN: "Plain run"}


def _run(program: Program, options: Options, kind: str, say: Callable[[str], None]) -> Manifest:
    if kind == PLAIN:
        options = replace(options, recorder=TIMING_ONLY, window=WHOLE_RUN)
    # A run without a recorder is announced already.
    return record(program, options, say if kind == RECORDED else lambda _: None)[1]


def overhead(recorded: Sequence[Manifest], plain: Sequence[Manifest]) -> str | None:
    """The overhead of recording, in a sentence; None where there is nothing to compare.

    It is that of the marked epochs where there are some, else that of whole runs, which include
    the profiler's start and end.
    """
    for name, unit in (("seconds_per_epoch", "an epoch"), ("wall_seconds", "the whole run")):
        times, plain_times = (
            [getattr(m, name) for m in ms if getattr(m, name)] for ms in (recorded, plain)
        )
        if times and plain_times:
            overlap = max(times) >= min(plain_times) and max(plain_times) >= min(times)
            noise = "; their ranges overlap, so this may be noise" if overlap else ""
            return (
                f"With recording, {unit} takes {median(times) / median(plain_times):.2f} times as "
                f"long: {say_seconds(median(times))} instead of {say_seconds(median(plain_times))}"
                f" (medians of {len(times)} and {len(plain_times)} runs{noise})."
            )
    return None
