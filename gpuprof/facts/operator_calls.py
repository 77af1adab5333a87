"""Calls of operators whose work is known, with the kernels that they launched.

What an operator computes and moves at least follows from the shapes and types of what it takes.
FLOPs are those of PyTorch's own counter (torch/utils/flop_counter.py): products, convolutions and
attention, 2 for a multiplication and an addition, nothing for a bias, all pairs for a causal mask.
(Of gradients of weights in groups it counts products between groups that nobody computes.)
Bytes are each input read once and each output written once, which no kernel can undercut.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.base import json_input
from gpuprof.base.gpu_models import GpuModel, gpu_of_device
from gpuprof.facts.hosts import device_rows
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import Numbers
from gpuprof.facts.nvtx import RANGE_READS, operations_of
from gpuprof.facts.range_launches import launches_within, without_nested
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_profile

Shape = tuple[int, ...]

# Bytes of an element by the word of libtorch, which in old versions is C's.
_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("bool", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int"), 8),
}
_PLAIN_TYPES: Final = {"c10::Half": "half", "c10::BFloat16": "bfloat16"}
# A larger tensor is damage: sums of many such would leave 64 bits.
_MOST_ELEMENTS: Final = 1 << 40
_MOST_FLOPS: Final = 1 << 60


class Work(NamedTuple):
    """Of one call of an operator; None for what is unknown.

    Args:
        flops: Additions and multiplications; None where it multiplies no matrices.
        bytes: Read and written at least.
        data_type: float, half, bfloat16, ... of what it computes with.
    """

    flops: int | None
    bytes: int | None
    data_type: str | None


UNKNOWN_WORK: Final = Work(None, None, None)


class Inputs(NamedTuple):
    """What an operator takes, argument by argument.

    Args:
        shapes: Of tensors; () for a scalar and for what is no tensor.
        types: As the framework writes them.
        values: Of what is no tensor, as text.
    """

    shapes: tuple[Shape, ...]
    types: tuple[str, ...]
    values: tuple[str, ...]


# FLOPs, the places of the inputs that are read, and the shapes that are written.
_Parts = tuple[int | None, tuple[int, ...], tuple[Shape, ...]]
_Formula = Callable[[Inputs], _Parts]


def _product(first_place: int, second_place: int) -> _Formula:
    """A product of two matrices, or of two batches of them."""

    def formula(inputs: Inputs) -> _Parts:
        *batch, rows, inner = inputs.shapes[first_place]
        *_, inner_too, columns = inputs.shapes[second_place]
        if inner != inner_too:
            raise ValueError
        output = (*batch, rows, columns)
        return 2 * prod(output) * inner, (first_place, second_place), (output,)

    return formula


def _attention(query: int, products: tuple[int, int], *, is_backward: bool) -> _Formula:
    """Fused attention, with so many products as long as a key and as a value."""

    def formula(inputs: Inputs) -> _Parts:
        taken = inputs.shapes[query : query + 3]
        (*heads, rows, of_key), (*_, columns, _), (*_, of_value) = taken
        length = products[0] * of_key + products[1] * of_value
        output = (*heads, rows, of_value)
        # Backwards, the output and its gradient are read as well; each has a gradient.
        more = (output, output, *taken) if is_backward else (output,)
        return 2 * prod((*heads, rows, columns)) * length, (*range(query, query + 3),), more

    return formula


def _elementwise(*places: int) -> _Formula:
    """What makes one tensor of the shape of its largest input, element by element."""

    def formula(inputs: Inputs) -> _Parts:
        read = [place for place in places if place < len(inputs.shapes) and inputs.shapes[place]]
        largest = max((inputs.shapes[place] for place in read), key=prod)
        return None, tuple(read), (largest,)

    return formula


def _convolution(inputs: Inputs) -> _Parts:
    """A convolution of any dimensions, or a transposed one."""
    taken, weights = inputs.shapes[:2]
    *moves, is_transposed, padding_of_output, groups = map(_value, inputs.values[3:9])
    # Per dimension: stride, padding, dilation, and what a transposed one adds; one alone is of all.
    lists = [v * (len(taken) - 2) if len(v) == 1 else v for v in (*moves, padding_of_output)]
    sizes = zip(taken[2:], weights[2:], *lists, strict=True)
    if is_transposed:
        channels = weights[1] * groups
        spatial = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in sizes]
    else:
        channels = weights[0]
        spatial = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in sizes]
    output = (taken[0], channels, *spatial)
    moved_over = taken if is_transposed else output
    return 2 * taken[0] * prod(moved_over[2:]) * prod(weights), (0, 1), (output,)


def _convolution_backward(inputs: Inputs) -> _Parts:
    """The gradients of a convolution: of its input and of its weights, as far as asked for."""
    gradient, taken, weights = inputs.shapes[:3]
    is_transposed, asked_for = _value(inputs.values[7]), _value(inputs.values[10])[:2]
    over = taken if is_transposed else gradient
    flops = sum(asked_for) * 2 * taken[0] * prod(over[2:]) * prod(weights)
    written = [
        shape for shape, is_asked in zip((taken, weights), asked_for, strict=True) if is_asked
    ]
    return flops, (0, 1, 2), tuple(written)


def _value(text: str) -> Any:
    """A number, flag or list of Python's, as text."""
    return ast.literal_eval(text)


_UNARY: Final = (
    "relu", "relu_", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "sqrt_", "rsqrt", "neg",
    "pow", "clamp", "clamp_min", "leaky_relu", "leaky_relu_", "hardtanh", "hardtanh_",
    "_softmax", "_log_softmax", "native_layer_norm", "native_dropout",
)  # fmt: skip
_BINARY: Final = (
    "add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "maximum", "minimum",
    "threshold_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward",
    "_softmax_backward_data", "_log_softmax_backward_data", "native_dropout_backward",
)  # fmt: skip
_TERNARY: Final = ("addcmul", "addcmul_", "addcdiv", "addcdiv_", "lerp", "lerp_")
_FILLING: Final = ("fill_", "zero_")
_FUSED: Final = "aten::_scaled_dot_product_{}_attention"
_KINDS: Final = ("flash", "efficient", "cudnn")

_FORMULAS: Final[Mapping[str, _Formula]] = {
    "aten::mm": _product(0, 1),
    "aten::bmm": _product(0, 1),
    "aten::_scaled_mm": _product(0, 1),
    "aten::addmm": _product(1, 2),
    "aten::baddbmm": _product(1, 2),
    "aten::_addmm_activation": _product(1, 2),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{_FUSED.format(kind): _attention(0, (1, 1), is_backward=False) for kind in _KINDS},
    # The scores once more; gradients of values and scores, and of queries and keys.
    **{
        f"{_FUSED.format(kind)}_backward": _attention(1, (3, 2), is_backward=True)
        for kind in _KINDS
    },
    **{f"aten::{name}": _elementwise(0) for name in _UNARY},
    **{f"aten::{name}": _elementwise(0, 1) for name in _BINARY},
    **{f"aten::{name}": _elementwise(0, 1, 2) for name in _TERNARY},
    **{f"aten::{name}": lambda inputs: (None, (), inputs.shapes[:1]) for name in _FILLING},
    "aten::copy_": _elementwise(1),
}
# Operators of which the work may be told.
NAMES: Final = frozenset(_FORMULAS)


def inputs_of(text: str) -> Inputs | None:
    """What an operator takes, of the column ``inputs``; None where a shape is beyond all bounds."""
    try:
        parts = json_input.decode(text.encode(), dict[str, list[Any]])
        shapes, types, values = (parts[name] for name in ("shapes", "types", "values"))
        if not all(type(size) is int and size >= 0 for shape in shapes for size in shape):
            return None
        if any(prod(shape) >= _MOST_ELEMENTS for shape in shapes):
            return None
        return Inputs(tuple(map(tuple, shapes)), tuple(map(str, types)), tuple(map(str, values)))
    except (json_input.JsonError, KeyError, TypeError):
        return None


def work_of(name: str, inputs: Inputs) -> Work:
    """What one call of an operator computes and moves.

    Args:
        name: One of `NAMES`; what others do is unknown.
        inputs: What it takes.
    """
    try:
        flops, read, written = _FORMULAS[name](inputs)
    except (KeyError, ValueError, IndexError, TypeError, SyntaxError, ZeroDivisionError):
        # Too few arguments, or others than any call of it has: nested tensors, or damage.
        return UNKNOWN_WORK
    places = [(place, inputs.shapes[place]) for place in read]
    # What it makes has the type of its first argument.
    places += [(0, shape) for shape in written]
    known_bytes = [
        size * prod(shape)
        for place, shape in places
        if place < len(inputs.types)
        and (size := _ELEMENT_BYTES.get(inputs.types[place])) is not None
    ]
    word = inputs.types[read[0] if read else 0] if inputs.types else None
    return Work(
        flops if flops is None or flops < _MOST_FLOPS else None,
        sum(known_bytes) if len(known_bytes) == len(places) else None,
        None if word is None else _PLAIN_TYPES.get(word, word),
    )


OPERATOR_READS: Final = reads(
    RANGE_READS,
    nvtx_ranges="inputs",
    kernels="name name_id",
    devices="device_id name total_memory_bytes",
)
# Of libraries' kernels that multiply matrices, as cuBLAS, cuDNN, CUTLASS and PyTorch name them.
_PRODUCT: Final = re.compile(
    r"(?<!fb)gemm|conv(?!ert|ers)|cutlass|xmma|[wd]grad|fmha|flash_(?:fwd|bwd)|scudnn|884cudnn|gemv"
    r"|winograd|nvjet",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class OperatorCalls:
    """Calls that launched kernels, one element each; those within others are a part of these.

    Args:
        operators: Name, inputs and work of one call of each operator that is called alike.
        operator: Place of each call among these.
        device: Where its first kernel ran.
        start_ns: When that started.
        kernel_ns: Sum of the durations of its kernels.
        product_ns: The part of kernels that multiply matrices, by their names.
        all_product_ns: By device, the same of all kernels, whoever launched them.
    """

    operators: tuple[tuple[str, Inputs, Work], ...]
    operator: Int64s
    device: Int64s
    start_ns: Int64s
    kernel_ns: Int64s
    product_ns: Int64s
    all_product_ns: dict[int, int]


@once_per_profile
def operator_calls(profile: Profile) -> OperatorCalls | None:
    """The calls of a recording; None where no inputs were recorded, or of no known operator."""
    if not profile.loaded("nvtx_ranges").holds("inputs"):
        return None
    operations = operations_of(profile.unrestricted)
    operators: list[tuple[str, Inputs, Work]] = []
    of_label = np.full(len(operations.labels), -1)
    for label, (name, text, _) in enumerate(operations.labels):
        inputs = inputs_of(text) if text and name in NAMES else None
        work = None if inputs is None else work_of(name, inputs)
        if inputs is not None and work is not None and any(work[:2]):
            of_label[label] = len(operators)
            operators.append((name, inputs, work))
    if not operators:
        return None
    chosen = without_nested(operations.labelled((of_label >= 0).tolist()))
    launched = launches(profile)
    activities = launched.activities
    low, high = activities.tables.get("kernels", (0, 0))
    is_kernel = (launched.order >= low) & (launched.order < high)
    spans = launches_within(chosen, launched).among(is_kernel)
    kernels = launched.order[is_kernel]
    took = activities.duration_ns[low:high]
    product_ns = np.where(_is_product(profile), took, 0)
    used = np.flatnonzero(spans.last > spans.first)
    first, last = spans.first[used], spans.last[used]

    def summed(values: Numbers) -> Int64s:
        until = np.append(0, np.cumsum(values[kernels - low], dtype=np.int64))
        return np.asarray(until[last] - until[first])

    device = activities.device[low:high].astype(np.int64)
    return OperatorCalls(
        tuple(operators),
        of_label[chosen.label[used]],
        activities.device[kernels[first]].astype(np.int64),
        activities.start_ns[kernels[first]],
        summed(took),
        summed(product_ns),
        {int(d): int(product_ns[device == d].sum()) for d in np.unique(device)},
    )


def _is_product(profile: Profile) -> Numbers:
    """Of each kernel, whether its name is that of one that multiplies matrices."""
    numbered = profile.loaded("kernels").names
    is_product = np.array([bool(_PRODUCT.search(name)) for name in numbered.distinct], bool)
    places = [numbered.places.of(name_id) for (name_id,) in profile.columns("kernels", "name_id")]
    return is_product[np.concatenate(places)] if places else np.zeros(0, bool)


def gpu_models(profile: Profile) -> dict[int, GpuModel]:
    """The kind of each GPU that is known."""
    kinds = {
        row["device_id"]: gpu_of_device(row["name"] or "", row["total_memory_bytes"])
        for row in device_rows(profile)
    }
    return {device: gpu for device, gpu in kinds.items() if gpu is not None}
