"""What tests ask of recordings: the rows of a table, or why a file is refused."""

from collections import Counter

import pytest

from gpuprof.base.errors import CorruptFileError
from gpuprof.model.profile import Profile
from gpuprof.readers import read_profile


def rows(recording, table, *columns):
    """The rows of a table, of all its columns or of these, as tuples; a recording may be a file."""
    profile = recording if isinstance(recording, Profile) else read_profile(recording)
    found = profile.table(table)
    return [tuple(row.values()) for row in found.select(columns or found.column_names).to_pylist()]


def tables(recording):
    """All tables of a file."""
    profile = read_profile(recording)
    return {name: profile.table(name) for name in profile.sources}


def contents(recording, reader=None):
    """How often each row of each table of a file is there."""
    profile = read_profile(recording, reader)
    return {
        table: Counter(tuple(row.items()) for row in profile.table(table).to_pylist())
        for table in profile.sources
    }


def differing(before, after):
    """Of each table of which two contents have other rows, how many are other ones."""
    empty = Counter()
    pairs = ((t, before.get(t, empty), after.get(t, empty)) for t in before.keys() | after.keys())
    return {t: max((a - b).total(), (b - a).total()) for t, a, b in pairs if a != b}


def refusal(recording, error=CorruptFileError):
    """What is said of a file that cannot be read, or of which a table cannot."""
    with pytest.raises(error) as caught:
        tables(recording)
    return caught.value.message
