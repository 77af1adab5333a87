import re
import shlex

import pytest
from commands import ROOT
from pyarrow import parquet
from tensorflow_recording import manifest, needs_tensorflow, recorded, run

from gpuprof.analyses.placement import per_step
from gpuprof.base.manifest import PROGRAM_LOG
from gpuprof.readers import read_profile

SCRIPT = ROOT / "scripts" / "towers.py"
STRATEGIES = ("single", "towers", "mirrored")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The folder of a sweep over the strategies, and what it said; two towers, as a file says."""
    base = tmp_path_factory.mktemp("towers")
    (base / "two.toml").write_text("[towers]\nn_gpus = 2\n")
    grid = ("--grid", f"strategy={','.join(STRATEGIES)}", "--baseline", "strategy=single")
    words = (SCRIPT, "--strategy", "{strategy}", "--config", base / "two.toml", "--epochs", "2")
    completed = run(
        *("-m", "gpuprof", "sweep", *grid, "--recorder", "tensorflow", "-o", base / "sweep"),
        *("--", *words, "--samples", "256"),
        GPUPROF_WINDOW_SECONDS="60",
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
    return base / "sweep", completed


@pytest.fixture(scope="module")
def runs(sweep):
    """Each strategy's run folder and what it printed."""
    folders = {name: sweep[0] / "runs" / f"strategy={name}" / "1" for name in STRATEGIES}
    return {name: (one, (one / PROGRAM_LOG).read_text()) for name, one in folders.items()}


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
        [row] = per_step(read_profile(folder)).to_pylist()
        assert (row["copies_per_step"], row["bytes_per_step"]) == (None, None)
        assert len(manifest(folder)["epochs"]) == 2


class TestSweep:
    pytestmark = needs_tensorflow

    def test_its_rows_have_what_each_recording_says(self, sweep, runs):
        rows = parquet.read_table(sweep[0] / "results.parquet").to_pylist()
        found = {row["strategy"]: row["peer_transfer_bytes_per_step"] for row in rows}
        [towers] = per_step(read_profile(runs["towers"][0])).to_pylist()

        assert found == {"single": 0, "towers": towers["bytes_per_step"], "mirrored": None}
        assert [row["status"] for row in rows] == ["ok"] * 3
        assert all(row["speed_up"] > 0 for row in rows)

    def test_two_of_its_cells_are_compared_by_the_command_that_it_says(self, sweep):
        [said] = [line for line in sweep[1].stderr.splitlines() if line.startswith("Next: gpuprof")]
        completed = run("-m", *shlex.split(said.removeprefix("Next: ")))

        assert completed.returncode == 0, completed.stderr
        assert len(shlex.split(said)) == 5
        # Which cell is set beside the first one depends on the times that were measured.
        verdict = {
            "towers": "In each step, strategy=single copies nothing and strategy=towers copies",
            "mirrored": "Against strategy=single, strategy=mirrored takes",
        }
        [cell] = [name for name in verdict if f"strategy={name}" in said]
        assert " ".join(completed.stdout.split()).startswith(verdict[cell])


def test_a_config_file_that_is_not_there_gets_one_line():
    completed = run(SCRIPT, "--config", "none.toml")

    said = "towers: none.toml cannot be read: No such file or directory\n"
    assert (completed.returncode, completed.stderr) == (1, said)
