"""Recordings for other tools: each exporter is one file and one line in `EXPORTERS`."""

from pathlib import Path
from typing import Final

from gpuprof.errors import OutputError
from gpuprof.profile import Profile
from gpuprof.render.exporters import perfetto
from gpuprof.render.exporters.contract import Exporter
from gpuprof.render.output import Output

EXPORTERS: Final[tuple[Exporter, ...]] = (perfetto.EXPORTER,)


def exporter_named(name: str) -> Exporter:
    """The exporter of this name."""
    return next(exporter for exporter in EXPORTERS if exporter.name == name)


def export(profile: Profile, exporter: Exporter, output: Output) -> None:
    """Write a recording in another tool's format; whole, or not at all.

    Raises:
        GpuprofError: The recording lacks what it takes, or the file cannot be written.
    """
    profile.require(*exporter.needs)
    if output.path is None:
        msg = f"a {exporter.name} trace cannot go to standard output"
        raise OutputError(msg, "Give it a file name: -o trace.pftrace")

    def write(path: Path) -> None:
        with path.open("wb") as file:
            exporter.write(profile, file)

    output.save(write)
