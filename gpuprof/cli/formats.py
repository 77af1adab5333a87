"""``gpuprof formats``: what can be read."""

from dataclasses import replace

import click

from gpuprof.cli.options import format_option


@click.command(name="formats")
@format_option("Format of the list; markdown is as in the documentation.", "terminal", "markdown")
@click.option(
    "--schema", "is_schema", is_flag=True, help="List the columns of every table instead."
)
def command(*, form: str, is_schema: bool) -> None:
    """List the input formats, and what each cannot tell.

    \b
    Example:
      gpuprof formats
      gpuprof formats --schema
    """
    from gpuprof.analyses import all_analyses  # noqa: PLC0415 - start-up time of --help
    from gpuprof.comparisons.variant_figures import VARIANTS  # noqa: PLC0415
    from gpuprof.model.schema import TABLES  # noqa: PLC0415
    from gpuprof.readers import all_readers  # noqa: PLC0415
    from gpuprof.show.listing import formats_table, formats_text, schemas_text  # noqa: PLC0415
    from gpuprof.show.output import write_stdout  # noqa: PLC0415

    if is_schema:
        answers = [analysis.schema for analysis in all_analyses()]
        # Some recordings hold the answers of an analysis.
        names = {schema.name for schema in answers}
        tables = [replace(t, name=f"recorded.{t.name}") if t.name in names else t for t in TABLES]
        write_stdout(schemas_text([*tables, *answers, VARIANTS]))
    else:
        write_stdout((formats_table if form == "markdown" else formats_text)(all_readers()))
