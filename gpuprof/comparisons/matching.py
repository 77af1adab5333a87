"""Kernels of two recordings as an outer join: by demangled name and launch shape.

Where one side is a summary, which tells no launch shapes, they are matched by name alone.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from gpuprof import cuda
from gpuprof.profile import Profile

SHAPE: Final = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NAME_HASH: Final = "(hash(name) >> 1)::BIGINT"
# SQL over a table of kernels with a column ``name_hash``: a number per name and launch shape.
SHAPED_KEY: Final = f"(hash(name_hash, {', '.join(SHAPE)}) >> 1)::BIGINT"

# nvprof writes a template's number as int=4, nsys as (int)4, others as 4.
_TYPED_NUMBER: Final = re.compile(
    r"\((?:unsigned |signed )?(?:int|bool|char|short|long|long long)\)(?=-?\d)"
    r"|\b(?:unsigned |signed )?(?:int|bool|char|short|long|long long)=(?=-?\d)"
)


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
        keys: Its numbers in the recording, as `SHAPED_KEY` makes them; empty for summaries.
    """

    name: str
    calls: int | None
    total_ns: int | None
    keys: tuple[int, ...] = ()

    @property
    def is_communication(self) -> bool:
        """Whether it moves data between devices."""
        return cuda.is_communication(self.name)


Kernels = Mapping[Key, Kernel]


def hashed_kernels(profile: Profile) -> str:
    """SQL for the kernels with a column ``name_hash``, as `SHAPED_KEY` needs it."""
    return profile.tagged("kernels", _NAME_HASH, "name_hash")


def kernels_of(profile: Profile, *, is_shaped: bool, is_verbatim: bool = False) -> Kernels:
    """The kernels of a recording by what they are matched by; none where none are known.

    Args:
        profile: Needs ``kernels`` or ``activity_summary``, or knows no kernels.
        is_shaped: Whether kernels in different launch shapes are different ones.
        is_verbatim: Whether one tool wrote all names, so that they need no making alike.
    """
    plain = str if is_verbatim else plain_name
    if profile.has("kernels"):
        found = _shaped if is_shaped else _named
        return _together(found(profile, plain))
    if not profile.has("activity_summary"):
        return {}
    listed = profile.table("activity_summary").select(("activity_kind", *Kernel._fields[:3]))
    return _together(
        (Key(plain(name), None, None), Kernel(name, calls, total_ns))
        for kind, name, calls, total_ns in zip(
            *(c.to_pylist() for c in listed.columns), strict=True
        )
        if kind == "kernel"
    )


def plain_name(name: str) -> str:
    """A name without what tools write differently: spaces, and types of template numbers."""
    return "".join(_TYPED_NUMBER.sub("", name).split())


def has_shapes(profile: Profile) -> bool:
    """Whether a recording tells how its kernels were launched."""
    return profile.has("kernels") and all(kernel.grid for kernel in profile.once(_grouped))


def _shaped(profile: Profile, plain: Callable[[str], str]) -> Iterable[tuple[Key, Kernel]]:
    for one in profile.once(_grouped):
        yield Key(plain(one.name), one.grid, one.block), one.kernel


def _named(profile: Profile, plain: Callable[[str], str]) -> Iterable[tuple[Key, Kernel]]:
    for one in profile.once(_grouped):
        yield Key(plain(one.name), None, None), one.kernel


class _Group(NamedTuple):
    """All executions of one kernel in one launch shape; the shape is None where not recorded."""

    name: str
    grid: str | None
    block: str | None
    key: int
    calls: int
    total_ns: int

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.name, self.calls, self.total_ns, (self.key,))


def _grouped(profile: Profile) -> list[_Group]:
    grid, block = (" || 'x' || ".join(sides) for sides in (SHAPE[:3], SHAPE[3:]))
    found = profile.query(f"""
        SELECT n.name, {grid} AS grid, {block} AS block, key, calls, total_ns FROM (
            SELECT name_hash, {", ".join(SHAPE)}, {SHAPED_KEY} AS key, count(*) AS calls,
                CAST(sum(end_ns - start_ns) AS BIGINT) AS total_ns
            FROM {hashed_kernels(profile)} GROUP BY ALL) s
        JOIN (SELECT DISTINCT {_NAME_HASH} AS name_hash, name FROM {profile.names("kernels")}) n
        USING (name_hash) ORDER BY total_ns DESC, name, key""")
    return [_Group(*row) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)]


def _together(found: Iterable[tuple[Key, Kernel]]) -> Kernels:
    """Kernels of one key added up."""
    made: dict[Key, Kernel] = {}
    for key, kernel in found:
        made[key] = _sum(made[key], kernel) if key in made else kernel
    return made


def _sum(first: Kernel, second: Kernel) -> Kernel:
    return Kernel(
        first.name,
        _added(first.calls, second.calls),
        _added(first.total_ns, second.total_ns),
        first.keys + second.keys,
    )


def _added(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
