"""A part of a recording: what started in a window of time, or in an NVTX range.

Each event belongs to the window that it starts in and is kept whole, so that windows that lie
side by side add up to the recording. Ranges that reach into the window are kept as well: they
say what it was part of. Times stay as they are, counted from the recording's origin.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from gpuprof import schema
from gpuprof.errors import EmptyRecordingError, MissingTableError, UsageError
from gpuprof.profile import Origin, Profile
from gpuprof.units import format_ns

_RANGES: Final = schema.NVTX_RANGES.name
# What these say holds for every part of a recording.
_OF_THE_WHOLE: Final = (schema.DEVICES.name, schema.LINKS.name, schema.RUNS.name)


@dataclass(frozen=True)
class Window:
    """From one time on and before another, in nanoseconds since the recording's origin.

    Args:
        from_ns: None for the recording's start.
        to_ns: None for its end.
    """

    from_ns: int | None
    to_ns: int | None

    def __post_init__(self) -> None:
        """Refuse a window that holds no instant.

        Raises:
            UsageError: It ends before it begins.
        """
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            msg = f"the window ends at {format_ns(self.to_ns)}, not after {format_ns(self.from_ns)}"
            raise UsageError(msg, "Times count from the recording's start: --from 1.5s --to 2s")

    @property
    def words(self) -> str:
        """For people: ``from 1.500 s to 2.000 s``."""
        begin = "the start" if self.from_ns is None else format_ns(self.from_ns)
        end = "the end" if self.to_ns is None else format_ns(self.to_ns)
        return f"from {begin} to {end}"


def window_of_range(profile: Profile, text: str, occurrence: int | None = None) -> Window:
    """The time of an NVTX range or annotation; of an operation where no other has its text.

    Args:
        profile: Needs ``nvtx_ranges``.
        text: The range's whole message.
        occurrence: Which one, 0 for the first; needed where several have this message.

    Raises:
        MissingTableError: No ranges were recorded.
        UsageError: No range, or more than one, is meant.
    """
    profile.require(_RANGES)
    ranges = profile.table(_RANGES).select(["text", "start_ns", "end_ns", "range_kind"]).to_pylist()
    named = [r for r in ranges if r["range_kind"] != schema.OPERATION]
    meant = [r for r in named if r["text"] == text] or [r for r in ranges if r["text"] == text]
    found = sorted((r["start_ns"], r["end_ns"]) for r in meant)
    if not found:
        known = sorted({r["text"] for r in named if r["text"]})
        msg = f'{profile.origin.source} has no range "{text}"'
        raise UsageError(msg, f"Ranges: {', '.join(known[:10])}." if known else None)
    if occurrence is None and len(found) > 1:
        msg = f'{profile.origin.source} has {len(found)} ranges "{text}"'
        raise UsageError(msg, f"Name one with --occurrence 0 to {len(found) - 1}.")
    if occurrence is not None and not 0 <= occurrence < len(found):
        msg = (
            f'{profile.origin.source} has {len(found)} ranges "{text}", none of number {occurrence}'
        )
        raise UsageError(msg, f"Name one with --occurrence 0 to {len(found) - 1}.")
    return Window(*found[occurrence or 0])


def cut(profile: Profile, window: Window) -> Profile:
    """The part of a recording that starts in a window.

    Raises:
        MissingTableError: The recording holds sums only, which have no time.
        EmptyRecordingError: Nothing starts in the window.
    """
    timed = timed_tables(profile)
    if not timed:
        msg = f"{profile.origin.source} holds sums only, which cannot be cut"
        raise MissingTableError(msg, "Record with `gpuprof record`, which keeps every activity.")
    parts = {name: _part(profile, name, window) for name in timed}
    if not any(part.num_rows for name, part in parts.items() if name != _RANGES):
        msg = f"{profile.origin.source}: nothing starts {window.words}"
        raise EmptyRecordingError(msg, extent(profile, parts))
    kept = {name: profile.table(name) for name in _OF_THE_WHOLE if profile.has(name)}
    return Profile(origin_of_part(profile, f"what starts {window.words}."), parts | kept)


def origin_of_part(profile: Profile, words: str) -> Origin:
    """The origin, whose first warning says what it is a part of: ``A part of train.sqlite: ...``.

    Of several files it names the folder that they have in common.
    """
    source = profile.origin.source
    note = f"A part of {source.name or source.resolve().name}: {words}"
    return replace(profile.origin, warnings=(note, *profile.origin.warnings))


def timed_tables(profile: Profile) -> list[str]:
    """The names of the tables of a recording whose rows have a time."""
    return [name for name in profile.sources if "start_ns" in schema.BY_NAME[name].columns]


def extent(profile: Profile, names: Iterable[str]) -> str:
    """Between which times that which a recording holds starts, as a hint."""
    selects = " UNION ALL ".join(f"SELECT start_ns FROM {name}" for name in sorted(names))
    (row,) = profile.query(
        f"SELECT min(start_ns) AS first, max(start_ns) AS last FROM ({selects})"
    ).to_pylist()
    if row["first"] is None:
        return "It holds nothing that has a time."
    return f"What it holds starts from {format_ns(row['first'])} to {format_ns(row['last'])}."


def _part(profile: Profile, name: str, window: Window) -> pa.Table:
    # A range that is still open when the window begins says what the window is part of.
    first = "end_ns >" if name == _RANGES else "start_ns >="
    conditions = ["true"]
    if window.from_ns is not None:
        conditions.append(f"{first} {window.from_ns}")
    if window.to_ns is not None:
        conditions.append(f"start_ns < {window.to_ns}")
    columns, chosen = ", ".join(schema.BY_NAME[name].columns), " AND ".join(conditions)
    return profile.query(f'SELECT {columns} FROM "{name}" WHERE {chosen} ORDER BY start_ns, end_ns')
