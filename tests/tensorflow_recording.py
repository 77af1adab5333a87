"""Runs of real TensorFlow programs under ``gpuprof record``, for tests that look at them."""

import json
import os
import subprocess
import sys

import pytest
from commands import PYTHONPATH, gpuprof, python

needs_tensorflow = pytest.mark.tensorflow

ONE_WINDOW = {"GPUPROF_WINDOW_SECONDS": "60"}
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
RECORD = ("record", "--recorder", "tensorflow", "-o")


def run(*words, **variables):
    return python(*words, check=False, **{"PYTHONPATH": PYTHONPATH} | QUIET | variables)


def record(folder, *words, **variables):
    """A recording in one window, so that no step is cut however slow the machine is."""
    return gpuprof(*RECORD, folder, *words, **QUIET | ONE_WINDOW | variables)


def start_recording(folder, *words):
    """The same while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "gpuprof", *RECORD, folder, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": PYTHONPATH} | QUIET | ONE_WINDOW,
        start_new_session=True,
    )


def recorded(folder):
    [path] = folder.glob("tensorflow-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
