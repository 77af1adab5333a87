"""How busy one device is, from a recording of the single-device variant or from NVML."""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ENOUGH: Final = 0.9
_SCRIPT: Final = Path(__file__).with_name("data_parallel.py")
_GPUPROF: Final = (sys.executable, "-m", "gpuprof")
_STEPS: Final = 40


def utilisation(options: argparse.Namespace) -> tuple[float | None, str]:
    """The share of time that the first device computes on its own, and how it was found out.

    The single-device variant runs in a process of its own for a moment. Where there is a GPU,
    NVML reports its utilisation; else a recording shows how long its operations ran.
    """
    words = [str(_SCRIPT), "--variant", "one", "--epochs", "2", "--steps", str(_STEPS)]
    for name in ("batch_size", "width", "products", "threads", "seed", "kind"):
        words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    if shutil.which("nvidia-smi") and options.kind != "cpu":
        return by_nvml(words), "NVML"
    return by_recording(words)


def by_nvml(words: list[str]) -> float | None:
    """The highest utilisation that NVML reported while the program ran; None for none.

    The highest, because the program's start must not count.
    """
    query = ["nvidia-smi", "-i", "0", "--query-gpu=utilization.gpu"]
    query += ["--format=csv,noheader,nounits", "-lms", "100"]
    with subprocess.Popen(query, stdout=subprocess.PIPE, text=True) as sampler:
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=False)
        sampler.terminate()
        output = sampler.stdout.read() if sampler.stdout else ""
    samples = [int(line) / 100 for line in output.split() if line.isdecimal()]
    return max(samples, default=None)


def by_recording(words: list[str]) -> tuple[float | None, str]:
    """Time of the device's operations over time of the second epoch, from a recording."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [*_GPUPROF, "record", "-o", str(run), *words, "--no-check"]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        recordings = list(run.glob("tensorflow-*.json"))
        if completed.returncode or not recordings:
            last = (completed.stderr.strip().splitlines() or ["nothing was said"])[-1]
            return None, f"its recording failed: {last}"
        return busy_share(_read(recordings[0]), _read(run / "manifest.json")), "recorded"


def busy_share(recording: dict[str, Any], manifest: dict[str, Any]) -> float | None:
    """Mean operation time of a step / mean time of a step; at most 1, None where unknown.

    Operations are timed per call, so that those that were not traced do not lower it.
    """
    rows = [row for row in recording["operations"] if row["traced_calls"]]
    epochs = manifest["epochs"][1:] or manifest["epochs"]
    steps = sum(epoch["steps"] or 0 for epoch in epochs)
    if not rows or not steps:
        return None
    step_ns = sum(epoch["seconds"] for epoch in epochs) / steps * 1e9
    busy_ns = sum(row["total_ns"] / row["traced_calls"] for row in rows)
    return float(min(busy_ns / step_ns, 1.0))


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document
