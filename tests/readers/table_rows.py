"""Rows of a recording's tables as tuples, which tests compare."""

from gpuprof.model.profile import Profile
from gpuprof.readers import read_profile


def rows(recording, table, *columns):
    """The rows of a table, of all its columns or of these; a recording may be a file."""
    profile = recording if isinstance(recording, Profile) else read_profile(recording)
    found = profile.table(table)
    return [tuple(row.values()) for row in found.select(columns or found.column_names).to_pylist()]
