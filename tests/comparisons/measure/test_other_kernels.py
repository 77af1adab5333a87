"""Recordings that run other kernels say so, and which: drawn, and real ones."""

import pytest
from commands import CORPUS
from drawing import draw

from gpuprof.comparisons import comparison
from gpuprof.readers import read_profile

MS = 1_000_000


def one_after_another(**lengths_ms):
    """Kernels of some lengths in ms, by name."""
    kernels, at = [], 0
    for name, length_ms in lengths_ms.items():
        kernels.append((at, at + length_ms * MS, {"name": name, "grid_x": length_ms}))
        at += length_ms * MS
    return draw(kernels=kernels)


def verdict(before, after):
    return comparison({"a": before, "b": after}).verdict


def test_kernels_of_one_side_that_take_most_time_are_named():
    before = one_after_another(copy=5, forward=2, step=1)
    after = one_after_another(copy=5, fused=4, backward=2)

    assert verdict(before, after).endswith(
        " Most kernels differ, so totals are compared, not calls: in a, kernels such as forward"
        " that b lacks take 3.000 ms (37.5 % of its kernel time) and in b, kernels such as fused"
        " that a lacks take 6.000 ms (54.5 % of its kernel time)."
    )


def test_a_side_that_lacks_none_is_not_named():
    text = verdict(one_after_another(copy=5), one_after_another(copy=5, backward=5))

    assert text.endswith(
        " Most kernels differ, so totals are compared, not calls: in b, kernels such as backward"
        " that a lacks take 5.000 ms (50.0 % of its kernel time)."
    )


def test_programs_without_a_kernel_in_common_say_so():
    text = verdict(one_after_another(a=5), one_after_another(b=4))

    assert (
        " No kernel runs on both sides, so totals are compared, not calls: in a, kernels such as a"
        " that b lacks" in text
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"copy": 81, "one": 19}, {"copy": 81, "other": 19}),
        # The same kernel on more data has other launch shapes.
        ({"copy": 2}, {"copy": 20}),
    ],
)
def test_recordings_that_share_most_kernels_are_not_said_to_differ(before, after):
    text = verdict(one_after_another(**before), one_after_another(**after))

    assert "kernels differ" not in text
    assert "No kernel" not in text


def test_kernels_of_communication_are_no_other_work():
    nccl = {"ncclKernel_AllReduce_RING_LL_Sum_float": 20}
    text = verdict(one_after_another(copy=5), one_after_another(copy=5, **nccl))

    assert "kernels differ" not in text


def test_a_real_kernel_that_gives_way_to_those_of_a_library_is_named():
    names = (
        "xprotobeast2__ece408_project__m3.1.timeline.nvvp",
        "m-goldstein__GPU_ML__timeline.nvvp",
    )
    paths = [CORPUS / "nvprof-sqlite" / name for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip("the corpus of real recordings is not here")

    text = verdict(*map(read_profile, paths))
    assert "in a, kernels such as forward_kernel that b lacks take 223.4 ms (91.7 %" in text
    assert "volta_scudnn_128x64_relu_interior_nn_v1" in text
