"""The summary of a recorded run: what ran, how long it took, and what there is to look at."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuprof.manifest import TIMING_ONLY, Manifest
from gpuprof.render.notebook.summary import Summary
from gpuprof.units import counted, format_seconds


def run_summary(folder: Path, manifest: Manifest, runs: int = 1) -> Summary:
    """What a notebook shows of a run.

    Args:
        folder: Its folder, or the folder of several runs.
        manifest: What is known of it; of several runs, of the last one.
        runs: How many there are.
    """
    several = "" if runs == 1 else f"{counted(runs, 'run', 'runs')} of "
    return Summary(
        f"{several}{shlex.join(manifest.command)}",
        " ".join(_sentences(folder, manifest)),
        notes=manifest.warnings,
    )


def _sentences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """How long it took, and where it is."""
    seconds = format_seconds(manifest.wall_seconds)
    if manifest.recorder == TIMING_ONLY:
        yield f"Ran for {seconds} in {folder}; only times were recorded."
    else:
        yield f"Recorded with {manifest.recorder} in {folder}; ran for {seconds}."
    if manifest.epochs:
        epochs = counted(len(manifest.epochs), "marked epoch", "marked epochs")
        yield f"{epochs} of {format_seconds(manifest.seconds_per_epoch)}."
    if manifest.nothing_recorded:
        yield manifest.nothing_recorded
