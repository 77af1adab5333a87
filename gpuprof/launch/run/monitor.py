"""What GPUs and host were doing all along, sampled once a second beside the program.

GPUs through NVML (``nvidia-ml-py``), the host through ``psutil``; what is not installed is left
out. One line of JSON per sample and device in ``monitor.jsonl``, so that a kill loses none.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from gpuprof.base.manifest import MONITOR
from gpuprof.base.units import NS_PER_S

Sample = dict[str, float | int | None]
Source = Callable[[], list[Sample]]

INTERVAL_NS: Final = 1_000_000_000
_KIB: Final = 1024
_MHZ: Final = 1_000_000
_MILLI: Final = 1000
_PERCENT: Final = 100


def sources() -> list[Source]:
    """What can be sampled here; nothing where neither package is installed."""
    working_sources: list[Source] = []
    with contextlib.suppress(ImportError):
        import pynvml  # optional

        with contextlib.suppress(pynvml.NVMLError):  # no driver here
            pynvml.nvmlInit()
            gpus = range(pynvml.nvmlDeviceGetCount())
            handles = [pynvml.nvmlDeviceGetHandleByIndex(gpu) for gpu in gpus]
            working_sources.append(
                lambda: [_gpu(pynvml, *numbered) for numbered in enumerate(handles)]
            )
    with contextlib.suppress(ImportError):
        import psutil  # optional

        psutil.cpu_percent()  # The first call only remembers where to count from.
        working_sources.append(lambda: [_host(psutil)])
    return working_sources


def sample(of: list[Source]) -> list[Sample]:
    """One sample of every device now: ``unix_ns``, ``device_id`` (null for the host), values."""
    now = time.time_ns()
    return [{"unix_ns": now, **values} for source in of for values in source()]


def samples(of: list[Source], interval_ns: int, count: int | None) -> Iterator[list[Sample]]:
    """So many samples, without end for None; shares of time are counted from the start."""
    for _ in repeat(None) if count is None else repeat(None, count):
        time.sleep(interval_ns / NS_PER_S)
        yield sample(of)


@contextmanager
def monitoring(folder: Path, interval_ns: int | None) -> Iterator[None]:
    """Sample into a run's folder for a while; not at all where the interval is None."""
    of = [] if interval_ns is None else sources()
    if not of or interval_ns is None:
        yield
        return
    ending = threading.Event()
    arguments = (folder / MONITOR, of, interval_ns / NS_PER_S, ending)
    thread = threading.Thread(target=_sample_in_turn, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def _sample_in_turn(path: Path, of: list[Source], seconds: float, ending: threading.Event) -> None:
    # A full disk or a device that is gone ends the monitor, not the run.
    with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
        due = time.monotonic()
        while True:
            file.writelines(json.dumps(row) + "\n" for row in sample(of))
            file.flush()
            # What is late is left out, not caught up with.
            due = max(due + seconds, time.monotonic())
            if ending.wait(due - time.monotonic()):
                return


def _host(psutil: Any) -> Sample:
    """The host now."""
    memory = psutil.virtual_memory()
    return {
        "device_id": None,
        "cpu_utilisation": psutil.cpu_percent() / _PERCENT,
        "memory_used_bytes": memory.total - memory.available,
        "memory_total_bytes": memory.total,
    }


def _gpu(nvml: Any, number: int, handle: Any) -> Sample:
    """One GPU now; what it does not tell is null."""

    def query(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *arguments)
        except nvml.NVMLError:
            return None

    def pcie(direction: int) -> float | None:
        return _scaled(query("nvmlDeviceGetPcieThroughput", direction), _KIB)

    def nvlink(direction: str) -> int | None:
        """Bytes over all NVLinks since the driver started; null without NVLink."""
        number = getattr(nvml, f"NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_{direction}", None)
        # All links together are the scope of all bits set.
        values = query("nvmlDeviceGetFieldValues", [(number, 0xFFFFFFFF)]) if number else None
        if not values or values[0].nvmlReturn != nvml.NVML_SUCCESS:
            return None
        return int(values[0].value.ullVal) * _KIB

    use = query("nvmlDeviceGetUtilizationRates")
    # The first version counts what the driver reserves as used; nvidia-smi shows the second.
    memory = query("nvmlDeviceGetMemoryInfo", nvml.nvmlMemory_v2)
    memory = query("nvmlDeviceGetMemoryInfo") if memory is None else memory
    return {
        "device_id": number,
        "gpu_utilisation": None if use is None else use.gpu / _PERCENT,
        "memory_utilisation": None if use is None else use.memory / _PERCENT,
        "memory_used_bytes": None if memory is None else memory.used,
        "memory_total_bytes": None if memory is None else memory.total,
        "power_w": _scaled(query("nvmlDeviceGetPowerUsage"), 1 / _MILLI),
        "temperature_c": query("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        "sm_clock_hz": _scaled(query("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), _MHZ),
        "memory_clock_hz": _scaled(query("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), _MHZ),
        "pcie_received_bytes_per_s": pcie(nvml.NVML_PCIE_UTIL_RX_BYTES),
        "pcie_sent_bytes_per_s": pcie(nvml.NVML_PCIE_UTIL_TX_BYTES),
        "nvlink_received_bytes": nvlink("RX"),
        "nvlink_sent_bytes": nvlink("TX"),
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
