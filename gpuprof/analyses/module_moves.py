"""Parts of a model that run on one device, and what is no longer copied if they run on another."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gpuprof.base.units import counted, format_bytes
from gpuprof.facts.launch_paths import LaunchPaths, paths_of_kernels
from gpuprof.facts.launches import exposed_of_copies, launches
from gpuprof.facts.numbers import sums_by_number
from gpuprof.facts.nvtx import NO_RANGE, RANGE_READS
from gpuprof.facts.step_windows import STEP_READS, StepWindows, by_period, step_windows
from gpuprof.model.analysis import Analysis, reads
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.intervals import Int64s
from gpuprof.model.pairs import distinct
from gpuprof.model.profile import Profile
from gpuprof.model.schema import FLOAT, Column, Count, Flag, Id, Kind, Schema, Text

MODULE_MOVES: Final = Schema(
    "module_moves",
    "one part of the program that runs on one device, and another device that it copies from or to",
    {
        "program_part": Text("As in movements.", required=True),
        "device_id": Id("Device that runs its kernels.", required=True),
        "target_device_id": Id("Device to which it could move.", required=True),
        "steps": Count("Steps that were looked at.", required=True),
        "kernel_ns_per_step": Column(FLOAT, "ns", "Time of its kernels.", required=True),
        "copies_per_step": Column(
            FLOAT,
            "1",
            "Copies from the target to it, and of its results to the target.",
            required=True,
            kind=Kind.MEAN,
        ),
        "bytes_per_step": Column(FLOAT, "B", "Their bytes; null where unknown."),
        "exposed_ns_per_step": Column(
            FLOAT, "ns", "Their time while no kernel ran, on the end that waited longer."
        ),
        "is_enclosed": Flag(
            "Whether what runs before and after it is on the target, so that no other copies take"
            " the place of these.",
            required=True,
        ),
        "suggestion": Text("What to try.", required=True),
    },
)

_LEAST_STEPS: Final = 3
# A part is on the device that runs so much of its kernels' time.
_ONE_DEVICE: Final = 0.99
# Most of the steps.
_MOST: Final = 0.5

Row = dict[str, Any]


class _Work(NamedTuple):
    """The kernels of some steps in the order of their starts, and their copies between devices.

    Args:
        start: Start of each kernel.
        end: Its end.
        device: Its device.
        path: Place of its path; `NO_RANGE` for none.
        step: Its step.
        copies: Places of the copies among all.
        src: Where each copies from.
        dst: Where to.
        made_by: Path of the kernel that ended last on the source before it.
        taken_by: Path of the kernel that starts next on the destination.
        copy_step: The step of each.
    """

    start: Int64s
    end: Int64s
    device: Int64s
    path: Int64s
    step: Int64s
    copies: Int64s
    src: Int64s
    dst: Int64s
    made_by: Int64s
    taken_by: Int64s
    copy_step: Int64s


def module_moves(profile: Profile) -> pa.Table:
    """Find what copies between devices every step makes for a part that runs on another device.

    A part is an NVTX range, an annotation or, where PyTorch recorded stacks, a module, as in
    ``movements``; those that lie in one that runs on the same device alone are left out. A copy
    is taken by the part whose kernel starts next on its destination, and was made by the one whose
    kernel ended last on its source. PyTorch's backward pass runs in no part: the copies of its
    gradients are as many again, and move with the part.

    Args:
        profile: Needs ``kernels``, ``memcpys``, ``api_calls`` and ``nvtx_ranges``, with steps that
            can be told (see `steps`) and work on several devices.

    Returns:
        One row per part and target, those first of which most bytes go, columns as in
        `MODULE_MOVES`; none where no step is known or nothing is copied between devices.
    """
    recorded = profile.unrestricted
    if not (launches(recorded).activities.copies.is_peer == 1).any():
        return MODULE_MOVES.table([])
    paths = paths_of_kernels(recorded)
    places = _places(paths)
    rows = [
        row
        for series in map(by_period, step_windows(profile))
        if len(series.start_ns) >= _LEAST_STEPS
        for row in _of_series(recorded, series, paths, places)
    ]
    rows.sort(key=lambda row: (not row["is_enclosed"], -(row["bytes_per_step"] or 0)))
    return MODULE_MOVES.table(rows)


def _of_series(
    recorded: Profile, series: StepWindows, paths: LaunchPaths, places: tuple[Int64s, Int64s]
) -> Iterator[Row]:
    copies, work = launches(recorded).activities.copies, _work(recorded, paths, series)
    if not len(work.start):
        return
    steps, devices = len(series.start_ns), distinct(work.device)
    exposed_ns = exposed_of_copies(recorded)
    taken_copies, made_copies = (_Sorted(p, *places) for p in (work.taken_by, work.made_by))
    of_devices = _sums(work, devices, places)
    took_ns, most_ns = of_devices.sum(axis=0), of_devices.max(axis=0)
    is_of_one = (took_ns > 0) & (most_ns >= _ONE_DEVICE * took_ns)
    # A part of what runs on one device moves with it. Each step has a copy that is gone.
    is_meant = is_of_one & ~_is_within(paths, is_of_one)
    is_meant &= taken_copies.counts + made_copies.counts >= steps
    kernels = np.where(work.path == NO_RANGE, NO_RANGE, places[0][work.path])
    for place in np.flatnonzero(is_meant).tolist():
        device = int(devices[np.argmax(of_devices[:, place])])
        copies_in, copies_out = taken_copies.within(place), made_copies.within(place)
        copies_in, copies_out = (
            copies_in[work.dst[copies_in] == device],
            copies_out[work.src[copies_out] == device],
        )
        for target in devices[devices != device].tolist():
            is_gone = np.union1d(
                copies_in[work.src[copies_in] == target], copies_out[work.dst[copies_out] == target]
            )
            if len(distinct(work.copy_step[is_gone])) < steps:
                continue
            # Of all kernels, so for none of the parts whose copies stay.
            here = np.flatnonzero((kernels >= places[0][place]) & (kernels < places[1][place]))
            gone = work.copies[is_gone]
            size = None if (copies.bytes[gone] == UNKNOWN).any() else copies.moved_bytes[gone].sum()
            row = {
                "program_part": "/".join(paths.paths[place]),
                "device_id": device,
                "target_device_id": target,
                "steps": steps,
                "kernel_ns_per_step": took_ns[place] / steps,
                "copies_per_step": copies.is_counted[gone].sum() / steps,
                "bytes_per_step": None if size is None else size / steps,
                "exposed_ns_per_step": exposed_ns[gone].sum() / steps,
                "is_enclosed": _is_enclosed(work, here, target, steps),
            }
            yield row | {"suggestion": _suggestion(row)}


def _is_within(paths: LaunchPaths, is_one: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether any path around each is one of some."""
    around, is_one = np.array([*paths.around, NO_RANGE]), np.append(is_one, False)
    is_within, above = np.zeros(len(is_one), bool), around
    while (above != NO_RANGE).any():
        is_within |= is_one[above]
        above = around[above]
    return is_within[:-1]


def _work(recorded: Profile, paths: LaunchPaths, series: StepWindows) -> _Work:
    activities = launches(recorded).activities
    copies, low = activities.copies, activities.tables.get("kernels", (0, 0))[0]

    def step_of(start: Int64s) -> Int64s:
        step = np.searchsorted(series.start_ns, start, side="right") - 1
        return np.where((step >= 0) & (start < series.end_ns[step]), step, -1)

    rows = low + paths.kernels
    path = paths.path[len(copies) :]
    if (np.diff(activities.start_ns[rows]) < 0).any():
        order = np.argsort(activities.start_ns[rows], kind="stable")
        rows, path = rows[order], path[order]
    # In the order of their start kernels of a step follow one another.
    ends = np.minimum(series.end_ns, np.append(series.start_ns[1:], series.end_ns[-1:]))
    borders = np.stack([series.start_ns, ends], axis=1).reshape(-1)
    counts = np.diff(np.searchsorted(activities.start_ns[rows], borders), prepend=0)
    is_in_step = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    here = np.flatnonzero(is_in_step)
    rows, path = rows[here], path[here]
    start, end = activities.start_ns[rows], activities.end_ns(rows)
    device = activities.device[rows].astype(np.int64)
    step = np.repeat(np.arange(len(series.start_ns)), counts[1::2])
    chosen = np.flatnonzero((copies.is_peer == 1) & (step_of(copies.start_ns) >= 0))
    src, dst = (column[chosen].astype(np.int64) for column in (copies.src, copies.dst))
    made_by, taken_by = np.full((2, len(chosen)), NO_RANGE)
    for number in distinct(device).tolist():
        of_device = np.flatnonzero(device == number)
        by_end = of_device[np.argsort(end[of_device], kind="stable")]
        sent, received = np.flatnonzero(src == number), np.flatnonzero(dst == number)
        before = np.searchsorted(end[by_end], copies.start_ns[chosen[sent]], side="right")
        made_by[sent] = np.append(NO_RANGE, path[by_end])[before]
        after = np.searchsorted(start[of_device], copies.end_ns[chosen[received]], side="left")
        taken_by[received] = np.append(path[of_device], NO_RANGE)[after]
    of_copies = chosen, src, dst, made_by, taken_by, step_of(copies.start_ns[chosen])
    return _Work(start, end, device, path, step, *of_copies)


def _places(paths: LaunchPaths) -> tuple[Int64s, Int64s]:
    """Of each path its place and that after all paths in it, where these come next after it."""
    size, inside = np.ones(len(paths.paths), np.int64), np.ones(len(paths.paths), np.int64)
    for path, around in reversed([*enumerate(paths.around)]):
        if around != NO_RANGE:
            size[around] += size[path]
    first, roots = np.zeros_like(size), 0
    for path, around in enumerate(paths.around):
        if around == NO_RANGE:
            first[path] = roots
            roots += size[path]
        else:
            first[path] = first[around] + inside[around]
            inside[around] += size[path]
    return first, first + size


class _Sorted:
    """Rows in such an order that those of a path and of all in it follow one another.

    Args:
        path: The path of each row; rows of `NO_RANGE` are left out.
        first: As of `_places`.
        last: As of `_places`.
    """

    def __init__(self, path: Int64s, first: Int64s, last: Int64s) -> None:
        rows = np.flatnonzero(path != NO_RANGE)
        place = first[path[rows]]
        order = np.argsort(place, kind="stable")
        self.rows = rows[order]
        self._begin, self._end = (np.searchsorted(place[order], p) for p in (first, last))

    @property
    def counts(self) -> Int64s:
        """How many rows each path and all in it have."""
        return self._end - self._begin

    def within(self, path: int) -> Int64s:
        """The rows of a path and of all in it."""
        return self.rows[self._begin[path] : self._end[path]]


def _sums(work: _Work, devices: Int64s, places: tuple[Int64s, Int64s]) -> Int64s:
    """How long the kernels of each path and of all in it take, by device."""
    first, last = places
    sums = np.zeros((len(devices), len(first) + 1), np.int64)
    took_ns, is_known = work.end - work.start, work.path != NO_RANGE
    for number, device in enumerate(devices.tolist()):
        rows = np.flatnonzero((work.device == device) & is_known)
        # What lies in a path has the places after it.
        sums[number, 1:] = sums_by_number(first[work.path[rows]], took_ns[rows], len(first))
    before = np.cumsum(sums, axis=1)
    of_devices: Int64s = before[:, last] - before[:, first]
    return of_devices


def _is_enclosed(work: _Work, here: Int64s, target: int, steps: int) -> bool:
    """Whether what runs before and after a part's kernels is on the target in most steps.

    What begins a step takes its batch from the host, and what ends it is taken by none.
    """
    first = np.flatnonzero(np.diff(work.step[here], prepend=-1))
    last = np.append(first[1:], len(here)) - 1
    is_enclosed = np.ones(len(first), bool)
    for near, of_part in ((here[first] - 1, here[first]), (here[last] + 1, here[last])):
        inside = np.clip(near, 0, len(work.step) - 1)
        is_other_step = (near != inside) | (work.step[inside] != work.step[of_part])
        is_enclosed &= is_other_step | (work.device[inside] == target)
    return bool(np.count_nonzero(is_enclosed) > _MOST * steps)


def _suggestion(row: Row) -> str:
    size = "" if row["bytes_per_step"] is None else f" of {format_bytes(row['bytes_per_step'])}"
    gone = f"{counted(round(row['copies_per_step']), 'copy', 'copies')}{size} a step"
    part, target = row["program_part"].rpartition("/")[2], row["target_device_id"]
    if row["is_enclosed"]:
        return f"run {part} on device {target} (device_map): {gone} less"
    return (
        f"run {part} on device {target} only together with what is before or after it on device"
        f" {row['device_id']}: {gone} less, but others take their place"
    )


ANALYSIS: Final = Analysis(
    "Parts that could run on another device",
    MODULE_MOVES,
    ("kernels", "memcpys", "api_calls", "nvtx_ranges"),
    module_moves,
    reads(
        STEP_READS,
        RANGE_READS,
        kernels="start_ns end_ns device_id process_id correlation_id name name_id",
        host_calls="start_ns end_ns process_id thread_id name library",
    ),
)
