"""Kernels that leave a part of the GPU unused, for few warps or few blocks, and what that costs.

Samples of nsys show the same of all kernels together, also of those whose launches do not tell.

Low occupancy alone is no fault: products of matrices and their kin keep all units busy with 8 to
25 % of the warps (V. Volkov, "Better Performance at Lower Occupancy", GTC 2010), and to squeeze
more warps in can make them four times slower. So kernels of libraries and of products are left
out, and what is said of others is not sure.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from gpuprof.analyses import kernel_occupancy
from gpuprof.analyses.kernel_occupancy import BLOCK_SIZE, BLOCKS, REGISTERS, SHARED_MEMORY
from gpuprof.base.cuda import is_communication
from gpuprof.base.kernel_names import short_names
from gpuprof.base.short_texts import LONGEST_IN_WORDS, shortened
from gpuprof.base.units import counted, say_share
from gpuprof.facts.activity_sums import trace_sums
from gpuprof.facts.metric_samples import METRIC_READS, mean_of, metric_samples
from gpuprof.facts.needless_copies import not_sought
from gpuprof.facts.numbers import columns_of, groups, rows_named
from gpuprof.facts.timeline import COMPUTE, busy_by_device
from gpuprof.findings.scope import Finding, Scope
from gpuprof.model.intervals import NOTHING, Intervals, difference, intersection, together, union
from gpuprof.model.profile import Profile, once_per_recording

READS: Final = METRIC_READS
READS_OF_SMALL: Final = kernel_occupancy.READS

# So many names are said.
_MOST_NAMES: Final = 2
# The CUDA C++ Best Practices Guide ("Occupancy") has low occupancy always interfere with hiding
# latency, without a figure. In the recordings that this was tried on, kernels of programs' own at
# 8 to 17 % are worth a look (rays, particles, fits), and of those at 25 % nothing could be told.
_LOW: Final = 0.25
# With fewer blocks than half of the multiprocessors, more than half of the GPU is idle.
_FEW_BLOCKS: Final = 0.5
# Shorter kernels are over before more warps or blocks would tell: in recordings they prepare data.
_LEAST_NS: Final = 50_000
# Of a step: less is not worth a rewritten kernel.
_LEAST_REWRITTEN: Final = 0.1
# Of the time of a kernel in launches that are so: the others are launched well.
_NEARLY_ALL: Final = 0.9
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
    "split {} work into more blocks, at least one for each multiprocessor, or run kernels that do"
    " not need each other on several streams"
)

Row = Mapping[str, Any]


def of_scope(scope: Scope) -> Iterator[Finding]:
    """What kernels with few warps, and with few blocks, cost a step, and idle multiprocessors."""
    of_launches = [*_of_launches(scope)]
    yield from of_launches
    has_small_grids = any(finding.cause == "small_grids" for finding in of_launches)
    if has_small_grids or not metric_samples(scope.profile):
        return
    computing = intersection(scope.device.exposed[COMPUTE], union(scope.start_ns, scope.end_ns))
    share = mean_of(scope.profile, scope.device.device_id, "SMs Active", computing)
    cost_ns = scope.compute_ns
    if share is None or share >= _FEW_BLOCKS or cost_ns < _LEAST_REWRITTEN * scope.step_ns:
        return
    yield Finding(
        "idle_sms",
        scope,
        f"computes with {say_share(share)} of its multiprocessors active, by samples",
        cost_ns,
        int(cost_ns * (1 - share)),
        "more blocks",
        "find kernels of few blocks (--table kernel_occupancy), and "
        + _MORE_BLOCKS.format("their"),
        "gpu_metric_means",
        is_sure=False,
        instants=computing,
    )


def _of_launches(scope: Scope) -> Iterator[Finding]:
    """What kernels with few warps, and with few blocks, cost a step."""
    profile = scope.profile.unrestricted
    if not profile.has("kernels", "devices") or not_sought(profile):
        return
    # What a step usually pays is at most twice the mean.
    least_ns = max(_LEAST_REWRITTEN * scope.step_ns, 1)
    if 2 * _longest(profile).get(scope.device.number, 0) < least_ns * len(scope.start_ns):
        return
    kernels = _badly_launched(profile)
    alone = _alone(profile).get(scope.device.device_id, {})
    costs = {name: scope.per_step(intersection(t, scope.device.span)) for name, t in alone.items()}
    costly = sorted((n for n in costs if costs[n] >= least_ns), key=lambda name: -costs[name])
    for cause in ("low_occupancy", "small_grids"):
        worth = {name: kernels[name][1] for name in costly if kernels[name][0] == cause}
        if worth:
            instants = together([alone[name] for name in worth])
            cost_ns = scope.per_step(instants)
            used = [
                row["occupancy"]
                if cause == "low_occupancy"
                else row["blocks"] / row["multiprocessors"]
                for row in worth.values()
            ]
            won_ns = sum(int(costs[n] * (1 - share)) for n, share in zip(worth, used, strict=True))
            phrase, name, means, suggestion = _words(cause, worth)
            yield Finding(
                *(cause, scope, phrase, cost_ns, min(won_ns, cost_ns), means, suggestion),
                *("kernel_occupancy", name),
                is_sure=False,
                instants=instants,
            )


def _words(cause: str, launches: Mapping[str, Row]) -> tuple[str, str, str, str]:
    """What a device does, the kernel that does it most, how to win that back, and what to try."""
    short = short_names(launches)
    names = [shortened(short[name], LONGEST_IN_WORDS) for name in [*launches][:_MOST_NAMES]]
    means, suggestion = "more blocks", _MORE_BLOCKS.format("its")
    phrases = [
        f"with {counted(launch['blocks'], 'block', 'blocks')}"
        f" of {counted(launch['threads_per_block'], 'thread', 'threads')}"
        f" on {launch['multiprocessors']} multiprocessors"
        for launch in launches.values()
    ]
    if cause == "low_occupancy":
        phrases, means = [_few_warps(launch) for launch in launches.values()], "more warps"
        limits = next(iter(launches.values()))["limited_by"].split(", ")
        suggestion = " or ".join(_MORE_WARPS[limit] for limit in limits) + _MEASURE
    words = " and ".join(f"{name} {how}" for name, how in zip(names, phrases, strict=False))
    return f"runs {words}", names[0], means, suggestion


def _few_warps(launch: Row) -> str:
    sizes = {
        REGISTERS: f"{launch['registers_per_thread']} registers a thread",
        SHARED_MEMORY: "its shared memory",
        BLOCK_SIZE: counted(launch["threads_per_block"], "thread a block", "threads a block"),
        BLOCKS: counted(launch["threads_per_block"], "thread a block", "threads a block"),
    }
    limits = dict.fromkeys(sizes[limit] for limit in launch["limited_by"].split(", "))
    share = say_share(launch["occupancy"])
    return f"with {share} of the warps that a GPU can hold, for {' and '.join(limits)}"


@once_per_recording
def _longest(profile: Profile) -> Mapping[int, int]:
    """How long the kernel of one name takes, in ns, that takes longest on each device."""
    columns = ("start_ns", "end_ns", "device_id")
    parts = rows_named(profile, "kernels", [*_long_enough(profile)], *columns)
    start, end, device, name = columns_of(parts, len(columns) + 1)
    longest: dict[int, int] = {}
    for rows in groups(device, name):
        number, took_ns = int(device[rows[0]]), int((end - start)[rows].sum())
        longest[number] = max(longest.get(number, 0), took_ns)
    return longest


@once_per_recording
def _long_enough(profile: Profile) -> dict[str, int]:
    """The time of the kernels of each name whose launches are looked at, in ns."""
    columns = ("activity_kind", "name", "calls", "total_ns")
    sums = zip(*(profile.once(trace_sums)[name].to_pylist() for name in columns), strict=True)
    return {
        name: total_ns
        for kind, name, calls, total_ns in sums
        if kind == "kernel" and total_ns >= _LEAST_NS * calls
        if not (is_communication(name) or _is_tuned(name))
    }


@lru_cache(1 << 14)  # files of one job have the same names
def _is_tuned(name: str) -> bool:
    return _TUNED.search(name) is not None


@once_per_recording
def _badly_launched(profile: Profile) -> dict[str, tuple[str, Row, int]]:
    """The kernels that have few warps, or few blocks, for nearly all of their time.

    Of each why, the launch that takes most of its time, and all its time in ns.
    """
    total_of = _long_enough(profile)
    of_name: dict[str, list[Row]] = {}
    # Mostly few are left, and their sizes are all that is looked at.
    for row in kernel_occupancy.occupancy_rows(profile, total_of) if total_of else ():
        of_name.setdefault(row["name"], []).append(row)
    kernels = {}
    for name, rows in of_name.items():
        total_ns = total_of[name]
        for cause in ("low_occupancy", "small_grids"):
            launches = [row for row in rows if _unused(row) == cause]
            if sum(row["total_ns"] for row in launches) >= _NEARLY_ALL * total_ns > 0:
                kernels[name] = cause, launches[0], total_ns
    return kernels


def _unused(launch: Row) -> str:
    """Why a launch leaves a part of the GPU unused; empty where it does not, or may not."""
    if launch["waves"] is None:
        return ""
    if launch["blocks"] < _FEW_BLOCKS * launch["multiprocessors"]:
        return "small_grids"
    return "low_occupancy" if launch["occupancy"] < _LOW and launch["waves"] >= 1 else ""


@once_per_recording
def _alone(profile: Profile) -> dict[int | None, dict[str, Intervals]]:
    """When each of these kernels runs and no other kernel does, by device."""
    kernels = _badly_launched(profile)
    if not kernels:
        return {}
    place, no_name = {name: number for number, name in enumerate(kernels)}, len(kernels)
    values = profile.loaded("kernels").names.values(lambda n: place.get(n, no_name), no_name)
    columns = ("start_ns", "end_ns", "device_id", "name_id")
    parts = (
        (start, end, device, values.of(number).astype(np.int64))
        for start, end, device, number in profile.columns("kernels", *columns)
    )
    alone: dict[int | None, dict[str, Intervals]] = {}
    lengths = dict.fromkeys(kernels, 0)
    for device, busy in busy_by_device(parts, no_name + 1).items():
        kinds = busy.kinds
        for name, number in place.items():
            times = kinds.get(number, NOTHING)
            lengths[name] += times.length
            beside = together([t for kind, t in kinds.items() if kind != number])
            alone.setdefault(device, {})[name] = difference(times, beside)
    # Where calls of a kernel run side by side, they share the GPU.
    are_apart = {name for name, (*_, ns) in kernels.items() if lengths[name] >= _NEARLY_ALL * ns}
    return {
        device: {name: t for name, t in of_name.items() if name in are_apart}
        for device, of_name in alone.items()
    }
