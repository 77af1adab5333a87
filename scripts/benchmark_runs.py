"""Run contenders in turns, and say what they took and whether that reaches a target."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Compiled once, as an installed package is, also where modules are not kept compiled otherwise.
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Cost:
    """What a contender took: the medians of its times, and the most memory."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Target:
    """The target for gpuprof; 0 where there is none.

    Args:
        times: How many times faster than the peer, at least.
        seconds: Of the whole process, at most.
        megabytes: The most memory.
    """

    times: float = 0
    seconds: float = 0
    megabytes: float = 0

    def __str__(self) -> str:
        """The target, for people."""
        limits = ((self.times, "x"), (self.seconds, " s"), (self.megabytes, " MB"))
        return ", ".join(f"{limit:g}{unit}" for limit, unit in limits if limit)

    def verdict(self, ours: Cost, theirs: Cost | None) -> str:
        """Whether it is reached, or what is missed or could not be measured; "" if none is set."""
        megabytes = ours.peak_bytes / 1e6
        missed = Target(
            self.times if theirs and theirs.seconds < self.times * ours.seconds else 0,
            self.seconds if ours.seconds > self.seconds else 0,
            self.megabytes if megabytes > self.megabytes else 0,
        )
        if str(missed):
            return f"no: {missed}"
        if self.times and theirs is None:
            return f"n/a: {Target(self.times)}"
        return "yes" if str(self) else ""


@dataclass(frozen=True)
class Contender:
    """One way to the answer.

    Args:
        name: For the table.
        command: Prints the answer.
        answer: Finds the answer in what the command prints: "" if it gives none to compare,
            None if it did not do its work, as nsys may with status 0.
        target: What ours is to reach beside this one.
        environment: Variables to set.
    """

    name: str
    command: tuple[str, ...]
    answer: Callable[[str], str | None] = str.strip
    target: Target = Target()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timing:
    """What one run of a contender took; its answer is None if it failed."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    answer: str | None


def run(contender: Contender) -> Timing:
    """Run a contender once."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        environment = ENVIRONMENT | contender.environment
        process = subprocess.Popen(contender.command, stdout=out, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read().decode(errors="replace")
    answer = None if process.returncode else contender.answer(output)
    cpu = usage.ru_utime + usage.ru_stime
    return Timing(elapsed, cpu, usage.ru_maxrss * 1024, answer)


def measure(contenders: list[Contender], times: int) -> dict[str, list[Timing]]:
    """Let all contenders take turns, so that a slow moment of the machine meets all.

    One that fails is not run again.
    """
    timings: dict[str, list[Timing]] = {contender.name: [] for contender in contenders}
    for _ in range(times):
        for contender in contenders:
            if all(timing.answer is not None for timing in timings[contender.name]):
                timings[contender.name].append(run(contender))
    return timings


def cost(timings: list[Timing]) -> Cost | None:
    """The medians of several runs; None if there are none, or one failed."""
    if not timings or any(timing.answer is None for timing in timings):
        return None
    return Cost(
        statistics.median(timing.seconds for timing in timings),
        statistics.median(timing.cpu_seconds for timing in timings),
        max(timing.peak_bytes for timing in timings),
    )


def answers(timings: dict[str, list[Timing]]) -> set[str]:
    """The different answers of all contenders."""
    return {timing.answer for runs in timings.values() for timing in runs if timing.answer}


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs Python code."""
    return (sys.executable, "-c", code, *arguments)
