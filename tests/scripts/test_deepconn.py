import re

import pytest
from commands import PYTHONPATH, ROOT, gpuprof
from tensorflow_recording import manifest, needs_tensorflow, record, run

from gpuprof.analyses.placement import per_step, tensor_transfers
from gpuprof.place.from_flow import step_of
from gpuprof.place.proposal import proposal
from gpuprof.readers import read_profile

SCRIPT = ROOT / "scripts" / "deepconn.py"
OPTIONS = ("--size", "small", "--epochs", 2, "--steps", 5)
PLACEMENTS = ("single", "dual", "dual-colocated", "exaggerated")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each placement's run folder and what it printed."""
    base = tmp_path_factory.mktemp("deepconn")
    found = {}
    for name in PLACEMENTS:
        completed = record(base / name, SCRIPT, "--placement", name, *OPTIONS)
        assert completed.returncode == 0, completed.stderr
        found[name] = base / name, completed.stdout
    return found


@pytest.fixture(scope="module")
def placed(runs, tmp_path_factory):
    """What gpuprof place proposes for two placements, and a run of that for the first."""
    base = tmp_path_factory.mktemp("placed")
    found = {name: base / f"{name}.json" for name in ("dual", "exaggerated")}
    said = {
        name: gpuprof("place", runs[name][0], "--output", file).stdout
        for name, file in found.items()
    }
    placement = ("--placement", "dual", "--placement-file", found["dual"])
    completed = record(base / "run", SCRIPT, *placement, *OPTIONS)
    assert completed.returncode == 0, completed.stderr
    return said, base / "run", completed.stdout


def losses(printed):
    return [float(text) for text in re.findall(r"loss (\S+)", printed)]


def profile(folder):
    [path] = folder.glob("tensorflow-*.json")
    return read_profile(path)


class TestRecorded:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize(
        ("placement", "copies", "moved"),
        [
            pytest.param("single", 0, 0, id="single"),
            # The item tower's words there; its features, activations and weights back for the
            # gradients; the gradients there again.
            pytest.param("dual", 16, 26_587_520, id="dual"),
            # 128 x 200 words of 4 bytes there, 128 x 32 features and their gradients.
            pytest.param("dual-colocated", 3, 102_400 + 2 * 16_384, id="dual-colocated"),
            pytest.param("exaggerated", 22, 46_281_088, id="exaggerated"),
        ],
    )
    def test_a_step_copies_what_its_placement_makes_it_copy(self, runs, placement, copies, moved):
        [row] = per_step(profile(runs[placement][0])).to_pylist()

        assert row["steps"] == 10
        assert (row["copies_per_step"], row["bytes_per_step"]) == (copies, moved)

    def test_nearly_all_that_dual_moves_is_for_the_item_towers_gradients(self, runs):
        rows = tensor_transfers(profile(runs["dual"][0])).to_pylist()
        [row] = per_step(profile(runs["dual"][0])).to_pylist()

        # All but the item's words and its features.
        assert row["gradient_bytes_per_step"] == 26_587_520 - 102_400 - 16_384
        assert all(r["is_gradient"] for r in rows[:4])
        assert all(r["name_scope"] == "item_tower" for r in rows[:4])

    def test_every_placement_gives_the_same_loss(self, runs):
        single = losses(runs["single"][1])

        assert len(single) == 2
        for name in PLACEMENTS[1:]:
            assert losses(runs[name][1]) == pytest.approx(single, abs=1e-6)

    @pytest.mark.parametrize("placement", PLACEMENTS)
    def test_graph_and_devices_alone_give_the_copies_to_the_byte(self, runs, placement):
        recording = profile(runs[placement][0])
        [row] = per_step(recording).to_pylist()
        graph, _ = step_of(recording)

        assert graph.copies() == (row["bytes_per_step"], 0, row["copies_per_step"])
        assert len(graph.devices) == 2

    def test_the_search_finds_dual_colocated(self, runs, placed):
        made = proposal(profile(runs["dual"][0]), frozenset())

        assert made.best.copies == (135_168, 0, 3)
        assert [scope[:3] for scope in made.scopes] == [("CPU:1", "gradient", "item_tower")]
        assert "# gradients of item_tower: 15 operations" in placed[0]["dual"]

    def test_the_forward_pass_of_exaggerated_is_at_fault(self, placed):
        printed = " ".join(placed[0]["exaggerated"].split())

        assert "needs the forward pass to move: without, the minimum is 39.4 MB" in printed

    def test_the_placement_found_copies_what_was_promised_at_the_same_loss(self, runs, placed):
        _, folder, printed = placed
        [row] = per_step(profile(folder)).to_pylist()

        assert (row["copies_per_step"], row["bytes_per_step"]) == (3, 135_168)
        assert losses(printed) == pytest.approx(losses(runs["single"][1]), abs=1e-6)
        assert manifest(folder)["warnings"] == manifest(runs["dual"][0])["warnings"]

    def test_sizes_of_variables_and_the_products_of_layers_are_kept(self, runs):
        recording = profile(runs["dual"][0])
        sizes = recording.table("variables").column("bytes").to_pylist()
        rows = recording.table("operations").to_pylist()
        flops = {row["operation"]: row["flops"] for row in rows if row["flops"]}

        # Tables of 5000 x 64, filters of 3 x 64 x 64, dense weights of 64 x 32, biases, the head.
        weights = 2 * [5000 * 64, 3 * 64 * 64, 64, 64 * 32, 32]
        assert sorted(sizes) == sorted(4 * count for count in [*weights, 64, 1])
        convolution = 2 * 128 * 198 * 64 * 3 * 64
        in_backward = "gradient_tape/item_tower/item_convolution_1/convolution/Conv2DBackprop"
        assert flops["item_tower/item_convolution_1/convolution"] == convolution
        assert {flops[f"{in_backward}{end}"] for end in ("Input", "Filter")} == {convolution}
        assert flops["item_tower/item_dense_1/Relu"] == 2 * 128 * 64 * 32

    def test_every_operation_ran_where_it_was_asked_to(self, runs):
        rows = profile(runs["exaggerated"][0]).table("operations").to_pylist()
        asked = [r for r in rows if r["requested_device"] and r["calls"]]

        assert len(asked) > 20
        assert all(r["requested_device"] == r["device"] for r in asked)
        assert {r["device"] for r in rows} == {"CPU:0", "CPU:1"}

    def test_epochs_and_devices_are_in_the_manifest(self, runs):
        folder, printed = runs["dual"]
        epochs = manifest(folder)["epochs"]

        assert [(e["epoch"], e["steps"]) for e in epochs] == [(0, 5), (1, 5)]
        assert [d["name"] for d in manifest(folder)["devices"]] == ["CPU:0", "CPU:1"]
        average = float(re.search(r"average of 2 epochs: (\S+) s", printed)[1])
        assert manifest(folder)["seconds_per_epoch"] == pytest.approx(average, abs=0.01)

    def test_the_devices_and_why_are_said_first(self, runs):
        first = runs["dual"][1].splitlines()[0]

        assert first.startswith("DeepCoNN, placement dual, on 2 ")


# First what is refused, then a training, in one process: TensorFlow starts slowly.
WITHOUT_GPUPROF = """
import sys
import deepconn
try:
    deepconn.main(["--placement", "dual", "--size", "small", "--jit"])
except SystemExit as end:
    print(end.code)
deepconn.main(["--epochs", "1", "--steps", "2"])
print("gpuprof" in sys.modules)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("absent")
    (folder / "gpuprof.py").write_text("raise ImportError", encoding="utf-8")
    completed = run(
        "-P", "-c", WITHOUT_GPUPROF, PYTHONPATH=f"{folder}:{SCRIPT.parent}:{PYTHONPATH}"
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.splitlines()


class TestAlone:
    pytestmark = needs_tensorflow

    def test_weights_on_two_devices_are_refused_under_xla(self, printed):
        assert printed[0] == (
            "deepconn: XLA compiles a step for one device; weights are on CPU:0 and CPU:1"
        )

    def test_it_runs_without_gpuprof_at_its_published_size(self, printed):
        assert re.fullmatch(r"average of 1 epochs: \d+\.\d+ s", printed[-2])
        assert printed[-1] == "False"


class TestReportPlacement:
    pytestmark = needs_tensorflow

    def test_it_says_where_parts_were_asked_for_and_ran_and_what_was_moved(self):
        words = ("--size", "small", "--epochs", "1", "--steps", "3", "--placement", "dual")
        on = ("--on", "/CPU:0,/GPU:7", "--soft-placement", "--report-placement")
        completed = run(SCRIPT, *words, *on)

        assert completed.returncode == 0, completed.stderr[-2000:]
        lines = completed.stdout.splitlines()
        asked = [line for line in lines if "item_convolution" in line and "GPU:7" in line]
        assert asked
        assert all(line.startswith("CPU:0 ") for line in asked)
        assert re.search(
            r"\d+ operations ran on CPU:0, though GPU:7 was requested", completed.stdout
        )
