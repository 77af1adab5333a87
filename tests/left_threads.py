"""How many threads a piece of a program leaves behind, in a process of its own."""

from pathlib import Path

import pytest
from commands import printed_by

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
    return int(printed_by("\n".join(lines), path))
