"""Merge made-up partial results of many ranks in the tree of the job engine.

Each rank is made up of the state of a recorded file: the same names, other durations, steps and
collectives. Prints how large partial results are, and how much memory and time the merges and the
report take, so that a job can be planned for which there are no files yet.

    python scripts/simulate_merge.py trace.sqlite --ranks 10000
"""

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpuprof.analyses.notes import OVERVIEW
from gpuprof.analyses.reports import report
from gpuprof.base.units import say_binary_bytes
from gpuprof.model.analysis import FILE_PLACE
from gpuprof.ranks.partial import FILES, analyses_of, job_profile, merged, reduced
from gpuprof.ranks.work import FAN_IN, Partial
from gpuprof.readers import read_profile

# What the first screen of a job shows, and what compares ranks.
NAMES = (
    *(name for name in OVERVIEW if name in {"bottom_line", "findings", "breakdown", "totals"}),
    "peer_matrix", "top_activities", "ranks", "rank_quantiles", "rank_groups", "collective_waits",
)  # fmt: skip


def main() -> None:
    """Read the arguments, merge and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path, help="recording of one rank")
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--table", action="append", help="a table; repeat for more")
    options = parser.parse_args()
    names = tuple(options.table or NAMES)
    recording = replace(read_profile(options.recording), file_count=options.ranks)
    first = reduced(recording, 0, analyses_of(names))
    print(f"partial result of a rank: {say_binary_bytes(size_of(first))}")
    for name, table in sorted(first.items(), key=lambda item: -item[1].nbytes)[:5]:
        print(f"  {name}: {table.num_rows:,} rows, {say_binary_bytes(table.nbytes)}")
    began = time.monotonic()
    partial = merged_tree((made_up(first, rank) for rank in range(options.ranks)), names)
    merges_s = time.monotonic() - began
    print(f"merged of {options.ranks:,} ranks: {say_binary_bytes(size_of(partial))}")
    print(f"merges: {merges_s:.1f} s, {1000 * merges_s / options.ranks:.1f} ms a rank")
    began = time.monotonic()
    of_job = report(job_profile(partial, Path("job")), names)
    print(f"report: {time.monotonic() - began:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"memory at most: {say_binary_bytes(peak)}")
    if (lines := of_job.tables.get("bottom_line")) is not None:
        print(lines["bottom_line"][0].as_py())


def size_of(partial: Partial) -> int:
    """How much memory its tables take, in bytes."""
    return sum(table.nbytes for table in partial.values())


def made_up(partial: Partial, rank: int) -> Partial:
    """The partial result of another rank: its place, its name, and durations a little apart."""
    dice = np.random.default_rng(rank)
    tables = {name: _of_rank(table, rank, dice) for name, table in partial.items()}
    facts = tables[FILES].to_pylist()[0] | {"rank": rank, "source": f"rank{rank}.sqlite"}
    return tables | {FILES: pa.Table.from_pylist([facts], tables[FILES].schema)}


def _of_rank(table: pa.Table, rank: int, dice: np.random.Generator) -> pa.Table:
    if FILE_PLACE in table.column_names:
        places = pa.array(np.full(table.num_rows, rank))
        table = table.set_column(table.column_names.index(FILE_PLACE), FILE_PLACE, places)
    for name in ("span_ns", "compute_ns"):
        if name in table.column_names and table.num_rows:
            longer = np.round(table[name].to_numpy() * dice.normal(1, 0.01)).astype(np.int64)
            table = table.set_column(table.column_names.index(name), name, pa.array(longer))
    return table


def merged_tree(partials: Iterator[Partial], names: Sequence[str]) -> Partial:
    """Merge neighbours level by level, with as few partial results in memory as can be."""
    analyses = analyses_of(names)
    levels: list[list[Partial]] = []
    for partial in partials:
        _add(levels, 0, partial, analyses)
    rest = [partial for level in reversed(levels) for partial in level]
    return merged(rest, analyses) if len(rest) > 1 else rest[0]


def _add(levels: list[list[Partial]], level: int, partial: Partial, analyses: Sequence) -> None:
    if level == len(levels):
        levels.append([])
    levels[level].append(partial)
    if len(levels[level]) == FAN_IN:
        together = merged(levels[level], analyses)
        levels[level] = []
        _add(levels, level + 1, together, analyses)


if __name__ == "__main__":
    main()
