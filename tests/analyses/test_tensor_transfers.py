import pytest
from tensorflow_runs import copy, document, written

from gpuprof.analyses.placement import per_step, tensor_transfers
from gpuprof.analyses.totals import totals
from gpuprof.readers import read_profile


def profile(folder, *copies, **changes):
    return read_profile(written(folder, document(*copies, **changes)))


def test_nothing_copied_is_no_row_and_zero_per_step(tmp_path):
    made = profile(tmp_path)

    assert tensor_transfers(made).num_rows == 0
    assert per_step(made).to_pylist() == [
        {
            "steps": 10,
            "copies_per_step": 0.0,
            "bytes_per_step": 0.0,
            "gradient_bytes_per_step": 0.0,
            "unknown_copies_per_step": 0.0,
        }
    ]


def test_no_step_is_no_row(tmp_path):
    made = profile(tmp_path, copy("a", 1), functions=[])

    assert per_step(made).num_rows == 0
    assert tensor_transfers(made).column("calls_per_step").to_pylist() == [None]


def test_a_step_sums_its_copies_and_leaves_out_others_and_control_edges(tmp_path):
    made = profile(
        tmp_path,
        copy("a", 100),
        copy("b", 7, 20, is_gradient=True),
        copy("control", None, is_control=True),
        copy("c", 1000, function="evaluate"),
        copy("d", None, function=None),
    )

    # 100 * 10 / 10 + 7 * 20 / 10 bytes, 1 + 2 copies.
    assert per_step(made).to_pylist() == [
        {
            "steps": 10,
            "copies_per_step": 3.0,
            "bytes_per_step": 114.0,
            "gradient_bytes_per_step": 14.0,
            "unknown_copies_per_step": 0.0,
        }
    ]


@pytest.mark.parametrize(
    ("is_gradient", "gradient_bytes"),
    [
        pytest.param(True, None, id="of-a-gradient"),
        pytest.param(None, None, id="of-who-knows-what"),
        pytest.param(False, 0.0, id="of-the-forward-pass"),
    ],
)
def test_an_unknown_size_makes_the_sums_that_hold_it_unknown(tmp_path, is_gradient, gradient_bytes):
    [row] = per_step(
        profile(tmp_path, copy("a", 100), copy("b", None, 5, is_gradient=is_gradient))
    ).to_pylist()

    assert row["bytes_per_step"] is None
    assert row["gradient_bytes_per_step"] == gradient_bytes
    assert row["unknown_copies_per_step"] == 0.5


@pytest.mark.parametrize(
    ("kind", "function", "copied"),
    [
        pytest.param("CollectiveReduceV2", "step", None, id="collective"),
        pytest.param("NcclAllReduce", "step", None, id="nccl"),
        pytest.param("CollectiveReduceV2", "evaluate", 100.0, id="elsewhere"),
        pytest.param(None, "step", 100.0, id="kind-unknown"),
    ],
)
def test_what_collective_operations_move_makes_a_steps_copies_unknown(
    tmp_path, kind, function, copied
):
    [operation] = document()["operations"]
    operations = [operation, operation | {"operation_type": kind, "function": function}]

    [row] = per_step(profile(tmp_path, copy("a", 100), operations=operations)).to_pylist()

    assert row["steps"] == 10
    assert (row["bytes_per_step"], row["gradient_bytes_per_step"]) == (copied, copied and 0)
    assert row["copies_per_step"] == (copied and 1)


def test_the_largest_copy_comes_first_and_unknown_ones_last(tmp_path):
    made = profile(tmp_path, copy("small", 1), copy("unknown", None), copy("large", 50))

    names = tensor_transfers(made).column("src_operation").to_pylist()
    assert names == ["large", "small", "unknown"]


@pytest.mark.parametrize(
    ("ends", "scope"),
    [
        pytest.param(("item_tower/conv/Tanh", "head/concat"), "item_tower", id="of-its-maker"),
        pytest.param(
            ("gradient_tape/item_tower/conv/Reshape", "mul_5"), "item_tower", id="of-a-gradient"
        ),
        pytest.param(
            ("StatefulPartitionedCall/gradient_tape/model/dense/Mul", "x"),
            "model",
            id="in-keras",
        ),
        pytest.param(("items", "item_tower/embedding/add"), "item_tower", id="of-its-taker"),
        pytest.param(("gradient_tape/Slice_1", "mul_5"), None, id="of-nothing"),
        pytest.param((None, "MatMul"), None, id="of-an-eager-operation"),
    ],
)
def test_a_copy_belongs_to_a_part_of_the_model(tmp_path, ends, scope):
    made = profile(tmp_path, copy("a", 1, src_operation=ends[0], dst_operation=ends[1]))

    assert tensor_transfers(made).column("name_scope").to_pylist() == [scope]


def test_totals_know_the_copies_and_no_kernel(tmp_path):
    rows = totals(profile(tmp_path, copy("a", 100))).to_pylist()
    found = {r["activity_group"]: (r["calls"], r["total_ns"], r["bytes"]) for r in rows}

    assert found["peer_transfers"] == (10, None, 1000)
    assert found["kernels"] == (None, None, None)
    assert found["gpu_activities"][1] is None
