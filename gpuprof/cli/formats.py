"""``gpuprof formats``: what can be read."""

import click

from gpuprof.cli.options import format_option


@click.command(name="formats")
@format_option("How the formats are written; markdown as in the README.", "terminal", "markdown")
@click.option("--schema", "is_schema", is_flag=True, help="The columns of every table instead.")
def command(*, form: str, is_schema: bool) -> None:
    """List the input formats, and what each of them cannot tell.

    \b
    Example:
      gpuprof formats
      gpuprof formats --schema
    """  # noqa: D301 - click reads the escape
    from gpuprof.readers import all_readers  # noqa: PLC0415 - start-up time of --help
    from gpuprof.render.cells import SCHEMAS  # noqa: PLC0415
    from gpuprof.render.listing import formats_table, formats_text, schemas_text  # noqa: PLC0415
    from gpuprof.render.output import write_stdout  # noqa: PLC0415

    if is_schema:
        write_stdout(schemas_text(list(SCHEMAS.values())))
    else:
        write_stdout((formats_table if form == "markdown" else formats_text)(all_readers()))
