"""Runs gpuprof in forked processes, each as ``python -m gpuprof`` but for what is imported.

What a program on its command line changes of gpuprof is changed for all of them.

Requests are lines of JSON on standard input; each is answered by a line with the exit status.
"""

import json
import os
import runpy
import signal
import sys
from importlib import import_module

from gpuprof.analyses import all_analyses
from gpuprof.readers import all_readers

# With analyses and readers, most of what commands import.
MODULES = (
    "duckdb", "gpuprof.cli.comparing", "gpuprof.cli.jobs", "gpuprof.cli.plotting",
    "gpuprof.cli.placing", "gpuprof.cli.predicting", "gpuprof.cli.querying",
    "gpuprof.cli.recording", "gpuprof.cli.reporting", "gpuprof.cli.sweeping",
    "gpuprof.findings.findings", "gpuprof.show.charts.timeline",
    "gpuprof.show.page.comparison_page", "gpuprof.show.terminal", "gpuprof.sql",
)  # fmt: skip
LONGEST_S = 300


def run(arguments, folder, environment, stdout, stderr):
    """Be the process of one command."""
    signal.alarm(LONGEST_S)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate((os.devnull, stdout, stderr)):
        os.dup2(os.open(path, os.O_RDWR), number)
    sys.argv = ["gpuprof", *arguments]
    runpy.run_module("gpuprof", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for program in sys.argv[1:]:
        runpy.run_path(program)
    all_analyses()
    all_readers()
    for module in MODULES:
        import_module(module)
    for request in sys.stdin:
        process = os.fork()
        if not process:
            run(**json.loads(request))
            break
        _, status = os.waitpid(process, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
