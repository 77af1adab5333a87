"""Changes of how long operations take: by a factor, without page faults, and on another GPU."""

import re
from typing import Final

import numpy as np

from gpuprof.base.errors import UsageError
from gpuprof.base.gpu_models import GPUS, GpuModel, gpu_named
from gpuprof.base.units import say_ns
from gpuprof.facts.kernel_kinds import COPY as COPY_KERNEL
from gpuprof.facts.kernel_kinds import ELEMENTWISE, LAYOUT, kind_of
from gpuprof.facts.numbers import read_columns
from gpuprof.facts.operator_calls import gpu_models
from gpuprof.model.intervals import covered_within, union
from gpuprof.model.profile import Profile
from gpuprof.model.words import Words
from gpuprof.predict.link_models import FAST, SLOW, USUAL
from gpuprof.predict.recorded import COPY, KERNEL, MEMSET, Label
from gpuprof.predict.replay import Changed
from gpuprof.predict.selected import lasting, named, without

_SCALE: Final = re.compile(r"(.+):(\d*\.?\d+)")
# Other blocks of a kernel can go on while a fault is handled: it waits for a part of that time.
_STALLED: Final = {USUAL: 0.75, SLOW: 0.5, FAST: 1.0}
# Kernels as short as that do not fill a GPU: a larger one need not be faster.
_SMALL_NS: Final = 10_000
_OF_MEMORY: Final = frozenset({ELEMENTWISE, LAYOUT, COPY_KERNEL})


def scale(_: Profile, changed: Changed, text: str) -> Changed:
    """Let operations take longer or shorter by a factor.

    Raises:
        UsageError: There is no factor, or nothing matches.
    """
    match = _SCALE.fullmatch(text)
    if match is None:
        msg = f"scale={text} has no factor"
        raise UsageError(msg, "Write scale=REGEX:0.5 to halve the time of what matches.")
    o = changed.graph.operations
    chosen, factor = named(o, match[1]), float(match[2])
    took = o.took_ns
    moved = took.copy()
    moved[changed.graph.collectives] = changed.graph.transfer_ns
    faster = np.rint(moved * factor).astype(np.int64)
    words = f"operations that match {match[1]} ({chosen.sum():,}) take"
    changed = lasting(changed, chosen, took - moved + faster, faster)
    return changed.saying(f"{words} {factor:g} times as long, except for waiting for other ranks")


def faults(profile: Profile, changed: Changed, text: str) -> Changed:
    """Remove what page faults and migrations of managed memory take.

    Raises:
        UsageError: Neither was recorded, or another number of them is meant.
    """
    if text != "0":
        msg = f"there is no change faults={text}"
        raise UsageError(msg, "faults=0 removes page faults and migrations of managed memory.")
    o = changed.graph.operations
    is_migration = o.where(lambda label: label.kind == COPY and label.text.startswith("UVM"))
    start, end, device, processor = np.empty((4, 0), np.int64)
    if profile.unrestricted.has("page_faults"):
        of = {"processor": Words(["gpu"])}
        names = ("start_ns", "end_ns", "device_id", *of)
        columns = read_columns(profile.unrestricted, "page_faults", *names, texts=of)
        start, end, device, processor = (column.astype(np.int64) for column in columns)
    is_of_gpu = processor == 0
    if not (is_migration.any() or is_of_gpu.any()):
        msg = f"{profile.origin.source} has no page faults of a GPU and no migrations"
        hint = "nsys profile --cuda-um-gpu-page-faults=true records those of managed memory."
        raise UsageError(msg, hint)
    stalled_ns = np.zeros(len(o), np.int64)
    for number in o.devices:
        its, moved = is_of_gpu & (device == number), is_migration & (o.device == number)
        shift_ns, rows = o.shifts_ns.get(number, 0), (o.device == number) & (o.kind == KERNEL)
        handled = union(
            np.append(start[its] + shift_ns, o.start_ns[moved]),
            np.append(end[its] + shift_ns, o.end_ns[moved]),
        )
        stalled_ns[rows] = covered_within(handled, o.start_ns[rows], o.end_ns[rows])
    is_stalled = stalled_ns > 0
    won_ns = np.rint(_STALLED[changed.bound] * stalled_ns).astype(np.int64)
    changed = lasting(changed, is_stalled, o.took_ns - won_ns)
    words = (
        f"kernels ({is_stalled.sum():,}) save half to all of the {say_ns(int(stalled_ns.sum()))}"
        " in which page faults and migrations are handled beside them, and migrations"
        f" ({is_migration.sum():,}) are removed; pages are where they are needed in time, and the"
        " host's own faults stay"
    )
    return without(changed, is_migration, np.zeros(len(changed.graph.calls), bool)).saying(words)


def gpu(profile: Profile, changed: Changed, text: str) -> Changed:
    """Let kernels, memsets and local copies take what another GPU's peak rates allow.

    Raises:
        UsageError: There is no such GPU, or that of a device is unknown.
    """
    there = gpu_named(text)
    if there is None:
        msg = f"there is no GPU {text}"
        raise UsageError(msg, f"GPUs: {', '.join(gpu.name for gpu in GPUS)}.")
    o, here = changed.graph.operations, gpu_models(profile)
    if missing := [device for device in o.devices if device not in here]:
        msg = f"{profile.origin.source} names no GPU of known rates as device {missing[0]}"
        raise UsageError(msg, f"Known are: {', '.join(gpu.name for gpu in GPUS)}.")
    ratios = {device: _ratios(here[device], there) for device in o.devices}
    on = [ratios[of.device] for of in o.streams]
    memory, least, most = (
        np.array(values)[o.stream]
        for values in ([its[0] for its in on], [*map(min, on)], [*map(max, on)])
    )
    took = o.took_ns
    # A larger GPU need not be faster for what does not fill this one.
    slow = np.where(took < _SMALL_NS, np.maximum(most, 1), most)
    usual = np.sqrt(least * most)
    times = np.where(o.where(_is_of_memory), memory, (usual, slow, least)[changed.bound])
    is_there = o.where(lambda of: of.kind in {KERNEL, MEMSET} or _is_of_memory(of))
    changed = lasting(changed, is_there, np.rint(took * times).astype(np.int64))
    return changed.saying(
        f"kernels, memsets and local copies ({is_there.sum():,}) take {least.min():.2f} to"
        f" {most.max():.2f} times as long on {there.name}, by the peaks of memory, fp32 and Tensor"
        f" Cores in data sheets; those of memory alone {memory.min():.2f}; kernels under"
        f" {say_ns(_SMALL_NS)} perhaps no less than here; links, launches and the host stay"
    )


def _ratios(here: GpuModel, there: GpuModel) -> list[float]:
    """How much longer work takes that one peak rate bounds, that of memory first."""
    rates = [(here.bytes_per_s, there.bytes_per_s), (here.flops_per_s, there.flops_per_s)]
    tensor = (here.half_flops_per_s, there.half_flops_per_s)
    tf32 = (here.tf32_flops_per_s, there.tf32_flops_per_s)
    return [a / b for a, b in (*rates, tensor, tf32) if a and b]


def _is_of_memory(label: Label) -> bool:
    """Whether work is known to be bound by memory: local copies, and kernels of copies' kinds."""
    if label.kind == COPY:
        return label.src == label.dst >= 0
    return label.kind == KERNEL and kind_of(label.text) in _OF_MEMORY
