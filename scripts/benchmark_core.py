"""What people ask first of recordings, and what gpuprof and `nsys stats` take to answer."""

import csv
import math
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmark_runs import Contender, Cost, Target, Timing, answers, cost, measure, python, run

# A target holds for recordings of its number of events, give or take this factor.
_LIKE = 1.5
_MANY = 64
_HEADER = (
    f"{'question':<34} {'events':>10} {'ours s':>7} {'MB':>6}  {'nsys s':>7} {'MB':>6} {'ratio':>6}"
    f"  {'target':<20} reached"
)
GPU_EVENTS = """
import sys, gpuprof
[row] = gpuprof.read_profile(sys.argv[1]).query(
    "SELECT (SELECT count(*) FROM kernels) + (SELECT count(*) FROM memcpys)"
    " + (SELECT count(*) FROM memsets) AS events").to_pylist()
print(row["events"])
"""
COMPILED = "from gpuprof.native import library; print('no' if library() is None else 'yes')"


def no_answer(_: str) -> str:
    """No answer to compare."""
    return ""


def kernel_totals(output: str) -> str | None:
    """Calls and ns of all kernels in a summary, of ours or of nsys; None if it has no rows."""
    rows = csv_rows(output)
    if rows and "Instances" in rows[0]:
        return totals((row["Instances"], row["Total Time (ns)"]) for row in rows)
    if rows and "calls" in rows[0]:
        return totals((row["calls"], row["total_ns"]) for row in rows)
    return None


def range_totals(output: str) -> str | None:
    """The ns of all kernels whose launch an NVTX range holds; None if there are no rows."""
    rows = csv_rows(output)
    if rows and "Instances" in rows[0]:  # of nsys: "range/kernel", and "kernel" outside of ranges
        return totals((row["Total Time (ns)"],) for row in rows if "/" in row["Name"])
    if rows and "self_kernel_ns" in rows[0]:
        return totals((row["self_kernel_ns"],) for row in rows)
    return None


def csv_rows(output: str) -> list[dict[str, str]]:
    """The rows of a CSV table, by its first line that is not empty."""
    return list(csv.DictReader(line for line in output.splitlines() if line))


def totals(rows: Iterator[tuple[str, ...]]) -> str:
    """The sum of every column, with a missing value as nothing."""
    columns = zip(*rows, strict=True)
    return " ".join(str(sum(int(value or 0) for value in column)) for column in columns)


@dataclass(frozen=True)
class Question:
    """One question to a recording.

    Args:
        name: For the table.
        arguments: Of gpuprof; `paths` says what stands for {names}.
        targets: By the number of GPU events for which each holds.
        answer: Finds in the output what all who answer it must agree on.
        nsys: The report of `nsys stats` that answers it, if any.
        nsys_events: The most GPU events for which that ends within minutes.
        events: The most GPU events of recordings that it is asked of.
        environment: Variables to set for ours.
    """

    name: str
    arguments: str
    targets: Mapping[int, Target]
    answer: Callable[[str], str | None] = no_answer
    nsys: str = ""
    nsys_events: float = math.inf
    events: float = math.inf
    environment: Mapping[str, str] = field(default_factory=dict)


_KERNELS = "--table kernel_summary --format csv"
HELP = Question("--help", "--help", {0: Target(seconds=0.2)})
QUESTIONS = (
    Question(
        "kernel summary",
        f"report {{file}} {_KERNELS}",
        {
            10_000_000: Target(100, 0.8, 300),
            50_000_000: Target(seconds=3, megabytes=1200),
        },
        kernel_totals,
        nsys="cuda_gpu_kern_sum",
    ),
    Question(
        "kernel summary, without compiler",
        f"report {{file}} {_KERNELS}",
        {10_000_000: Target(seconds=4)},
        kernel_totals,
        environment={"GPUPROF_COMPILED": "0"},
    ),
    Question(
        "breakdown",
        "report {file} --table breakdown",
        {10_000_000: Target(seconds=1.3), 50_000_000: Target(seconds=6)},
    ),
    Question(
        "peer matrix",
        "report {file} --table peer_matrix",
        {10_000_000: Target(seconds=1.3), 50_000_000: Target(seconds=6)},
    ),
    Question(
        "report",
        "report {file}",
        {
            34_000: Target(seconds=0.35),
            10_000_000: Target(seconds=2.5, megabytes=800),
            50_000_000: Target(seconds=12, megabytes=3000),
        },
    ),
    Question(
        "ranges",
        "report {file} --table ranges --format csv",
        {
            1_000_000: Target(60),
            10_000_000: Target(seconds=3, megabytes=1200),
            50_000_000: Target(seconds=15),
        },
        range_totals,
        nsys="cuda_gpu_kern_sum:nvtx-name",
        nsys_events=1_000_000 * _LIKE,
    ),
    Question(
        "compare of two such files",
        "compare {file} {second}",
        {
            10_000_000: Target(seconds=5, megabytes=1500),
            50_000_000: Target(seconds=25, megabytes=5000),
        },
    ),
    Question(
        "HTML page",
        "report {file} --html {page} --force",
        {10_000_000: Target(seconds=4), 50_000_000: Target(seconds=20)},
    ),
    Question("report --all", "report {file} --all", {10_000_000: Target(seconds=9)}),
    Question(
        "convert",
        "convert {file} -o {packed} --force",
        {
            10_000_000: Target(seconds=6, megabytes=1000),
            50_000_000: Target(seconds=30, megabytes=1500),
        },
    ),
    Question(
        "kernel summary of .gpuprof",
        f"report {{packed}} {_KERNELS}",
        {10_000_000: Target(seconds=0.5)},
        kernel_totals,
    ),
    Question("report of .gpuprof", "report {packed}", {10_000_000: Target(seconds=1.5)}),
    Question(
        f"report of {_MANY} such files",
        "report {many}",
        {100_000: Target(seconds=3, megabytes=1000)},
        events=100_000 * _LIKE,
    ),
)


def table(files: list[Path], folder: Path, times: int, *, with_nsys: bool) -> Iterator[str]:
    """The lines of the table: each question that suits each recording, as soon as it is measured.

    Args:
        files: Recordings in any format that gpuprof reads.
        folder: An empty one, for what the questions write.
        times: How often each command runs.
        with_nsys: Whether `nsys stats` takes part.
    """
    yield _HEADER
    yield row(HELP, 0, measure([ours(HELP, {})], times))
    for number, file in enumerate(files):
        into_page_cache(file)
        inputs = paths(file, folder / str(number))
        events = int(printed(GPU_EVENTS, str(file)))
        agreed: dict[Callable[[str], str | None], set[str]] = defaultdict(set)
        for question in QUESTIONS:
            if events > question.events:
                continue
            contenders = [ours(question, inputs)]
            if with_nsys and file.suffix == ".sqlite" and events <= question.nsys_events:
                contenders += nsys_stats(question, file, folder / str(number))
            timings = measure(contenders, times)
            yield row(question, events, timings)
            agreed[question.answer] |= answers(timings)
            if len(agreed[question.answer]) > 1:
                sys.exit(f"The answers differ: {sorted(agreed[question.answer])}")


def into_page_cache(file: Path) -> None:
    """Read a file, so that the first command does not wait for the disk either."""
    with file.open("rb") as source, Path(os.devnull).open("wb") as sink:
        shutil.copyfileobj(source, sink)


def paths(file: Path, folder: Path) -> dict[str, str]:
    """What stands for {names} in the arguments of questions; makes the folder with links."""
    many = folder / "many"
    many.mkdir(parents=True)
    second = folder / f"second{file.suffix}"
    for link in (second, *(many / f"rank{rank}{file.suffix}" for rank in range(_MANY))):
        link.symlink_to(file.resolve())
    written = {"page": folder / "page.html", "packed": folder / "run.gpuprof"}
    return {
        name: str(path)
        for name, path in {"file": file, "second": second, "many": many, **written}.items()
    }


def ours(question: Question, inputs: dict[str, str]) -> Contender:
    """The question to gpuprof."""
    arguments = (argument.format(**inputs) for argument in question.arguments.split())
    return Contender(
        question.name,
        (sys.executable, "-m", "gpuprof", *arguments),
        question.answer,
        environment=question.environment,
    )


def nsys_stats(question: Question, file: Path, folder: Path) -> list[Contender]:
    """The question to nsys, where it has a report for it, of a copy since nsys may write to it."""
    if not question.nsys:
        return []
    copy = folder / "copy.sqlite"
    if not copy.exists():
        shutil.copy(file, copy)
    command = ("nsys", "stats", "-q", "--format=csv", "--report", question.nsys, str(copy))
    return [Contender("nsys stats", command, question.answer)]


def row(question: Question, events: int, timings: dict[str, list[Timing]]) -> str:
    """A line of the table."""
    our_cost = cost(timings[question.name])
    their_cost = cost(timings.get("nsys stats", []))
    absent = "failed" if "nsys stats" in timings else "n/a" if question.nsys else ""
    ratio = f"{their_cost.seconds / our_cost.seconds:.1f}" if our_cost and their_cost else ""
    target = next(
        (t for n, t in question.targets.items() if n / _LIKE <= events <= n * _LIKE), Target()
    )
    return (
        f"{question.name:<34} {f'{events:,}' if events else '':>10} {figures(our_cost, 'failed')}"
        f"  {figures(their_cost, absent)} {ratio:>6}"
        f"  {target!s:<20} {target.verdict(our_cost, their_cost) if our_cost else ''}"
    ).rstrip()


def figures(took: Cost | None, absent: str) -> str:
    """Seconds and megabytes, or why there are none."""
    return f"{took.seconds:7.2f} {took.peak_bytes / 1e6:6.0f}" if took else f"{absent:>7} {'':>6}"


def printed(code: str, *values: str) -> str:
    """What Python code prints, with gpuprof at hand."""
    timing = run(Contender("gpuprof", python(code, *values)))
    return timing.answer or sys.exit("gpuprof does not read the file.")
