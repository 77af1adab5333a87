"""Kernels by what their names say that they do; all names are of real recordings but where said."""

from pathlib import Path

import pytest
from drawing import draw
from recordings import kernel, trace

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
from gpuprof.readers import read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
NCHW = (
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, (bool)0, (bool)1,"
    " (cudnnKernelDataType_t)2>(cudnn::ops::nchw2nhwc_params_t<T3>, const T1 *, T2 *)"
)
DIRECT_COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const>(int)"
)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        (NCHW, LAYOUT, "nchwToNhwcKernel"),
        ("void cuInt8::nchwToNchhw2<float>(float const*, __half*)", LAYOUT, "nchwToNchhw2"),
        (
            "void cuInt8::nchhw2ToNchw<float>(__half const*, float*, int)",
            LAYOUT,
            "nchhw2ToNchw",
        ),
        (
            "void transpose_readWrite_alignment_kernel<float2, float2, 1>(cublasTransposeParams)",
            LAYOUT,
            "transpose_readWrite_alignment_kernel",
        ),
        (
            "void genericReformat::copyVectorizedKernel<double, __half, __half>(unsigned int)",
            LAYOUT,
            "genericReformat::copyVectorizedKernel",
        ),
        ("Transpose", LAYOUT, "Transpose"),
        pytest.param("input_transpose_fusion_12", LAYOUT, "input_transpose_fusion_12", id="xla"),
        (DIRECT_COPY, COPY, "direct_copy_kernel_cuda"),
        ("cupy_copy__int32_float32", COPY, "cupy_copy__int32_float32"),
        (
            "void cudnn::ops::convertTensor_kernel<__half, float, float, 0>(float)",
            COPY,
            "convertTensor_kernel",
        ),
        ("volta_sgemm_128x64_nn", PLAIN_PRODUCT, "volta_sgemm_128x64_nn"),
        (
            "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
            PLAIN_PRODUCT,
            "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        ),
        (
            "void convolveNd_dgrad_float_engine<float, (int)3, (int)512>(int, int, int)",
            PLAIN_PRODUCT,
            "convolveNd_dgrad_float_engine",
        ),
        (
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
            PLAIN_PRODUCT,
            "wgrad_alg0_engine",
        ),
        (
            "void implicit_convolveNd_sgemm<float, (int)3, (int)1024>(int, int)",
            PLAIN_PRODUCT,
            "implicit_convolveNd_sgemm",
        ),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma",
            PLAIN_PRODUCT,
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma",
        ),
        pytest.param(
            "void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)",
            PLAIN_PRODUCT,
            "cutlass_80_simt_sgemm_128x64_8x5_nn_align1",
            id="cutlass-simt",
        ),
    ],
)
def test_what_libraries_do_is_in_the_names_of_their_kernels(name, kind, said):
    assert kind_of(name) == kind
    assert shown(name) == said


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SwapDimension1And2InTensor3UsingTiles", LAYOUT),
        ("ShuffleInTensor3Simple", LAYOUT),
        ("wrapped_convert_3", COPY),
        ("Cast", COPY),
        ("sm80_xmma_fprop_implicit_f32f32_f32f32_f32_nhwc", PLAIN_PRODUCT),
        ("cutlass_80_simt_fprop_128x64", PLAIN_PRODUCT),
    ],
)
def test_each_word_of_a_kind_is_enough(name, kind):
    assert (kind_of(name), shown(name)) == (kind, name)


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


def test_a_file_that_numbers_its_names_says_the_same_as_its_rows():
    path = CORPUS / "nsys-rep/NERSC__sc21-dl-tutorial__4gpu_bucketcap100mb.qdrep"
    if not path.is_file():
        pytest.skip(f"no {path}: the corpus of real recordings is not here")
    profile = read_profile(path)
    rows = profile.query("SELECT name, start_ns, end_ns FROM kernels").to_pylist()
    in_memory = trace(kernels=[kernel(r["name"], r["start_ns"], r["end_ns"]) for r in rows])

    numbered, queried = kernels_of_kinds(profile)[0], kernels_of_kinds(in_memory)[None]

    lengths = {name: times.length for name, times in numbered.items() if len(times)}
    assert lengths == {name: times.length for name, times in queried.items()}
    assert sum(ns for name, ns in lengths.items() if "nchwToNhwc" in name) > 0


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
