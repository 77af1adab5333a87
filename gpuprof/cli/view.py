"""``gpuprof view``: a recording as a page in the browser."""

from typing import Any

import click

from gpuprof.cli.options import named, part_options, reader_option, recording_argument
from gpuprof.cli.progress import watched


@click.command(name="view", no_args_is_help=True)
@recording_argument
@reader_option
@part_options
def command(
    *,
    files: tuple[str, ...],
    reader: str | None,
    **part: Any,  # noqa: ANN401 - those of part_options
) -> None:
    """Show a recording as a page: charts to zoom, tables to sort and search.

    The page is one file in the folder for temporary files, and needs no network. Where no
    browser can be opened, its path is printed. Keep one with `gpuprof report --html`.

    \b
    Example:
      gpuprof view train.sqlite
      gpuprof view runs/dual
    """  # noqa: D301 - click reads the escape
    import tempfile  # noqa: PLC0415 - start-up time of --help
    import webbrowser  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from gpuprof.analyses.parts import part_of  # noqa: PLC0415
    from gpuprof.readers import read_profile  # noqa: PLC0415
    from gpuprof.render.output import Output, write_stdout  # noqa: PLC0415
    from gpuprof.render.page.recording import recording_page  # noqa: PLC0415

    with watched(f"Reading {named(files)}", files) as progress:
        profile = part_of(progress.of(read_profile(files, reader)), **part)
        text = recording_page(profile)
    path = Path(tempfile.mkdtemp(prefix="gpuprof-")) / f"{profile.origin.source.stem}.html"
    Output(path).write_text(text)
    if not webbrowser.open(path.as_uri()):
        write_stdout(f"{path}\n")
