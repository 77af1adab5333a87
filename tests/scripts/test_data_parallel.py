import json
import re

import pytest
from tensorflow_recording import ROOT, needs_tensorflow, record, recorded, run
from utilisation import busy_share, by_nvml

SCRIPT = ROOT / "scripts" / "data_parallel.py"
# Every variant's result on three logical devices, in one process: TensorFlow starts slowly.
ALL_VARIANTS = """
import json, sys
from argparse import Namespace
import numpy as np, tensorflow as tf
from devices import find_devices
import data_parallel, data_parallel_model as model
devices, _ = find_devices(3)
tf.config.set_soft_device_placement(enabled=False)
found = {}
for batch in (7, 3, 2, 1):
    asked = Namespace(batch_size=batch, width=16, products=2, seed=1)
    work = model.Work(asked, devices)
    whole = work.one(work.batch).numpy()
    differences = {
        name: float(np.abs(model.step_of(work, name)(work.batch).numpy() - whole).max())
        for name in data_parallel.VARIANTS
    }
    found[batch] = {"sizes": work.sizes, "differences": differences}
print(json.dumps(found))
"""


def python(code):
    scripts = str(SCRIPT.parent)
    done = run("-c", code, PYTHONPATH=f"{ROOT}:{scripts}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found():
    return python(ALL_VARIANTS)


class TestOnLogicalDevices:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize(
        ("batch", "sizes"), [(7, [3, 2, 2]), (3, [1, 1, 1]), (2, [1, 1]), (1, [1])]
    )
    def test_batches_that_do_not_divide_give_the_same_rows_in_the_same_order(
        self, found, batch, sizes
    ):
        one = found[str(batch)]

        assert one["sizes"] == sizes
        assert one["differences"].keys() >= {"array", "list", "sequential"}
        assert max(one["differences"].values()) < 1e-6

    def test_a_far_variable_is_copied_for_every_product_and_a_near_one_once_a_step(self, tmp_path):
        words = (SCRIPT, "--devices", "2", "--width", "64", "--products", "3", "--no-check")
        words = (*words, "--epochs", "1", "--steps", "4")
        weights = {}
        for name in ("far-variable", "near-variable"):
            done = record(tmp_path / name, *words, "--variant", name)
            assert done.returncode == 0, done.stderr
            document = recorded(tmp_path / name)
            executions = document["functions"][0]["executions"]
            size = 64 * 64 * 4
            calls = [c["calls"] for c in document["tensor_copies"] if c["bytes_per_call"] == size]
            weights[name] = sum(calls) / executions

        assert weights == {"far-variable": 3, "near-variable": 1}

    def test_a_device_that_waits_is_said_before_the_batch_is_split(self):
        done = run(SCRIPT, "--variant", "list", "--width", "2", "--products", "1", "--epochs", "1")

        assert done.returncode == 0, done.stderr
        first, second, third = done.stdout.splitlines()[:3]
        assert first.startswith("list, batch 64 as 32 + 32, on 2 logical CPU devices")
        assert re.fullmatch(
            r"one device is busy \d+% of the time \(recorded\), less than 90%:", second
        )
        assert third.strip().startswith("give one device more to do at a time first")

    def test_devices_are_described_with_versions_and_whether_they_compute(self):
        done = run(SCRIPT, "--list-devices", "--devices", "3", "--kind", "cpu")

        lines = done.stdout.splitlines()
        assert re.match(
            r"TensorFlow \d\.\d+\.\d+, Python 3\.\d+\.\d+, on 3 logical CPU dev", lines[0]
        )
        assert lines[1].startswith("built for CUDA ")
        assert lines[-3:] == ["/CPU:0: ready", "/CPU:1: ready", "/CPU:2: ready"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            pytest.param(
                ("--devices", "99", "--kind", "gpu"),
                r"99 GPUs are asked for, and \d GPUs? (is|are) here",
                id="more-gpus-than-there-are",
            ),
            pytest.param(
                ("--on", "/CPU:0,/CPU:7"),
                "there is no device /CPU:7; there are CPU:0, CPU:1",
                id="no-such-device",
            ),
        ],
    )
    def test_devices_that_are_not_there_end_it_with_one_line(self, options, message):
        done = run(SCRIPT, "--variant", "list", "--no-check", *options)

        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(message, done.stderr.splitlines()[-1])


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


def test_a_bad_argument_gets_one_line():
    done = run(SCRIPT, "--variant", "both")

    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith("data_parallel.py: argument --variant: invalid choice: 'both'")
