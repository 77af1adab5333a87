"""Time gpuprof beside other ways to the same figures, in one run: ``benchmark.py analyses``.

Every contender is a process of its own, from its start to its printed answer; contenders take
turns, and the middle of their times counts. They must print the same answer.
"""

import argparse
import gzip
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmark_targets import (
    Cost,
    Target,
    aimed,
    cpu_seconds,
    faster,
    gigabytes,
    lighter,
    seconds,
    within,
)

HERE = Path(__file__).resolve().parent
# Compiled once, as an installed package is, also where modules are not kept compiled otherwise.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Contender:
    """One way to the answer.

    Args:
        name: For the table.
        command: Prints the answer; `has_answer` is False where it cannot.
        reports: How many tables of nsys its output must hold, each with rows, since nsys may
            fail and say so with status 0.
        targets: What ours is to reach beside this one.
    """

    name: str
    command: tuple[str, ...]
    has_answer: bool = True
    reports: int = 0
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Section:
    """One question that contenders answer about one file.

    Args:
        name: As on the command line.
        title: For the table.
        contenders: Makes the input in a folder and says who takes part; the first is ours.
    """

    name: str
    title: str
    contenders: Callable[[argparse.Namespace, Path], list[Contender]]


@dataclass(frozen=True)
class Timing:
    """What one run of a contender took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    answer: str
    is_done: bool = True


# The head of a table of nsys with its first row.
_NSYS_TABLE = re.compile(r"^(?:Time|Total) \([^\n]*\n[\d.]", re.MULTILINE)


def run(contender: Contender) -> Timing:
    """Run a contender once."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(contender.command, stdout=out, env=ENVIRONMENT)  # noqa: S603
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        needs_output = contender.has_answer or contender.reports
        output = out.read().decode(errors="replace").strip() if needs_output else ""
    if process.returncode and not contender.reports:
        sys.exit(f"{contender.name} failed with status {process.returncode}")
    is_done = not process.returncode and len(_NSYS_TABLE.findall(output)) >= contender.reports
    answer = output if contender.has_answer else ""
    cpu = usage.ru_utime + usage.ru_stime
    return Timing(elapsed, cpu, usage.ru_maxrss * 1024, answer, is_done)


def measure(contenders: list[Contender], repeats: int) -> dict[str, list[Timing]]:
    """Let all contenders take turns, so that a slow moment of the machine meets all."""
    timings: dict[str, list[Timing]] = {contender.name: [] for contender in contenders}
    for _ in range(repeats):
        for contender in contenders:
            timings[contender.name].append(run(contender))
    return timings


def cost(times: list[Timing]) -> Cost:
    """The middle of several runs."""
    return Cost(
        statistics.median(t.seconds for t in times),
        statistics.median(t.cpu_seconds for t in times),
        max(t.peak_bytes for t in times),
    )


def show(section: Section, contenders: list[Contender], timings: dict[str, list[Timing]]) -> None:
    """Print one row per contender, and stop where answers differ."""
    print(f"\n{section.title}")
    print(f"{'contender':<36} {'median s':>9} {'CPU s':>7} {'ratio':>7} {'peak MB':>9}  target")
    ours = cost(timings[contenders[0].name])
    for contender in contenders:
        times = timings[contender.name]
        if not all(t.is_done for t in times):
            print(f"{contender.name:<36} failed: its output lacks tables with rows")
            continue
        print(f"{contender.name:<36} {row(contender, ours, cost(times))}".rstrip())
    answers = {t.answer for times in timings.values() for t in times} - {""}
    if len(answers) > 1:
        sys.exit(f"The answers differ: {sorted(answers)}")


def row(contender: Contender, ours: Cost, theirs: Cost) -> str:
    """The figures of a contender, and which targets are reached beside it."""
    verdicts = "; ".join(target.verdict(ours, theirs) for target in contender.targets)
    return (
        f"{theirs.seconds:9.3f} {theirs.cpu_seconds:7.2f} {theirs.seconds / ours.seconds:7.2f}"
        f" {theirs.peak_bytes / 1e6:9.1f}  {verdicts}"
    )


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs Python code."""
    return (sys.executable, "-c", code, *arguments)


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
        Contender("cat FILE", ("cat", str(path)), has_answer=False),
    ]


READERS_OURS = """
import dataclasses, sys, gpuprof
from gpuprof.analyses.totals.activity_summary import activity_summary
whole = gpuprof.read_profile(sys.argv[1])
names = ("kernels", "memcpys", "memsets")
profile = dataclasses.replace(whole, sources={n: whole.sources[n] for n in names})
rows = activity_summary(profile).to_pylist()
print(len(rows), sum(r["total_ns"] for r in rows), sum(r["bytes"] or 0 for r in rows))
"""
READERS_PANDAS = """
import sqlite3, sys, pandas
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
tables = {r[0] for r in database.execute("SELECT name FROM sqlite_master")}
queries = {
    "KERNEL": "SELECT value AS name, end - start AS ns, 0 AS bytes FROM {} JOIN StringIds"
    " ON id = demangledName",
    "MEMCPY": "SELECT copyKind AS name, end - start AS ns, bytes FROM {}",
    "MEMSET": "SELECT 'memset' AS name, end - start AS ns, bytes FROM {}",
}
rows = ns = size = 0
for kind, query in queries.items():
    table = "CUPTI_ACTIVITY_KIND_" + kind
    if table in tables:
        calls = pandas.read_sql(query.format(table), database).groupby("name")
        times = calls["ns"].agg(["count", "sum", "mean", "median", "min", "max", "std"])
        rows, ns = rows + len(times), ns + times["sum"].sum()
        size += calls["bytes"].sum().sum()
print(rows, ns, size)
"""
LARGEST_FOR_PANDAS = 500_000_000
NSYS_REPORTS = "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum"


def readers_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """Kernels and copies of a SQLite export, summed up by name with medians and deviations."""
    path = str(trace_of(options, folder))
    found = [Contender("gpuprof", python(READERS_OURS, path))]
    if shutil.which("nsys"):
        # Its own copy, since nsys may write to the file that it is given.
        copy = shutil.copy(path, folder / "copy.sqlite")
        command = ("nsys", "stats", "-q", "--format=csv", "--report", NSYS_REPORTS, str(copy))
        targets = aimed(Path(path), faster(40, 10_000_000), lighter(1 / 4, 10_000_000))
        found.append(
            Contender(
                "nsys stats, three reports",
                command,
                has_answer=False,
                reports=NSYS_REPORTS.count(",") + 1,
                targets=targets,
            )
        )
    else:
        say_absent("nsys", "put it on PATH")
    if Path(path).stat().st_size <= LARGEST_FOR_PANDAS:
        found.append(Contender("pandas.read_sql", python(READERS_PANDAS, path)))
    else:
        print("pandas is left out: it would push a file of this size out of memory.")
    return [*found, Contender("cat FILE", ("cat", path), has_answer=False)]


def say_absent(name: str, how: str) -> None:
    """Say which contender does not take part, and how it would."""
    print(f"{name} is left out, since it is not installed: {how}.")


KINETO_OURS = """
import sys, gpuprof
[row] = gpuprof.read_profile(sys.argv[1]).query(
    "SELECT count(*) AS calls, sum(end_ns - start_ns)::BIGINT // 1000 AS us FROM kernels"
).to_pylist()
print(row["calls"], row["us"])
"""
KINETO_JSON = """
import gzip, json, sys
events = json.load(gzip.open(sys.argv[1]))["traceEvents"]
found = [event["dur"] for event in events if event.get("cat") == "kernel"]
print(len(found), sum(found))
"""
KINETO_HTA = """
import logging, sys
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
logging.disable(logging.CRITICAL)
_, frame, symbols = parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
found = frame[frame["cat"] == symbols.get_sym_id_map()["kernel"]]
print(len(found), int(found["dur"].sum()))
"""
XPLANE_OURS = """
import sys, gpuprof
[row] = gpuprof.read_profile(sys.argv[1]).query("SELECT count(*) AS calls FROM kernels").to_pylist()
print(row["calls"])
"""
# In a folder of its own, since xprof leaves its result beside the file and reads that next time.
XPLANE_XPROF = """
import os, sys, tempfile
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
with tempfile.TemporaryDirectory(dir=os.path.dirname(sys.argv[1])) as folder:
    path = os.path.join(folder, "host.xplane.pb")
    os.link(sys.argv[1], path)
    xspace_to_tool_data([path], "kernel_stats", {})
"""


def kineto_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """A PyTorch trace in which, as in real ones, one event in eleven is a kernel."""
    path = folder / "trace.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number in range(options.kernels):
            file.write(kineto_step(number))
        file.write('{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}]}')
    peers = [Contender("json", python(KINETO_JSON, str(path)))]
    if options.hta_python:
        command = (options.hta_python, "-c", KINETO_HTA, str(path))
        name = "HolisticTraceAnalysis, its parser"
        peers.append(Contender(name, command, targets=(faster(5),)))
    else:
        say_absent("HolisticTraceAnalysis", "name a Python that has it with --hta-python")
    return [Contender("gpuprof", python(KINETO_OURS, str(path))), *peers]


def kineto_step(number: int) -> str:
    """A kernel with its launch, its arrows and the eight operations around it."""
    start, name = 1_700_000_000_000_000 + 20 * number, f"void layer_{number % 97}<float>(float*)"
    event = (
        f'{{"ph": "%s", "cat": "%s", "name": "%s", "pid": %d, "tid": 7, "ts": {start}, "dur": 9,'
        f' "args": {{"External id": {number}, "correlation": {number}%s}}}},\n'
    )
    place = ', "device": 0, "context": 1, "stream": 7, "grid": [8, 1, 1], "block": [256, 1, 1]'
    shapes = ', "Input Dims": [[64, 128], [128, 256]], "Input type": ["float", "float"]'
    operations = "".join(event % ("X", "cpu_op", f"aten::op{i}", 9, shapes) for i in range(8))
    arrow = event % ("s", "ac2g", "ac2g", 9, "")
    launch = event % ("X", "cuda_runtime", "cudaLaunchKernel", 9, ', "cbid": 211')
    return operations + arrow + launch + event % ("X", "kernel", name, 0, place)


def xplane_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """A profile of one GPU with as many kernels, each with its launch and its sizes."""
    path = folder / "host.xplane.pb"
    details = b"regs:38 static_shared:0 dynamic_shared:0 grid:160,1,1 block:1024,1,1 occ_pct:50"
    names = {1: b"correlation_id", 2: b"kernel_details", 3: details}
    kinds = {number: b"void layer_%d<float>(float*)" % number for number in range(1, 98)}
    refers = field(4, field(1, 2) + field(7, 3))
    events = b"".join(
        field(
            4,
            field(1, number % 97 + 1)
            + field(2, number * 20_000_000)
            + field(3, 9_000_000)
            + field(4, field(1, 1) + field(3, number))
            + refers,
        )
        for number in range(options.kernels)
    )
    line = field(1, 7) + field(2, b"Stream #7(Compute)") + field(3, 1) + events
    tables = ((4, kinds), (5, names))
    entries = [(at, key, text) for at, table in tables for key, text in table.items()]
    plane = field(2, b"/device:GPU:0") + field(3, line)
    for at, key, text in entries:
        plane += field(at, field(1, key) + field(2, field(1, key) + field(2, text)))
    path.write_bytes(field(1, plane))
    ours = Contender("gpuprof", python(XPLANE_OURS, str(path)))
    if not options.xprof_python:
        say_absent("xprof", "name a Python that has it with --xprof-python")
        return [ours]
    command = (options.xprof_python, "-c", XPLANE_XPROF, str(path))
    name = "xprof, its kernel statistics"
    return [ours, Contender(name, command, has_answer=False, targets=(faster(1),))]


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(number: int) -> bytes:
    """A number of a protocol buffer: seven bits a byte, the top bit where more follow."""
    octets = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


ANALYSIS_OURS = """
import sys, gpuprof
tables = gpuprof.report(gpuprof.read_profile(sys.argv[1]), sys.argv[2].split(",")).tables
first = next(iter(tables.values()))
print(sum(first.column(sys.argv[3]).to_pylist()))
"""
KERNELS_PLAIN = """
import sqlite3, sys
rows = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(
    "SELECT value, count(*), sum(end - start), avg(end - start), min(end - start),"
    " max(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
    " GROUP BY demangledName").fetchall()
print(sum(row[2] for row in rows))
"""
MAKE_TRACE = HERE.parent.parent / "shared" / "tools" / "make_trace.py"


def trace_of(options: argparse.Namespace, folder: Path) -> Path:
    """The export to read: the one that was given, or one with as many GPU events, made once."""
    if options.file:
        return Path(options.file)
    path = folder / f"{options.events}.sqlite"
    if not path.exists():
        print(f"Making a trace of {options.events:,} GPU events ...", file=sys.stderr)
        command = [sys.executable, str(MAKE_TRACE), str(path), str(options.events), "-q"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    return path


def ours(path: Path, tables: str, column: str) -> tuple[str, ...]:
    """A command that runs analyses of gpuprof and prints the sum of a column of the first."""
    return python(ANALYSIS_OURS, str(path), tables, column)


def nsys_stats(report: str, path: Path, *targets: Target) -> list[Contender]:
    """A report of the real nsys, where it is installed."""
    if shutil.which("nsys") is None:
        print(f"Skipped: nsys stats {report}, since nsys is not installed.", file=sys.stderr)
        return []
    command = ("nsys", "stats", "-q", "-r", report, "--format", "csv", str(path))
    return [
        Contender(
            f"nsys stats {report}",
            command,
            has_answer=False,
            reports=1,
            targets=aimed(path, *targets),
        )
    ]


def kernel_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """Kernels by name with medians; plain SQL cannot give the medians."""
    path = trace_of(options, folder)
    return [
        Contender(
            "gpuprof kernel_summary",
            ours(path, "kernel_summary", "total_ns"),
            targets=aimed(path, gigabytes(1.5, 50_000_000)),
        ),
        Contender("sqlite3 GROUP BY, no median", python(KERNELS_PLAIN, str(path))),
        *nsys_stats(
            "cuda_gpu_kern_sum",
            path,
            faster(60, 10_000_000),
            lighter(1 / 4, 10_000_000),
            faster(100, 50_000_000),
        ),
        Contender(
            "cat FILE",
            ("cat", str(path)),
            has_answer=False,
            targets=aimed(path, within(6, 10_000_000)),
        ),
    ]


def breakdown_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """The breakdown, beside the kernel summary that it is measured by."""
    path = trace_of(options, folder)
    summary = ours(path, "kernel_summary", "total_ns")
    return [
        Contender("gpuprof breakdown", ours(path, "breakdown", "span_ns")),
        Contender(
            "gpuprof kernel_summary",
            summary,
            has_answer=False,
            targets=aimed(path, within(4, 10_000_000)),
        ),
    ]


def range_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """Kernels and copies by NVTX range."""
    path = trace_of(options, folder)
    return [
        Contender("gpuprof ranges", ours(path, "ranges", "kernel_ns")),
        *nsys_stats("cuda_gpu_kern_sum:nvtx-name", path, faster(20, 1_000_000)),
    ]


def report_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """What `gpuprof report` shows people first."""
    path = trace_of(options, folder)
    targets = aimed(
        path,
        seconds(0.6, 34_000),
        cpu_seconds(8, 10_000_000),
        gigabytes(2, 10_000_000),
        gigabytes(4, 50_000_000),
    )
    command = (sys.executable, "-m", "gpuprof", "report", str(path))
    return [Contender("gpuprof report", command, targets=targets)]


SECTIONS = (
    Section("log", "Summary in a log full of program output", log_contenders),
    Section("readers", "Kernels and copies of an nsys SQLite export", readers_contenders),
    Section("readers", "Kernels of a PyTorch trace", kineto_contenders),
    Section("readers", "Kernels of a TensorFlow or JAX profile", xplane_contenders),
    Section("analyses", "Kernels by name with medians", kernel_contenders),
    Section("analyses", "Breakdown with exposed times", breakdown_contenders),
    Section("analyses", "GPU work by NVTX range", range_contenders),
    Section("analyses", "The whole report", report_contenders),
)


def main() -> None:
    """Run the sections that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="all unless named")
    parser.add_argument("--megabytes", type=float, default=100, help="size of the log")
    parser.add_argument("--file", help="a SQLite export of nsys for readers and analyses")
    parser.add_argument("--kernels", type=int, default=100_000, help="in the frameworks' traces")
    parser.add_argument("--hta-python", metavar="FILE", help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--xprof-python", metavar="FILE", help="a Python with xprof")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="of the trace that is made without --file"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contender")
    options = parser.parse_args()
    names = list(dict.fromkeys(section.name for section in SECTIONS))
    if unknown := set(options.sections) - set(names):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        for section in SECTIONS:
            if section.name in (options.sections or names):
                contenders = section.contenders(options, Path(folder))
                if contenders:
                    show(section, contenders, measure(contenders, options.repeats))


if __name__ == "__main__":
    main()
