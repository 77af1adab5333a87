import csv
import re

import pytest
from commands import ROOT
from tensorflow_recording import needs_tensorflow, run

SCRIPT = ROOT / "scripts" / "rnn_batch_sweep.py"
TRAINING = ROOT / "scripts" / "rnn_training.py"
SMALL = ("--epochs", "3", "--samples", "128", "--length", "6")


class TestSweep:
    pytestmark = needs_tensorflow

    def test_it_tells_accuracy_time_memory_and_speed_up_of_each_cell(self, tmp_path):
        words = ("--models", "lstm", "--batch-sizes", "32", "--devices", "1,2", *SMALL)
        completed = run(SCRIPT, *words, "--format", "markdown", "-o", tmp_path / "rnn")

        assert completed.returncode == 0, completed.stderr[-2000:]
        assert "| model | dropout | batch\\_size | devices | s per epoch |" in completed.stdout
        with (tmp_path / "rnn" / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        one, two = rows
        assert [(row["batch_size"], row["devices"]) for row in rows] == [("32", "1"), ("32", "2")]
        # Two devices train as one does.
        assert two["accuracy"] == one["accuracy"]
        assert two["validation_accuracy"] == one["validation_accuracy"]
        ratio = float(one["seconds"]) / float(two["seconds"])
        assert float(two["speed_up"]) == pytest.approx(ratio)
        assert (one["epochs"], two["epochs"]) == ("3.0", "3.0")
        assert two["memory_mb_per_epoch"]


class TestTraining:
    pytestmark = needs_tensorflow

    def test_early_stopping_says_at_which_accuracy_it_stopped(self):
        words = ("--model", "gru", "--early-stopping", "1", "--epochs", "30", "--dropout", "0.5")
        completed = run(TRAINING, *words, "--layers", "2", "--samples", "64", "--length", "4")

        assert completed.returncode == 0, completed.stderr[-2000:]
        epochs = re.findall(r"validation (\S+), memory \d+\.\d MB", completed.stdout)
        assert 1 < len(epochs) < 30
        assert f"stopped early, at validation accuracy {epochs[-1]}\n" in completed.stdout
        assert f"trained for {len(epochs)} epochs\n" in completed.stdout


def test_an_empty_axis_is_refused_before_anything_runs(tmp_path):
    completed = run(SCRIPT, "--batch-sizes", "", "-o", tmp_path / "rnn")

    assert completed.returncode == 2
    assert completed.stderr.startswith("Error: the axis batch_size has no values\n")
    assert not (tmp_path / "rnn").exists()
