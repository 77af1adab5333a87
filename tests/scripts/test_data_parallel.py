import json
import re

import pytest
from commands import PYTHONPATH, ROOT
from tensorflow_recording import needs_tensorflow, record, recorded, run
from utilisation import busy_share, by_nvml

SCRIPT = ROOT / "scripts" / "data_parallel.py"
# All that needs no process of its own, on three logical devices: TensorFlow starts slowly.
PROGRAM = """
import io, json, sys
from argparse import Namespace
from contextlib import redirect_stdout
import numpy as np, tensorflow as tf
import data_parallel, data_parallel_model as model, devices
from devices import find_devices

def ended(*words):
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            data_parallel.main([*words, "--devices", "3"])
    except SystemExit as end:
        return printed.getvalue(), end.code
    return printed.getvalue(), 0

def differences(batch, count):
    asked = Namespace(batch_size=batch, width=16, products=2, seed=1)
    work = model.Work(asked, find_devices(3)[0][:count])
    whole = work.on_one_device(work.batch).numpy()
    return work.sizes, {
        name: float(np.abs(model.step_of(work, name)(work.batch).numpy() - whole).max())
        for name in data_parallel.VARIANTS
    }

outcomes = {"gpus": ended("--variant", "list", "--kind", "gpu")}
outcomes["no-such-device"] = ended("--variant", "list", "--on", "/CPU:0,/CPU:7")
outcomes["listed"] = ended("--list-devices", "--kind", "cpu")
small = ("--width", "2", "--products", "1", "--epochs", "1")
outcomes["split"] = ended("--variant", "list", *small)
devices._machine = lambda: json.loads(sys.argv[1])
outcomes["gpus-listed"] = ended("--list-devices", "--kind", "cpu")
outcomes["batches"] = [differences(*pair) for pair in json.loads(sys.argv[2])]
print(json.dumps(outcomes))
"""

# What `gpuprof doctor` finds where there are GPUs.
MACHINE = {
    "gpus": [
        {"name": "NVIDIA H200", "total_memory_bytes": 150_754_820_096, "compute_capability": [9, 0]}
    ]
    * 2,
    "peers": [[0, 1, True], [1, 0, False]],
    "driver_cuda": [12, 4],
}
# Samples, devices, and how many samples each device gets.
BATCHES = [
    (7, 3, [3, 2, 2]),
    (2, 3, [1, 1]),
    (7, 1, [7]),
]


@pytest.fixture(scope="module")
def outcomes():
    words = (json.dumps(MACHINE), json.dumps([pair for *pair, _ in BATCHES]))
    completed = run("-c", PROGRAM, *words, PYTHONPATH=f"{PYTHONPATH}:{SCRIPT.parent}")
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """What was recorded of weights that another device reads, and of weights with a copy there."""
    base = tmp_path_factory.mktemp("variables")
    words = (SCRIPT, "--devices", "2", "--width", "64", "--products", "3", "--no-check")
    words = (*words, "--epochs", "1", "--steps", "4")
    outcomes = {}
    for name in ("far-variable", "near-variable"):
        completed = record(base / name, *words, "--variant", name)
        assert completed.returncode == 0, completed.stderr
        outcomes[name] = recorded(base / name)
    return outcomes


class TestOnLogicalDevices:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize("number", range(len(BATCHES)))
    def test_batches_that_do_not_divide_give_the_same_rows_in_the_same_order(
        self, outcomes, number
    ):
        sizes, differences = outcomes["batches"][number]

        assert sizes == BATCHES[number][-1]
        assert differences.keys() >= {"array", "list", "sequential"}
        assert max(differences.values()) < 1e-6

    def test_a_far_variable_is_copied_for_every_product_and_a_near_one_once_a_step(self, variables):
        weights = {}
        for name, document in variables.items():
            executions = document["functions"][0]["executions"]
            size = 64 * 64 * 4
            calls = [c["calls"] for c in document["tensor_copies"] if c["bytes_per_call"] == size]
            weights[name] = sum(calls) / executions

        assert weights == {"far-variable": 3, "near-variable": 1}

    def test_a_device_that_waits_is_said_before_the_batch_is_split(self, outcomes):
        printed, status = outcomes["split"]

        first, second, third = printed.splitlines()[:3]
        assert status == 0
        assert first.startswith("list, batch 64 as 22 + 21 + 21, on 3 logical CPU devices")
        assert re.fullmatch(
            r"one device is busy \d+% of the time \(recorded\), less than 90%:", second
        )
        assert third.strip().startswith("give one device more to do at a time first")

    def test_devices_are_described_with_versions_and_whether_they_compute(self, outcomes):
        printed, status = outcomes["listed"]

        lines = printed.splitlines()
        assert status == 0
        assert re.match(
            r"TensorFlow \d\.\d+\.\d+, Python 3\.\d+\.\d+, on 3 logical CPU dev", lines[0]
        )
        assert lines[1].startswith("built for CUDA ")
        assert lines[-3:] == ["/CPU:0: ready", "/CPU:1: ready", "/CPU:2: ready"]

    def test_gpus_are_described_with_memory_capability_and_who_reaches_whom(self, outcomes):
        printed, _ = outcomes["gpus-listed"]

        assert printed.splitlines()[1].endswith("; driver runs CUDA 12.4")
        assert printed.splitlines()[2:6] == [
            "GPU:0: NVIDIA H200, 150.8 GB, compute capability 9.0",
            "GPU:1: NVIDIA H200, 150.8 GB, compute capability 9.0",
            "GPU:0 reaches GPU:1's memory directly: yes",
            "GPU:1 reaches GPU:0's memory directly: no",
        ]

    def test_devices_that_are_not_there_end_it_with_one_line(self, outcomes):
        printed, why = outcomes["gpus"]
        assert printed == ""
        assert re.fullmatch(r"3 GPUs were requested, but \d GPUs? (is|are) available", why)

        there = "CPU:0, CPU:1, CPU:2"
        assert outcomes["no-such-device"] == ["", f"there is no device /CPU:7; there are {there}"]


def test_utilisation_is_the_time_of_operations_in_a_step():
    recording = {
        "operations": [
            {"traced_calls": 4, "total_ns": 4_000_000},
            {"traced_calls": 1, "total_ns": 500_000},
            {"traced_calls": None, "total_ns": None},
        ]
    }
    # 1.5 ms of operations in steps of 2 ms; the first epoch warms up.
    epochs = [{"seconds": 9.0, "steps": 5}, {"seconds": 0.02, "steps": 10}]

    assert busy_share(recording, {"epochs": epochs}) == pytest.approx(0.75)
    assert busy_share({"operations": []}, {"epochs": epochs}) is None


def test_nvml_is_asked_while_the_program_runs(tmp_path, monkeypatch):
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 3; echo 87; exec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert by_nvml(["-c", "import time; time.sleep(0.5)"]) == 0.87
