"""Kernels of two recordings as an outer join: by demangled name and launch shape.

Where one side is a summary, which tells no launch shapes, they are matched by name alone.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

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
    rows = profile.table("activity_summary").to_pylist()
    return _together(
        (Key(plain(row["name"]), None, None), Kernel(row["name"], row["calls"], row["total_ns"]))
        for row in rows
        if row["activity_kind"] == "kernel"
    )


def plain_name(name: str) -> str:
    """A name without what tools write differently: spaces, and types of template numbers."""
    return "".join(_TYPED_NUMBER.sub("", name).split())


def has_shapes(profile: Profile) -> bool:
    """Whether a recording tells how its kernels were launched."""
    if not profile.has("kernels"):
        return False
    known = profile.query("SELECT count(grid_x) AS known, count(*) AS whole FROM kernels")
    row = known.to_pylist()[0]
    return bool(row["known"] == row["whole"])


def _shaped(profile: Profile, plain: Callable[[str], str]) -> Iterable[tuple[Key, Kernel]]:
    for row in profile.once(_grouped):
        grid = _shape(row["grid_x"], row["grid_y"], row["grid_z"])
        block = _shape(row["block_x"], row["block_y"], row["block_z"])
        yield Key(plain(row["name"]), grid, block), _kernel(row)


def _named(profile: Profile, plain: Callable[[str], str]) -> Iterable[tuple[Key, Kernel]]:
    for row in profile.once(_grouped):
        yield Key(plain(row["name"]), None, None), _kernel(row)


def _kernel(row: dict[str, Any]) -> Kernel:
    return Kernel(row["name"], row["calls"], row["total_ns"], (row["key"],))


def _grouped(profile: Profile) -> list[dict[str, Any]]:
    shape = ", ".join(SHAPE)
    found = profile.query(f"""
        SELECT n.name, s.* EXCLUDE (name_hash) FROM (
            SELECT name_hash, {shape}, {SHAPED_KEY} AS key, count(*) AS calls,
                CAST(sum(end_ns - start_ns) AS BIGINT) AS total_ns
            FROM {hashed_kernels(profile)} GROUP BY ALL) s
        JOIN (SELECT DISTINCT {_NAME_HASH} AS name_hash, name FROM {profile.names("kernels")}) n
        USING (name_hash) ORDER BY total_ns DESC, name, key""")
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _shape(x: int | None, y: int | None, z: int | None) -> str | None:
    return None if x is None or y is None or z is None else f"{x}x{y}x{z}"


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
