"""Kernels by name of a job of many ranks: by gpuprof's workers, on Dask, and by nsys recipes."""

import argparse
import atexit
import csv
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmark_core import kernel_totals
from benchmark_runs import Contender, python

_QUESTION = ("--table", "kernel_summary", "--format", "csv")
_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(None, int(sys.argv[1]), 1, dashboard_address=":0") as c:
        print(c.scheduler_address, flush=True)
        sys.stdin.read()
"""
# Recipes write their tables to a folder.
_RECIPE = """
import pathlib, shlex, shutil, subprocess, sys
command, folder, tables = shlex.split(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
shutil.rmtree(tables, ignore_errors=True)
arguments = ["cuda_gpu_kern_sum", "--input", folder, "--output", str(tables), "--csv"]
subprocess.run([*command, *arguments], check=True, stdout=sys.stderr)
print((tables / "all_stats.csv").read_text())
"""


def rank_contenders(options: argparse.Namespace, folder: Path) -> list[Contender]:
    """Those that can take part here; says which do not, and why."""
    gpuprof = (sys.executable, "-m", "gpuprof", "report", str(options.job), *_QUESTION)
    contenders = [
        _ours(f"gpuprof, {count} worker{'s' if count > 1 else ''}", gpuprof, f"--workers={count}")
        for count in (options.workers, 1)
    ]
    contenders.append(_ours("gpuprof, one process", gpuprof))
    if (address := _dask_address(options.workers)) is not None:
        name = f"gpuprof, Dask cluster of {options.workers}"
        contenders.append(_ours(name, gpuprof, f"--scheduler={address}"))
    if (recipe := _recipe(options, folder)) is not None:
        contenders.append(recipe)
    return contenders


def recipe_totals(output: str) -> str | None:
    """Calls and ns of all kernels in the table of a recipe; None if it has no rows."""
    rows = [*csv.DictReader(line for line in output.splitlines() if line)]
    calls = sum(int(float(row["Instances"])) for row in rows)
    total_ns = sum(int(float(row["Total Time"])) for row in rows)
    return f"{calls} {total_ns}" if rows else None


def _ours(name: str, command: tuple[str, ...], *arguments: str) -> Contender:
    return Contender(name, (*command, *arguments), kernel_totals)


def _dask_address(workers: int) -> str | None:
    """The address of a cluster on this machine, which ends with this process."""
    cluster = subprocess.Popen(
        python(_CLUSTER, str(workers)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(cluster.kill)
    assert cluster.stdout is not None  # noqa: S101 - a pipe
    if address := cluster.stdout.readline().strip():
        return address
    print("Dask is left out, since it does not start: pip install '.[scale]'.")
    return None


def _recipe(options: argparse.Namespace, folder: Path) -> Contender | None:
    """A recipe, for which each export lies beside its report and is the newer one of both."""
    if (fault := _fault(options.recipe)) is not None:
        print(f"nsys recipe is left out, since it does not start: {fault}.")
        return None
    exports = sorted(options.job.glob("*.sqlite"))
    if not exports:
        print("nsys recipe is left out, since it takes SQLite exports of nsys.")
        return None
    inputs = folder / "inputs"
    inputs.mkdir()
    for export in exports:
        # The report itself is not read where there is an export.
        (inputs / export.with_suffix(".nsys-rep").name).touch()
    time.sleep(0.1)
    for export in exports:
        shutil.copy(export, inputs)
    command = python(_RECIPE, options.recipe, str(inputs), str(folder / "tables"))
    return Contender("nsys recipe cuda_gpu_kern_sum", command, recipe_totals)


def _fault(recipe: str) -> str | None:
    """Why recipes do not run; None where they do."""
    command = [*shlex.split(recipe), "cuda_gpu_kern_sum", "--help"]
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]}"
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    last = (completed.stderr or completed.stdout).strip().rpartition("\n")[2]
    return None if completed.returncode == 0 and "usage" in completed.stdout else last
