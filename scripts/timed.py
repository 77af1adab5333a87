"""Seconds per epoch of one step done again and again, marked for gpuprof where it is there."""

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

try:
    from gpuprof import epoch as mark_epoch
    from gpuprof import step as mark_step
except ImportError:  # the scripts run without gpuprof too
    from contextlib import nullcontext as mark_epoch

    mark_step = mark_epoch

Result = TypeVar("Result")


def print_times(
    step: Callable[[], Result], sum_of: Callable[[Result], float], options: argparse.Namespace
) -> None:
    """Run the requested epochs, and print their seconds and the checksum of the last step."""
    checksum = sum_of(step())  # so that no epoch holds the tracing
    seconds = []
    for number in range(1, options.epochs + 1):
        begin = time.perf_counter()
        with mark_epoch():
            for _ in range(options.steps):
                with mark_step():
                    result = step()
            checksum = sum_of(result)
        seconds.append(time.perf_counter() - begin)
        print(f"epoch {number}/{options.epochs}: {seconds[-1]:.3f} s", flush=True)
    print(f"average of {options.epochs} epochs: {sum(seconds) / len(seconds):.3f} s")
    print(f"checksum {checksum:.3f}")
