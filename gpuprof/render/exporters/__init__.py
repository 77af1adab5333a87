"""Recordings for other tools: each exporter is one file and one line in `EXPORTERS`.

An exporter's file has the tables that it needs, ``NEEDS``, and a function ``write`` that writes a
recording into a binary file.
"""

from pathlib import Path
from typing import Final

from gpuprof.errors import OutputError
from gpuprof.profile import Profile
from gpuprof.render.exporters import perfetto
from gpuprof.render.output import Output

EXPORTERS: Final = {"perfetto": perfetto}


def export(profile: Profile, name: str, output: Output) -> None:
    """Write a recording in another tool's format; whole, or not at all.

    Raises:
        GpuprofError: The recording lacks what it takes, or the file cannot be written.
    """
    exporter = EXPORTERS[name]
    profile.require(*exporter.NEEDS)
    if output.path is None:
        msg = f"a {name} trace cannot go to standard output"
        raise OutputError(msg, "Give it a file name: -o trace.pftrace")

    def write(path: Path) -> None:
        with path.open("wb") as file:
            exporter.write(profile, file)

    output.save(write)
