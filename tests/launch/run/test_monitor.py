"""Samples of the host through psutil, and of GPUs where there are some."""

import json
import os
import signal
import sys
import time
import types
from importlib.util import find_spec

import pytest
from commands import ROOT, gpuprof, started
from recorded_runs import record, script

from gpuprof import read_profile
from gpuprof.analyses.samples import monitoring as summed
from gpuprof.launch.run import monitor
from gpuprof.launch.run.gpus import gpus
from gpuprof.model.data_model import MONITOR
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.run_folder import samples
from gpuprof.show.samples import show

needs_psutil = pytest.mark.skipif(find_spec("psutil") is None, reason="psutil is not installed")
T0 = 1_760_000_000_000_000_000
S = 10**9


@needs_psutil
@pytest.mark.usefixtures("in_an_empty_folder")
def test_the_host_is_sampled_into_the_run_and_epochs_are_known():
    program = script(
        "import time, gpuprof\n"
        "for _ in range(2):\n"
        "    with gpuprof.epoch():\n"
        "        until = time.monotonic() + 1\n"
        "        while time.monotonic() < until: pass\n"
    )
    record("plain", program, "--monitor", "100ms")
    profile = read_profile("run")
    rows = [row for row in summed(profile).to_pylist() if row["device_id"] is None]

    assert [row["epoch"] for row in rows] == [None, 0, 1]
    # However slow the machine is, each epoch lasts long enough for some of them.
    assert rows[1]["samples"] >= 1
    assert rows[1]["samples"] + rows[2]["samples"] <= rows[0]["samples"]
    # One of the cores is busy all the time.
    assert rows[1]["cpu_utilisation"] >= 0.5 / os.cpu_count()
    assert rows[1]["memory_used_bytes"] > 10**8


@needs_psutil
def test_no_samples_are_taken_where_none_are_asked_for(tmp_path):
    with monitor.monitoring(tmp_path, None):
        pass

    assert list(tmp_path.iterdir()) == []


@needs_psutil
def test_a_full_disk_ends_the_monitor_and_not_the_run(tmp_path):
    (tmp_path / "monitor.jsonl").symlink_to("/dev/full")
    with monitor.monitoring(tmp_path, 10_000_000):
        time.sleep(0.05)


def test_without_either_package_nothing_is_sampled_and_the_command_says_so(tmp_path, monkeypatch):
    for name in ("psutil", "pynvml"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert monitor.sources() == []

    completed = gpuprof("monitor", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr == (
        "Error: neither nvidia-ml-py nor psutil is installed here\n"
        "Hint: pip install 'nvidia-ml-py>=12' 'psutil>=5.9'\n"
    )


@needs_psutil
def test_the_command_shows_the_host_to_people_and_programs():
    shown = gpuprof("monitor", "--count", "1", "--interval", "100ms")
    told = gpuprof("monitor", "--count", "2", "--interval", "100ms", "--format", "json")

    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].split() == [
        "Device", "Busy", "Memory", "Power", "Temp", "Clock", "PCIe", "in", "PCIe", "out",
    ]  # fmt: skip
    [host] = [line for line in shown.stdout.splitlines() if line.startswith("host")]
    assert host.split().count("n/a") == 5
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    hosts = [row for row in rows if row["device_id"] is None]
    assert len(hosts) == 2
    assert hosts[0]["unix_ns"] < hosts[1]["unix_ns"]
    assert 0 <= hosts[0]["cpu_utilisation"] <= 1


def test_a_table_of_eighty_columns_has_room_for_a_busy_gpu(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    busy = {
        "device_id": 0, "gpu_utilisation": 1, "memory_used_bytes": 3_647_000_000,
        "memory_total_bytes": 150_754_820_096, "power_w": 442.4, "temperature_c": 48,
        "sm_clock_hz": 1_980_000_000, "pcie_received_bytes_per_s": 17_377_000_000,
        "pcie_sent_bytes_per_s": 498_500_000,
    }  # fmt: skip
    idle = {**busy, "memory_used_bytes": 625_000_000, "gpu_utilisation": None}
    unknown = {"device_id": 1, "memory_total_bytes": 150_754_820_096}
    show([[busy, idle, unknown]], "terminal")

    assert capsys.readouterr().out.splitlines()[1:] == [
        "GPU 0   100 %    3.65 of 151 GB  442 W  48 C  1980 MHz  17.377 GB/s  498.5 MB/s",
        "GPU 0     n/a  625 MB of 151 GB  442 W  48 C  1980 MHz  17.377 GB/s  498.5 MB/s",
        "GPU 1     n/a               n/a    n/a   n/a       n/a          n/a         n/a",
    ]


@needs_psutil
def test_ctrl_c_ends_the_command_without_a_complaint():
    child = started("monitor", "--format", "json", "--interval", "100ms")
    child.stdout.readline()
    child.send_signal(signal.SIGINT)

    assert child.communicate(timeout=30)[1] == ""
    assert child.returncode == 0


def written(folder, *rows):
    lines = [json.dumps({"unix_ns": T0 + at, "device_id": device, **more})
             for at, device, more in rows]  # fmt: skip
    (folder / "monitor.jsonl").write_text("\n".join(lines) + '\n{"unix_ns": 17')


def test_samples_of_gpus_are_summed_up_by_epoch(tmp_path):
    written(
        tmp_path,
        (0, 0, {"gpu_utilisation": 0, "power_w": 100, "nvlink_sent_bytes": 10}),
        (1 * S, 0, {"gpu_utilisation": 0.5, "power_w": 300, "nvlink_sent_bytes": 60}),
        (1 * S, 1, {"gpu_utilisation": None, "memory_used_bytes": 7}),
        (2 * S, 0, {"gpu_utilisation": 1, "power_w": None, "nvlink_sent_bytes": 90}),
    )
    epochs = [
        {"epoch": 0, "seconds": 1.0, "steps": None, "started_at_unix_ns": T0 + S // 2},
        {"epoch": 1, "seconds": 1.0, "steps": None, "started_at_unix_ns": T0 + 3 * S // 2},
        {"epoch": 2, "seconds": 1.0, "steps": None},
    ]
    table = samples(tmp_path, epochs, T0 - 5)
    assert table["time_ns"].to_pylist() == [5, S + 5, S + 5, 2 * S + 5]
    assert table["epoch"].to_pylist() == [None, 0, 0, 1]

    profile = Profile(Origin(tmp_path, "run", "nsys"), {"monitor": table})
    rows = summed(profile).to_pylist()
    shown = [
        (r["epoch"], r["device_id"], r["samples"], r["gpu_utilisation"], r["power_w"],
         r["nvlink_sent_bytes"])
        for r in rows
    ]  # fmt: skip
    assert shown == [
        (None, 0, 3, 0.5, 200.0, 80),
        (None, 1, 1, None, None, None),
        (0, 0, 1, 0.5, 300.0, 0),
        (0, 1, 1, None, None, None),
        (1, 0, 1, 1.0, None, 0),
    ]


@pytest.mark.parametrize("text", ["", "\n", "{", "[]\n", '{"device_id": 1}\n'])
def test_a_file_without_a_whole_sample_is_no_table(tmp_path, text):
    (tmp_path / "monitor.jsonl").write_text(text)

    assert samples(tmp_path, [], None) is None


def test_every_value_that_is_sampled_is_a_column():
    sampled = {name for row in monitor.sample(monitor.sources()) for name in row} - {"unix_ns"}

    assert sampled <= set(MONITOR.columns)


class Nvml:
    """NVML as far as memory is concerned: an H200 without a program; 0.6 GB are reserved."""

    NVMLError = KeyError
    nvmlMemory_v2 = 2  # noqa: N815 - NVML's name

    def __init__(self, *versions):
        values = {1: {"used": 645_922_816}, 2: {"used": 0, "reserved": 645_922_816}}
        self.memory = {
            version: types.SimpleNamespace(total=150_754_820_096, **values[version])
            for version in versions
        }

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 1

    def nvmlDeviceGetMemoryInfo(self, _, version=1):  # noqa: N802
        return self.memory[version]

    def __getattr__(self, name):
        if name in {"nvmlInit", "nvmlDeviceGetHandleByIndex"} or not name.startswith("nvmlDevice"):
            return lambda *_: None
        return lambda *_: {}[name]


@pytest.mark.parametrize(("versions", "used"), [((1, 2), 0), ((1,), 645_922_816), ((), None)])
def test_memory_that_the_driver_reserves_is_not_used(monkeypatch, versions, used):
    """As nvidia-smi shows it; a driver before the second version cannot tell them apart."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(*versions))
    monkeypatch.setitem(sys.modules, "psutil", None)

    [row] = monitor.sample(monitor.sources())
    assert (row["memory_used_bytes"], row["power_w"]) == (used, None)


@pytest.mark.gpu
@pytest.mark.skipif(not gpus(), reason="no GPU here")
@pytest.mark.skipif(find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")
def test_gpus_are_sampled_through_nvml():
    rows = [row for row in monitor.sample(monitor.sources()) if row["device_id"] is not None]

    assert [row["device_id"] for row in rows] == list(range(len(rows)))
    for row in rows:
        assert 0 <= row["gpu_utilisation"] <= 1
        assert 0 < row["memory_used_bytes"] <= row["memory_total_bytes"]
        assert 1e8 < row["sm_clock_hz"] < 1e10
        assert 0 < row["temperature_c"] < 120
    assert set(rows[0]) - {"unix_ns"} <= set(MONITOR.columns)
