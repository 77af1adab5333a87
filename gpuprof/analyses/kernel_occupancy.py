"""How many warps of each kernel a multiprocessor can hold at once: its theoretical occupancy.

Sources: limits by compute capability are those of the CUDA C++ Programming Guide
(https://docs.nvidia.com/cuda/cuda-c-programming-guide, "Compute Capabilities", table "Technical
Specifications per Compute Capability"; up to 7.2 in its edition 12.4), which real recordings state
for their GPUs, too. The formula, its granularities and parts of a multiprocessor are those of
NVIDIA's calculator, `cudaOccMaxActiveBlocksPerMultiprocessor` in cuda_occupancy.h (CUDA 13.0).
Since 8.0, a block takes 1 KiB of shared memory more for the system.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.kernel_names import short_name
from gpuprof.facts.hosts import device_rows
from gpuprof.facts.numbers import ByNumber, sums_by_number
from gpuprof.model.analysis import per_file, reads, summed
from gpuprof.model.data_model import KERNELS
from gpuprof.model.derived import UNKNOWN, if_known
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile
from gpuprof.model.schema import Count, Ns, Schema, Share, Text

_WARP: Final = 32
_REGISTERS_AT_A_TIME: Final = 256
_KIB: Final = 1024
_AMPERE: Final = 8  # Of a compute capability the first number.
Row = dict[str, Any]


class Limits(NamedTuple):
    """What a multiprocessor has room for."""

    blocks: int
    warps: int
    registers: int
    shared_memory_bytes: int


def _limits(blocks: int, warps: int, shared_kib: int, registers_ki: int = 64) -> Limits:
    return Limits(blocks, warps, registers_ki * _KIB, shared_kib * _KIB)


LIMITS: Final[Mapping[str, Limits]] = {
    "3.0": _limits(16, 64, 48),
    "3.2": _limits(16, 64, 48),
    "3.5": _limits(16, 64, 48),
    "3.7": _limits(16, 64, 112, registers_ki=128),
    "5.0": _limits(32, 64, 64),
    "5.2": _limits(32, 64, 96),
    "5.3": _limits(32, 64, 64),
    "6.0": _limits(32, 64, 64),
    "6.1": _limits(32, 64, 96),
    "6.2": _limits(32, 64, 64),
    "7.0": _limits(32, 64, 96),
    "7.2": _limits(32, 64, 96),
    "7.5": _limits(16, 32, 64),
    "8.0": _limits(32, 64, 164),
    "8.6": _limits(16, 48, 100),
    "8.7": _limits(16, 48, 164),
    "8.9": _limits(24, 48, 100),
    "9.0": _limits(32, 64, 228),
    "10.0": _limits(32, 64, 228),
    "10.3": _limits(32, 64, 228),
    "11.0": _limits(24, 48, 228),
    "12.0": _limits(24, 48, 100),
    "12.1": _limits(24, 48, 100),
}

REGISTERS, SHARED_MEMORY = "registers", "shared memory"
BLOCK_SIZE, BLOCKS = "block size", "blocks"

KERNEL_OCCUPANCY: Final = Schema(
    "kernel_occupancy",
    "all executions of the kernels of one name that were launched alike, on GPUs of one kind",
    {
        "calls": Count("How often.", required=True),
        "total_ns": Ns("Sum of durations.", required=True),
        "occupancy": Share(
            "Warps that a multiprocessor can hold of it at once / warps that it can hold at most;"
            " null where a size or the GPU is unknown."
        ),
        "limited_by": Text(
            "What keeps it from more, perhaps several: registers, shared memory, block size (its"
            " warps fill the multiprocessor, or leave less room than a block takes) or blocks (it"
            " holds no more of them); null at full occupancy, and where that is unknown."
        ),
        "blocks_per_multiprocessor": Count(
            "Blocks that a multiprocessor can hold at once; null where unknown."
        ),
        "waves": Share(
            "Times that its blocks fill all multiprocessors; below 1, its grid is smaller than the"
            " GPU. Null where unknown.",
            label="Waves",
        ),
        "blocks": Count("Blocks of its grid; null where unknown."),
        "threads_per_block": Count("Threads of a block; null where unknown."),
        "registers_per_thread": KERNELS.columns["registers_per_thread"],
        "static_shared_memory_bytes": KERNELS.columns["static_shared_memory_bytes"],
        "dynamic_shared_memory_bytes": KERNELS.columns["dynamic_shared_memory_bytes"],
        "compute_capability": Text("Of its GPU, such as 8.0; null where unknown."),
        "multiprocessors": Count("Of its GPU; null where unknown."),
        "name": Text("Demangled name.", required=True),
        "short_name": Text("The function's own name.", required=True),
    },
)
READS: Final = reads(
    kernels="start_ns end_ns device_id name name_id grid_x grid_y grid_z block_x block_y block_z"
    " registers_per_thread static_shared_memory_bytes dynamic_shared_memory_bytes",
    devices="device_id name compute_capability multiprocessors",
)


def blocks_by_resource(
    compute_capability: str, threads: int, registers: int, shared_memory_bytes: int
) -> dict[str, int]:
    """How many blocks of a kernel each resource of a multiprocessor has room for.

    Args:
        compute_capability: One of `LIMITS`.
        threads: Of a block.
        registers: Of a thread.
        shared_memory_bytes: Of a block, static and dynamic.

    Returns:
        Resource -> blocks; without the resources that a block takes nothing of.
    """
    limits, major = LIMITS[compute_capability], int(compute_capability.partition(".")[0])
    warps = _rounded_up(threads, _WARP) // _WARP
    room = {BLOCKS: limits.blocks, BLOCK_SIZE: limits.warps // warps}
    if registers:
        # A warp's registers are those of its part of the multiprocessor.
        parts = 2 if compute_capability == "6.0" else 4
        of_warp = _rounded_up(registers * _WARP, _REGISTERS_AT_A_TIME)
        room[REGISTERS] = limits.registers // parts // of_warp * parts // warps
    reserved, at_a_time = (_KIB, 128) if major >= _AMPERE else (0, 256)
    shared = _rounded_up(shared_memory_bytes + reserved, at_a_time)
    if shared:
        room[SHARED_MEMORY] = limits.shared_memory_bytes // shared
    return room


def _rounded_up(number: int, step: int) -> int:
    return -(-number // step) * step


_SUMS: Final = ("calls", "total_ns")
_ALIKE: Final = [name for name in KERNEL_OCCUPANCY.columns if name not in _SUMS]


@per_file(
    KERNEL_OCCUPANCY,
    lambda table: KERNEL_OCCUPANCY.table(
        sorted(summed(table, _ALIKE, _SUMS).to_pylist(), key=_order)
    ),
    needs=("kernels",),
)
def kernel_occupancy(profile: Profile) -> pa.Table:
    """Compute the theoretical occupancy of each kernel as it was launched.

    Args:
        profile: Needs ``kernels``; ``devices`` for compute capabilities.

    Returns:
        One row per name, number of blocks, threads, registers, shared memory and kind of GPU, the
        longest total first; columns as in `KERNEL_OCCUPANCY`.
    """
    return KERNEL_OCCUPANCY.table(occupancy_rows(profile))


def occupancy_rows(profile: Profile, names: Container[str] | None = None) -> list[Row]:
    """The rows of `kernel_occupancy` of kernels of some names; None for all."""
    models: dict[int, set[tuple[str | None, int | None]]] = {}
    for row in device_rows(profile):
        # Of AMD's GPUs, tools write the number of the architecture in its place.
        is_other = "AMD" in (row["name"] or "")
        model = (None if is_other else row["compute_capability"], row["multiprocessors"])
        models.setdefault(row["device_id"], set()).add(model)
    # Of devices whose rows disagree, and of those that have none, nothing is known: the last kind.
    model_of_device = {
        device: next(iter(alike)) for device, alike in models.items() if len(alike) == 1
    }
    kinds = [*dict.fromkeys(model_of_device.values()), (None, None)]
    numbers = {device: kinds.index(model) for device, model in model_of_device.items()}
    launches = _launches(profile, numbers, names)
    rows = (_row(name, kinds[kind], sizes, *sums) for name, kind, sizes, *sums in launches)
    return sorted(rows, key=_order)


def _order(row: Row) -> tuple[Any, ...]:
    """By time; to sort Arrow data would load what takes longer than small files."""
    of_sizes = [(row[name] is None, row[name]) for name in _ALIKE]
    return -row["total_ns"], row["name"], -row["calls"], *of_sizes


_SIZES: Final = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread"),
    *("static_shared_memory_bytes", "dynamic_shared_memory_bytes"),
)


def _launches(
    profile: Profile, kinds: Mapping[int, int], only_names: Container[str] | None
) -> Iterator[tuple[str, int, list[int | None], int, int]]:
    """Kernels that were launched alike: name, kind of device, sizes, calls and time."""
    numbered = profile.loaded("kernels").names
    names, place = numbered.distinct, numbered.places
    is_meant = None if only_names is None else numbered.values(only_names.__contains__, 0)
    of_device = ByNumber([*kinds], [*kinds.values()], -1)
    columns = ("start_ns", "end_ns", "device_id", "name_id", *_SIZES)
    parts = []
    for of_all in profile.columns("kernels", *columns):
        rows: slice | Int64s = slice(None)
        if is_meant is not None:
            rows = np.flatnonzero(is_meant.of(of_all[columns.index("name_id")]))
        start, end, device, name_id, *sizes = (column[rows] for column in of_all)
        kind = of_device.of(device)
        keys = np.stack(
            [place.of(name_id), kind, _product(sizes[:3]), _product(sizes[3:6]), *sizes[6:]],
            dtype=np.int64,
        )
        duration_ns = end.astype(np.int64) - start
        parts.append(_summed(keys, np.ones(len(start), np.int64), duration_ns))
    if not parts:
        return
    together = (np.concatenate(of_parts, axis=-1) for of_parts in zip(*parts, strict=True))
    all_keys, calls, total_ns = _summed(*together)
    alike = zip(all_keys.T.tolist(), calls.tolist(), total_ns.tolist(), strict=True)
    for (name, of_kind, *numbers), of_calls, of_time in alike:
        launch_sizes = [*map(if_known, numbers)]
        yield names[name], of_kind, launch_sizes, of_calls, of_time


def _summed(keys: Int64s, calls: Int64s, total_ns: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Launches that are alike as one: their keys are the columns of an array."""
    mixed = np.zeros(keys.shape[1], np.uint64)
    for place, row in enumerate(keys):
        mixed += row.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15 + 2 * 0x5851F42D4C957F * place)
    # Few columns differ: mostly each has a number of 16 bits of its own, and nothing is sorted.
    number = (mixed >> np.uint64(48)).astype(np.int64)
    column_of = np.full(1 << 16, -1)
    column_of[number] = np.arange(keys.shape[1])
    if (keys.take(column_of[number], axis=1) == keys).all():
        used = np.flatnonzero(column_of >= 0)
        first, column_of[used] = column_of[used], np.arange(len(used))
        group = column_of[number]
    else:
        _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
        if not (keys[:, first[group]] == keys).all():
            _, first, group = np.unique(keys, axis=1, return_index=True, return_inverse=True)
            group = group.reshape(-1)
    calls, total_ns = (sums_by_number(group, of, len(first)) for of in (calls, total_ns))
    return keys[:, first], calls, total_ns


def _product(sizes: list[npt.NDArray[Any]]) -> Int64s:
    """Blocks of a grid, or threads of a block; unknown where a side is."""
    x, y, z = (side.astype(np.int64) for side in sizes)
    is_known = (x != UNKNOWN) & (y != UNKNOWN) & (z != UNKNOWN)
    return np.where(is_known, x * y * z, UNKNOWN)


def _row(
    name: str,
    model: tuple[str | None, int | None],
    sizes: list[int | None],
    calls: int,
    total_ns: int,
) -> Row:
    capability, multiprocessors = model
    blocks, threads, registers, static, dynamic = sizes
    row = dict.fromkeys(KERNEL_OCCUPANCY.columns) | {
        "calls": calls,
        "total_ns": total_ns,
        "blocks": blocks,
        "threads_per_block": threads,
        "registers_per_thread": registers,
        "static_shared_memory_bytes": static,
        "dynamic_shared_memory_bytes": dynamic,
        "compute_capability": capability,
        "multiprocessors": multiprocessors,
        "name": name,
        "short_name": short_name(name),
    }
    if capability is None or capability not in LIMITS or not threads or registers is None:
        return row
    if static is None or dynamic is None:
        return row
    room = blocks_by_resource(capability, threads, registers, static + dynamic)
    least, warps = min(room.values()), _rounded_up(threads, _WARP) // _WARP
    # It ran: a size or the GPU is not as recorded.
    if not least:
        return row
    occupancy = least * warps / LIMITS[capability].warps
    limits = [resource for resource, blocks_of in room.items() if blocks_of == least]
    waves = blocks / (least * multiprocessors) if blocks and multiprocessors else None
    return row | {
        "occupancy": occupancy,
        "limited_by": None if occupancy == 1 else ", ".join(sorted(limits)),
        "blocks_per_multiprocessor": least,
        "waves": waves,
    }


ANALYSIS: Final = kernel_occupancy.analysis("Occupancy of kernels", READS)
