"""What kernels cost beside the work that is wanted: small ones, conversions, copies in memory."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from gpuprof.analyses.pauses import ANALYSIS as PAUSES
from gpuprof.base.kernel_names import short_name, short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, shortened
from gpuprof.base.statistics import median
from gpuprof.base.units import counted, say_bytes, say_ns, say_share
from gpuprof.facts.hosts import device_rows
from gpuprof.facts.kernel_kinds import (
    ATTENTION_READS,
    COPY,
    JAX,
    KIND_READS,
    LAYOUT,
    PLAIN_PRODUCT,
    PYTORCH,
    TENSORFLOW,
    elementwise_kernels,
    framework,
    kernels_of_kinds,
    kind_of,
    shown,
    unfused_attention,
)
from gpuprof.facts.launches import activities
from gpuprof.facts.moves import origins
from gpuprof.facts.numbers import NOT_FOUND
from gpuprof.facts.nvtx import NO_RANGE, OF_ONE_CALL
from gpuprof.facts.pause_causes import pieces_of
from gpuprof.facts.pauses import SHORT_WAIT_READS, pauses_of, short_waits
from gpuprof.facts.step_times import usual_of
from gpuprof.facts.timeline import LOCAL_COPY, layer_of_copies
from gpuprof.findings.scope import Finding, Scope
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import (
    NOTHING,
    Int64s,
    Intervals,
    covered_within,
    intersection,
    together,
    union,
)
from gpuprof.model.pairs import different, places_in
from gpuprof.model.profile import Profile, once_per_recording

READS: Final = reads(
    KIND_READS,
    ATTENTION_READS,
    PAUSES.reads,
    SHORT_WAIT_READS,
    kernels="start_ns end_ns device_id name name_id",
    memsets="bytes",
    devices="device_id name compute_capability",
)

# Kernels shorter than this take less time than it takes a host to launch the next one.
_SMALL_NS: Final = 10_000
_MANY: Final = 50
# So many steps are enough to measure how long kernels are.
_SAMPLES: Final = 20
# A longer pause has another reason than the launch of one kernel.
_LAUNCH_NS: Final = 1_000_000
# Causes of pauses (see `pauses`) in which the host does what it takes to launch the next kernel.
_LAUNCHING: Final = {"launch", "operation", "range", "cuda_call", "host_late"}
# Less of a step is not worth the time that it takes to look closer.
_LEAST_SHARE: Final = 0.01
_MOST: Final = 0.5
# So many names are said, and none that takes less of the time than this.
_MOST_PLACES: Final = 2
_WORTH: Final = 0.1
# Copies or memsets that take less of the time of both are not said beside the others.
_LEAST_BESIDE: Final = 0.25
# Kernels of a kind that take less of its time are left out of a replay, whose change names each.
_LEAST_REPLAYED: Final = 0.02
Row = Mapping[str, Any]
_Words = tuple[str, str, int, str, Mapping[str, str]]

_AMP: Final = {
    PYTORCH: "compute in mixed precision (torch.autocast)",
    TENSORFLOW: "compute in mixed precision (mixed_precision.set_global_policy('mixed_float16'))",
    JAX: "compute in bfloat16 or float16",
    "": "compute in fp16",
}
_TF32: Final = {
    PYTORCH: "allow TF32 (torch.set_float32_matmul_precision('high'),"
    " torch.backends.cudnn.allow_tf32 = True) or compute in mixed precision (torch.autocast)",
    TENSORFLOW: "allow TF32 (tf.config.experimental.enable_tensor_float_32_execution(True)) or"
    " compute in mixed precision",
    JAX: "allow TF32 (jax_default_matmul_precision='tensorfloat32') or compute in bfloat16",
    "": "allow TF32 (CUBLAS_COMPUTE_32F_FAST_TF32, CUDNN_TENSOR_OP_MATH) or compute in fp16",
}
# Cause, what the device does, what their time is divided by for what can be won at most, by which
# means, and what to try.
_LAYOUT: Final = (
    "layout_conversions",
    "converts the layout of tensors",
    1,
    "one layout throughout",
    {
        PYTORCH: "keep model and input in one layout: .to(memory_format=torch.channels_last)",
        TENSORFLOW: "build the model with data_format='channels_last', or compile it with XLA",
        JAX: "choose NHWC dimension numbers for convolutions, so that nothing is transposed",
        "": "keep tensors in the layout that the library's kernels take (NHWC)",
    },
)
# Most programs need some of them.
_COPY: Final = (
    "copy_kernels",
    "copies or casts tensors by kernels",
    2,
    "fewer copies and casts",
    {
        PYTORCH: "avoid .contiguous(), .clone() and .to() of tensors, or fuse them (torch.compile)",
        TENSORFLOW: "avoid tf.cast and tf.identity of large tensors, or fuse them (XLA)",
        JAX: "donate buffers (donate_argnums) and avoid casts of large arrays",
        "": "avoid copies of tensors, or fuse them with the kernel that reads them",
    },
)
# Each of these kernels reads and writes memory for one operation; fused, the results between them
# stay in registers. Below this share of the compute time, fusing wins less than it takes.
_LEAST_ELEMENTWISE: Final = 0.3
_FUSE: Final = {
    PYTORCH: "fuse them: torch.compile",
    TENSORFLOW: "fuse them with XLA: tf.function(jit_compile=True)",
    JAX: "put them into one jax.jit, which fuses them",
    "": "fuse them into the kernels that make or read their tensors",
}
# Less of the compute time is not worth another attention; where less of that is between the two
# products, these are of something else, such as a gate.
_LEAST_ATTENTION: Final = 0.2
_ATTENTION: Final = {
    PYTORCH: "compute it in one kernel: torch.nn.functional.scaled_dot_product_attention, or"
    " attn_implementation='sdpa' of Hugging Face",
    TENSORFLOW: "compute it in one kernel: keras.layers.MultiHeadAttention(flash_attention=True)",
    JAX: "compute it in one kernel: jax.nn.dot_product_attention(implementation='cudnn')",
    "": "compute it in one kernel (FlashAttention, cuDNN's scaled dot product attention)",
}
# Up to 8 times as fast: A100 has 19.5 TFLOPS in fp32 and 156 in TF32, V100 15.7 in fp32 and 125
# with Tensor Cores in fp16 (NVIDIA's data sheets;
# https://developer.nvidia.com/blog/accelerating-ai-training-with-tf32-tensor-cores). What memory
# bounds, and what is small, gains little of that: a quarter of the time is what is counted on, so
# that nothing surer ranks behind it.
_PLAIN: Final = "multiplies matrices or convolves without Tensor Cores"
_PLAIN_TF32: Final = ("no_tensor_cores", _PLAIN, 4, "TF32 or mixed precision", _TF32)
_PLAIN_AMP: Final = ("no_tensor_cores", _PLAIN, 4, "mixed precision", _AMP)

_SMALL: Final = {
    PYTORCH: "launch many at once: CUDA graphs (torch.cuda.make_graphed_callables), or"
    " torch.compile(mode='reduce-overhead'), which fuses them, too",
    TENSORFLOW: "compile the step with XLA (tf.function(jit_compile=True)), which fuses kernels",
    JAX: "put the whole step into one jax.jit",
    "": "launch the step as one CUDA graph, or fuse its kernels",
}
_LOCAL: Final = {
    PYTORCH: "avoid .clone(), .copy_() and .contiguous() there, or run them beside kernels on"
    " another stream",
    TENSORFLOW: "avoid copies of variables and slices there, or compile with XLA",
    JAX: "donate buffers (donate_argnums), so that results overwrite what they replace",
    "": "swap pointers instead of copying, or copy on another stream beside kernels",
}
_SETTING: Final = "let the first kernel write all of it, or set it on another stream beside kernels"

# Of devices whose compute capability was not recorded. GeForce 16 have capability 7.5 and none.
_WITHOUT: Final = re.compile(r"\bGTX\b|\bMX\d|\bT[456]00\b|\bT1000\b")
_SINCE_AMPERE: Final = re.compile(
    r"\bA\d{1,3}\b|\bA100|\bA800|\bH\d{2,3}\b|\bH100|\bGH200|\bG?B\d{3}\b|\bL4\b|\bL20\b|\bL40S?\b"
    r"|\bRTX (?:A\d{4}|[345]0\d0|PRO)|\b(?:Orin|Thor)\b"
)
_SINCE_VOLTA: Final = re.compile(r"\bV100|\bTITAN (?:V|RTX)\b|\bT4\b|\bRTX\b|\bXavier\b|\bGV100\b")
_VOLTA, _AMPERE = 7.0, 8.0


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What a device's small kernels, conversions and copies within its memory cost a step."""
    yield from _small_kernels(scope)
    yield from _of_kind(scope, LAYOUT, _LAYOUT)
    yield from _attention(scope)
    yield from [*_elementwise(scope)] or _of_kind(scope, COPY, _COPY)
    capability = _capabilities(scope.profile).get(scope.device.device_id, 0)
    if capability >= _VOLTA:
        yield from _of_kind(
            scope, PLAIN_PRODUCT, _PLAIN_TF32 if capability >= _AMPERE else _PLAIN_AMP
        )
    yield from _local_copies(scope)


def _small_kernels(scope: Scope) -> Iterator[Finding]:
    """Kernels so short that the device waits for the launch of the next one."""
    cost_ns = usual_of(_waits_for_launches(scope))
    if cost_ns < _LEAST_SHARE * scope.step_ns or not cost_ns:
        return
    # The kernels that start in some of the steps.
    work = activities(scope.profile.unrestricted)
    low, high = work.tables.get("kernels", (0, 0))
    start, duration_ns, device = (
        column[low:high] for column in (work.start_ns, work.duration_ns, work.device)
    )
    order = _by_start(scope.profile)
    steps = different(np.linspace(0, len(scope.start_ns) - 1, _SAMPLES, dtype=np.int64))
    borders = (scope.start_ns[steps], scope.end_ns[steps])
    first, last = (np.searchsorted(start, border, sorter=order) for border in borders)
    of_steps = [*map(slice, first.tolist(), last.tolist())]
    rows: Sequence[Any] = of_steps if order is None else [order[some] for some in of_steps]
    durations = np.concatenate(
        [duration_ns[some].compress(device[some] == scope.device.number) for some in rows]
    ).astype(np.int64)
    is_many = len(durations) * len(scope.start_ns) >= _MANY * len(steps)
    if not is_many or median(durations) >= _SMALL_NS:
        return
    number = f"{round(len(durations) / len(steps)):,}{' a step' if scope.has_steps else ''}"
    phrase = (
        f"waits for the launch of small kernels: {number}, half of them shorter than"
        f" {say_ns(float(median(durations)))}"
    )
    suggestion = _SMALL[framework(scope.profile)]
    yield Finding(
        "small_kernels", scope, phrase, cost_ns, cost_ns, "launching many at once", suggestion,
        "pauses", names=(),
    )  # fmt: skip


def _waits_for_launches(scope: Scope) -> Int64s:
    """Of each step short gaps, and pauses in which the host did nothing but what a launch takes.

    Where the host waits for a result before it launches more, launching is not what takes long.
    """
    long_pauses, steps = scope.device.pauses, (scope.start_ns, scope.end_ns)
    other_ns = covered_within(long_pauses, *steps)
    if other_ns.any() and scope.profile.unrestricted.has("api_calls"):
        pauses = pauses_of(scope.profile)
        is_here = pauses.device == scope.device.number
        is_bound = _is_launch_bound(scope.profile) & is_here
        is_left = places_in(pauses.start_ns[is_bound], long_pauses.start) == NOT_FOUND
        of_others = Intervals(long_pauses.start[is_left], long_pauses.end[is_left])
        other_ns = covered_within(of_others, *steps)
    other_ns += covered_within(short_waits(scope.profile)[scope.device.device_id].gaps, *steps)
    return scope.device.idle_ns(*steps) - other_ns


@once_per_recording
def _is_launch_bound(profile: Profile) -> npt.NDArray[np.bool_]:
    """Of each pause, whether launching was all that the host did in it."""
    pauses, pieces = pauses_of(profile), pieces_of(profile)
    is_launching = np.array([cause in _LAUNCHING for cause, _ in pieces.labels], bool)
    is_bound = pauses.end_ns - pauses.start_ns <= _LAUNCH_NS
    is_bound[pieces.pause[~is_launching[pieces.stretches.label]]] = False
    return is_bound


@once_per_recording
def _by_start(profile: Profile) -> Int64s | None:
    """The order of the kernels by start; None where they lie in it."""
    work = activities(profile)
    low, high = work.tables.get("kernels", (0, 0))
    start = work.start_ns[low:high]
    return None if (start[1:] >= start[:-1]).all() else np.argsort(start, kind="stable")


def _elementwise(scope: Scope) -> Iterator[Finding]:
    """The time of all kernels of one operation on each element, copies and casts among them.

    Nothing where most of it is copies and casts: they have a cause of their own.
    """
    elementwise = elementwise_kernels(scope.profile).get(scope.device.device_id, {})
    if not elementwise:
        return
    computing = _in_span(scope, elementwise)
    ran = computing | _ran(scope, COPY)
    instants = together([*ran.values()])
    computing_ns, cost_ns = (
        scope.per_step(together([*computing.values()])),
        scope.per_step(instants),
    )
    if cost_ns < max(_LEAST_ELEMENTWISE * scope.compute_ns, 1) or 2 * computing_ns < cost_ns:
        return
    sums = {name: scope.per_step(of_name) for name, of_name in ran.items()}
    short = short_names(ran)
    parts = ", ".join(
        f"{shortened(short[name], LONGEST_IN_WORDS)} {say_share(sums[name] / scope.step_ns)}"
        for name in _most(sums, cost_ns)
    )
    kinds = dict.fromkeys(shown(name) for name in ran)
    yield Finding(
        "elementwise_kernels",
        scope,
        f"computes element by element, one operation a kernel ({counted(len(ran), 'name', 'names')}"
        f"; most {parts} of {'a step' if scope.has_steps else 'the span'})",
        cost_ns,
        cost_ns // 2,
        "fusing these kernels",
        _FUSE[framework(scope.profile)],
        "kernel_summary",
        names=tuple(map(re.escape, kinds)),
        instants=instants,
    )


def _attention(scope: Scope) -> Iterator[Finding]:
    """Attention in separate kernels, which write to memory what one kernel keeps in registers."""
    attention = unfused_attention(scope.profile).get(scope.device.device_id)
    if attention is None:
        return
    instants, between = (intersection(t, scope.device.span) for t in attention[:2])
    cost_ns, win_ns = scope.per_step(instants), scope.per_step(between)
    if cost_ns < max(_LEAST_ATTENTION * scope.compute_ns, 1) or win_ns < _LEAST_ATTENTION * cost_ns:
        return
    calls = int((scope.step_of(attention.start_ns) >= 0).sum())
    number = counted(round(calls / len(scope.start_ns)), "time", "times")
    softmax, *products = (
        shortened(short_name(name), LONGEST_IN_WORDS)
        for name in (attention.softmax, *attention.products)
    )
    phrase = (
        f"computes attention in separate kernels ({number}{' a step' * scope.has_steps}; {softmax}"
        f" between {' and '.join(products)}; {say_ns(win_ns)} between the products)"
    )
    suggestion = _ATTENTION[framework(scope.profile)]
    yield Finding(
        *("unfused_attention", scope, phrase, cost_ns, win_ns, "fused attention", suggestion),
        *("kernel_summary", attention.softmax),
        instants=instants,
    )


def _ran(scope: Scope, kind: str) -> dict[str, Intervals]:
    """When the kernels of each name of a kind ran."""
    times = kernels_of_kinds(scope.profile).get(scope.device.device_id, {})
    return _in_span(scope, {name: of for name, of in times.items() if kind_of(name) == kind})


def _in_span(scope: Scope, times: Mapping[str, Intervals]) -> dict[str, Intervals]:
    """What of the times of each name lies in the span of the device."""
    return {name: intersection(instants, scope.device.span) for name, instants in times.items()}


def _of_kind(scope: Scope, kind: str, words: _Words) -> Iterator[Finding]:
    """The time of the kernels of a kind, and the one that takes most of it."""
    ran = _ran(scope, kind)
    instants = together([*ran.values()]) if ran else NOTHING
    cost_ns = scope.per_step(instants)
    if not cost_ns:
        return
    sums: dict[str, int] = defaultdict(int)
    for name, of_name in ran.items():
        sums[shown(name)] += scope.per_step(of_name)
    named = _most(sums, cost_ns)
    parts = ", ".join(f"{name} {say_share(sums[name] / scope.step_ns)}" for name in named)
    if sum(sums[name] for name in named) < _MOST * cost_ns:
        parts = f"{counted(len(sums), 'name', 'names')}; most {parts}"
    cause, phrase, divisor, means, suggestions = words
    yield Finding(
        cause,
        scope,
        f"{phrase} ({parts} of {'a step' if scope.has_steps else 'the span'})",
        cost_ns,
        cost_ns // divisor,
        means,
        suggestions[framework(scope.profile)],
        "kernel_summary",
        named[0],
        tuple(
            # Words such as Cast are in the names of other kernels, too.
            f"^{name}$" if name in ran and name.isalpha() else re.escape(name)
            for name in sums
            if sums[name] >= _LEAST_REPLAYED * cost_ns
        ),
        instants=instants,
    )


@once_per_recording
def _capabilities(profile: Profile) -> Mapping[int | None, float]:
    """The compute capability of each device, or the least that its name tells; 0 for none known."""
    least: dict[int | None, float] = {}
    for row in device_rows(profile):
        name, capability = row["name"] or "", 0.0
        if row["compute_capability"] is not None:
            major, _, minor = row["compute_capability"].partition(".")
            if major.isdecimal() and minor.isdecimal():
                capability = float(f"{major}.{minor}")
        elif _SINCE_AMPERE.search(name):
            capability = _AMPERE
        elif _SINCE_VOLTA.search(name):
            capability = _VOLTA
        capability = 0 if _WITHOUT.search(name) else capability
        least[row["device_id"]] = min(capability, least.get(row["device_id"], capability))
    return least


def _local_copies(scope: Scope) -> Iterator[Finding]:
    """Copies within the device's memory and memsets at which nothing else runs."""
    exposed = intersection(scope.device.exposed[LOCAL_COPY], union(scope.start_ns, scope.end_ns))
    cost_ns = scope.per_step(exposed)
    if not cost_ns:
        return
    phrase, suggestion = "copies or sets its own memory", _LOCAL[framework(scope.profile)]
    where = ""
    if cost_ns >= _LEAST_SHARE * scope.step_ns:
        work = activities(scope.profile.unrestricted)
        copies = len(work.copies)
        is_here = work.device[:copies] == scope.device.number
        rows = np.flatnonzero((layer_of_copies(work.copies) == LOCAL_COPY) & is_here)
        lengths = covered_within(exposed, work.start_ns[rows], work.end_ns(rows))
        rows, lengths = rows[lengths > 0], lengths[lengths > 0]
        copying = float(lengths.sum() / exposed.length)
        if copying < _MOST:
            phrase, suggestion = "sets its own memory", _SETTING
            if copying >= _LEAST_BESIDE:
                phrase += f" ({say_share(copying)} of it copies)"
        else:
            moved = int(work.copies.moved_bytes[rows].sum()) // len(scope.start_ns)
            size = f"{say_bytes(moved)} " if moved else ""
            phrase = f"copies {size}within its own memory"
            if 1 - copying >= _LEAST_BESIDE:
                phrase += f" ({say_share(1 - copying)} of it memsets)"
            where = _origins(scope, rows, lengths)
    if len(exposed) == 1:
        phrase += ", once"
    yield Finding(
        "local_copies", scope, phrase, cost_ns, cost_ns, "fewer copies, or overlap", suggestion,
        "breakdown", where, ("DtoD", "memset"), instants=exposed,
    )  # fmt: skip


def _origins(scope: Scope, rows: Int64s, lengths: Int64s) -> str:
    """The ranges or operations that launched most of some copies; empty where none is known."""
    profile = scope.profile.unrestricted
    if not profile.has("api_calls", "nvtx_ranges"):
        return ""
    number, texts = origins(profile, activities(profile).copies.take(rows))
    sums: dict[str, int] = defaultdict(int)
    for place in np.unique(number[number != NO_RANGE]).tolist():
        sums[OF_ONE_CALL.sub("", texts[place])] += int(lengths[number == place].sum())
    return " and ".join(_most(sums, int(lengths.sum())))


def _most(sums: Mapping[str, int], total: int) -> list[str]:
    """The names of the largest parts of a total, the largest one first."""
    most = sorted(sums, key=lambda name: -sums[name])[:_MOST_PLACES]
    return [*most[:1], *(name for name in most[1:] if sums[name] >= _WORTH * total)]
