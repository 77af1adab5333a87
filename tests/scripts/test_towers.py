import re

import pytest
from tensorflow_recording import ROOT, manifest, needs_tensorflow, record, recorded, run

from gpuprof.analyses.tensor_transfers import per_step
from gpuprof.readers import read_profile

SCRIPT = ROOT / "scripts" / "towers.py"
STRATEGIES = ("single", "towers", "mirrored")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each strategy's run folder and what it printed; the number of towers from a file."""
    base = tmp_path_factory.mktemp("towers")
    (base / "two.toml").write_text("[towers]\nn_gpus = 2\n")
    found = {}
    for name in STRATEGIES:
        words = ("--strategy", name, "--config", base / "two.toml", "--epochs", "2")
        done = record(base / name, SCRIPT, *words, "--samples", "256")
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = base / name, done.stdout
    return found


class TestStrategies:
    pytestmark = needs_tensorflow

    def test_all_end_with_the_same_losses_and_weights(self, runs):
        found = {
            name: [float(text) for text in re.findall(r"(?:loss|weights) (\S+)", printed)]
            for name, (_, printed) in runs.items()
        }

        assert len(found["single"]) == 3
        for name in STRATEGIES[1:]:
            assert found[name] == pytest.approx(found["single"], rel=1e-6)

    def test_a_tower_copies_each_variable_and_each_gradient_once_a_step(self, runs):
        [row] = per_step(read_profile(runs["towers"][0])).to_pylist()

        # 5 x 8 x 32 + 32, 28 x 32 x 64 + 64, 64 x 4 + 4 weights of 4 bytes: there and back.
        weights = 4 * (5 * 8 * 32 + 32 + 28 * 32 * 64 + 64 + 64 * 4 + 4)
        assert row["gradient_bytes_per_step"] == weights
        samples = 32 * 60 * 8 * 4
        # Beside weights and samples: classes, outputs, and numbers of a few bytes.
        assert 0 < row["bytes_per_step"] - 2 * weights - samples < 2000

    def test_what_a_mirrored_strategy_reduces_is_said_not_to_be_counted(self, runs):
        folder = runs["mirrored"][0]

        assert any("collective operations ran" in note for note in recorded(folder)["notes"])
        assert len(manifest(folder)["epochs"]) == 2


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        pytest.param(
            ("--strategy", "both"), 2, "argument --strategy: invalid choice: 'both'", id="strategy"
        ),
        pytest.param(("--n-gpus", "0"), 2, "argument --n-gpus: expected a whole number", id="none"),
    ],
)
def test_a_bad_argument_gets_one_line(words, status, message):
    done = run(SCRIPT, *words)

    assert (done.returncode, len(done.stderr.splitlines())) == (status, 1)
    assert message in done.stderr
