"""``gpuprof formats``: what can be read; ``gpuprof cache``: what is kept of it."""

from dataclasses import replace
from types import SimpleNamespace

from gpuprof.analyses import all_analyses
from gpuprof.comparisons.variant_figures import VARIANTS
from gpuprof.model.data_model import TABLES
from gpuprof.readers import all_readers
from gpuprof.readers.nsys import export_cache
from gpuprof.show import listing
from gpuprof.show.output import write_stdout


def cache(values: SimpleNamespace) -> None:
    """List or clear the exports and pages that gpuprof keeps."""
    entries, is_json = export_cache.entries(unused_days=values.days), values.form == "json"
    if values.action == "list":
        write_stdout(listing.cache_json(listed=entries) if is_json else listing.cache_text(entries))
        return
    removed, in_use = export_cache.clear(entries)
    write_stdout(
        listing.cache_json(removed=removed, kept=in_use)
        if is_json
        else listing.cleared_text(removed, in_use)
    )


def formats(values: SimpleNamespace) -> None:
    """List the input formats, or the columns of all tables."""
    if not values.is_schema:
        is_table = values.form == "markdown"
        as_text = listing.formats_table if is_table else listing.formats_text
        write_stdout(as_text(all_readers()))
        return
    answers = [analysis.schema for analysis in all_analyses()]
    # Some recordings hold the answers of an analysis.
    names = {schema.name for schema in answers}
    tables = [replace(t, name=f"recorded.{t.name}") if t.name in names else t for t in TABLES]
    write_stdout(listing.schemas_text([*tables, *answers, VARIANTS]))
