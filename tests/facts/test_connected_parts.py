"""Operations without scopes are of one tower where the same weights and what follows join them."""

from itertools import pairwise

import pytest

from gpuprof.facts.model_parts import connected_towers

USER, ITEM = "look_1 + mul_1", "look_2 + mul_2"


def towers(*edges):
    """Of edges such as ``w>read``: ``w`` is a variable, ``read`` and ``look`` take one."""
    pairs = [edge.split(">") for edge in edges]
    kinds = {"read": "ReadVariableOp", "look": "ResourceGather"}
    names = sorted({taker for _, taker in pairs} | {"words"})
    operations = [
        {"operation": name, "operation_type": kinds.get(name.partition("_")[0], "Mul")}
        for name in names
    ]
    inputs = [
        {"tensor": f"{maker}:0", "dst_operation": taker, "is_variable": maker.startswith("w_")}
        for maker, taker in pairs
    ]
    return connected_towers(operations, inputs)


def tower(number, read="read"):
    cast = [f"read_{number}>cast_{number}"] if read == "cast" else []
    return [
        f"w_table{number}>look_{number}",
        "words>look_" + str(number),
        f"w_{number}>read_{number}",
        *cast,
        f"look_{number}>mul_{number}",
        f"{read}_{number}>mul_{number}",
        f"mul_{number}>join",
        f"join>gradient_tape/mul_{number}/Mul",
        f"mul_{number}>gradient_tape/square_{number}",
        f"gradient_tape/mul_{number}/Mul>update_{number}",
        f"w_{number}>update_{number}",
    ]


@pytest.mark.parametrize("read", ["read", "cast"])
def test_a_tower_ends_where_it_meets_another_one(read):
    assert towers(
        *tower(1, read), *tower(2, read), "join>head", "w_head>read_3", "read_3>head"
    ) == {
        **{
            name.format(number): tower_name
            for number, tower_name in ((1, USER), (2, ITEM))
            for name in (
                "look_{}",
                "read_{}",
                *(["cast_{}"] if read == "cast" else []),
                "mul_{}",
                "gradient_tape/mul_{}/Mul",
                "gradient_tape/square_{}",
            )
        }
    }


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param(tower(1), id="one-tower"),
        pytest.param([e for e in tower(1) + tower(2) if "read_2" not in e], id="one-weight"),
        pytest.param([*tower(1), *tower(2), "join>look_1"], id="a-loop"),
        pytest.param([], id="nothing"),
    ],
)
def test_a_model_that_does_not_fall_into_towers_has_none(edges):
    assert towers(*edges) == {}


@pytest.mark.parametrize(
    ("numbers", "name"),
    [([3], f"{USER} + mul_3"), ([3, 4, 5], f"{USER} + mul_3 + ...")],
)
def test_the_first_operations_that_take_weights_name_a_tower(numbers, name):
    deeper = [
        edge
        for number in numbers
        for edge in (f"w_{number}>read_{number}", f"read_{number}>mul_{number}")
    ]
    places = ["mul_1", *(f"mul_{number}" for number in numbers), "join"]
    chain = [f"{one}>{following}" for one, following in pairwise(places)]
    first = [edge for edge in tower(1) if edge != "mul_1>join"]

    named = towers(*first, *deeper, *chain, *tower(2))

    assert {named[of] for of in ("mul_1", "mul_3", f"read_{numbers[-1]}")} == {name}
    assert "join" not in named
