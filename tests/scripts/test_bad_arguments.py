"""What no script takes ends it with one line, before TensorFlow is loaded."""

import importlib
import sys

import pytest
from commands import ROOT

WHOLE = "expected a whole number of"
REFUSED = {
    "deepconn --placement both": "argument --placement: invalid choice: 'both' (choose from ",
    "deepconn --epochs 0": f"argument --epochs: {WHOLE} 1 or more, found 0",
    "deepconn --seed -1": f"argument --seed: {WHOLE} 0 or more, found -1",
    "deepconn --placement-file absent.json": (
        "--placement-file absent.json: [Errno 2] No such file or directory: 'absent.json'"
    ),
    "deepconn --placement-file pyproject.toml": "--placement-file pyproject.toml: Expecting value",
    "deepconn --lr 1": "unrecognized arguments: --lr 1",
    "deepconn --on /CPU:0": "--on takes two devices, not 1",
    "deepconn --on /CPU:0,/CPU:1,/CPU:2": "--on takes two devices, not 3",
    "data_parallel --variant both": "argument --variant: invalid choice: 'both'",
    "rnn_training --dropout 1": "argument --dropout: expected a number of 0 or more and below 1, f",
    "rnn_training --model rnn": "argument --model: invalid choice: 'rnn'",
    "rnn_training --samples 10 --batch-size 64": "10 samples make no batch of 64",
    "rnn_batch_sweep --epochs 0": f"argument --epochs: {WHOLE} 1 or more, found 0",
    **{
        f"{name} --fast": "unrecognized arguments: --fast"
        for name in ("demo", "draw_recordings", "experiments", "make_pictures")
    },
    "towers --strategy both": "argument --strategy: invalid choice: 'both'",
    "towers --n-gpus 0": f"argument --n-gpus: {WHOLE} 1 or more, found 0",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_bad_argument_gets_one_line(monkeypatch, capsys, line):
    name, *words = line.split()
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    loaded = {*sys.modules}

    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(name).main(words)

    printed, said = capsys.readouterr()
    assert (printed, said.count("\n")) == ("", 1)
    assert said.startswith(f"{name}.py: {REFUSED[line]}")
    assert "tensorflow" not in {*sys.modules} - loaded
