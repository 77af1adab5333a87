"""What an analysis is: a pure function from a recording to one table, and what it needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from gpuprof.analyses.merge import JobStates, Merge
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Schema

# Table -> names of columns, among them those of `gpuprof.model.facts`.
Reads = Mapping[str, frozenset[str]]


def reads(*facts: Reads, **columns: str) -> Reads:
    """What is read of a recording: all that others read, and columns by table.

    Args:
        facts: What the facts read that an analysis takes.
        columns: By table, names with spaces between them.
    """
    all_reads = (*facts, {table: frozenset(names.split()) for table, names in columns.items()})
    tables = dict.fromkeys(table for read in all_reads for table in read)
    return {
        table: frozenset().union(*(read.get(table, ()) for read in all_reads)) for table in tables
    }


@dataclass(frozen=True)
class Analysis:
    """One question to a recording.

    Args:
        title: The question's name for people: "Transfers by kind".
        schema: The answer's columns; its name is the analysis' name, as in ``--table``.
        needs: Tables without which it cannot be answered.
        run: Answers it; rows conform to the schema. Called only where the needs are met.
        reads: The columns that it may ask for, of these and other tables, so that all that
            answers take from one table of a file is read in one pass.
        reads_of_small: What it asks for beside that where a recording is not large.
        needs_any_of: Tables beside the needs; any one is enough. Empty for none.
        instead: Tables of which any one answers it in place of the needs. Empty for none.
        merge: How it answers for a job whose files are analysed one by one; None where it needs
            single activities of all of them at once.
    """

    title: str
    schema: Schema
    needs: tuple[str, ...]
    run: Callable[[Profile], pa.Table]
    reads: Reads
    reads_of_small: Reads = field(default_factory=dict)
    needs_any_of: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    merge: Merge | None = None

    @property
    def name(self) -> str:
        """As in ``--table`` and in the JSON's ``tables``."""
        return self.schema.name

    def missing(self, profile: Profile | JobStates) -> str:
        """What the recording lacks to answer it, in words; empty where it can be answered."""
        if any(profile.has(name) for name in self.instead):
            return ""
        absent = [name for name in self.needs if not profile.has(name)]
        if absent:
            return " and ".join(absent)
        if self.needs_any_of and not any(profile.has(name) for name in self.needs_any_of):
            return " or ".join(self.needs_any_of)
        return ""
