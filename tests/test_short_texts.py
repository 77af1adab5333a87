"""Names that do not fit are cut so that those which differ still look different."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.base.short_texts import shortened, shortened_apart

CUT = {
    "those-that-fit": (["conv", "dense"], 12, ["conv", "dense"]),
    "at-the-end-without-the-type": (
        ["void cudnn::convolve<float>(int)", "sgemm_largek_lds64(float*)"],
        16,
        ["cudnn::convolv..", "sgemm_largek_l.."],
    ),
    "variants-of-one-template": (
        [
            "void at::native::elementwise_kernel<4, at::AddFunctor<float>>(int)",
            "void at::native::elementwise_kernel<4, at::MulFunctor<float>>(int)",
        ],
        20,
        ["at::n..AddFunctor<..", "at::n..MulFunctor<.."],
    ),
    "a-number-in-a-long-word": (
        [f"sm90_xmma_gemm_tilesize{n}x128x64_stage3_cublas" for n in (64, 128)],
        14,
        ["sm9..size64x..", "sm9..size128.."],
    ),
    "one-begins-with-the-other-and-one-is-there-twice": (
        ["kernel_of_layer_number_one" + end for end in ("", "_b", "_b")],
        14,
        ["ker.._one", "ker.._one_b", "ker.._one_b"],
    ),
    "lengths": (["x" * 99, "x" * 98], 12, ["xxx..xxxxx", "xxx..xxxx"]),
    "nothing-to-see": (
        ["x" * 97, "x" * 98, "x" * 99],
        12,
        ["xxx..xxxx", "xxx..xxxxx", "xxx..xxxxx#2"],
    ),
}


@pytest.mark.parametrize(("names", "width", "shown"), CUT.values(), ids=CUT)
def test_names_are_cut_where_they_do_not_differ(names, width, shown):
    found = shortened_apart(names, width)

    assert len(set(found)) == len(set(names))
    assert found == shown


_names = st.lists(st.text("ab<_", max_size=40), max_size=30)


@given(_names, st.integers(12, 20))
def test_names_that_differ_look_different_and_fit(names, width):
    shown = shortened_apart(names, width)

    assert max(map(len, shown), default=0) <= width
    pairs = set(zip(names, shown, strict=True))
    assert len(pairs) == len({name for name, _ in pairs}) == len({look for _, look in pairs})


def test_paths_may_be_cut_in_their_middle():
    paths = ["/home/ada/runs/first/single", "/home/ada/runs/first/dual"]

    assert shortened_apart(paths, 16, shortened) == ["/home/a../single", "/home/a..st/dual"]
