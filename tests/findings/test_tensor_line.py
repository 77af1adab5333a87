"""The first sentence of a report of TensorFlow: what a step copies between devices."""

import pytest
from tensorflow_runs import copy, document, operation, written

from gpuprof.analyses.reports import report
from gpuprof.readers import read_profile


def said(folder, *copies, **changes):
    (row,) = report(read_profile(written(folder, document(*copies, **changes)))).rows("bottom_line")
    return row["bottom_line"]


def test_a_step_says_its_bytes_what_they_are_for_and_where_most_go(tmp_path):
    copies = (
        copy("a", 100, src_device="CPU:0", dst_device="CPU:1"),
        copy("b", 300, is_gradient=True),
    )

    assert said(tmp_path, *copies) == (
        "A step copies 400 B between devices in 2 copies (10 steps), 75.0 % of it for gradients."
        " The largest part goes from CPU:1 to CPU:0: 75.0 % of the bytes"
    )


def test_without_sizes_it_counts_the_copies(tmp_path):
    assert said(tmp_path, copy("a", None)) == (
        "A step makes 1 copy between devices, 1 of them of unknown size (10 steps). The largest"
        " part goes from CPU:1 to CPU:0: 100.0 % of the copies"
    )


@pytest.mark.parametrize(
    ("copies", "changes", "sentence"),
    [
        pytest.param((), {}, "A step copies nothing between devices (10 steps)", id="nothing"),
        pytest.param(
            (copy("a", 1),),
            {"functions": []},
            "No training step was seen whole. The largest part goes from CPU:1 to CPU:0: 100.0 % of"
            " the copies",
            id="no-step",
        ),
        pytest.param(
            (),
            {"functions": []},
            "No training step was seen whole. Nothing is copied between devices",
            id="no-step-and-nothing",
        ),
    ],
)
def test_what_is_not_copied_or_not_seen_is_said(tmp_path, copies, changes, sentence):
    assert said(tmp_path, *copies, **changes) == sentence


def test_bytes_of_collective_operations_are_unknown(tmp_path):
    reduce = operation("reduce", operation_type="CollectiveReduceV2")

    assert said(tmp_path, operations=[reduce]) == (
        "A step moves data between devices in collective operations, whose bytes TensorFlow does"
        " not show (10 steps)"
    )
