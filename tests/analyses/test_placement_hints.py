"""The cause and the fix of bad placements, from real programs and from recordings made by hand."""

import json

import pytest
from commands import ROOT, gpuprof
from tensorflow_recording import manifest, needs_tensorflow, record, recorded
from tensorflow_runs import copy, document, flowing, graphs, written

from gpuprof.analyses.avoidable_copies import alternation
from gpuprof.analyses.placement import per_step, placement, placement_hints, tensor_transfers
from gpuprof.facts.dataflow import dataflow
from gpuprof.facts.misplacements import misplacements
from gpuprof.place.from_flow import step_of
from gpuprof.place.proposal import proposal
from gpuprof.readers import read_profile

PROGRAMS = ROOT / "tests" / "launch" / "programs"
SAMPLES = ROOT / "sample_logs" / "tensorflow" / "2.21.0"


def by_function(folder, base):
    """A recording of each training function of a process."""
    whole = recorded(folder)
    of_functions = ("functions", "operations", "tensor_copies", "graphs")
    found = {}
    for name in [row["function"] for row in whole["functions"]]:
        rows = {key: [r for r in whole[key] if r["function"] == name] for key in of_functions}
        (base / name).mkdir()
        found[name] = read_profile(written(base / name, whole | rows))
    return found


@pytest.fixture(scope="module")
def placements(tmp_path_factory):
    """The recording of each placement, and the losses of its steps."""
    base = tmp_path_factory.mktemp("placements")
    done = record(base / "run", PROGRAMS / "placements.py")
    assert done.returncode == 0, done.stderr
    losses = json.loads(done.stdout.splitlines()[-1])
    return {name: (made, losses[name]) for name, made in by_function(base / "run", base).items()}


def moved(profile):
    return per_step(profile).to_pylist()[0]["bytes_per_step"]


def mended(name):
    """The placement without its fault."""
    return "shared_embedding_mended" if name == "shared_embedding" else "sound"


class TestRealPlacements:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize(
        ("name", "finding"),
        [
            (
                "gradients_outside",
                "gradients of item_tower run on CPU:0, its forward pass on CPU:1",
            ),
            ("weights_apart", "weights of item_tower are on CPU:0, the layers run on CPU:1"),
            (
                "optimiser_slots",
                "optimiser slots of item_tower are on CPU:0, the weights on CPU:1",
            ),
            (
                "concatenation",
                "the concatenation in head runs on CPU:1, and what takes it on CPU:0",
            ),
            ("alternating_layers", "layers of item_tower take turns on CPU:0 and CPU:1"),
            (
                "shared_embedding",
                (
                    "a shared embedding on CPU:0 is copied whole to CPU:1, where"
                    " item_tower/embedding looks up in it"
                ),
            ),
        ],
    )
    def test_the_first_hint_is_the_cause_and_its_fix_saves_what_it_says(
        self, placements, name, finding
    ):
        (bad, losses), (good, same_losses) = placements[name], placements[mended(name)]
        first = placement_hints(bad).to_pylist()[0]

        assert first["cause"] == name
        assert first["finding"].startswith(f"{finding}: for ")
        assert first["saves_bytes_per_step"] == moved(bad) - moved(good) > 0
        assert losses == same_losses

    def test_a_sound_placement_has_no_hint(self, placements):
        assert placement_hints(placements["sound"][0]).num_rows == 0

    def test_the_graph_and_the_step_of_the_search_copy_what_was_recorded(self, placements):
        for made, _ in placements.values():
            [row] = per_step(made).to_pylist()
            graph, _ = step_of(made)

            assert dataflow(made).copied() == (row["bytes_per_step"], 0)
            assert graph.copies() == (row["bytes_per_step"], 0, row["copies_per_step"])

    @pytest.mark.parametrize(
        ("name", "moved_parts"),
        [
            ("sound", set()),
            ("gradients_outside", {("gradient", "item_tower")}),
            (
                "weights_apart",
                {
                    *(("variable", "item_tower"), ("update", "")),
                    *(("variable", ""), ("forward", "item_tower")),
                },
            ),
            ("optimiser_slots", {("variable", ""), ("update", "")}),
            ("concatenation", {("forward", "head")}),
            ("alternating_layers", None),
            (
                "shared_embedding",
                {("forward", "item_tower/embedding"), ("gradient", "item_tower/embedding")},
            ),
        ],
    )
    def test_the_search_finds_the_move_that_mends_a_placement(self, placements, name, moved_parts):
        made = proposal(placements[name][0], frozenset())

        assert made.best.copies.bytes <= moved(placements[mended(name)][0])
        if moved_parts is not None:
            assert {(scope.role, scope.part) for scope in made.scopes} == moved_parts
        assert made.is_forward_at_fault == (name == "alternating_layers")

    def test_gradients_alone_save_less_than_the_layers_in_turn(self, placements):
        layers, gradients = placement_hints(placements["alternating_layers"][0]).to_pylist()

        assert (layers["table"], gradients["cause"]) == ("alternation", "gradients_outside")
        assert gradients["saves_bytes_per_step"] < layers["saves_bytes_per_step"] / 4
        [row] = alternation(placements["alternating_layers"][0]).to_pylist()
        assert (row["name_scope"], row["src"], row["dst"]) == ("item_tower", "CPU:0", "CPU:1")


@pytest.fixture(scope="module")
def writings(tmp_path_factory):
    """The run of one model in several writings, and the recording of each."""
    base = tmp_path_factory.mktemp("writings")
    done = record(base / "run", PROGRAMS / "two_towers.py")
    assert done.returncode == 0, done.stderr
    return base / "run", by_function(base / "run", base)


class TestWritings:
    pytestmark = needs_tensorflow

    @pytest.mark.parametrize("name", ["functional", "subclass", "scoped", "multi_step_on_iterator"])
    def test_a_model_has_the_same_towers_and_hint_however_it_is_written(self, writings, name):
        profile = writings[1][name]
        towers = {row["tower"] for row in placement(profile).to_pylist()}
        first = placement_hints(profile).to_pylist()[0]

        assert {"user_tower", "item_tower"} <= towers
        assert not any(tower and tower.startswith(("functional", "two_t")) for tower in towers)
        assert first["cause"] == "gradients_outside"
        assert first["finding"].startswith(
            "gradients of item_tower run on CPU:0, its forward pass on CPU:1: for them"
        )
        scopes = set(tensor_transfers(profile).column("name_scope").to_pylist())
        assert "item_tower" in scopes <= towers

    def test_variables_without_scopes_make_the_same_towers_named_by_what_takes_them(self, writings):
        scoped, unscoped = (writings[1][name] for name in ("scoped", "unscoped"))
        [row], [as_scoped] = (placement_hints(p).to_pylist() for p in (unscoped, scoped))
        user, item = "embedding_lookup + matmul", "embedding_lookup_1 + matmul_1"

        assert row["finding"] == as_scoped["finding"].replace("item_tower", item)
        assert {name: row[name] for name in row if name != "finding"} == {
            name: as_scoped[name] for name in row if name != "finding"
        }
        towers = {r["tower"]: r["device"] for r in placement(unscoped).to_pylist() if r["tower"]}
        assert towers.keys() == {user, item}
        [scope] = set(tensor_transfers(unscoped).column("name_scope").to_pylist()) - {None, user}
        assert scope == item

    def test_fit_marks_its_epochs_and_steps_by_itself(self, writings):
        epochs = manifest(writings[0])["epochs"]

        # Two epochs of one call and one of another, which goes on counting.
        assert [(e["epoch"], e["steps"]) for e in epochs] == [(0, 4), (1, 4), (2, 4)]

    def test_the_report_shows_epochs_steps_copies_and_edges(self, writings):
        text = gpuprof("report", writings[0]).stdout

        first = " ".join(text.partition("1. ")[2].split())
        assert first.startswith("Gradients of item_tower and embedding_lookup_1 + matmul_1 run on")
        assert "Marked epochs" in text
        assert "Largest edges between parts: " in text
        edges = text.partition("Largest edges")[2].partition("\n\n")[0].splitlines()
        assert sum("CPU:0 > CPU:1" in line or "CPU:1 > CPU:0" in line for line in edges) == 3


class TestRecordingsBeforeInputs:
    """Recordings of gpuprof before it kept what does not cross devices."""

    def test_a_tower_with_its_gradients_returns_what_it_gives(self):
        [row] = placement_hints(read_profile(SAMPLES / "deepconn-dual.json")).to_pylist()

        assert row["finding"] == (
            "gradients of item_tower run on CPU:0, its forward pass on CPU:1: for them each step"
            " copies 26.5 MB, 99.6 % of all"
        )
        assert row["bytes_per_step"] == 26_587_520 - 102_400 - 16_384
        # All but the words there, the features, and the features' gradients.
        assert row["saves_bytes_per_step"] == 26_587_520 - 102_400 - 2 * 16_384
        assert row["suggestion"].startswith(
            "TensorFlow's gradients ignore the forward scope: try colocating them"
        )
        assert row["suggestion"].endswith("saves 26.5 MB a step, leaves 135 KB")

    def test_layers_in_turn_come_before_their_gradients(self):
        rows = placement_hints(read_profile(SAMPLES / "deepconn-exaggerated.json")).to_pylist()

        assert [row["cause"] for row in rows] == ["alternating_layers", "gradients_outside"]
        assert rows[0]["saves_bytes_per_step"] > 46_000_000
        assert rows[1]["saves_bytes_per_step"] < 6_900_000

    @pytest.mark.parametrize(
        "name", ["deepconn-dual-colocated.json", "towers-2.gpuprof", "data-parallel-near.json"]
    )
    def test_a_sound_placement_has_no_hint(self, name):
        assert placement_hints(read_profile(SAMPLES / name)).num_rows == 0


def made(folder, *flow, **sizes):
    operations, inputs = flowing(*flow, **sizes)
    return read_profile(written(folder, document(operations=operations, graphs=graphs(inputs))))


def test_a_variable_that_a_device_reads_twice_is_read_once_too_often(tmp_path):
    reads = [f"ReadVariableOp_{n}" for n in (1, 2)]
    gradient = "gradient_tape/MatMul_1/MatMul"
    profile = made(
        tmp_path,
        dict.fromkeys(reads, "CPU:0") | dict.fromkeys(("MatMul_1", "MatMul_2", gradient), "CPU:1"),
        *(f"weights > ReadVariableOp_{n} > MatMul_{n} > {gradient}" for n in (1, 2)),
        sizes=dict.fromkeys(reads, 400),
    )
    rows = {row["cause"]: row for row in placement_hints(profile).to_pylist()}

    assert rows["repeated_reads"]["finding"].startswith(
        "CPU:1 reads a variable on CPU:0 2 times a step: for them each step copies 400 B"
    )
    assert rows["repeated_reads"]["saves_bytes_per_step"] == 400
    # One device alone takes it: it may as well be there.
    assert rows["weights_apart"]["saves_bytes_per_step"] == 800


@pytest.mark.parametrize(
    ("table_bytes", "saved", "fix"),
    [
        pytest.param(100, 300, "read the table, which is smaller, once", id="small"),
        pytest.param(4000, None, "look up each word once, with tf.unique", id="large"),
        pytest.param(None, None, "look up each word once, with tf.unique", id="unknown"),
    ],
)
def test_rows_of_a_shared_table_are_named_with_what_may_save_them(
    tmp_path, table_bytes, saved, fix
):
    devices = {"mul": "CPU:0", "AssignSubVariableOp": "CPU:0"}
    paths, sizes = ["table > AssignSubVariableOp", "mul > AssignSubVariableOp"], {}
    for tower, at in (("user", "CPU:0"), ("item", "CPU:1")):
        lookup, layer = f"{tower}/embedding/ResourceGather", f"{tower}/dense/MatMul"
        devices |= {lookup: "CPU:0", layer: at, f"gradient_tape/{layer}": at}
        paths.append(f"table > {lookup} > {layer} > gradient_tape/{layer}")
        sizes[lookup] = 400
    profile = made(tmp_path, devices, *paths, sizes=sizes | {"mul": table_bytes})
    [row] = placement_hints(profile).to_pylist()

    assert (row["cause"], row["bytes_per_step"]) == ("shared_embedding", 400)
    assert row["finding"].startswith(
        "item looks up in a shared embedding on CPU:0, and its rows go to CPU:1: for it each step"
    )
    assert row["saves_bytes_per_step"] == saved
    assert row["suggestion"].startswith(fix)


@pytest.mark.parametrize(
    ("kind", "cause", "finding"),
    [
        ("ResourceGather", "weights_apart", "weights of operations are on CPU:0, the layers"),
        (
            "GatherV2",
            "shared_embedding",
            "a shared embedding is on CPU:0, and its rows go to user and item on CPU:1",
        ),
    ],
)
def test_a_shared_table_whose_rows_all_go_to_another_device_is_to_be_there(
    tmp_path, kind, cause, finding
):
    devices, sizes = {"AssignSubVariableOp": "CPU:0"}, {}
    paths = ["table > AssignSubVariableOp"]
    for tower in ("user", "item"):
        lookup, layer = f"{tower}_table/{kind}", f"{tower}/dense/MatMul"
        read = f"{tower}_table/ReadVariableOp" if kind == "GatherV2" else ""
        devices |= dict.fromkeys(filter(None, (read, lookup)), "CPU:0")
        devices |= dict.fromkeys((layer, f"gradient_tape/{layer}"), "CPU:1")
        sizes |= {lookup: 400, read: 4000}
        paths.append(
            " > ".join(filter(None, ("table", read, lookup, layer, f"gradient_tape/{layer}")))
        )
    [row] = placement_hints(made(tmp_path, devices, *paths, sizes=sizes)).to_pylist()

    assert (row["cause"], row["saves_bytes_per_step"]) == (cause, 800)
    assert row["finding"].startswith(finding)
    assert row["suggestion"].startswith("build ")
    assert "under tf.device('/CPU:1')" in row["suggestion"]


def test_a_concatenation_moves_only_where_less_is_copied_then(tmp_path):
    def saved(near_bytes):
        head = "head/dense/MatMul"
        profile = made(
            tmp_path,
            {"near/dense/Relu": "CPU:0", "far/dense/Relu": "CPU:1", "concat": "CPU:0"}
            | dict.fromkeys((head, f"gradient_tape/{head}"), "CPU:1"),
            "near/dense/Relu > concat",
            f"far/dense/Relu > concat > {head} > gradient_tape/{head}",
            sizes={"near/dense/Relu": near_bytes, "far/dense/Relu": 100, "concat": 400},
        )
        return [
            (r["cause"], r["saves_bytes_per_step"]) for r in placement_hints(profile).to_pylist()
        ]

    # 100 B there and 400 B back today; otherwise what the near end makes goes there.
    assert saved(300) == [("concatenation", 200)]
    assert saved(600) == []


def causes(*flow):
    """What could be moved, whatever it saves."""
    return [row.cause for row in misplacements(dataflow(made(*flow)))]


@pytest.mark.parametrize(
    ("places", "is_apart"),
    [
        pytest.param(("CPU:1", "CPU:1"), True, id="one-device"),
        pytest.param(("CPU:1", "CPU:2"), False, id="two-devices"),
        pytest.param(("CPU:0", "CPU:1"), False, id="its-own-too"),
        pytest.param(("CPU:0", "CPU:0"), False, id="its-own"),
    ],
)
def test_weights_are_apart_where_one_other_device_alone_takes_them(tmp_path, places, is_apart):
    devices, paths = {}, []
    for number, at in enumerate(places):
        read, layer = f"ReadVariableOp_{number}", f"{'ab'[number]}/dense/MatMul"
        devices |= {read: "CPU:0", layer: at, f"gradient_tape/{layer}": at}
        paths.append(f"weights > {read} > {layer} > gradient_tape/{layer}")

    assert ("weights_apart" in causes(tmp_path, devices, *paths)) == is_apart


@pytest.mark.parametrize(
    ("layers", "are_in_turn"),
    [
        # A tower takes turns that comes back; a model of several that comes back and goes again.
        pytest.param(("a/x", "a/y"), False, id="a-tower-goes"),
        pytest.param(("a/x", "a/y", "a/z"), True, id="a-tower-comes-back"),
        pytest.param(("a/x", "b/x", "c/x"), False, id="towers-come-back"),
        pytest.param(("a/x", "b/x", "c/x", "d/x"), True, id="towers-go-again"),
    ],
)
def test_layers_take_turns_from_so_many_crossings_on(tmp_path, layers, are_in_turn):
    devices = {f"{layer}/MatMul": f"CPU:{place % 2}" for place, layer in enumerate(layers)}
    last, at = [*devices.items()][-1]
    devices[f"gradient_tape/{last}"] = at

    found = causes(tmp_path, devices, " > ".join(devices))

    assert ("alternating_layers" in found) == are_in_turn


def test_a_size_that_is_unknown_makes_the_figures_unknown(tmp_path):
    layer, gradient = "item/dense/Relu", "gradient_tape/item/dense/ReluGrad"
    devices = {"item/dense/MatMul": "CPU:1", layer: "CPU:1", gradient: "CPU:0"}
    profile = made(tmp_path, devices, " > ".join(devices), sizes={layer: None})
    [row] = placement_hints(profile).to_pylist()

    assert row["cause"] == "gradients_outside"
    assert (row["bytes_per_step"], row["saves_bytes_per_step"], row["share"]) == (None,) * 3


def test_a_loop_in_the_graph_is_no_endless_search(tmp_path):
    devices = {"a/b/Merge": "CPU:0", "a/c/Next": "CPU:1", "gradient_tape/a/d/Add": "CPU:0"}

    found = causes(tmp_path, devices, "a/b/Merge > a/c/Next > a/b/Merge",
                   "a/c/Next > gradient_tape/a/d/Add")  # fmt: skip

    assert "alternating_layers" not in found


def test_copies_of_no_step_give_no_hints(tmp_path):
    functions = [{"function": "a", "executions": 1, "is_step": False}] * 2
    profile = read_profile(written(tmp_path, document(copy("x", 8), functions=functions)))

    assert placement_hints(profile).num_rows == 0
