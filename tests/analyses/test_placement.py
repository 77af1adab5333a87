"""Where parts run, what joins them and what to try, from recordings made by hand and our own."""

import pytest
from commands import ROOT
from tensorflow_runs import copy, document, operation, written

from gpuprof.analyses.placement import placement, placement_edges, placement_hints
from gpuprof.readers import read_profile

SAMPLES = ROOT / "sample_logs" / "tensorflow" / "2.21.0"


def profile(folder, *operations, copies=(), **changes):
    made = document(*copies, operations=list(operations), **changes)
    return read_profile(written(folder, made))


def parts(folder, *names):
    rows = placement(profile(folder, *map(operation, names))).to_pylist()
    return [(row["tower"], row["layer"], row["is_gradient"]) for row in rows]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            ("user/dense/MatMul", "user/dense/Relu"), [("user", "dense", False)], id="layer"
        ),
        pytest.param(
            ("user/dense/Relu", "gradient_tape/user/dense/ReluGrad"),
            [("user", "dense", False), ("user", "dense", True)],
            id="gradients-apart",
        ),
        pytest.param(
            ("StatefulPartitionedCall/gradient_tape/user/dense/MatMul", "user/dense/Relu"),
            [("user", "dense", True), ("user", "dense", False)],
            id="scopes-that-say-nothing",
        ),
        pytest.param(
            ("tower_0/model/dense/MatMul", "tower_0/model/pool/MaxPool", "tower_0/loss/Sub"),
            [("tower_0", "dense", False), ("tower_0", "pool", False), ("tower_0", "loss", False)],
            id="a-model-within-a-tower",
        ),
        pytest.param(
            ("user/dense/MatMul/ReadVariableOp", "user/dense/BiasAdd/ReadVariableOp"),
            [("user", "dense", False)],
            id="capitals-are-no-scopes",
        ),
        pytest.param(("mul", "div_no_nan/Read"), [(None, None, False)], id="no-tower"),
    ],
)
def test_parts_follow_from_the_scopes_of_names(tmp_path, names, expected):
    assert parts(tmp_path, *names) == expected


def read(name):
    return operation(f"{name}/ReadVariableOp", operation_type="ReadVariableOp")


def layers(*names, device="CPU:0"):
    """The operations of layers with weights, and their gradients."""
    return [
        row
        for name in names
        for row in (
            operation(f"{name}/MatMul", device),
            read(name),
            operation(f"gradient_tape/{name}/MatMul"),
        )
    ]


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param(
            layers("functional_1/user/dense", "functional_1/user/pool")
            + layers("functional_1/item/dense", "functional_1/item/pool", device="CPU:1"),
            {("user", "dense"), ("user", "pool"), ("item", "dense"), ("item", "pool")},
            id="a-model-around-towers",
        ),
        pytest.param(
            layers("two_towers/user/a", "two_towers/user/b", "two_towers/item/c"),
            {("user", "a"), ("user", "b"), ("item", "c")},
            id="on-one-device",
        ),
        pytest.param(
            layers("net/user_dense", "net/user_embed")
            + layers("net/item_dense", "net/item_embed", device="CPU:1"),
            {
                *(("user", f"user_{name}") for name in ("dense", "embed")),
                *(("item", f"item_{name}") for name in ("dense", "embed")),
            },
            id="layers-side-by-side",
        ),
        pytest.param(
            layers(
                "sequential/dense", "sequential/dense_1", "sequential/conv", "sequential/conv_1"
            ),
            {(name, None) for name in ("dense", "dense_1", "conv", "conv_1")},
            id="names-that-keras-gave",
        ),
        pytest.param(
            layers("tower/embed", "tower/dense"),
            {("tower", "embed"), ("tower", "dense")},
            id="a-single-tower",
        ),
        pytest.param(
            layers("model_1/on_device_1/user_tower_1/a_1", "model_1/on_device_1/user_tower_1/b_1")
            + layers("model_1/rating_1"),
            {("user_tower", "a"), ("user_tower", "b"), ("rating", None)},
            id="a-model-within-a-layer-traced-again",
        ),
        pytest.param(
            [*layers("matmul"), operation("matmul")], {(None, None)}, id="an-operation-of-its-own"
        ),
    ],
)
def test_scopes_around_the_whole_model_are_no_part_of_it(tmp_path, operations, expected):
    rows = placement(profile(tmp_path, *operations)).to_pylist()

    assert {(row["tower"], row["layer"]) for row in rows} == expected


def test_a_part_says_what_was_asked_for_and_what_ran_elsewhere(tmp_path):
    [row] = placement(
        profile(
            tmp_path,
            operation("user/dense/MatMul", asked="GPU:1"),
            operation("user/dense/Relu", asked="CPU:0", total_ns=None),
            operation("user/dense/Const", operation_type="Const"),
            operation("user/dense/Other", function="evaluate"),
        )
    ).to_pylist()

    assert row == {
        "device": "CPU:0",
        "tower": "user",
        "layer": "dense",
        "is_gradient": False,
        "operations": 2,
        "requested_device": "GPU:1, CPU:0",
        "fallbacks": 1,
        "total_ns": 100,
    }


def test_copies_between_two_parts_are_one_edge_without_control(tmp_path):
    ends = {"src_operation": "item/dense/Relu", "dst_operation": "gradient_tape/item/dense/MatMul"}
    [row] = placement_edges(
        profile(
            tmp_path,
            operation("item/dense/Relu", device="CPU:1"),
            operation("gradient_tape/item/dense/MatMul"),
            copies=[
                copy("item/dense/Relu", 400, is_gradient=True, **ends),
                copy("item/dense/Other", 100, calls=20, is_gradient=True, **ends),
                copy("control", None, is_control=True, **ends),
            ],
        )
    ).to_pylist()

    assert (row["src_device"], row["src_layer"], row["src_is_gradient"]) == (
        "CPU:1",
        "dense",
        False,
    )
    assert (row["dst_device"], row["dst_layer"], row["dst_is_gradient"]) == ("CPU:0", "dense", True)
    # 10 steps: one copy of 400 bytes and two of 100 in each.
    assert (row["calls_per_step"], row["bytes_per_step"]) == (3, 600)


def test_an_unknown_size_makes_an_edges_bytes_unknown(tmp_path):
    [row] = placement_edges(
        profile(tmp_path, operation("a/b/C"), copies=[copy("x", 1), copy("y", None)])
    ).to_pylist()

    assert row["bytes_per_step"] is None


def test_a_program_that_moves_nothing_has_parts_and_no_edges_or_hints():
    single = read_profile(SAMPLES / "deepconn-single.json")

    assert placement(single).num_rows > 5
    assert placement_edges(single).num_rows == 0
    assert placement_hints(single).num_rows == 0


def test_operations_that_soft_placement_moved_are_said(tmp_path):
    [row] = placement_hints(
        profile(
            tmp_path,
            operation("user/dense/MatMul", asked="GPU:1"),
            operation("user/pool/MaxPool", asked="GPU:1"),
        )
    ).to_pylist()

    assert row["finding"] == "2 operations ran on CPU:0, though GPU:1 was requested"
    assert "set_soft_device_placement(False)" in row["suggestion"]
    assert row["bytes_per_step"] is None
