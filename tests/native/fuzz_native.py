"""Fuzz the compiled functions by coverage, under the address and undefined-behaviour sanitizers.

    python tests/native/fuzz_native.py --seconds 200

Needs clang with libFuzzer, on Linux. Starts from small databases that SQLite wrote, from small
traces, and from drawn blocks of nsys reports and lines of XSpace files; an input that makes a
function read or write outside of its buffers, overflow or not end is kept in ``fuzz-found/``.
"""

import argparse
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "readers")]
import nsys_report_file as drawn  # noqa: E402 - beside the tests of readers
from xspaces import field  # noqa: E402 - as above

FOUND = ROOT / "fuzz-found"
SANITIZERS = "-fsanitize=fuzzer,address,undefined"
SLOWEST_S, MOST_MB = 10, 2048
# What stands before a database: page size and reserved bytes, the root page, and a byte for each
# of six fields: place in the record and 1, and a flag for text (128) or bytes (64).
CHOICES = ((1, 2, 3, 18, 131), (1, 2, 3, 4, 5), (0, 130, 99, 21, 3))
# Tables of integers and of texts, of one page, of many, and of records that go on elsewhere.
ROWS = ((3, 10), (400, 5), (30, 3_000), (5_000, 20))


EVENT = (
    '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5.25, "dur": 2, "args": '
    '{"device": 0, "grid": [1, 2, 3], "x": {"y": [true, null, -1.5e+3]}, "correlation": 9}}'
)


def traces(folder):
    """Write texts to begin with, each behind the size of the pieces that it is read in."""
    for number, category in enumerate(("kernel", "cpu_op", "python_function", r"a\u00e9")):
        event = EVENT.replace("kernel", category)
        events = ", ".join(event.replace("5.25", f"{5**i}.5") for i in range(3 * number + 1))
        text = f'{{"schemaVersion": 1, "traceEvents": [{events}], "a": {{}}}}'
        (folder / f"{number}").write_bytes(bytes([3 * number]) + text.encode())


def databases(folder):
    """Write databases to begin with."""
    for number, (power, (count, length)) in enumerate(product(range(3), ROWS)):
        path = folder / "seed.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA page_size = {512 << power}")
            connection.execute("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT, d, e INTEGER)")
            rows = ((i, i * 2**40, f"{i % 7}" * length, None, -i) for i in range(count))
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
            connection.commit()
        for place, choice in enumerate(CHOICES):
            head = bytes([power, 2, *choice, 0])
            (folder / f"{number}-{place}").write_bytes(head + path.read_bytes())
        path.unlink()


def blocks(folder):
    """Write blocks of events to begin with."""
    for number in range(1, 5):
        events = [(1, event) for event in drawn.EVENTS[:number]]
        (folder / f"{number}").write_bytes(drawn.block(*events) * number)


def lines(folder):
    """Write lines of events to begin with."""
    for number in range(1, 5):
        values = b"".join(field(4, field(1, n) + field(n + 2, 300)) for n in range(number))
        events = field(4, field(1, 9) + field(2, 1 << 40) + field(3, 500) + values) * number
        (folder / f"{number}").write_bytes(
            events + field(4, field(4, field(1, 1) + field(5, b"t")))
        )


def main():
    """Build and run the harnesses; the exit status is that of the one that found something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=200)
    options = parser.parse_args()
    if shutil.which("clang") is None:
        print("clang is not installed: the compiled functions are not fuzzed")  # noqa: T201 - it talks to a person
        return 0
    FOUND.mkdir(exist_ok=True)
    return max(fuzz(*harness, options.seconds // len(HARNESSES)) for harness in HARNESSES)


HARNESSES = (
    ("fuzz_pages", databases),
    ("fuzz_trace_events", traces),
    ("fuzz_reports", blocks),
    ("fuzz_xspace_events", lines),
)


def fuzz(harness, seeds, seconds):
    """Build a harness and run it; the exit status is that of the fuzzer."""
    with tempfile.TemporaryDirectory() as name:
        corpus, program = Path(name) / "corpus", Path(name) / harness
        corpus.mkdir()
        seeds(corpus)
        source = str(HERE / f"{harness}.c")
        subprocess.run(
            ["clang", "-g", "-O1", SANITIZERS, "-fno-sanitize-recover=all", source, "-o", program],
            check=True,
        )
        limits = [f"-max_total_time={seconds}", f"-timeout={SLOWEST_S}"]
        limits += [f"-rss_limit_mb={MOST_MB}", "-max_len=65536", "-verbosity=1"]
        done = subprocess.run(
            [program, *limits, f"-artifact_prefix={FOUND}/native-", corpus],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )
        print("\n".join(done.stderr.splitlines()[-12:]))  # noqa: T201 - as above
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
