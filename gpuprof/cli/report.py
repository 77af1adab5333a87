"""``gpuprof report``: what one recording says."""

import click

from gpuprof.cli.options import (
    format_option,
    output_options,
    page_options,
    progress,
    reader_option,
)


@click.command(name="report", no_args_is_help=True)
@click.argument("file", required=False, type=click.Path())
@format_option
@output_options
@reader_option
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Show this table whole; repeat for more. --list names them.",
)
@click.option("--all", "is_all", is_flag=True, help="Show every table whole.")
@click.option("--list", "is_list", is_flag=True, help="Name the tables and what they need.")
def command(  # noqa: PLR0913 - one parameter per option
    *,
    file: str | None,
    form: str,
    output: str,
    force: bool,
    wide: bool,
    reader: str | None,
    tables: tuple[str, ...],
    is_all: bool,
    is_list: bool,
) -> None:
    """Show where the time of one recording went: kernels, transfers by kind, memsets.

    FILE is a recording of nvprof, Nsight Systems or another tool that `gpuprof formats` lists,
    or a folder that `gpuprof record` made. What the recording cannot tell is n/a, with the
    reason.

    \b
    Example:
      gpuprof report train.txt
      gpuprof report train.sqlite --format json -o train.json
    """  # noqa: D301 - click reads the escape
    from gpuprof.analyses import ANALYSES  # noqa: PLC0415 - start-up time of --help
    from gpuprof.readers import read_profile  # noqa: PLC0415
    from gpuprof.render import renderer_named  # noqa: PLC0415
    from gpuprof.render.contract import Page  # noqa: PLC0415
    from gpuprof.render.listing import analyses_text  # noqa: PLC0415
    from gpuprof.render.output import prepare  # noqa: PLC0415
    from gpuprof.reports import report  # noqa: PLC0415

    target = prepare(output, is_forced=force)
    if is_list:
        target.write_text(analyses_text(ANALYSES))
        return
    if file is None:
        msg = "Missing argument 'FILE'."
        raise click.UsageError(msg)
    chosen = tuple(analysis.name for analysis in ANALYSES) if is_all else tables or None
    progress(f"Reading {file} ...")
    result = report(read_profile(file, reader), chosen)
    page = Page(**page_options(output, is_wide=wide), tables=chosen)
    target.write_text(renderer_named(form).report(result, page))
