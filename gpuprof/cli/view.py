"""``gpuprof view``: a recording as a page in the browser."""

from typing import Any

import click

from gpuprof.cli.options import (
    full_names_option,
    part_options,
    reading_options,
    recording_argument,
)
from gpuprof.cli.progress import reading


@click.command(name="view", no_args_is_help=True)
@recording_argument
@reading_options
@part_options
@full_names_option
def command(
    *,
    files: tuple[str, ...],
    reader: str | None,
    section: str | None,
    full_names: bool,
    **part: Any,
) -> None:
    """Show a recording as a page in the browser.

    The page has charts to zoom, and tables to sort and search. It is one file in the cache (see
    `gpuprof cache`) and needs no network. If no browser can be opened, the path of the page is
    printed. To keep a page, use `gpuprof report --html`.

    \b
    Example:
      gpuprof view train.sqlite
      gpuprof view runs/dual
    """
    import webbrowser  # noqa: PLC0415 - start-up time of --help

    from gpuprof.facts.parts import RecordingPart, part_of  # noqa: PLC0415
    from gpuprof.readers.nsys.export_cache import cached_page  # noqa: PLC0415
    from gpuprof.show.output import write_stdout  # noqa: PLC0415
    from gpuprof.show.page.recording import recording_page  # noqa: PLC0415

    chosen_part = RecordingPart(**part)
    with reading(files, reader, section) as recording:
        profile = part_of(recording, chosen_part)
        text = recording_page(profile, has_full_names=full_names)
    source = profile.origin.source.absolute()
    path = cached_page(text, f"{source.stem}.html", str(source))
    if not webbrowser.open(path.as_uri()):
        write_stdout(f"{path}\n")
