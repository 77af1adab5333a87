"""The devices that these scripts train on: GPUs where there are enough, else logical CPU devices.

To be asked for before TensorFlow uses any device.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

MOST_LOGICAL: Final = 64
KINDS: Final = ("auto", "gpu", "cpu")


def find_devices(count: int, kind: str = "auto") -> tuple[list[str], str]:
    """The requested number of devices, and why these were chosen.

    Args:
        count: How many.
        kind: ``gpu``, ``cpu`` (logical ones), or ``auto`` for GPUs where there are enough.

    Ends the program with one line where there are not as many.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if kind == "gpu" and len(gpus) < count:
        sys.exit(f"{count} GPUs were requested, but {_there_are(len(gpus), 'GPU')} available")
    if kind == "gpu" or (kind == "auto" and len(gpus) >= count):
        return [f"/GPU:{number}" for number in range(count)], _counted(count, "GPU")
    if count > MOST_LOGICAL:
        sys.exit(f"{count} logical devices were requested; the limit is {MOST_LOGICAL}")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )
    why = "as requested" if kind == "cpu" else f"{len(gpus)} GPUs here, {count} are needed"
    return [f"/CPU:{number}" for number in range(count)], (
        f"{_counted(count, 'logical CPU device')}: {why}"
    )


def check_names(names: Sequence[str]) -> None:
    """End the program with one line where a device does not exist."""
    there = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    for name in names:
        if name.strip("/").removeprefix("device:") not in there:
            sys.exit(f"there is no device {name}; there are {', '.join(there)}")


def describe(count: int, kind: str) -> str:
    """Devices with memory, compute capability and peer access, and the versions: a GPU check."""
    devices, why = find_devices(count, kind)
    machine = _machine()
    build = tf.sysconfig.get_build_info()
    lines = [f"TensorFlow {tf.__version__}, Python {sys.version.split()[0]}, on {why}"]
    lines.append(
        f"built for CUDA {build.get('cuda_version', 'n/a')},"
        f" cuDNN {build.get('cudnn_version', 'n/a')};"
        f" driver runs CUDA {_version(machine['driver_cuda'])}"
    )
    lines += [_gpu(number, gpu) for number, gpu in enumerate(machine["gpus"])]
    lines += [
        f"GPU:{device} reaches GPU:{peer}'s memory directly: {'yes' if reaches else 'no'}"
        for device, peer, reaches in machine["peers"]
    ]
    if not machine["gpus"]:
        lines.append(f"no NVIDIA GPU; {_host_memory()} of host memory, {os.cpu_count()} cores")
    lines += [f"{name}: ready" for name in devices if _computes(name)]
    return "\n".join(lines)


def _machine() -> dict[str, Any]:
    """What `gpuprof doctor` knows of this machine."""
    command = [sys.executable, "-m", "gpuprof", "doctor", "--format", "json"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if not completed.stdout:
        sys.exit(f"gpuprof doctor failed: {completed.stderr.strip()}")
    machine: dict[str, Any] = json.loads(completed.stdout)["machine"]
    return machine


def _gpu(number: int, gpu: dict[str, Any]) -> str:
    memory = gpu["total_memory_bytes"] / 1e9
    capability = gpu["compute_capability"]
    return (
        f"GPU:{number}: {gpu['name']}, {memory:.1f} GB, compute capability {_version(capability)}"
    )


def _version(parts: Any) -> str:
    if parts is None:
        return "n/a"
    return parts if isinstance(parts, str) else ".".join(map(str, parts))


def _host_memory() -> str:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{total / 1e9:.1f} GB"


def _computes(name: str) -> bool:
    """Whether a device adds one and one."""
    with tf.device(name):
        return float(tf.constant(1.0) + tf.constant(1.0)) == 2  # noqa: PLR2004


def _there_are(count: int, noun: str) -> str:
    return f"{count} {noun} is" if count == 1 else f"{count} {noun}s are"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
