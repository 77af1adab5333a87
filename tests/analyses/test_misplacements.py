"""Which operations of a TensorFlow model are to move, and where to, whatever that saves."""

import pytest
from tensorflow_runs import document, flowing, graphs, written

from gpuprof.facts.dataflow import dataflow
from gpuprof.facts.misplacements import misplacements
from gpuprof.readers import read_profile

HERE, THERE = "CPU:0", "CPU:1"


@pytest.fixture
def moves_of(tmp_path):
    """The moves of each cause, by the names of operations."""

    def moves(devices, *paths, **sizes):
        operations, inputs = flowing(devices, *paths, **sizes)
        made = document(operations=operations, graphs=graphs(inputs))
        return [
            (found.cause, {node[1]: device for node, device in found.moves.items()})
            for found in misplacements(dataflow(read_profile(written(tmp_path, made))))
        ]

    return moves


GRADIENT = "gradient_tape/a/x/MatMul"


def test_gradients_go_to_the_device_of_their_layer_before_that_of_their_tower(moves_of):
    forward = ["a/x/MatMul", "a/y/MatMul", "a/y/Relu", "a/y/Add"]
    devices = dict.fromkeys([*forward, GRADIENT], HERE) | {"a/x/MatMul": THERE}

    found = dict(moves_of(devices, " > ".join([*forward, GRADIENT])))

    assert found["gradients_outside"] == {GRADIENT: THERE}


def test_operations_that_cannot_leave_their_variable_do_not_move_with_the_gradients(moves_of):
    read = "gradient_tape/a/x/ReadVariableOp"
    devices = {"a/x/MatMul": THERE, read: HERE, GRADIENT: HERE}

    found = dict(moves_of(devices, f"weights > {read} > {GRADIENT}", f"a/x/MatMul > {GRADIENT}"))

    assert found["gradients_outside"] == {GRADIENT: THERE}


def test_a_constant_tells_nothing_of_the_device_of_a_gradient(moves_of):
    devices = {"shape": THERE, "sum": HERE, "gradient_tape/sum": HERE}

    found = dict(moves_of(devices, "shape > gradient_tape/sum", "sum > gradient_tape/sum"))

    assert "gradients_outside" not in found


def test_only_gradients_follow_gradients(moves_of):
    devices = {"a/x/MatMul": THERE, GRADIENT: HERE, "b/y/Add": HERE}

    found = dict(moves_of(devices, f"a/x/MatMul > {GRADIENT} > b/y/Add"))

    assert found["gradients_outside"] == {GRADIENT: THERE}


def test_joins_of_a_tower_are_no_layers_of_it(moves_of):
    joins = [f"a/x/concat_{number}" for number in range(3)]
    devices = dict.fromkeys(joins, THERE) | {"a/x/MatMul": HERE, GRADIENT: HERE}

    assert "gradients_outside" not in dict(moves_of(devices, " > ".join(devices)))


def test_updates_that_run_beside_their_weights_stay(moves_of):
    read, update = "a/x/ReadVariableOp", "Adam/AssignSubVariableOp"
    devices = dict.fromkeys([read, "a/x/MatMul", GRADIENT, "Adam/near", update], HERE)

    found = moves_of(
        devices | {"Adam/far": THERE},
        f"weights > {read} > a/x/MatMul > {GRADIENT} > Adam/near > {update}",
        f"weights > {update}",
        f"{GRADIENT} > Adam/far > {update}",
    )

    assert dict(found)["update_outside"] == {"Adam/far": HERE}


@pytest.mark.parametrize("copied", ["", "Identity > "], ids=["the-table", "a-copy-of-it"])
def test_lookups_move_to_a_shared_table_and_those_that_are_there_stay(moves_of, copied):
    devices, paths = {"Identity": THERE}, []
    for user, at in (("user", HERE), ("item", THERE)):
        names = [f"{user}/embedding/{kind}" for kind in ("ReadVariableOp", "GatherV2")]
        names += [f"{user}/dense/MatMul", f"gradient_tape/{user}/dense/MatMul"]
        devices |= dict.fromkeys(names, at) | {names[0]: HERE}
        lookup = (copied if user == "item" else "") + " > ".join(names[1:])
        paths.append(f"table > {names[0]} > {lookup}")

    found = moves_of(devices, *paths)

    assert ("shared_embedding", {"item/embedding/GatherV2": HERE}) in found


def test_a_concatenation_goes_where_least_is_copied(moves_of):
    sizes = {"near/dense/Relu": 100, "far/dense/Relu": 300}
    devices = {"near/dense/Relu": "CPU:1", "far/dense/Relu": "CPU:2"}
    devices |= {"concat": HERE, "gradient_tape/concat": HERE}

    found = moves_of(
        devices, "near/dense/Relu > concat", "far/dense/Relu > concat > gradient_tape/concat",
        sizes=sizes,
    )  # fmt: skip

    assert dict(found)["concatenation"] == {"concat": "CPU:2"}


@pytest.mark.parametrize(
    ("users", "is_meant"),
    [
        pytest.param({"user/x": HERE, "item/x": THERE}, True, id="towers-on-both"),
        pytest.param({"user/x": THERE, "item/x": HERE, "head/x": HERE}, True, id="one-is-away"),
        pytest.param({"user/x": HERE, "item/x": HERE}, False, id="all-beside-it"),
    ],
)
def test_rows_of_a_table_that_towers_share_are_meant_where_they_leave_it(moves_of, users, is_meant):
    devices, paths = {}, []
    for layer, at in users.items():
        gather, dense = f"{layer}/ResourceGather", f"{layer}/MatMul"
        devices |= {gather: HERE, dense: at, f"gradient_tape/{dense}": at}
        paths.append(f"table > {gather} > {dense} > gradient_tape/{dense}")

    causes = [cause for cause, _ in moves_of(devices, *paths)]

    assert ("shared_embedding" in causes) == is_meant


TURNS = {"a/x/MatMul": HERE, "a/y/MatMul": THERE, "a/z/MatMul": HERE}


def test_layers_that_take_turns_move_with_their_gradients_and_what_is_there_stays(moves_of):
    gradients = {f"gradient_tape/{name}": at for name, at in TURNS.items()}

    found = dict(moves_of(TURNS | gradients, " > ".join([*TURNS, *reversed(gradients)])))

    assert found["alternating_layers"] == {"a/y/MatMul": HERE, "gradient_tape/a/y/MatMul": HERE}


def test_weights_of_layers_that_take_turns_move_with_them(moves_of):
    read, gradient = "a/y/ReadVariableOp", "gradient_tape/a/z/MatMul"
    devices = TURNS | {read: THERE, gradient: HERE}
    paths = f"weights > {read} > a/y/MatMul", " > ".join([*TURNS, gradient])

    found = dict(moves_of(devices, *paths))

    assert found["alternating_layers"] == {read: HERE, "a/y/MatMul": HERE}
