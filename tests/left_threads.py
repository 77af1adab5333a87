"""How many threads a piece of a program leaves behind, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

only_linux = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="only Linux lists threads there"
)


def left_threads(imports, code, path):
    """The number of threads that still run some seconds after the code, which has ``path``."""
    lines = [
        f"import os, pathlib, sys, time, {imports}",
        "path = pathlib.Path(sys.argv[1])",
        "before = len(os.listdir('/proc/self/task'))",
        code,
        # What has ended is listed for a moment.
        "for _ in range(100):",
        "    left = len(os.listdir('/proc/self/task')) - before",
        "    time.sleep(0.05 if left else 0)",
        "print(left)",
    ]
    command = [sys.executable, "-c", "\n".join(lines), str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
