"""The parts of a program that launched each copy and each collective: ranges and modules, nested.

A part is an NVTX range, an annotation of the framework or, where PyTorch recorded stacks, a module;
a path has all that are open on the thread that launches, the outermost first. The kernels of a CUDA
graph were launched by the call that launched the graph. Where no part is open, as on the thread of
PyTorch's backward pass, it is the operation that the program called, or the node of that pass.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from gpuprof.base.cuda import is_communication
from gpuprof.facts.launches import ALL_THREADS, launches
from gpuprof.facts.numbers import different_codes
from gpuprof.facts.nvtx import COUNT, NO_RANGE, OF_ONE_CALL, STEP_MARK, Label, Ranges, ranges_of
from gpuprof.facts.python_functions import calls_of_python
from gpuprof.facts.range_launches import holding
from gpuprof.model.data_model import OPERATION
from gpuprof.model.intervals import Int64s
from gpuprof.model.profile import Profile, once_per_recording

MODULE: Final = "module"
_MODULE: Final = "nn.Module: "
# What says which collective is called, not where.
_OF_NCCL: Final = re.compile(r"nccl[:A-Z]")
_NCCL: Final = "NCCL"
# A part has most of what is launched.
_MOST: Final = 0.5

Path = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LaunchPaths:
    """Copies and kernels of a recording, and what launched them.

    Args:
        kernels: Places of the kernels that are meant among all: of communication, or all.
        path: Place of the path of each copy, then of each of these kernels, among the paths;
            `NO_RANGE` for none.
        around: Place of the path around each path, which comes before it; `NO_RANGE` for none.
        last: The last part of each path, an index into ``labels``.
        labels: Text and kind of parts: range, module or operation.
    """

    kernels: Int64s
    path: Int64s
    around: Int64s
    last: Int64s
    labels: tuple[Label, ...]

    @cached_property
    def paths(self) -> list[Path]:
        """All paths."""
        paths = list[Path]()
        for around, last in zip(self.around.tolist(), self.last.tolist(), strict=True):
            paths.append((*(paths[around] if around != NO_RANGE else ()), self.labels[last][0]))
        return paths

    @property
    def kinds(self) -> list[str]:
        """What the last part of each path is."""
        return [self.labels[last][-1] for last in self.last.tolist()]

    def most_of(self, path: Int64s, weights: Int64s) -> tuple[Path, float]:
        """The innermost path that has most of some weights, and its share; empty and 0 for none."""
        sums, around = np.zeros(len(self.around) + 1, np.int64), np.append(self.around, NO_RANGE)
        total = int(weights.sum())
        # What a part launches is launched in all around it; no path is the last one.
        while len(path) and path.max() != NO_RANGE:
            np.add.at(sums, path, weights)
            path = around[path]
        # Parts with most of it are in one another, the innermost one last.
        most = np.flatnonzero(sums[:-1] > _MOST * total).tolist()
        if not most:
            return (), 0.0
        parts, place = list[str](), most[-1]
        while place != NO_RANGE:
            parts.insert(0, self.labels[self.last[place]][0])
            place = int(around[place])
        return (*parts,), float(sums[most[-1]] / total)


@once_per_recording
def paths_of_ranges(profile: Profile) -> LaunchPaths:
    """Of copies and collectives, by ranges and operations alone."""
    return _paths(profile, _parts(profile), is_communication)


@once_per_recording
def paths_of_modules(profile: Profile) -> LaunchPaths:
    """By modules, too, where they were recorded: the calls of Python are read for them."""
    if not len(modules := _modules(profile)):
        return paths_of_ranges(profile)
    return _paths(profile, _joined(_parts(profile), modules), is_communication)


@once_per_recording
def paths_of_kernels(profile: Profile) -> LaunchPaths:
    """The same of copies and all kernels."""
    return _paths(profile, _joined(_parts(profile), _modules(profile)), lambda _: True)


def _joined(*some: Ranges) -> Ranges:
    """All ranges, sorted by start."""
    places: dict[Label, int] = {}
    columns = []
    for of in some:
        numbers = [places.setdefault(label, len(places)) for label in of.labels]
        label = np.array(numbers, np.int64)[of.label]
        columns.append((of.start_ns, of.end_ns, of.process, of.thread, label))
    start, end, process, thread, label = map(np.concatenate, zip(*columns, strict=True))
    order = np.lexsort((-end, start))
    return Ranges(start, end, process, thread, label, tuple(places)).take(order)


def _parts(profile: Profile) -> Ranges:
    """The ranges that name parts of the program, with * for what counts them."""
    ranges = ranges_of(profile)
    is_part = [
        not (domain == _NCCL or _is_operation(text, kind))
        and not (STEP_MARK.fullmatch(text) or _OF_NCCL.match(text))
        for text, domain, kind in ranges.labels
    ]
    parts = ranges.labelled(is_part)
    parts = parts.take(parts.thread != ALL_THREADS)
    instances = np.bincount(parts.label, minlength=len(parts.labels)).tolist()
    patterns = [COUNT.sub("*", text) for text, _, _ in parts.labels]
    most, alike = Counter[str](), Counter[str]()
    for pattern, number in zip(patterns, instances, strict=True):
        most[pattern] = max(most[pattern], number)
        alike[pattern] += number > 0
    # Steps and batches come once each, layers again and again.
    labels = tuple(
        (pattern if most[pattern] == 1 < alike[pattern] else text, "", "range")
        for pattern, (text, _, _) in zip(patterns, parts.labels, strict=True)
    )
    return replace(parts, labels=labels)


def _is_operation(text: str, kind: str) -> bool:
    return kind == OPERATION or OF_ONE_CALL.search(text) is not None


def _modules(profile: Profile) -> Ranges:
    """The calls of PyTorch's modules."""
    start, end, process, thread, name, names = calls_of_python(
        profile, lambda name: name.startswith(_MODULE)
    )
    labels = tuple((text.removeprefix(_MODULE), "", MODULE) for text in names)
    return Ranges(start, end, process, thread, name, labels)


def _paths(profile: Profile, parts: Ranges, is_meant: Callable[[str], bool]) -> LaunchPaths:
    of_name = profile.loaded("kernels").names.values(lambda name: int(is_meant(name)), 0)
    columns = profile.columns("kernels", "name_id") if profile.has("kernels") else ()
    flags = [of_name.of(number) > 0 for (number,) in columns]
    kernels = np.flatnonzero(np.concatenate([np.zeros(0, bool), *flags]))
    all_launches = launches(profile)
    work = all_launches.activities
    place = np.concatenate(
        [np.arange(len(work.copies)), work.tables.get("kernels", (0, 0))[0] + kernels]
    )
    is_chosen = np.zeros(len(work), bool)
    is_chosen[place] = True
    launched = all_launches.take(np.flatnonzero(is_chosen[all_launches.order]))
    of_part, around, last = _numbered(parts)
    path_of_launch = np.append(of_part, NO_RANGE)[holding(parts, launched)]
    operations, labels = ranges_of(profile), parts.labels
    is_operation = [_is_operation(text, kind) for text, _, kind in operations.labels]
    operations = operations.labelled(is_operation)
    if len(operations) and (path_of_launch == NO_RANGE).any():
        numbers = dict[str, int]()
        texts = (OF_ONE_CALL.sub("", text) for text, _, _ in operations.labels)
        of_label = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
        of_label += len(around)
        around = np.append(around, np.full(len(numbers), NO_RANGE))
        last = np.append(last, len(labels) + np.arange(len(numbers)))
        labels = (*labels, *((text, "", OPERATION) for text in numbers))
        outermost = holding(operations, launched, is_outermost=True)
        of_operation = np.append(of_label[operations.label], NO_RANGE)[outermost]
        path_of_launch = np.where(path_of_launch == NO_RANGE, of_operation, path_of_launch)
    path = np.full(len(place), NO_RANGE)
    path[np.searchsorted(place, launched.order)] = path_of_launch
    return LaunchPaths(kernels, path, around, last, labels)


def _numbered(parts: Ranges) -> tuple[Int64s, Int64s, Int64s]:
    """The path of each range; and of each path the one around it, and the label of its last part.

    Paths are numbered level by level: those around others come before them.
    """
    # Some labels are alike, as those that differed in what is * now.
    first = {label: number for number, label in reversed([*enumerate(parts.labels)])}
    one_of_alike = np.array([first[label] for label in parts.labels], np.int64)
    path, lanes = np.full(len(parts), NO_RANGE), [*parts.lanes.values()]
    # One thread after another: the range around another began last before it, one level above.
    rows = np.concatenate([np.empty(0, np.int64), *lanes])
    depths = [np.empty(0, np.int64)]
    for of in lanes:
        # How many of a thread's ranges that began before each one are still open.
        ended = np.searchsorted(np.sort(parts.end_ns[of]), parts.start_ns[of], side="right")
        depths.append(np.maximum(np.arange(len(of)) - ended, 0))
    depth = np.concatenate(depths)
    above, count, number_of_labels = rows[:0], 0, len(parts.labels)
    all_codes = [above]
    for level in range(int(depth.max(initial=-1)) + 1):
        here = np.flatnonzero(depth == level)
        outer = np.append(NO_RANGE, path[rows[above]])[np.searchsorted(above, here)]
        code = (outer + 1) * number_of_labels + one_of_alike[parts.label[rows[here]]]
        codes, member = different_codes(code)
        path[rows[here]] = count + member
        all_codes.append(codes)
        above, count = here, count + len(codes)
    around, last = np.divmod(np.concatenate(all_codes), max(number_of_labels, 1))
    return path, around - 1, last
