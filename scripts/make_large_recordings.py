"""Repeat a recording of nvprof's until it is large: ``make_large_recordings.py RUN OUT ROWS``.

Round follows round, each with the activities of the sample at later times and with ids of its
own, until there are as many kernels (of a database) or lines (of a trace that was printed as CSV).
"""

import argparse
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
KERNELS: Final = f"{PREFIX}CONCURRENT_KERNEL"
# What is repeated, with the column that says when it was; devices and streams are there once.
TABLES: Final = dict.fromkeys(
    ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "RUNTIME", "DRIVER", "OVERHEAD",
     "SYNCHRONIZATION", "UNIFIED_MEMORY_COUNTER"),
    "start",
) | {"MARKER": "timestamp"}  # fmt: skip
TIMES: Final = ("start", "end", "timestamp", "completed")
CALLS: Final = ("correlationId", "runtimeCorrelationId")
GAP_NS: Final = 1_000_000
LAUNCH_NS: Final = 100_000


def grow_database(sample: Path, path: Path, kernels: int) -> None:
    """Repeat what a database holds from its first kernel's launch on."""
    shutil.copyfile(sample, path)
    with closing(sqlite3.connect(path)) as database:

        def asked(sql: str) -> int:
            return int(database.execute(sql).fetchone()[0] or 0)

        first = asked(f"SELECT min(start) FROM {KERNELS}") - LAUNCH_NS
        found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        tables = {f"{PREFIX}{name}": time for name, time in TABLES.items()}
        tables = {table: time for table, time in tables.items() if (table,) in found}
        ends = (asked(f"SELECT max({time}) FROM {table}") for table, time in tables.items())
        calls = asked(f"SELECT max(correlationId) FROM {KERNELS}")
        grows = dict.fromkeys(TIMES, max(ends) - first + GAP_NS) | dict.fromkeys(CALLS, calls)
        rounds = kernels // asked(f"SELECT count(*) FROM {KERNELS}")
        for table, time in tables.items():
            markers = asked(f"SELECT max(id) FROM {table}") if table.endswith("MARKER") else 0
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            values = ["NULL" if c == "_id_" else grown(c, grows | {"id": markers}) for c in columns]
            database.execute(
                f"WITH RECURSIVE rounds(n) AS"
                f" (VALUES (1) UNION ALL SELECT n + 1 FROM rounds WHERE n < {rounds - 1})"
                f" INSERT INTO {table} SELECT {', '.join(values)} FROM rounds CROSS JOIN {table}"
                f" WHERE {time} >= {first}"
            )
        database.commit()


def grown(column: str, grows: dict[str, int]) -> str:
    """SQL of a column in a later round; a time of 0 was not collected."""
    name, step = f'"{column}"', grows.get(column, 0)
    if column in TIMES:
        return f"CASE WHEN {name} > 0 THEN {name} + {step} * n ELSE {name} END"
    return f"{name} + {step} * n" if step else name


def grow_csv(sample: Path, path: Path, lines: int) -> None:
    """Repeat the rows of a trace that ``nvprof --print-gpu-trace --csv`` printed."""
    text = sample.read_text(encoding="utf-8").splitlines(keepends=True)
    head = next(place for place, line in enumerate(text) if line.startswith('"Start"')) + 2
    rows = [line.split(",", 1) for line in text[head:] if line[:1].isdigit()]
    ids = [line[1].rstrip().rsplit(",", 1) for line in rows]
    starts = [float(start) for start, _ in rows]
    span = max(starts) - min(starts) + 0.001
    last = max(int(number) for _, number in ids if number)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(text[:head])
        for number in range(lines):
            place, past = number % len(rows), number // len(rows)
            middle, call = ids[place]
            call = str(int(call) + past * last) if call else ""
            file.write(f"{starts[place] + past * span:.6f},{middle},{call}\n")


def main() -> None:
    """Make the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path, help="a database (.nvvp) or a trace (.csv)")
    parser.add_argument("out", type=Path)
    parser.add_argument("rows", type=int, help="kernels of a database, lines of a trace")
    options = parser.parse_args()
    grow = grow_csv if options.sample.suffix == ".csv" else grow_database
    grow(options.sample, options.out, options.rows)


if __name__ == "__main__":
    main()
