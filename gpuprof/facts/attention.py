"""Attention that is computed in separate kernels: a product, scaling, masks, softmax, a product.

FlashAttention computes the same in one kernel, which keeps the scores out of memory (Dao et al.,
https://arxiv.org/abs/2205.14135: attention 2 to 4 times as fast). Names are of cuBLAS and CUTLASS
(products), PyTorch (aten/src/ATen/native/cuda/SoftMax.cu, PersistentSoftmax.cuh), Apex and
TensorFlow (softmax).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from gpuprof.facts.activity_sums import kernel_sums
from gpuprof.facts.numbers import groups, read_columns
from gpuprof.model.analysis import reads
from gpuprof.model.derived import known
from gpuprof.model.intervals import Int64s, Intervals, runs, union
from gpuprof.model.profile import Profile, once_per_recording

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
def _kind(name: str) -> int:
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
    return may_be is not None and _kind(name) in {_SOFT, _EXPONENT}


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
    kind = names.values(_kind, _UNRELATED).of(name)
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
        attention_of_device[known(int(device[rows[0]]))] = Attention(
            union(start[rows], end[rows]),
            union(start[inner], end[inner]),
            start[order[first]],
            text[int(name[longest])],
            (text[int(name[order[first[around]]])], text[int(name[order[last[around]]])]),
        )
    return attention_of_device


def _chains(kind: Int64s, device: Int64s, stream: Int64s) -> tuple[Int64s, Int64s]:
    """Places of products with nothing between but a softmax and what belongs to one.

    Args:
        kind: Of each kernel, by device, stream and start.
        device: Its device.
        stream: Its stream.

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
