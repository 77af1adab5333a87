"""Which operations of a TensorFlow model are to move, and where to, whatever that saves."""

from itertools import pairwise

import pytest
from tensorflow_runs import document, graphs, operation, taken, written

from gpuprof.facts.dataflow import dataflow
from gpuprof.facts.misplacements import misplacements
from gpuprof.readers import read_profile

HERE, THERE = "CPU:0", "CPU:1"


@pytest.fixture
def moves_of(tmp_path):
    """The moves of each cause, by the names of operations."""

    def moves(operations, inputs):
        profile = read_profile(
            written(tmp_path, document(operations=operations, graphs=graphs(inputs)))
        )
        flow = dataflow(profile)
        return [
            (found.cause, {node[1]: device for node, device in found.moves.items()})
            for found in misplacements(flow)
        ]

    return moves


def flows(*names, **devices):
    """Inputs from each operation to the next, with their devices where these are not `HERE`."""
    return [
        taken(f"{maker}:0", taker, devices.get(taker, HERE), devices.get(maker, HERE), 8)
        for maker, taker in pairwise(names)
    ]


def test_gradients_go_to_the_device_of_their_layer_before_that_of_their_tower(moves_of):
    places = {"a/x/MatMul": THERE}
    forward = ["a/x/MatMul", "a/y/MatMul", "a/y/Relu", "a/y/Add"]
    gradient = "gradient_tape/a/x/MatMul"
    operations = [operation(name, places.get(name, HERE)) for name in [*forward, gradient]]

    found = dict(moves_of(operations, flows(*forward, gradient, **places)))

    assert found["gradients_outside"] == {gradient: THERE}


def test_operations_that_cannot_leave_their_variable_do_not_move_with_the_gradients(moves_of):
    read, gradient = "gradient_tape/a/x/ReadVariableOp", "gradient_tape/a/x/MatMul"
    operations = [
        operation("a/x/MatMul", THERE),
        operation(read, operation_type="ReadVariableOp"),
        operation(gradient),
    ]
    inputs = [
        taken("weights:0", read, is_variable=True),
        *flows("a/x/MatMul", gradient, **{"a/x/MatMul": THERE}),
        *flows(read, gradient),
    ]

    found = dict(moves_of(operations, inputs))

    assert found["gradients_outside"] == {gradient: THERE}


def test_a_constant_tells_nothing_of_the_device_of_a_gradient(moves_of):
    gradient = "gradient_tape/sum"
    operations = [
        operation("shape", THERE, operation_type="Const"),
        operation("sum"),
        operation(gradient),
    ]
    inputs = [*flows("shape", gradient, shape=THERE), *flows("sum", gradient)]

    assert "gradients_outside" not in dict(moves_of(operations, inputs))


def test_only_gradients_follow_gradients(moves_of):
    gradient = "gradient_tape/a/x/MatMul"
    operations = [operation("a/x/MatMul", THERE), operation(gradient), operation("b/y/Add")]
    inputs = flows("a/x/MatMul", gradient, "b/y/Add", **{"a/x/MatMul": THERE})

    assert dict(moves_of(operations, inputs))["gradients_outside"] == {gradient: THERE}


def test_joins_of_a_tower_are_no_layers_of_it(moves_of):
    joins = [f"a/x/concat_{number}" for number in range(3)]
    gradient = "gradient_tape/a/x/MatMul"
    places = dict.fromkeys(joins, THERE)
    operations = [
        *(operation(name, THERE, operation_type="ConcatV2") for name in joins),
        operation("a/x/MatMul"),
        operation(gradient),
    ]
    inputs = flows(*joins, "a/x/MatMul", gradient, **places)

    assert "gradients_outside" not in dict(moves_of(operations, inputs))


def test_updates_that_run_beside_their_weights_stay(moves_of):
    read, layer = "a/x/ReadVariableOp", "a/x/MatMul"
    gradient, updates = f"gradient_tape/{layer}", {"Adam/near": HERE, "Adam/far": THERE}
    operations = [
        operation(read, operation_type="ReadVariableOp"),
        operation(layer),
        operation(gradient),
        *(operation(name, at, operation_type="Mul") for name, at in updates.items()),
        operation("Adam/AssignSubVariableOp", operation_type="AssignSubVariableOp"),
    ]
    inputs = [
        taken("weights:0", read, is_variable=True),
        taken("weights:0", "Adam/AssignSubVariableOp", is_variable=True),
        *flows(read, layer, gradient, "Adam/near", "Adam/AssignSubVariableOp"),
        *flows(gradient, "Adam/far", "Adam/AssignSubVariableOp", **updates),
    ]

    assert dict(moves_of(operations, inputs))["update_outside"] == {"Adam/far": HERE}


def lookups(kind="GatherV2"):
    """A table on `HERE` that towers on both devices read and look up in."""
    operations, inputs = [], []
    for user, at in (("user", HERE), ("item", THERE)):
        read, gather = f"{user}/embedding/ReadVariableOp", f"{user}/embedding/{kind}"
        dense = f"{user}/dense/MatMul"
        operations += [
            operation(read, operation_type="ReadVariableOp"),
            operation(gather, at, operation_type=kind),
            operation(dense, at),
            operation(f"gradient_tape/{dense}", at),
        ]
        names, places = (read, gather, dense, f"gradient_tape/{dense}"), {read: HERE}
        inputs += [
            taken("table:0", read, is_variable=True),
            *flows(*names, **(dict.fromkeys(names, at) | places)),
        ]
    return operations, inputs


def test_lookups_move_to_a_shared_table_and_those_that_are_there_stay(moves_of):
    assert ("shared_embedding", {"item/embedding/GatherV2": HERE}) in moves_of(*lookups())


def test_a_lookup_in_a_copy_of_the_table_moves_too(moves_of):
    operations, inputs = lookups()
    gather = "item/embedding/GatherV2"
    for row in inputs:
        if row["dst_operation"] == gather:
            row["dst_operation"] = "Identity"
    operations.append(operation("Identity", THERE, operation_type="Identity"))
    inputs += flows("Identity", gather, **{"Identity": THERE, gather: THERE})

    assert ("shared_embedding", {gather: HERE}) in moves_of(operations, inputs)


def test_a_concatenation_goes_where_least_is_copied(moves_of):
    ends = {"near/dense/Relu": ("CPU:1", 100), "far/dense/Relu": ("CPU:2", 300)}
    operations = [
        *(operation(name, at) for name, (at, _) in ends.items()),
        operation("concat", operation_type="ConcatV2"),
        operation("gradient_tape/concat"),
    ]
    inputs = [
        *(taken(f"{name}:0", "concat", HERE, at, size) for name, (at, size) in ends.items()),
        *flows("concat", "gradient_tape/concat"),
    ]

    assert dict(moves_of(operations, inputs))["concatenation"] == {"concat": "CPU:2"}


def gathered(users):
    """A table on `HERE` whose rows each named layer takes on a device."""
    operations, inputs = [], []
    for layer, at in users.items():
        gather, dense = f"{layer}/ResourceGather", f"{layer}/MatMul"
        names = (gather, dense, f"gradient_tape/{dense}")
        operations += [
            operation(gather, operation_type="ResourceGather"),
            *(operation(name, at) for name in names[1:]),
        ]
        places = dict.fromkeys(names[1:], at)
        inputs += [taken("table:0", gather, is_variable=True), *flows(*names, **places)]
    return operations, inputs


@pytest.mark.parametrize(
    ("users", "is_meant"),
    [
        pytest.param({"user/x": HERE, "item/x": THERE}, True, id="towers-on-both"),
        pytest.param({"user/x": THERE, "item/x": HERE, "head/x": HERE}, True, id="one-is-away"),
        pytest.param({"user/x": HERE, "item/x": HERE}, False, id="all-beside-it"),
    ],
)
def test_rows_of_a_table_that_towers_share_are_meant_where_they_leave_it(moves_of, users, is_meant):
    causes = [cause for cause, _ in moves_of(*gathered(users))]

    assert ("shared_embedding" in causes) == is_meant


def test_layers_that_take_turns_move_with_their_gradients_and_what_is_there_stays(moves_of):
    places = {f"a/{layer}/MatMul": at for layer, at in zip("xyz", (HERE, THERE, HERE), strict=True)}
    gradients = {f"gradient_tape/{name}": at for name, at in places.items()}
    backwards = [*gradients][::-1]
    devices = {**places, **gradients}
    operations = [operation(name, at) for name, at in devices.items()]

    found = dict(moves_of(operations, flows(*places, *backwards, **devices)))

    assert found["alternating_layers"] == {
        "a/y/MatMul": HERE,
        "gradient_tape/a/y/MatMul": HERE,
    }


def test_weights_of_layers_that_take_turns_move_with_them(moves_of):
    places = {f"a/{layer}/MatMul": at for layer, at in zip("xyz", (HERE, THERE, HERE), strict=True)}
    read, gradient = "a/y/ReadVariableOp", "gradient_tape/a/z/MatMul"
    devices = {**places, read: THERE, gradient: HERE}
    kinds = {read: "ReadVariableOp"}
    operations = [
        operation(name, at, operation_type=kinds.get(name, "MatMul"))
        for name, at in devices.items()
    ]
    inputs = [
        taken("weights:0", read, THERE, THERE, is_variable=True),
        *flows(read, "a/y/MatMul", **devices),
        *flows(*places, gradient, **devices),
    ]

    assert dict(moves_of(operations, inputs))["alternating_layers"] == {
        read: HERE,
        "a/y/MatMul": HERE,
    }
