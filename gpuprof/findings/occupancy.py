"""Kernels that cannot hide how long memory takes: few warps on a multiprocessor, or few blocks.

Low occupancy alone is no fault: products of matrices and their kin keep all units busy with 8 to
25 % of the warps (V. Volkov, "Better Performance at Lower Occupancy", GTC 2010), and to squeeze
more warps in can make them four times slower. So kernels of libraries and of products are left
out, and what is said of others is not sure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpuprof.analyses import kernel_occupancy
from gpuprof.analyses.kernel_occupancy import BLOCK_SIZE, BLOCKS, REGISTERS, SHARED_MEMORY
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, shortened
from gpuprof.base.units import counted, say_share
from gpuprof.facts.needless_copies import not_sought
from gpuprof.facts.numbers import names_by_number
from gpuprof.facts.timeline import busy_by_device
from gpuprof.findings.contract import Finding, Scope
from gpuprof.model.analysis import reads
from gpuprof.model.intervals import NOTHING, Intervals, difference, intersection, together
from gpuprof.model.profile import Profile

READS: Final = reads(kernels="start_ns end_ns device_id name name_id")
READS_OF_SMALL: Final = kernel_occupancy.READS

# The CUDA C++ Best Practices Guide ("Occupancy") has low occupancy always interfere with hiding
# latency, without a figure. In the recordings that this was tried on, kernels of programs' own at
# 8 to 17 % are worth a look (rays, particles, fits), and of those at 25 % nothing could be told.
_LOW: Final = 0.25
# With fewer blocks than half of the multiprocessors, more than half of the GPU is idle.
_FEW_BLOCKS: Final = 0.5
# Shorter kernels are over before more warps or blocks would tell: in recordings they prepare data.
_LEAST_NS: Final = 50_000
# Of a step: less is not worth a rewritten kernel.
_LEAST_SHARE: Final = 0.1
# Of the time of a kernel in launches that are so: the others are launched well.
_NEARLY_ALL: Final = 0.9
_MOST_NAMES: Final = 2
# Kernels of libraries, and those that work on tiles in registers as these do.
_TUNED: Final = re.compile(
    r"gemm|cutlass|cudnn|cublas|cufft|xmma|convolve|winograd|fmha|flash|attention|nvjet|wgrad|dgrad"
    r"|wmma|\bmma_|tensorop|\btrt_|triton_|\bat::native::|tensorflow::|\bcub::|\bthrust::",
    re.IGNORECASE,
)
_MORE_WARPS: Final = {
    REGISTERS: "bound registers with __launch_bounds__ or -maxrregcount, or split the kernel",
    SHARED_MEMORY: "use less shared memory in a block, or more threads that share it",
    BLOCK_SIZE: "choose blocks that fill a multiprocessor, such as 256 threads",
    BLOCKS: "use larger blocks, such as 256 threads",
}
_MEASURE: Final = " and measure it: if it does not wait for memory, more warps win nothing"
_MORE_BLOCKS: Final = (
    "split its work into more blocks, at least one for each multiprocessor, or run kernels that do"
    " not need each other on several streams"
)


class _Kernel(NamedTuple):
    """A kernel that is launched so nearly always: the launch that takes most of its time."""

    cause: str
    launch: Mapping[str, Any]
    total_ns: int


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What kernels with few warps, and with few blocks, cost a step."""
    profile = scope.profile.unrestricted
    if not profile.has("kernels", "devices") or not_sought(profile):
        return
    kernels = profile.once(_kernels)
    alone = profile.once(_alone).get(scope.device.device_id, {})
    costs = {name: scope.per_step(intersection(t, scope.device.span)) for name, t in alone.items()}
    least_ns = max(_LEAST_SHARE * scope.step_ns, 1)
    costly = sorted((n for n in costs if costs[n] >= least_ns), key=lambda name: -costs[name])
    for cause in _USED:
        worth = {name: kernels[name].launch for name in costly if kernels[name].cause == cause}
        if worth:
            together_ns = scope.per_step(together([alone[name] for name in worth]))
            won_ns = sum(int(costs[n] * (1 - _USED[cause](row))) for n, row in worth.items())
            yield _finding(scope, cause, worth, together_ns, min(won_ns, together_ns))


def _finding(
    scope: Scope, cause: str, launches: Mapping[str, Mapping[str, Any]], cost_ns: int, win_ns: int
) -> Finding:
    short = short_names(launches)
    shown = [shortened(short[name], LONGEST_IN_WORDS) for name in [*launches][:_MOST_NAMES]]
    first, *_ = launches.values()
    if cause == "low_occupancy":
        phrases, means = map(_few_warps, launches.values()), "more warps"
        suggestion = " or ".join(_MORE_WARPS[limit] for limit in first["limited_by"].split(", "))
        suggestion += _MEASURE
    else:
        phrases, means, suggestion = (
            map(_few_blocks, launches.values()),
            "more blocks",
            _MORE_BLOCKS,
        )
    words = " and ".join(f"{name} {how}" for name, how in zip(shown, phrases, strict=False))
    return Finding(
        *(cause, scope, f"runs {words}", cost_ns, win_ns, means, suggestion, "kernel_occupancy"),
        shown[0],
        is_sure=False,
    )


# Cause -> the part of the GPU that a launch uses: of its warps, or of its multiprocessors.
_USED: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "low_occupancy": lambda launch: launch["occupancy"],
    "small_grids": lambda launch: launch["blocks"] / launch["multiprocessors"],
}


def _few_warps(launch: Mapping[str, Any]) -> str:
    sizes = {
        REGISTERS: f"{launch['registers_per_thread']} registers a thread",
        SHARED_MEMORY: "its shared memory",
        BLOCK_SIZE: counted(launch["threads_per_block"], "thread a block", "threads a block"),
        BLOCKS: counted(launch["threads_per_block"], "thread a block", "threads a block"),
    }
    limits = dict.fromkeys(sizes[limit] for limit in launch["limited_by"].split(", "))
    share = say_share(launch["occupancy"])
    return f"with {share} of the warps that a GPU can hold, for {' and '.join(limits)}"


def _few_blocks(launch: Mapping[str, Any]) -> str:
    blocks = counted(launch["blocks"], "block", "blocks")
    threads = counted(launch["threads_per_block"], "thread", "threads")
    return f"with {blocks} of {threads} on {launch['multiprocessors']} multiprocessors"


def _kernels(profile: Profile) -> dict[str, _Kernel]:
    """The kernels that have few warps, or few blocks, for nearly all of their time."""
    of_name: dict[str, list[dict[str, Any]]] = {}
    for row in profile.once(kernel_occupancy.kernel_occupancy).to_pylist():
        of_name.setdefault(row["name"], []).append(row)
    kernels = {}
    for name, rows in of_name.items():
        total_ns = sum(row["total_ns"] for row in rows)
        is_short = total_ns < _LEAST_NS * sum(row["calls"] for row in rows)
        if is_short or is_communication(name) or _TUNED.search(name):
            continue
        for cause in _USED:
            # The first launch takes most of the time.
            launches = [row for row in rows if _cause(row) == cause]
            if sum(row["total_ns"] for row in launches) >= _NEARLY_ALL * total_ns > 0:
                kernels[name] = _Kernel(cause, launches[0], total_ns)
    return kernels


def _cause(launch: Mapping[str, Any]) -> str:
    """Why a launch leaves a part of the GPU unused; empty where it does not, or may not."""
    if launch["waves"] is None:
        return ""
    if launch["blocks"] < _FEW_BLOCKS * launch["multiprocessors"]:
        return "small_grids"
    return "low_occupancy" if launch["occupancy"] < _LOW and launch["waves"] >= 1 else ""


def _alone(profile: Profile) -> dict[int | None, dict[str, Intervals]]:
    """When each of these kernels runs and no other kernel does, by device."""
    names = [*profile.once(_kernels)]
    if not names:
        return {}
    place = {name: number for number, name in enumerate(names)}
    others = len(names)
    values = names_by_number(profile, "kernels").values(lambda n: place.get(n, others), others)
    parts = (
        (start, end, device, values.of(number).astype(np.int64))
        for start, end, device, number in profile.integers(
            "kernels", "start_ns", "end_ns", "device_id", "name_id"
        )
    )
    alone: dict[int | None, dict[str, Intervals]] = {}
    lengths = dict.fromkeys(names, 0)
    for device, busy in busy_by_device(parts, others + 1).items():
        kinds = busy.kinds
        for name, number in place.items():
            times = kinds.get(number, NOTHING)
            lengths[name] += times.length
            other_kernels = together(
                [instants for kind, instants in kinds.items() if kind != number]
            )
            alone.setdefault(device, {})[name] = difference(times, other_kernels)
    # Where calls of a kernel run side by side, they share the GPU.
    total_ns = {name: kernel.total_ns for name, kernel in profile.once(_kernels).items()}
    return {
        device: {n: t for n, t in of.items() if lengths[n] >= _NEARLY_ALL * total_ns[n]}
        for device, of in alone.items()
    }
