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
    help="Only entries that were not used for this many days.",
)
@format_option("Format of the result; json has sizes in bytes.", "terminal", "json")
def command(*, action: str, days: float, form: str) -> None:
    """List or clear the exports and pages that gpuprof keeps.

    The tables that nsys exports from a report, and the pages of `gpuprof view`, are kept in the
    user's cache folder, or in the folder that the environment variable GPUPROF_CACHE names. The
    cache takes at most 8 GiB. What a running gpuprof reads is never cleared.

    \b
    Example:
      gpuprof cache
      gpuprof cache clear --older-than 30
    """
    from gpuprof.readers.nsys import export_cache  # noqa: PLC0415 - start-up time of --help
    from gpuprof.show.listing import cache_json, cache_text, cleared_text  # noqa: PLC0415
    from gpuprof.show.output import write_stdout  # noqa: PLC0415

    entries = export_cache.entries(unused_days=days)
    if action == "list":
        write_stdout(cache_json(listed=entries) if form == "json" else cache_text(entries))
        return
    removed, in_use = export_cache.clear(entries)
    write_stdout(
        cache_json(removed=removed, kept=in_use)
        if form == "json"
        else cleared_text(removed, in_use)
    )
