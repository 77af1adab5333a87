"""Towers give what one device gives: one process with four logical devices shows it all."""

import json
from pathlib import Path

import pytest
from tensorflow_recording import needs_tensorflow, run

from gpuprof.base.errors import GpuprofError
from gpuprof.towers import TowersConfig, read_config


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    script = Path(__file__).with_name("equal_to_one_device.py")
    completed = run(script, tmp_path_factory.mktemp("towers"))
    assert completed.returncode == 0, completed.stderr[-2000:]
    return json.loads(completed.stdout.splitlines()[-1])


class TestEqualToOneDevice:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize("towers", [1, 2, 4])
    @pytest.mark.parametrize("size", [64, 63, 3, 1])
    def test_gradients_and_losses_are_those_of_one_device(self, outcomes, size, towers):
        rows = [r for r in outcomes["gradients"] if (r["size"], r["towers"]) == (size, towers)]

        # With the number of samples known when the step is traced, and not known.
        assert [row["is_static"] for row in rows] == [False, True]
        for row in rows:
            assert row["gradient"] < 1e-6
            assert row["loss"] < 1e-6
            assert row["accuracy"] == 0

    def test_outputs_come_in_the_order_of_the_batch(self, outcomes):
        assert max(row["forward"] for row in outcomes["gradients"]) < 1e-6

    def test_fit_runs_incomplete_batches_validation_metrics_and_callbacks(self, outcomes):
        assert outcomes["fit"]["batches"] == [0, 1, 2, 0, 1, 2]
        assert outcomes["fit"]["history"] == ["accuracy", "loss", "val_accuracy", "val_loss"]

    @pytest.mark.parametrize("target", ["two", "one", "none", "saved"])
    def test_weights_of_four_towers_give_the_same_outputs_on_fewer(self, outcomes, target):
        assert outcomes["fit"]["differences"][target] < 1e-6

    def test_towers_drop_different_units(self, outcomes):
        assert outcomes["fit"]["dropout_differs"]

    @pytest.mark.parametrize(
        ("attempt", "message", "hint"),
        [
            ("device", "there is no device /GPU:7", "Devices: CPU:0, CPU:1, CPU:2, CPU:3."),
            (
                "many",
                "9 towers need as many devices; there are 0 GPUs and 4 CPU devices",
                "tf.config.set_logical_device_configuration splits a CPU into several devices.",
            ),
            (
                "jit",
                "jit_compile=True would put all 2 towers on one device",
                "Remove it: XLA compiles a step for one device.",
            ),
            (
                "sum",
                "towers average losses over samples; one has the reduction 'sum'",
                "Use reduction='sum_over_batch_size', Keras' default.",
            ),
        ],
    )
    def test_what_would_train_wrongly_is_refused(self, outcomes, attempt, message, hint):
        assert outcomes["refusals"][attempt] == [message, hint]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[towers]\nn_gpus = 2\n[data]\nseed = 1", TowersConfig(2)),
        ("[towers]\n", TowersConfig(1)),
        (
            "[towers]\ndevices = ['/GPU:1', '/GPU:3']",
            TowersConfig(2, ("/GPU:1", "/GPU:3")),
        ),
    ],
)
def test_a_config_file_says_how_many_towers(tmp_path, text, expected):
    path = tmp_path / "train.toml"
    path.write_text(text)

    assert read_config(path) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[towers]\nn_gpu = 2", "{}: [towers] has no key n_gpu", "Did you mean n_gpus?"),
        ("[train]\nn_gpus = 2", "{} has no table [towers]", "[towers]\nn_gpus = 2"),
        ("[towers]\nn_gpus = 0", "{}: n_gpus must be a positive integer, not 0", None),
        (
            "[towers]\nn_gpus = true",
            "{}: n_gpus must be a positive integer, not True",
            None,
        ),
        (
            "[towers]\ndevices = '/GPU:0'",
            "{}: devices must be a list of names",
            'devices = ["/GPU:0", "/GPU:1"]',
        ),
        (
            "[towers]\nn_gpus = 3\ndevices = ['/GPU:0']",
            "{}: n_gpus is 3, but devices names 1",
            "Give only one of the two.",
        ),
        (
            "[towers",
            (
                "{} is not valid TOML: Expected ']' at the end of a table declaration (at end of"
                " document)"
            ),
            None,
        ),
        (None, "{} cannot be read: No such file or directory", None),
    ],
)
def test_what_is_wrong_in_a_config_file_is_said(tmp_path, text, message, hint):
    path = tmp_path / "train.toml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(GpuprofError) as caught:
        read_config(path)

    assert (caught.value.message, caught.value.hint) == (message.format(path), hint)
