"""What a run ran on: the commit of the program, packages, driver and settings that matter."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from gpuprof.launch.contract import Program
from gpuprof.launch.run.gpus import driver_cuda, driver_version

# Those that decide how a training runs; others may name what nobody else is to know.
PACKAGES: Final = (
    "accelerate", "cupti-python", "deepspeed", "horovod", "jax", "jax-cuda12-plugin",
    "jax-cuda13-plugin", "jaxlib", "keras", "lightning", "numpy", "nvidia-cublas",
    "nvidia-cublas-cu12", "nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-nccl-cu12",
    "nvidia-nccl-cu13", "nvtx", "pytorch-lightning", "tensorflow", "tensorflow-cpu", "torch",
    "torchvision", "transformers", "triton",
)  # fmt: skip
_PATIENCE_SECONDS: Final = 5
# A repository's own settings must not run programs, nor its index be written.
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "--no-optional-locks")


def packages(program: Program) -> dict[str, str]:
    """Versions of the packages that matter; none where another interpreter runs the program."""
    if program.arguments[0] != sys.executable:
        return {}
    return {name: version for name in PACKAGES for version in versions(name).values()}


def versions(*names: str) -> dict[str, str]:
    """Of the first of these packages that is installed, under the first name."""
    for name in names:
        try:
            return {names[0]: metadata.version(name)}
        except metadata.PackageNotFoundError:
            continue
    return {}


def git_state(program: Program) -> dict[str, Any] | None:
    """``commit`` and ``is_dirty`` of the repository that the program lies in; None outside one."""
    folder = program.source.parent if program.source else Path.cwd()
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_dirty": None if changes is None else bool(changes)}


def driver_versions() -> dict[str, str]:
    """The versions of NVIDIA's driver and of the newest CUDA that it runs; empty without one."""
    version, cuda = driver_version(), driver_cuda()
    texts = {"driver": version, "cuda_of_driver": cuda and "{}.{}".format(*cuda)}
    return {name: text for name, text in texts.items() if text}


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; None where it fails, is not there or takes its time."""
    if shutil.which("git") is None:
        return None
    # A hook that runs gpuprof names its own repository in these.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        completed = subprocess.run(
            [*_GIT, "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stdout.strip() if completed.returncode == 0 else None
