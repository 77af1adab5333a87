"""``gpuprof formats``: what can be read."""

import click


@click.command(name="formats")
@click.option("--markdown", is_flag=True, help="As a table for a README.")
def command(*, markdown: bool) -> None:
    """List the input formats: their names, versions, and what each cannot tell.

    \b
    Example:
      gpuprof formats
    """  # noqa: D301 - click reads the escape
    from gpuprof.readers import READERS  # noqa: PLC0415 - start-up time of --help
    from gpuprof.render.listing import formats_table, formats_text  # noqa: PLC0415
    from gpuprof.render.output import write_stdout  # noqa: PLC0415

    write_stdout(formats_table(READERS) if markdown else formats_text(READERS))
