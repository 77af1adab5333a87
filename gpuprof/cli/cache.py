"""``gpuprof cache``: the exports and pages that gpuprof keeps, and how to be rid of them."""

import click

from gpuprof.cli.options import format_option


@click.command(name="cache")
@click.argument("action", type=click.Choice(["list", "clear"]), default="list")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="DAYS",
    help="Only what was not used for so many days.",
)
@format_option("How the result is written; json is in bytes.", "terminal", "json")
def command(*, action: str, days: float, form: str) -> None:
    """List or clear the exports and pages that gpuprof keeps.

    nsys exports a report once; its tables, and what `gpuprof view` shows, are kept in the user's
    cache folder, or in the folder that the environment variable GPUPROF_CACHE names, as long as
    all of it takes less than 8 GiB. What a running gpuprof reads is never cleared.

    \b
    Example:
      gpuprof cache
      gpuprof cache clear --older-than 30
    """  # noqa: D301 - click reads the escape
    from gpuprof.readers.nsys import export_cache  # noqa: PLC0415 - start-up time of --help
    from gpuprof.render.listing import cache_json, cache_text, cleared_text  # noqa: PLC0415
    from gpuprof.render.output import write_stdout  # noqa: PLC0415

    entries = export_cache.entries(unused_days=days)
    if action == "list":
        write_stdout(cache_json(listed=entries) if form == "json" else cache_text(entries))
        return
    removed, kept = export_cache.clear(entries)
    write_stdout(
        cache_json(removed=removed, kept=kept) if form == "json" else cleared_text(removed, kept)
    )
