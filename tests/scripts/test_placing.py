"""Graphs of PyTorch and JAX under the same search: bytes known by hand, and what is proposed."""

import sys

import pytest
from commands import PYTHONPATH, ROOT
from placing import parse
from tensorflow_recording import run

SCRIPTS = ROOT / "scripts"
# In one process: PyTorch starts slowly.
TWICE = """
import importlib, sys
script = importlib.import_module(sys.argv[1])
script.main([])
print("-- with GPUs --")
script.main(["--gpus", "2xV100", "--link", "nvlink2"])
"""
WORDS, FEATURES = 128 * 200, 128 * 32 * 4


@pytest.mark.parametrize(
    ("framework", "least"),
    [
        pytest.param("torch", 8 * WORDS + 2 * FEATURES, marks=pytest.mark.torch, id="torch"),
        pytest.param("jax", 4 * WORDS + 2 * FEATURES, marks=pytest.mark.jax, id="jax"),
    ],
)
def test_the_item_tower_needs_its_words_and_its_features_there_and_back(framework, least):
    completed = run("-c", TWICE, f"place_{framework}", PYTHONPATH=f"{PYTHONPATH}:{SCRIPTS}")

    assert completed.returncode == 0, completed.stderr
    said, estimated = completed.stdout.split("-- with GPUs --")
    assert f"{least / 1000:.0f} KB in 3 copies" in " ".join(said.split())
    assert "On 2 x V100 over nvlink2 a step is estimated to take" in estimated
    assert "all on one V100" in estimated


def test_a_bad_machine_gets_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["place_torch.py"])
    with pytest.raises(SystemExit, match="2"):
        parse("", ["--gpus", "2xV10"])

    assert capsys.readouterr() == ("", "place_torch.py: --gpus 2xV10: unknown GPU V10\n")
