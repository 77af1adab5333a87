"""Time gpuprof beside other ways to the same figures: ``benchmark.py core run.sqlite``.

Every contender is a process of its own, from its start to its printed answer, on two processors;
contenders take turns, and the medians count. They must print the same answer.
"""

import argparse
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmark_core import COMPILED, no_answer, printed, table
from benchmark_ranks import rank_contenders
from benchmark_runs import Contender, Cost, Target, Timing, answers, cost, measure, python

# On which targets are set.
PROCESSORS = 2


@dataclass(frozen=True)
class Section:
    """One question that contenders answer about one file.

    Args:
        title: For the table.
        contenders: Makes the input in a folder and says who takes part; the first is ours.
    """

    title: str
    contenders: Callable[[argparse.Namespace, Path], list[Contender]]


def show(section: Section, contenders: list[Contender], timings: dict[str, list[Timing]]) -> None:
    """Print one row per contender, and stop where answers differ."""
    print(section.title)
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
        peers.append(Contender(name, command, target=Target(times=5)))
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
    return [ours, Contender(name, command, no_answer, Target(times=1))]


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


SECTIONS = {
    "log": Section("Summary in a log full of program output", log_contenders),
    "kineto": Section("Kernels of a PyTorch trace", kineto_contenders),
    "xplane": Section("Kernels of a TensorFlow or JAX profile", xplane_contenders),
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
    for name, tool in (("kineto", "hta"), ("xplane", "xprof")):
        sections[name].add_argument("--kernels", type=int, default=100_000, help="in the trace")
        sections[name].add_argument(f"--{tool}-python", metavar="FILE", help="one that has it")
    for command in (core, *sections.values()):
        command.add_argument("--times", type=int, default=5, help="runs of each contender")
    return parser


def main() -> None:
    """Run the section that the command line names."""
    parser = arguments()
    options = parser.parse_args()
    files = getattr(options, "files", [])
    if absent := [str(file) for file in files if not file.is_file()]:
        parser.error(f"no such file: {', '.join(absent)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    with tempfile.TemporaryDirectory() as folder:
        if options.section in SECTIONS:
            section = SECTIONS[options.section]
            contenders = section.contenders(options, Path(folder))
            show(section, contenders, measure(contenders, options.times))
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
