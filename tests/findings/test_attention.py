"""Attention in separate kernels, and what looks like it."""

import pytest
from drawing import draw
from drawn_steps import US, queued

from gpuprof.findings.findings import findings

SCORES = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
VALUES = "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nn"
LINEAR = "ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_64x3_tn"
AT = "void at::native::"
SCALE = f"{AT}vectorized_elementwise_kernel<4, at::native::BUnaryFunctor<c10::Half, MulFunctor>>"
MASK = f"{AT}elementwise_kernel<128, 4, at::native::masked_fill_kernel(at::TensorIterator&)>"
DROPOUT = f"{AT}fused_dropout_kernel_vec<c10::Half, float, unsigned int, 1, 4, bool>"
WARP = "void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 10, {}, false>(x)"
SOFTMAX, OF_LOSS = WARP.format("false"), WARP.format("true")
BLOCK = f"{AT}(anonymous namespace)::cunn_SoftMaxForward<8, c10::Half, float, {{}}Epilogue>(x)"
EXP = f"{AT}vectorized_elementwise_kernel<4, at::native::exp_kernel_cuda(at::TensorIteratorBase&)>"
MAX = f"{AT}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MaxOps<float>>>"
TOP_K = f"{AT}sbtopk::gatherTopK<float, unsigned int, 2, false>"
NORM = f"{AT}(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4>>(Flash_fwd_params)"

LAYER = [
    (LINEAR, 40),
    (SCORES, 10),
    (SCALE, 8),
    (MASK, 8),
    (SOFTMAX, 10),
    (DROPOUT, 8),
    (VALUES, 10),
]


def model(layer, *, steps=4, layers=3):
    """Steps of some layers whose kernels, given with their times in us, follow one another."""
    return queued(*((us, {"name": name}) for name, us in layer * layers), count=steps)


def found(profile):
    rows = findings(profile).to_pylist()
    return next((row for row in rows if row["cause"] == "unfused_attention"), None)


def test_softmax_between_two_products_with_scaling_and_masks_is_attention():
    row = found(model(LAYER))

    # Of a layer of 94 us attention is all but the linear part; 34 us are between the products.
    assert (row["cost_ns"], row["win_ns"], row["step_ns"]) == (162 * US, 102 * US, 282 * US)
    assert "attention in separate kernels (3 times a step; softmax_warp_forward" in row["finding"]
    assert "scaled_dot_product_attention" in row["suggestion"]


OF_LONG_ROWS, LOSS_OF_LONG_ROWS = map(BLOCK.format, ("SoftMaxForward", "LogSoftMaxForward"))
ATTENTION = {
    "long-rows": [(SCORES, 9), (SCALE, 5), (OF_LONG_ROWS, 9), (VALUES, 9)],
    "written-out": [
        (SCORES, 9), (MAX, 5), (SCALE, 5), (EXP, 5), (MAX, 5), (SCALE, 5), (VALUES, 9),
    ],
    "just-a-fifth": [(LINEAR, 100), (SCORES, 9), (SOFTMAX, 9), (VALUES, 9)],
}  # fmt: skip
OTHERS = {
    "fused": [(LINEAR, 40), (FLASH, 30)],
    "less-than-a-fifth": [(LINEAR, 110), (SCORES, 9), (SOFTMAX, 9), (VALUES, 9)],
    "loss": [(LINEAR, 9), (OF_LOSS, 30), (LINEAR, 9)],
    "loss-of-long-rows": [(LINEAR, 9), (LOSS_OF_LONG_ROWS, 30), (LINEAR, 9)],
    "router-of-experts": [(LINEAR, 9), (SOFTMAX, 9), (TOP_K, 9), (LINEAR, 9)],
    "gate": [(LINEAR, 90), (SOFTMAX, 9), (LINEAR, 90), (NORM, 1)],
    "no-softmax": [(SCORES, 9), (SCALE, 9), (DROPOUT, 9), (VALUES, 9)],
    "norm-between": [(SCORES, 9), (NORM, 9), (SOFTMAX, 9), (VALUES, 9)],
    "too-far-apart": [(SCORES, 9), *[(SCALE, 1)] * 16, (SOFTMAX, 9), (VALUES, 9)],
}


@pytest.mark.parametrize("name", ATTENTION | OTHERS)
def test_attention_has_several_forms_and_others_are_none_that_costs_much(name):
    row = found(model((ATTENTION | OTHERS)[name]))

    assert (row is not None) == (name in ATTENTION)


def test_what_comes_once_is_none():
    assert found(model(LAYER, steps=3, layers=1)) is None
    assert found(model(LAYER, steps=4, layers=1)) is not None


def test_kernels_of_other_streams_are_not_between():
    profile = model([(SCORES, 9), (SOFTMAX, 9), (VALUES, 9)])
    kernels = profile.table("kernels").to_pylist()
    rows = [row | {"stream_id": 9} if row["name"] == SOFTMAX else row for row in kernels]

    assert found(draw(kernels=rows)) is None
