"""In which function of the program its host was, where the calls of Python were recorded.

PyTorch names a function by its file and the line where it begins, ``models/net.py(12): forward``;
files are relative to Python's path. Built-in functions and modules are named without a file.
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from gpuprof.facts.host_clock import host_clock
from gpuprof.facts.launches import launches
from gpuprof.facts.numbers import Numbers, groups
from gpuprof.model.intervals import Int64s, Intervals, covered_within, meeting, union
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.words import Words

# The file of a function, with the first word of that.
_IN_FILE: Final = re.compile(r"/?([^/(<]+?)(?:\.py)?(?:/[^(]*)?\(\d+\): ")
# Where Python and its packages are, of a file that is not relative to its path.
_INSTALLED: Final = re.compile(r"-packages/|/lib/python3")
_OF_PACKAGES: Final = sys.stdlib_module_names | {"torch", "torchvision", "tensorflow", "jax"}
# An object that a function is of.
_ADDRESS: Final = re.compile(r"(?: of .*)? (?:object )?at 0x[0-9a-f]+")
# A function holds some time if it holds this much of it.
_MOST: Final = 0.5
_COLUMNS: Final = ("start_ns", "end_ns", "process_id", "thread_id")


def shown_function(name: str) -> str:
    """The name of a function for people, without addresses."""
    return _ADDRESS.sub("", name)


def is_of_program(name: str) -> bool:
    """Whether a function is none of Python's, or of an installed package."""
    file = _IN_FILE.match(name)
    if file is None or _INSTALLED.search(file[0]):
        return False
    return file[1] not in _OF_PACKAGES


def function_around(
    profile: Profile, launch: Int64s, start_ns: Int64s, end_ns: Int64s
) -> tuple[str, float]:
    """The innermost function of the program that holds most of some time of its threads.

    Args:
        profile: The whole recording is read, its calls of Python when this is first asked for.
        launch: For each stretch of time a launch of the thread that is meant.
        start_ns: Its start, on the clock of the devices.
        end_ns: Its end.

    Returns:
        Its name and the share of the time that it holds; empty and 0 where none holds most of it.
    """
    of_threads, names = _calls_of_program(profile)
    time_ns, length_ns = (np.zeros(len(names), np.int64) for _ in range(2))
    for thread, (low, high) in launches(profile).bounds.items():
        rows = np.flatnonzero((launch >= low) & (launch < high))
        callers = [caller_thread for caller_thread in of_threads if caller_thread[0] == thread[0]]
        # The backward pass of PyTorch runs on a thread of its own, for which Python's waits.
        caller = callers[0] if len(callers) == 1 else thread
        if not len(rows) or caller not in of_threads:
            continue
        start, end, name = of_threads[caller]
        near = meeting(Intervals(start, end), union(start_ns[rows], end_ns[rows]))
        for of_name in groups(name[near]):
            calls = near[of_name]
            covered_ns = covered_within(
                union(start[calls], end[calls]), start_ns[rows], end_ns[rows]
            )
            time_ns[name[calls[0]]] += covered_ns.sum()
            length_ns[name[calls[0]]] = (end[calls] - start[calls]).max()
    total_ns = int((end_ns - start_ns).sum())
    most = np.flatnonzero(time_ns >= max(_MOST * total_ns, 1))
    if not len(most):
        return "", 0.0
    innermost = most[np.lexsort((length_ns[most], time_ns[most]))[0]]
    return names[innermost], float(time_ns[innermost] / total_ns)


@once_per_recording
def _calls_of_program(
    profile: Profile,
) -> tuple[Mapping[tuple[int, int], tuple[Int64s, Int64s, Int64s]], list[str]]:
    """Starts, ends and names of the program's functions by process and thread, and these names.

    Times are on the clock of the devices.
    """
    start, end, process, thread, name, names = calls_of_python(profile, is_of_program)
    start, end = (host_clock(profile).on_devices(times, process) for times in (start, end))
    of_threads = {
        (int(process[rows[0]]), int(thread[rows[0]])): (start[rows], end[rows], name[rows])
        for rows in groups(process, thread)
    }
    return of_threads, names


def calls_of_python(
    profile: Profile, is_meant: Callable[[str], bool]
) -> tuple[Int64s, Int64s, Numbers, Numbers, Int64s, list[str]]:
    """Starts, ends, processes, threads and names of some functions' calls, and these names.

    Times are of the host. A trace may hold more functions of Python than of all else together:
    those that are meant alone are kept.
    """
    numbers: dict[str, int] = {}

    def number_of(name: str | None) -> int:
        if name is None or not is_meant(name):
            return -1
        return numbers.setdefault(shown_function(name), len(numbers))

    texts, of_word = {"library": Words(["python"]), "name": Words()}, list[int]()
    parts = [[np.empty(0, np.int64)] * 5]
    recorded = profile.columns("host_calls", *_COLUMNS, *texts, texts=texts)
    for *place, library, word in recorded if profile.has("host_calls") else ():
        of_word.extend(map(number_of, texts["name"].words[len(of_word) :]))
        name = np.array(of_word, np.int64)[word]
        rows = np.flatnonzero((library == 0) & (name >= 0))
        parts.append([column[rows] for column in (*place, name)])
    start, end, process, thread, name = map(np.concatenate, zip(*parts, strict=True))
    return start, end, process, thread, name, [*numbers]
