"""The JAX twin of data_parallel.py, on several CPU devices."""

import json
import re

import pytest
from commands import ROOT
from tensorflow_recording import run

SCRIPT = ROOT / "scripts" / "data_parallel_jax.py"
# Samples, devices, and how many samples each device gets.
BATCHES = [(7, 3, [3, 2, 2]), (2, 3, [1, 1]), (7, 1, [7])]
PROGRAM = """
import json, sys
from argparse import Namespace
import numpy as np
import data_parallel_jax as script

devices, _ = script.find_devices(3, "cpu")
outcomes = []
for batch, count in json.loads(sys.argv[1]):
    asked = Namespace(batch_size=batch, width=16, products=2, seed=1)
    work = script.Work(asked, devices[::-1][:count])  # the first is not JAX's own choice
    whole = np.asarray(work.on_one_device())
    results = [step(work) for step in script.STEPS.values()]
    outcomes.append({
        "sizes": work.sizes,
        "weights_on": [copy.device.id for copy in work.copies],
        "results_on": [result.device.id for result in results],
        "differences": [float(np.abs(result - whole).max()) for result in results],
    })
print(json.dumps(outcomes))
"""


@pytest.fixture(scope="module")
def outcomes():
    pairs = json.dumps([pair for *pair, _ in BATCHES])
    completed = run("-c", PROGRAM, pairs, PYTHONPATH=f"{ROOT}:{SCRIPT.parent}", JAX_PLATFORMS="cpu")
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


class TestOnCpuDevices:
    pytestmark = pytest.mark.jax

    @pytest.mark.parametrize("number", range(len(BATCHES)))
    def test_batches_that_do_not_divide_give_the_same_rows_in_the_same_order(
        self, outcomes, number
    ):
        one, sizes = outcomes[number], BATCHES[number][-1]

        assert one["sizes"] == sizes
        assert one["weights_on"] == [2, 1, 0][: len(sizes)]
        assert one["results_on"] == [2] * 5
        assert max(one["differences"]) < 1e-6

    def test_it_tells_seconds_and_the_sum_that_shows_the_variants_equal(self):
        words = ("--variant", "list", "--batch-size", "7", "--epochs", "2", "--width", "16")
        completed = run(SCRIPT, *words, JAX_PLATFORMS="cpu")

        assert completed.returncode == 0, completed.stderr
        first, *_, average, checksum = completed.stdout.splitlines()
        assert first == "list, batch 7 as [4, 3], on 2 CPU devices: 0 GPUs here"
        assert re.fullmatch(r"average of 2 epochs: \d+\.\d{3} s", average)
        assert re.fullmatch(r"checksum \d+\.\d{3}", checksum)

    def test_more_gpus_than_there_are_end_it_with_one_line(self):
        completed = run(SCRIPT, "--kind", "gpu", "--variant", "list", JAX_PLATFORMS="cpu")

        assert (completed.returncode, completed.stdout) == (1, "")
        assert completed.stderr == "2 GPUs were requested, but this machine has 0\n"
