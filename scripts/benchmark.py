"""Time gpuprof beside other ways to the same figures: ``benchmark.py core run.sqlite``.

Every contender is a process of its own, from its start to its printed answer, on two processors;
contenders take turns, and the medians count. They must print the same answer.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmark_core import COMPILED, no_answer, printed, table
from benchmark_ranks import rank_contenders
from benchmark_runs import (
    ENVIRONMENT,
    Contender,
    Cost,
    Target,
    Timing,
    answers,
    cost,
    measure,
    python,
)

# On which targets are set.
PROCESSORS = 2
DRAWS = str(Path(__file__).with_name("large_recordings.py"))


@dataclass(frozen=True)
class Section:
    """One question that contenders answer about one file.

    Args:
        title: For the table.
        contenders: Makes the input in a folder and says who takes part; the first is ours.
    """

    title: str
    contenders: Callable[[argparse.Namespace, Path], list[Contender]]


def show(title: str, contenders: list[Contender], timings: dict[str, list[Timing]]) -> None:
    """Print one row per contender, and stop where answers differ."""
    print(title)
    print(f"{'contender':<36} {'median s':>9} {'CPU s':>7} {'ratio':>7} {'peak MB':>9}  target")
    ours = cost(timings[contenders[0].name])
    for contender in contenders:
        print(
            f"{contender.name:<36} {row(contender, ours, cost(timings[contender.name]))}".rstrip()
        )
    if len(different := answers(timings)) > 1:
        sys.exit(f"The answers differ: {sorted(different)}")


def row(contender: Contender, ours: Cost | None, theirs: Cost | None) -> str:
    """The figures of a contender, and whether the target beside it is reached."""
    if ours is None or theirs is None:
        return "failed"
    target = f"{contender.target} {contender.target.verdict(ours, theirs)}"
    return (
        f"{theirs.seconds:9.3f} {theirs.cpu_seconds:7.2f} {theirs.seconds / ours.seconds:7.2f}"
        f" {theirs.peak_bytes / 1e6:9.1f}  {target}"
    )


LOG_OURS = """
import sys, gpuprof
rows = gpuprof.read_profile(sys.argv[1]).table("activity_summary").to_pylist()
print(sum(row["calls"] for row in rows))
"""
LOG_NAIVE = r"""
import re, sys
row = re.compile(
    r"^\s*(?:[A-Za-z ]+:)?\s*([\d.]+)%\s+([\d.]+)(ns|us|ms|s)\s+(\d+)"
    r"\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)"
)
calls = 0
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    match = row.match(line)
    if match:
        calls += int(match[4])
print(calls)
"""
LOG_ROW = "{:>7}%  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {}\n"


def log_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """A log of nvprof's with much of the program's own output around a table of 120 rows."""
    path = folder / "run.log"
    output = "".join(
        f"2018-04-30 17:55:10.{i:06d}: step {i}, loss 0.{i % 97}, {i % 100}% of 3.2s [==>..]\n"
        for i in range(10_000)
    )
    kernels = "".join(
        LOG_ROW.format("0.83", "10.000ms", 1000, "10.000us", "9.0000us", "11.000us", name)
        for name in (f"void layer_{i}<float, int=128>(float const *, int)" for i in range(119))
    )
    copies = LOG_ROW.format(
        "0.83", "10.000ms", 1000, "10.000us", "9.0us", "11.000us", "[CUDA memcpy PtoP]"
    )
    with path.open("w", encoding="utf-8") as file:
        file.write("==4711== NVPROF is profiling process 4711, command: python train.py\n")
        for _ in range(max(1, round(options.megabytes * 1e6 / len(output)))):
            file.write(output)
        file.write("==4711== Profiling application: python train.py\n==4711== Profiling result:\n")
        file.write("  Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n")
        file.write(f" GPU activities: {copies}{kernels}{output}")
    return [
        Contender("gpuprof", python(LOG_OURS, str(path))),
        Contender("a regular expression for each line", python(LOG_NAIVE, str(path))),
        Contender("cat FILE", ("cat", str(path)), no_answer),
    ]


def say_absent(name: str, how: str) -> None:
    """Say which contender does not take part, and how it would."""
    print(f"{name} is left out, since it is not installed: {how}.")


HTA = """
import logging, sys
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
logging.disable(logging.CRITICAL)
parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
"""
# In a folder of its own, since xprof leaves its result beside the file and reads that next time.
XPROF = """
import os, sys, tempfile
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
with tempfile.TemporaryDirectory(dir=os.path.dirname(sys.argv[1])) as folder:
    path = os.path.join(folder, "host.xplane.pb")
    os.link(sys.argv[1], path)
    xspace_to_tool_data([path], "kernel_stats", {})
"""
JSON = "import sys, msgspec; msgspec.json.decode(open(sys.argv[1], 'rb').read())"
JSON_GZ = "import gzip, sys, msgspec; msgspec.json.decode(gzip.open(sys.argv[1]).read())"
BYTES = "import sys; open(sys.argv[1], 'rb').read()"
CSV = "import csv, sys; sum(1 for _ in csv.reader(open(sys.argv[1])))"
ARROW_CSV = "import sys; from pyarrow import csv; csv.read_csv(sys.argv[1])"
PARQUET = """
import pathlib, sys
from pyarrow import parquet
tables = [parquet.read_table(file) for file in pathlib.Path(sys.argv[1]).iterdir()]
"""
SQLITE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    for row in database.execute(f'SELECT * FROM "{table}"'):
        pass
"""
# Reader, ending of a drawn file, and what only reads such a file.
FORMATS = (
    ("gpuprof", ".gpuprof", "its bytes", BYTES),
    ("kineto", ".json", "msgspec.json.decode", JSON),
    ("kineto", ".json.gz", "gzip, msgspec.json.decode", JSON_GZ),
    ("xplane", ".xplane.pb", "its bytes", BYTES),
    ("nsys-sqlite", ".sqlite", "sqlite3, each row", SQLITE),
    ("nsys-parquet", "_pqtdir", "pyarrow.parquet.read_table", PARQUET),
    ("nsys-stats", ".nsys.csv", "pyarrow.csv.read_csv", ARROW_CSV),
    ("nvprof-sqlite", ".nvvp", "sqlite3, each row", SQLITE),
    ("nvprof-trace", ".nvprof.csv", "csv.reader", CSV),
)
# Name and reader of a peer, its code, and what ours is to reach beside it.
PEERS = (("hta", "kineto", HTA, Target(times=20)), ("xprof", "xplane", XPROF, Target(times=6)))
READER = "import sys, gpuprof; print(gpuprof.read_profile(sys.argv[1]).origin.reader)"


def show_formats(options: argparse.Namespace, folder: Path) -> None:
    """One section for each file: the whole report, and `predict`, beside who else reads it."""
    for file in options.files or drawn(options, folder):
        reader = printed(READER, str(file))
        # A drawn file's ending is sure; others may have any.
        name, _, limit, code = min(
            FORMATS, key=lambda of: (not file.name.endswith(of[1]), reader != of[0])
        )
        contenders = [
            ours("gpuprof report", "report", file),
            Contender(limit, python(code, str(file)), no_answer),
            ours("gpuprof predict", "predict", file),
        ]
        for peer, of_reader, code, target in PEERS:
            if reader == of_reader and (interpreter := getattr(options, f"{peer}_python")):
                command = (interpreter, "-c", code, str(file))
                contenders.append(Contender(peer, command, no_answer, target))
            elif reader == of_reader:
                say_absent(peer, f"name a Python that has it with --{peer}-python")
        title = f"{name}: {file.name}, {size_bytes(file) / 1e6:.0f} MB"
        show(title, contenders, measure(contenders, options.times))


def drawn(options: argparse.Namespace, folder: Path) -> Iterator[Path]:
    """A recording in every format, one after another; each is removed when the next one comes."""
    for number, (_, ending, *_) in enumerate(FORMATS):
        path = folder / f"{number}" / f"drawn{ending}"
        path.parent.mkdir()
        # By another process: what this one holds counts as the peak of those that it starts.
        command = (sys.executable, DRAWS, str(path), str(options.kernels))
        subprocess.run(command, env=ENVIRONMENT, check=True)
        yield path
        shutil.rmtree(path.parent)


def ours(name: str, command: str, file: Path) -> Contender:
    """A command of gpuprof, whose answer nothing else gives."""
    return Contender(name, (sys.executable, "-m", "gpuprof", command, str(file)), no_answer)


def size_bytes(path: Path) -> int:
    """Of a file, or of all in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


SECTIONS = {
    "log": Section("Summary in a log full of program output", log_contenders),
    "ranks": Section("Kernels by name of a job of many ranks", rank_contenders),
}


def arguments() -> argparse.ArgumentParser:
    """What the command line holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="section", required=True)
    core = commands.add_parser("core", help="the questions of most people, beside nsys stats")
    core.add_argument("files", nargs="+", type=Path, metavar="FILE", help="best SQLite of nsys")
    core.add_argument("--without-nsys", action="store_true", help="which takes minutes")
    sections = {name: commands.add_parser(name, help=s.title) for name, s in SECTIONS.items()}
    sections["log"].add_argument("--megabytes", type=float, default=100, help="size of the log")
    ranks = sections["ranks"]
    ranks.add_argument("job", type=Path, metavar="FOLDER", help="best of SQLite exports of nsys")
    ranks.add_argument("--workers", type=int, default=PROCESSORS, help="processes")
    ranks.add_argument("--recipe", default="nsys recipe", metavar="COMMAND", help="that runs them")
    formats = commands.add_parser("formats", help="the report of every format, beside its limit")
    formats.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="in place of drawn ones"
    )
    formats.add_argument("--kernels", type=int, default=100_000, help="of drawn recordings")
    for tool in ("hta", "xprof"):
        formats.add_argument(f"--{tool}-python", metavar="FILE", help="one that has it")
    for command in (core, formats, *sections.values()):
        command.add_argument("--times", type=int, default=5, help="runs of each contender")
    return parser


def main() -> None:
    """Run the section that the command line names."""
    parser = arguments()
    options = parser.parse_args()
    files = getattr(options, "files", [])
    if absent := [str(file) for file in files if not file.exists()]:
        parser.error(f"no such file: {', '.join(absent)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    with tempfile.TemporaryDirectory() as folder:
        if options.section in SECTIONS:
            section = SECTIONS[options.section]
            contenders = section.contenders(options, Path(folder))
            show(section.title, contenders, measure(contenders, options.times))
            return
        if options.section == "formats":
            show_formats(options, Path(folder))
            return
        with_nsys = not options.without_nsys and has_nsys()
        print(f"Compiled functions: {printed(COMPILED)}.")
        for line in table(files, Path(folder), options.times, with_nsys=with_nsys):
            print(line, flush=True)


def has_nsys() -> bool:
    """Whether nsys is installed; says so where it is not."""
    if shutil.which("nsys") is None:
        say_absent("nsys stats", "put nsys on PATH")
        return False
    return True


if __name__ == "__main__":
    main()
