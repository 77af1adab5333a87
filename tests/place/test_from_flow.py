"""The graph of a step whose batches had several lengths, so that it was recorded several times."""

import pytest
from tensorflow_runs import document, graphs, operation, taken, written

from gpuprof.place.from_flow import step_of
from gpuprof.readers import read_profile


@pytest.fixture
def step(tmp_path):
    """Eight steps with 32 rows, and two with 7."""
    operations, inputs = [], []
    for trace, (rows, calls) in enumerate(((32, 8), (7, 2))):
        its = {"calls": calls, "trace": trace}
        operations += [
            operation("halves", calls=calls, flops=rows * 100),
            operation("head", "CPU:1", calls=calls),
        ]
        inputs += [
            taken("words:0", "halves", size=rows * 8, **its),
            taken("halves:0", "head", "CPU:1", size=rows * 4, **its),
            taken("halves:1", "head", "CPU:1", size=None, **its),
        ]
    update = operation("gradient_tape/head/MatMul")
    made = document(operations=[*operations, update], graphs=graphs(inputs))
    return step_of(read_profile([written(tmp_path, made)]))[0]


def test_each_tensor_is_there_once_with_its_mean_size(step):
    mean = (8 * 32 + 2 * 7) / 10

    tensors = {(step.operations[t.maker].name, t.bytes, t.calls) for t in step.tensors}
    assert tensors == {("words", mean * 8, 1), ("halves", mean * 4, 1), ("halves", None, 1)}
    assert len(step.tensors) == 3
    assert step.copies() == (mean * 4, 1, 2)


def test_an_operation_has_its_mean_flops(step):
    flops = {operation.name: operation.flops for operation in step.operations}

    assert flops["halves"] == pytest.approx((8 * 3200 + 2 * 700) / 10)
