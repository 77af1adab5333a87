"""What kernels of known libraries do, by their names, and when those of each kind ran.

Sources: cuDNN's kernels are in its developer guide (https://docs.nvidia.com/deeplearning/cudnn,
"Tensor Core operations": NCHW tensors are converted to NHWC and back around kernels of Tensor
Cores) and in the symbols of its libraries, as nsys shows them: ``nchwToNhwcKernel``,
``dgrad_engine``. Of cuBLAS and cuDNN, ``volta_sgemm_128x64_nn`` and ``ampere_scudnn_...`` are plain
fp32 (``s``; ``h`` for fp16), ``s1688gemm``, ``h884cudnn`` and ``i16832`` name the shape of a Tensor
Core instruction; of CUTLASS, ``simt`` is no Tensor Core and ``tensorop`` is one
(https://github.com/NVIDIA/cutlass/blob/main/media/docs/cpp/profiler.md). PyTorch's copies are in
aten/src/ATen/native/cuda/Copy.cu, TensorFlow's transposes in
tensorflow/core/kernels/conv_2d_gpu.h, XLA names a fusion by its root, and TensorRT's reformatting
layers run ``genericReformat``.

Among them attention that is computed in separate kernels: a product, scaling, masks, softmax, a
product. FlashAttention computes the same in one kernel, which keeps the scores out of memory (Dao
et al., https://arxiv.org/abs/2205.14135: attention 2 to 4 times as fast). Names are of cuBLAS and
CUTLASS (products), PyTorch (aten/src/ATen/native/cuda/SoftMax.cu, PersistentSoftmax.cuh), Apex and
TensorFlow (softmax).
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.activity_sums import kernel_sums
from gpuprof.facts.numbers import groups, read_columns, rows_named
from gpuprof.facts.nvtx import ranges_of
from gpuprof.facts.timeline import busy_by_device
from gpuprof.model.analysis import reads
from gpuprof.model.derived import if_known
from gpuprof.model.intervals import Int64s, Intervals, runs, union
from gpuprof.model.profile import Profile, once_per_recording

KIND_READS: Final = reads(kernels="start_ns end_ns device_id name name_id")

# Tensors in another layout; copies and casts of tensors; products of matrices and convolutions
# that use no Tensor Cores; other work of one element at a time, one operation a kernel.
LAYOUT: Final = "layout"
COPY: Final = "copy"
PLAIN_PRODUCT: Final = "plain_product"
ELEMENTWISE: Final = "elementwise"
_PATTERNS: Final = {
    LAYOUT: re.compile(
        r"\b(?:nchw|nhwc|nchhw2|ncdhw|ndhwc|folded)\w*To[A-Z]\w*"
        r"|\bgenericTranspose_kernel|\btranspose_readWrite_alignment_kernel"
        r"|\bSwapDimension\w+InTensor3\w*|\bShuffleInTensor3\w*|\btensorflow::\S*\bTransposeKernel"
        r"|\bgenericReformat::\w+|\bdali::kernels::transpose_impl::\w+"
        r"|^(?:(?:wrapped|input|loop)_)transpose(?:_fusion)?(?:_\d+)*$|^transpose_\d+$"
        r"|^Transpose$"
    ),
    COPY: re.compile(
        r"\b\w*copy_kernel_cuda\b|\bcopy_device_to_device\b|\bconvertTensor_kernel|^cupy_copy__\w+"
        r"|^(?:wrapped|input|loop)_copy(?:_fusion)?(?:_\d+)*$|^wrapped_convert(?:_\d+)*$"
        r"|^copy_(?:fusion_?)?\d*$|^Cast$"
    ),
    PLAIN_PRODUCT: re.compile(
        r"\b(?:\w+_)?(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)_(?:\w+_)?"
        r"(?:fp\d+_)?[sh](?:gemm|cudnn)_\w+"
        r"|\b(?:im|ex)plicit_convolve(?:Nd)?_[sh]gemm|\bdgrad_engine|\bwgrad_alg\d_\w*engine"
        r"|\bconvolveNd_\w*float_engine|\bcutlass_\d+_simt_\w+"
        r"|\bsm\d+_xmma_\w*_f32f32_f32f32_f32_\w*"
    ),
    # Not those of a distribution, which draw random numbers.
    ELEMENTWISE: re.compile(
        r"\b(?!distribution)\w*elementwise_kernel\b|\bEigenMetaKernel\b|^wrapped_\w+"
    ),
}
# Each name of a kind has one of these words: to look for them takes a fiftieth of the time.
_WORDS: Final = {
    LAYOUT: ("To", "ranspose", "SwapDimension", "ShuffleInTensor3", "genericReformat"),
    COPY: ("copy", "convertTensor_kernel", "wrapped_convert", "Cast"),
    PLAIN_PRODUCT: ("gemm", "cudnn", "engine", "simt", "xmma"),
    ELEMENTWISE: ("elementwise_kernel", "EigenMetaKernel", "wrapped_"),
}
# Most names have none of them, which one search tells.
_ANY_WORD: Final = re.compile("|".join(word for words in _WORDS.values() for word in words))
# Libraries' kernels that fill tensors with initial values, and those of element by element that
# turn random numbers into them; of training there is nothing among these.
_INITIAL: Final = re.compile(
    r"FillPhiloxRandom|distribution_elementwise_grid_stride_kernel|\bthreefry|_threefry"
    r"|FillFunctor|rng_uniform|rng_bit_generator"
)
_ONE_BY_ONE: Final = re.compile(r"EigenMetaKernel|elementwise_kernel|copy_kernel_cuda|^wrapped_")
# Of all kernel time: a phase in which they take 30 % is then at most half of the recording.
_LEAST_ELEMENTWISE: Final = 0.15


@lru_cache(1 << 14)  # files of one job have the same names
def kind_of(name: str) -> str:
    """`LAYOUT`, `COPY`, `PLAIN_PRODUCT` or `ELEMENTWISE`; empty for all other kernels."""
    match = _match(name)
    return "" if match is None else match[0]


def _match(name: str) -> tuple[str, str] | None:
    """The kind of a kernel, and the part of its name that says so."""
    if not _ANY_WORD.search(name):
        return None
    for kind, pattern in _PATTERNS.items():
        if any(word in name for word in _WORDS[kind]) and (match := pattern.search(name)):
            return kind, match[0]
    return None


def shown(name: str) -> str:
    """What people call a kernel of a kind: the part of its name that says so."""
    match = _match(name)
    return name if match is None else match[1]


def is_initial(name: str) -> bool:
    """Whether a kernel of a framework fills a tensor with initial values."""
    return _INITIAL.search(name) is not None


@lru_cache(1 << 14)  # files of one job have the same names
def may_initialise(name: str) -> bool:
    """Whether a kernel of a framework does this or works on one element at a time."""
    return is_initial(name) or _ONE_BY_ONE.search(name) is not None


@once_per_recording
def kernels_of_kinds(profile: Profile) -> Mapping[int | None, Mapping[str, Intervals]]:
    """When the kernels of each name of `LAYOUT`, `COPY` or `PLAIN_PRODUCT` ran, by device.

    Of the whole recording, as are those of `elementwise_kernels`.
    """
    return _of_kinds(profile, {LAYOUT, COPY, PLAIN_PRODUCT})


@once_per_recording
def elementwise_kernels(profile: Profile) -> Mapping[int | None, Mapping[str, Intervals]]:
    """The same of `ELEMENTWISE`, of which there may be millions: nothing where they take little."""
    sums = kernel_sums(profile)
    elementwise_ns = sum(ns for name, ns in sums if kind_of(name) in {ELEMENTWISE, COPY})
    if elementwise_ns < _LEAST_ELEMENTWISE * sum(ns for _, ns in sums):
        return {}
    return _of_kinds(profile, {ELEMENTWISE})


def _of_kinds(profile: Profile, kinds: Collection[str]) -> dict[int | None, dict[str, Intervals]]:
    if not profile.has("kernels"):
        return {}
    names = [
        name
        for name in dict.fromkeys(profile.loaded("kernels").names.texts)
        if kind_of(name) in kinds
    ]
    if not names:
        return {}
    parts = rows_named(profile, "kernels", names, "start_ns", "end_ns", "device_id")
    return {
        device: {names[place]: times for place, times in busy.kinds.items()}
        for device, busy in busy_by_device(parts, len(names)).items()
    }


PYTORCH, TENSORFLOW, JAX = "PyTorch", "TensorFlow", "JAX"
# Names of kernels, operations and modules.
_MARKS: Final = {
    PYTORCH: re.compile(r"\bat::native|\bat_cuda_detail\b|^aten::|\btorch::|^ProfilerStep#"),
    TENSORFLOW: re.compile(r"\btensorflow::|^tf_|^TfOpAndXla|^tf\."),
    JAX: re.compile(r"\bjit\(|\bjit_|\bpjit|^jax_"),
}
# Each marked name has one of these: to look for them takes a tenth of the time.
_MARK_WORDS: Final = re.compile(
    r"at::|at_cuda|aten::|torch::|Profiler|tensorfl|tf[_.]|TfOp|jit|jax_"
)


@once_per_recording
def framework(profile: Profile) -> str:
    """`PYTORCH`, `TENSORFLOW` or `JAX`; empty where no name tells."""
    names = profile.loaded("kernels").names.distinct if profile.has("kernels") else []
    if (of_kernels := _of_names(names)) or not profile.has("nvtx_ranges"):
        return of_kernels
    labels = ranges_of(profile).labels
    return _of_names([name for text, domain, _ in labels for name in (text, domain)])


def _of_names(names: list[str]) -> str:
    names = [*filter(_may_be_marked, names)]
    marked = (mark for mark, of in _MARKS.items() if any(of.search(n) for n in names))
    return next(marked, "")


@lru_cache(1 << 14)  # as above
def _may_be_marked(name: str) -> bool:
    return _MARK_WORDS.search(name) is not None


ATTENTION_READS: Final = reads(kernels="start_ns end_ns device_id stream_id name name_id")

_PRODUCT: Final = re.compile(r"gemm|gemv|\bcutlass|\bnvjet|\bCijk_|wmma")
# Fused attention, and convolutions.
_NO_PRODUCT: Final = re.compile(
    r"flash|fmha|attention|implicit|conv|[fw]prop|[dw]grad|reduce_?kernel", re.IGNORECASE
)
_SOFTMAX: Final = re.compile(r"soft_?max|GenerateNormalizedProb", re.IGNORECASE)
# That of a loss is logarithmic, and no product takes its result.
_OF_LOSS: Final = re.compile(
    r"log_?soft_?max|nll_loss|\blog_kernel|gather|scatter"
    r"|softmax_warp_\w+<(?:[\w:]+, ){3}(?:\(int\))?\d+, (?:\(bool\)1|true)",
    re.IGNORECASE,
)
_BESIDE: Final = re.compile(
    r"elementwise|dropout|reduce|mask|copy|tri[lu]_|CatArray|transpose", re.IGNORECASE
)
_EXP: Final = re.compile(r"\bexp_kernel")
_REDUCE: Final = re.compile(r"\breduce_kernel")
# What a kernel may be; of a softmax that is written out there are exponents and sums.
_UNRELATED, _MATMUL, _SMALL, _SOFT, _EXPONENT, _SUM = range(6)
# PyTorch's softmax that is written out, with scaling, mask and dropout, has as many kernels.
_MOST_BETWEEN: Final = 16
# The same two products around it come in every layer and step.
_LEAST_REPEATS: Final = 4
# Of all kernel time: where softmax takes less, attention takes less than a fifth.
_LEAST_SOFTMAX: Final = 0.01


class Attention(NamedTuple):
    """When a device computes attention in separate kernels.

    Args:
        times: When any of these kernels ran, both products among them.
        between: When those between the products ran, which a fused kernel does in registers.
        start_ns: The start of each first product.
        softmax: The kernel of the softmax that took longest.
        products: The two products around it.
    """

    times: Intervals
    between: Intervals
    start_ns: Int64s
    softmax: str
    products: tuple[str, str]


@lru_cache(1 << 14)
def _part_of_attention(name: str) -> int:
    if _OF_LOSS.search(name):
        return _UNRELATED
    if _SOFTMAX.search(name):
        return _SOFT
    if _PRODUCT.search(name) and not _NO_PRODUCT.search(name):
        return _MATMUL
    if not _BESIDE.search(name):
        return _UNRELATED
    return _EXPONENT if _EXP.search(name) else _SUM if _REDUCE.search(name) else _SMALL


@lru_cache(1 << 14)
def _is_of_softmax(name: str) -> bool:
    # One of them at least is in each such name; most names have neither.
    may_be = _SOFTMAX.search(name) or _EXP.search(name)
    return may_be is not None and _part_of_attention(name) in {_SOFT, _EXPONENT}


@once_per_recording
def unfused_attention(profile: Profile) -> Mapping[int | None, Attention]:
    """The attention of each device that computes it in separate kernels again and again."""
    if not profile.has("kernels"):
        return {}
    sums = kernel_sums(profile)
    softmax_ns = sum(ns for name, ns in sums if _is_of_softmax(name))
    if softmax_ns < _LEAST_SOFTMAX * sum(ns for _, ns in sums) or not softmax_ns:
        return {}
    start, end, device, stream, name = read_columns(
        profile, "kernels", "start_ns", "end_ns", "device_id", "stream_id", "name_id"
    )
    names = profile.loaded("kernels").names
    kind = names.values(_part_of_attention, _UNRELATED).of(name)
    order = np.lexsort((start, stream, device))
    chains = _chains(kind[order], device[order], stream[order])
    attention_of_device = {}
    for of_device in groups(device[order[chains[0]]]):
        first, last = chains[0][of_device], chains[1][of_device]
        ends = np.stack([name[order[first]], name[order[last]]])
        _, member, calls = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
        repeated = np.flatnonzero(calls[member.reshape(-1)] >= _LEAST_REPEATS)
        if not len(repeated):
            continue
        first, last = first[repeated], last[repeated]
        rows = order[runs(first, last - first + 1)]
        inner = order[runs(first + 1, last - first - 1)]
        of_softmax = inner[np.isin(kind[inner], (_SOFT, _EXPONENT))]
        longest = of_softmax[(end - start)[of_softmax].argmax()]
        around = int(np.searchsorted(first, np.flatnonzero(order == longest)[0], side="right")) - 1
        text = names.by_number
        attention_of_device[if_known(int(device[rows[0]]))] = Attention(
            union(start[rows], end[rows]),
            union(start[inner], end[inner]),
            start[order[first]],
            text[int(name[longest])],
            (text[int(name[order[first[around]]])], text[int(name[order[last[around]]])]),
        )
    return attention_of_device


def _chains(kind: Int64s, device: Int64s, stream: Int64s) -> tuple[Int64s, Int64s]:
    """Places of products with nothing between but a softmax and what belongs to one.

    Kernels are by device, stream and start.

    Returns:
        The places of the first and of the second product of each.
    """
    products = np.flatnonzero(kind == _MATMUL)
    first, last = products[:-1], products[1:]
    is_chain = (device[first] == device[last]) & (stream[first] == stream[last])
    is_chain &= last - first <= _MOST_BETWEEN + 1

    def between(*kinds: int) -> Int64s:
        """How many kernels of some kinds are between each two products."""
        before = np.append(0, np.cumsum(np.isin(kind, kinds)))
        number: Int64s = before[last] - before[first + 1]
        return number

    is_written_out = (between(_EXPONENT) > 0) & (between(_SUM) > 0)
    is_chain &= (between(_SOFT) > 0) | is_written_out
    is_chain &= between(_UNRELATED) == 0
    return first[is_chain], last[is_chain]
