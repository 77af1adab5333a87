"""The real command in a process of its own, as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
PUBLISHED = ROOT / "sample_logs" / "nvprof" / "published"
SINGLE, DUAL, EXAGGERATED = (
    str(PUBLISHED / f"{name}.txt") for name in ("single", "dual", "exaggerated")
)


def gpuprof(*arguments, cwd=ROOT, stdout=subprocess.PIPE, **environment):
    """Run ``gpuprof`` with arguments; the process that ended, with text of both streams."""
    kept = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}}
    return subprocess.run(
        [sys.executable, "-m", "gpuprof", *map(str, arguments)],
        cwd=cwd,
        env=kept | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
