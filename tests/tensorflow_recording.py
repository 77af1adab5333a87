"""Runs of real TensorFlow programs under ``gpuprof record``, for tests that look at them."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
needs_tensorflow = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
]


def run(*words, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"} | variables
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )


def record(folder, *words, **variables):
    """A recording in one window, so that no step is cut however slow the machine is."""
    command = ("-m", "gpuprof", "record", "--recorder", "tensorflow", "-o", folder)
    return run(*command, *words, **{"GPUPROF_WINDOW_SECONDS": "60"} | variables)


def recorded(folder):
    [path] = folder.glob("tensorflow-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
