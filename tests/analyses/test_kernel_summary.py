"""Kernels by name."""

from drawing import draw

from gpuprof.analyses.kernel_summary import KERNEL_SUMMARY, kernel_summary


def test_no_kernel_is_an_empty_table():
    assert kernel_summary(draw()).num_rows == 0
    assert kernel_summary(draw()).schema == KERNEL_SUMMARY.arrow


def test_kernels_of_one_name_are_one_row():
    profile = draw(
        kernels=[
            (0, 4, {"name": "b"}),
            (9, 10, {"name": "a"}),
            (0, 8, {"name": "b"}),
            (5, 8, {"name": "b", "device_id": 1}),
        ]
    )

    found = [tuple(row.values()) for row in kernel_summary(profile).to_pylist()]
    assert [row[:6] + row[7:] for row in found] == [
        (3, 15, 5.0, 4.0, 3, 8, "b", "b"),
        (1, 1, 1.0, 1.0, 1, 1, "a", "a"),
    ]
    assert found[1][6] is None
