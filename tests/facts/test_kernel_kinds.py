"""Kernels by what their names say that they do; all names are of real recordings but where said."""

import pytest
from drawing import draw

from gpuprof.facts.kernel_kinds import (
    COPY,
    LAYOUT,
    PLAIN_PRODUCT,
    framework,
    is_initial,
    kernels_of_kinds,
    kind_of,
    may_initialise,
    shown,
)

NCHW = (
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, (bool)0, (bool)1,"
    " (cudnnKernelDataType_t)2>(cudnn::ops::nchw2nhwc_params_t<T3>, const T1 *, T2 *)"
)
DIRECT_COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const>(int)"
)


# Names and what is said of them: their function, or all of them.
NAMES = {
    LAYOUT: {
        NCHW: "nchwToNhwcKernel",
        "void cuInt8::nchwToNchhw2<float>(float const*, __half*)": "nchwToNchhw2",
        "void cuInt8::nchhw2ToNchw<float>(__half const*, float*, int)": "nchhw2ToNchw",
        "void transpose_readWrite_alignment_kernel<float2, float2, 1>(cublasTransposeParams)": (
            "transpose_readWrite_alignment_kernel"
        ),
        "void genericReformat::copyVectorizedKernel<double, __half, __half>(unsigned int)": (
            "genericReformat::copyVectorizedKernel"
        ),
        "Transpose": "",
        "input_transpose_fusion_12": "",
        "SwapDimension1And2InTensor3UsingTiles": "",
        "ShuffleInTensor3Simple": "",
    },
    COPY: {
        DIRECT_COPY: "direct_copy_kernel_cuda",
        "void cudnn::ops::convertTensor_kernel<__half, float, float, 0>(float)": (
            "convertTensor_kernel"
        ),
        "cupy_copy__int32_float32": "",
        "wrapped_convert_3": "",
        "Cast": "",
    },
    PLAIN_PRODUCT: {
        "void convolveNd_dgrad_float_engine<float, (int)3, (int)512>(int, int, int)": (
            "convolveNd_dgrad_float_engine"
        ),
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)": (
            "wgrad_alg0_engine"
        ),
        "void implicit_convolveNd_sgemm<float, (int)3, (int)1024>(int, int)": (
            "implicit_convolveNd_sgemm"
        ),
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)": (
            "cutlass_80_simt_sgemm_128x64_8x5_nn_align1"
        ),
        "volta_sgemm_128x64_nn": "",
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1": "",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma": "",
        "sm80_xmma_fprop_implicit_f32f32_f32f32_f32_nhwc": "",
        "cutlass_80_simt_fprop_128x64": "",
    },
}


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [(kind, name, said) for kind, names in NAMES.items() for name, said in names.items()],
)
def test_what_libraries_do_is_in_the_names_of_their_kernels(kind, name, said):
    assert (kind_of(name), shown(name)) == (kind, said or name)


@pytest.mark.parametrize(
    "name",
    [
        # With Tensor Cores.
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(Params)",
        "turing_fp16_s1688cudnn_fp16_256x64_sliced1x2_ldg8_relu_f2f_exp_interior_nhwc_tn_v1",
        "volta_fp16_s884cudnn_fp16_128x128_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1",
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize256x64x32",
        "sm90_xmma_gemm_tf32tf32_tf32f32_f32_tn_n_tilesize128x128",
        "nvjet_tst_192x208_64x4_1x1_h_bz_NNT",
        # The layout in which they work, not one that they make.
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
        "sm50_xmma_pooling_coalescedC_NHWC_kMAX_3_False_execute_kernel_trt",
        # Of programs, not of libraries.
        "void copy_kernel<double>(double const *, double*)",
        "sgemm_naive(float*, float*, float*)",
        "ConvTranspose2dBias__input_0_34_16_32_32__output_0_34_3_128_128",
        "void thrust::cuda_cub::__transform::unary_transform_f<float>(int)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>(int)",
    ],
)
def test_all_others_are_of_no_kind(name):
    assert kind_of(name) == ""
    assert shown(name) == name


def test_initial_values_are_random_numbers_and_what_makes_them_so():
    philox = (
        "void tensorflow::functor::FillPhiloxRandomKernelLaunch<UniformDistribution<half>>(int)"
    )
    eigen = "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<float>>(float, long)"
    assert [is_initial(philox), may_initialise(philox)] == [True, True]
    assert [is_initial(eigen), may_initialise(eigen)] == [False, True]
    # Whatever kind it is of, XLA's unfused work may initialise; a cast alone does not.
    names = ("wrapped_transpose", "Cast", "volta_sgemm_128x64_nn")
    assert [*map(may_initialise, names)] == [True, False, False]


def test_times_of_a_name_are_by_device_and_join_where_kernels_overlap():
    profile = draw(
        kernels=[
            (0, 10, {"name": "volta_sgemm_1"}),
            (5, 20, {"name": "volta_sgemm_1"}),
            (30, 40, {"name": "volta_sgemm_1", "device_id": 1}),
            (50, 60, {"name": "relu"}),
        ]
    )

    found = kernels_of_kinds(profile)

    assert {
        device: {name: (times.start.tolist(), times.end.tolist()) for name, times in names.items()}
        for device, names in found.items()
    } == {0: {"volta_sgemm_1": ([0], [20])}, 1: {"volta_sgemm_1": ([30], [40])}}


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        ({"kernels": [(0, 1, {"name": DIRECT_COPY})]}, "PyTorch"),
        ({"kernels": [(0, 1)], "nvtx_ranges": [(0, 1, {"text": "aten::add"})]}, "PyTorch"),
        ({"kernels": [(0, 1, {"name": "void tensorflow::functor::Fill<int>()"})]}, "TensorFlow"),
        ({"kernels": [(0, 1)], "nvtx_ranges": [(0, 1, {"text": "jit_train_step"})]}, "JAX"),
        ({"kernels": [(0, 1)], "nvtx_ranges": [(0, 1, {"text": "step 3"})]}, ""),
    ],
)
def test_a_framework_is_known_by_its_names(tables, name):
    assert framework(draw(**tables)) == name
