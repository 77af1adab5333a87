"""Kernels of two sides as an outer join: by demangled name and launch shape.

Where one side is a summary, which has no launch shapes, they are matched by name alone. Names
that not all recordings have as they stand are matched by what every tool writes of them, and what
is then alone on both sides by less, see `matched`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from gpuprof.base import cuda
from gpuprof.base.kernel_names import demangled, family
from gpuprof.facts.numbers import UNNAMED, Growing, Numbers, sums_of_pieces
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.pairs import Pairs
from gpuprof.model.profile import Profile, once_per_recording
from gpuprof.model.table import Selection
from gpuprof.model.words import narrowed

SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
# Name of a kernel, and its launch shape as in `SHAPE`; `UNKNOWN` where not recorded.
Shaped = tuple[str, tuple[int, ...]]

# ``[lambda(float) (instance 1)]`` of nsys is ``{lambda(float)#1}`` elsewhere.
_INSTANCE: Final = re.compile(r"\(instance (\d+)\)")
_BRACES: Final = str.maketrans("[]", "{}")
_IN_PARENTHESES: Final = re.compile(r"\([^()]*\)")
_BOOLEAN: Final = re.compile(r"\b(?:true|false)\b")
# 4 is int=4 to nvprof and (int)4 to nsys.
_NUMBERS: Final = r"(?:unsigned |signed )?(?:int|bool|char|short|long|long long)"
_TYPED: Final = re.compile(rf"\({_NUMBERS}\)(?=-?\d)|\b{_NUMBERS}=(?=-?\d)")
# 4 may be 4ul.
_SUFFIX: Final = re.compile(r"(\d)[ul]+\b")
_QUALIFIERS: Final = re.compile(r"\b(?:const|void)\b")


class Key(NamedTuple):
    """What makes two kernels the same one; the shape is None where it is not compared."""

    name: str
    grid: str | None
    block: str | None


class Kernel(NamedTuple):
    """All executions of one kernel in one launch shape, summed over devices.

    Args:
        name: Demangled name as the tool wrote it.
        calls: How often; None where unknown.
        total_ns: Sum of durations; None where unknown.
        shaped: What the recording has of it; empty for summaries.
    """

    name: str
    calls: int | None
    total_ns: int | None
    shaped: tuple[Shaped, ...] = ()

    @property
    def is_communication(self) -> bool:
        """Whether it moves data between devices."""
        return cuda.is_communication(self.name)


Kernels = Mapping[Key, Kernel]
_Of = TypeVar("_Of", str, Key)


def matched(sides: Sequence[Sequence[Profile]]) -> list[list[Kernels]]:
    """The kernels of every recording of both sides by what they are matched by.

    Those that only one side has are matched by less than name and launch shape where the other
    side has such ones as well: by the `family` of the name and the shape, by the name alone, and
    by its family alone. So the same kernel is never new on one side and removed on the other.

    Returns:
        As many as the recordings. Keys of kernels that are matched by less have no shape where
        theirs differ, and the family in place of the name where names differ.
    """
    is_shaped = all(has_shapes(profile) for side in sides for profile in side)
    kernels = [[_kernels_of(p, is_shaped=is_shaped) for p in side] for side in sides]
    names = [{key.name for key in of_profile} for side in kernels for of_profile in side]
    odd = set().union(*names).difference(names[0].intersection(*names))
    if odd and all(names):
        plain = {name: plain_name(name) for name in odd}
        kernels = [
            [
                _together((k._replace(name=plain.get(k.name, k.name)), of) for k, of in its.items())
                for its in of_side
            ]
            for of_side in kernels
        ]
    for less in (_by_family, _by_name, lambda key: _by_name(_by_family(key))):
        lesser = shared_by(less, *(set().union(*of_side) for of_side in kernels))
        kernels = [
            [
                _together(
                    (new, kernel if new.name == key.name else kernel._replace(name=new.name))
                    for key, kernel in its.items()
                    for new in [lesser.get(key, key)]
                )
                for its in of_side
            ]
            for of_side in kernels
        ]
    return kernels


def shared_by(less: Callable[[_Of], _Of], first: set[_Of], second: set[_Of]) -> dict[_Of, _Of]:
    """What is on one side alone, by less of it, where the other side has some of this alone."""
    lesser = {of: less(of) for of in first ^ second}
    shared = {lesser[of] for of in first - second} & {lesser[of] for of in second - first}
    return {of: its for of, its in lesser.items() if its in shared}


def _by_family(key: Key) -> Key:
    return key._replace(name=family(key.name))


def _by_name(key: Key) -> Key:
    return Key(key.name, None, None)


def _kernels_of(profile: Profile, *, is_shaped: bool) -> Kernels:
    """The kernels of a recording, their names as they stand; none where none are known."""
    if profile.has("kernels"):
        kernels = []
        for (name, shape), calls, total_ns in profile.once(kernel_groups):
            grid, block = (
                "x".join(map(str, sides)) if is_shaped and UNKNOWN not in sides else None
                for sides in (shape[:3], shape[3:])
            )
            kernel = Kernel(name, calls, total_ns, ((name, shape),))
            kernels.append((Key(name, grid, block), kernel))
        return _together(kernels)
    if not profile.has("activity_summary"):
        return {}
    listed = profile.table("activity_summary").select(("activity_kind", *Kernel._fields[:3]))
    return _together(
        (Key(name, None, None), Kernel(name, calls, total_ns))
        for kind, name, calls, total_ns in zip(
            *(c.to_pylist() for c in listed.columns), strict=True
        )
        if kind == "kernel"
    )


def plain_name(name: str) -> str:
    """A name without what tools and their versions write differently.

    That is spaces, constness, the types of a template's numbers, and its parameters: nsys writes
    ``fill<(int)4, F<T>>(int, T2)``, nvprof ``fill<int=4, F<T>>(int, T)``, others ``fill<4, F<T>
    >(int, F<T>)``. Parameters tell kernels apart that are no templates, and are kept there.
    """
    text = demangled(name).replace("(anonymous namespace)", "").replace("<unnamed>", "")
    if "<" in text.partition("(")[0]:
        text = _INSTANCE.sub(r"#\1", text).translate(_BRACES)
        count = 1
        while count:
            text, count = _IN_PARENTHESES.subn("", text)
    # What most names have not is looked for first: a search takes a tenth of the time.
    if "=" in text or ("<" in text and ")" in text):
        text = _TYPED.sub("", text)
    if "<" in text:
        text = _SUFFIX.sub(r"\1", text)
    if "true" in text or "false" in text:
        text = _BOOLEAN.sub(lambda match: str(int(match[0] == "true")), text)
    text = text.removeprefix("void ")
    if "const" in text or "void" in text:
        text = _QUALIFIERS.sub("", text)
    return "".join(text.split())


def has_shapes(profile: Profile) -> bool:
    """Whether a recording has the launch shapes of its kernels."""
    return profile.has("kernels") and not any(
        UNKNOWN in shape[:3] for (_, shape), *_ in profile.once(kernel_groups)
    )


def kernel_groups(profile: Profile) -> list[tuple[Shaped, int, int]]:
    """Each name and launch shape of a recording's kernels, their calls and time, the most first."""
    calls, total_ns = sums_of_pieces(
        (number, end - start)
        for number, start, end in numbered_kernels(profile.unrestricted, profile.selection)
    )
    _, shapes = shaped_kernels(profile)
    groups = zip(shapes, calls.tolist(), total_ns.tolist(), strict=False)
    return sorted((of for of in groups if of[1]), key=lambda group: (-group[2], group[0]))


def numbered_kernels(recording: Profile, part: Selection) -> Iterator[list[Numbers]]:
    """Number of name and launch shape, start and end of the kernels of a part, in pieces."""
    (numbers, _), before = shaped_kernels(recording), 0
    for start, end, device in recording.columns("kernels", "start_ns", "end_ns", "device_id"):
        number = numbers[before : (before := before + len(start))]
        is_chosen = part.holds(start)
        if part.device_id is not None:
            is_chosen &= device == part.device_id
        yield [column[is_chosen] for column in (number, start, end)]


@once_per_recording
def shaped_kernels(recording: Profile) -> tuple[Numbers, list[Shaped]]:
    """A number for each kernel of a whole recording, and the name and launch shape that it means.

    One number takes a sixth of the memory of what it stands for.
    """
    names, sides = recording.loaded("kernels").names, [Pairs() for _ in SHAPE]
    place = {name: place for place, name in enumerate(names.distinct)}
    of_names, numbers = names.values(place.__getitem__, place[UNNAMED]), Growing(np.int8)
    for name, *shape in recording.columns("kernels", "name_id", *SHAPE):
        number: Numbers = of_names.of(name)
        for pairs, side in zip(sides, shape, strict=True):
            number = pairs.learn(number, side)
        numbers.add(narrowed(number))
    met, columns = np.arange(len(sides[-1])), list[list[int]]()
    for pairs in reversed(sides):
        met, side = pairs.values[:, met]
        columns.append(side.tolist())
    texts = [names.distinct[name] for name in met.tolist()]
    return numbers.values, [*zip(texts, zip(*reversed(columns), strict=True), strict=True)]


def _together(kernels: Iterable[tuple[Key, Kernel]]) -> Kernels:
    """Kernels of one key added up."""
    sums: dict[Key, Kernel] = {}
    for key, kernel in kernels:
        if key in sums:
            name, calls, total_ns, shaped = sums[key]
            calls, total_ns = _added(calls, kernel.calls), _added(total_ns, kernel.total_ns)
            sums[key] = Kernel(name, calls, total_ns, shaped + kernel.shaped)
        else:
            sums[key] = kernel
    return sums


def _added(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
