"""The summary of a recorded run: what ran, how long it took, and what there is to look at."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from gpuprof.base.labels import TIMING_ONLY
from gpuprof.base.manifest import Manifest
from gpuprof.base.units import capital, counted, format_seconds
from gpuprof.show.notebook.summary import Summary


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
    is_timed = manifest.recorder == TIMING_ONLY
    how = "Only times were recorded" if is_timed else f"Recorded with {manifest.recorder}"
    yield f"{how}, in {folder}; the program ran for {seconds}."
    if manifest.epochs:
        epochs = counted(len(manifest.epochs), "marked epoch", "marked epochs")
        yield f"{epochs} of {format_seconds(manifest.seconds_per_epoch)}."
    if manifest.nothing_recorded and not is_timed:
        yield f"{capital(manifest.nothing_recorded).removesuffix('.')}."
