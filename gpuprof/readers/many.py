"""Several files of one job, one per process or per profiled stretch, as one recording.

Ranks are told by the files themselves, else by their names (``rank3``, ``worker3``, or the one
number in which the names differ). Rows of all files stand in the same tables, on one clock.

What numbers say is only true within a file: a correlation id within its process, a device's
ordinal on its host. So processes whose numbers coincide get new ones, and so do devices:
ordinals stay as they are where no two processes use the same one (the ranks of one host);
where they do (ranks on several hosts, or with CUDA_VISIBLE_DEVICES), every process' devices are
taken for different ones and counted on in the order of ranks, which ``devices.rank`` tells.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gpuprof import schema
from gpuprof.errors import InputError
from gpuprof.profile import Origin, Profile
from gpuprof.readers.common.narrow import narrow_column
from gpuprof.views import Select, View

if TYPE_CHECKING:
    import duckdb

_DEVICE_COLUMNS: Final = ("device_id", "src_device_id", "dst_device_id")
_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_.]?(\d+)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
# A larger number in a file's name is a time or a process.
_LARGEST_RANK: Final = 1_000_000
_DEVICES, _LINKS, _RUNS = schema.DEVICES.name, schema.LINKS.name, schema.RUNS.name
_NAMED_ANEW: Final = (_DEVICES, _LINKS)
_SHARED: Final = (
    "Several processes use devices of the same number, which are taken for different ones:"
    " devices are counted on in the order of ranks."
)

_Numbers = Mapping[int | None, int]


@dataclass(frozen=True)
class _Part:
    """One file's tables, in memory, with what is needed to tell it from the others.

    Args:
        new: Column to what its numbers are called among all files; where it is asked for, as
            the tables themselves are never copied.
    """

    name: str
    rank: int | None
    origin_ns: int | None
    end_ns: int
    tables: Mapping[str, pa.Table]
    new: Mapping[str, _Numbers] = field(default_factory=dict)

    def numbers(self, *columns: str) -> set[int]:
        """The numbers that its activities have in these columns."""
        found: set[int] = set()
        for name, table in self.tables.items():
            for column in columns:
                if name not in (_DEVICES, _LINKS, _RUNS) and column in table.column_names:
                    found |= set(table[column].unique().to_pylist())
        return found - {None}

    def follows(self, other: "_Part") -> bool:
        """Whether it is a later stretch of the same process."""
        if self.rank != other.rank or self.origin_ns is None or other.origin_ns is None:
            return False
        pids = self.numbers("process_id")
        is_apart = (
            self.origin_ns >= other.origin_ns + other.end_ns
            or other.origin_ns >= self.origin_ns + self.end_ns
        )
        return bool(pids) and pids == other.numbers("process_id") and is_apart


def joined(profiles: Sequence[Profile]) -> Profile:
    """One recording of several, each from a process of its own.

    Raises:
        InputError: Two of them are the same recording.
    """
    # Of their own, so that what they read of their files goes with them.
    readings = [replace(profile) for profile in reversed(profiles)]
    ranks = _ranks(readings[::-1])
    parts = [_part(readings.pop(), rank) for rank in ranks]
    _refuse_twins(parts)
    parts.sort(key=lambda part: (part.rank is None, part.rank or 0, part.name))
    processes = _processes(parts)
    parts, notes = _renumbered(parts, processes)
    return _together(profiles, parts, notes)


def _ranks(profiles: Sequence[Profile]) -> list[int | None]:
    """Each file's rank: as it says itself, else as the names of all say."""
    told = [_told_rank(profile) for profile in profiles]
    if None not in told:
        return told
    names = [profile.origin.source.name for profile in profiles]
    return _ranks_of_names(names)


def _told_rank(profile: Profile) -> int | None:
    ranks = profile.table(_RUNS)["rank"].to_pylist() if profile.has(_RUNS) else []
    return ranks[0] if len(ranks) == 1 else None


def _ranks_of_names(names: Sequence[str]) -> list[int | None]:
    """``rank3``, ``worker3``, or the one number in which the names differ; else unknown."""
    matches = [_RANK_IN_NAME.search(name) for name in names]
    ranks = [int(match[1]) for match in matches if match]
    if len(set(ranks)) != len(names):
        numbers = [_NUMBER.findall(name) for name in names]
        is_alike = len({_NUMBER.sub("#", name) for name in names}) == 1
        places = zip(*numbers, strict=True) if is_alike else ()
        differing = [place for place in places if len(set(place)) > 1]
        ranks = [int(text) for text in differing[0]] if len(differing) == 1 else []
    is_told = len(set(ranks)) == len(names) and max(ranks) <= _LARGEST_RANK
    return list(ranks) if is_told else [None] * len(names)


def _part(profile: Profile, rank: int | None) -> _Part:
    import pyarrow.compute as pc  # noqa: PLC0415 - 0.1 s that one file does not need

    tables = {name: _table(profile, name) for name in profile.sources}
    ends = [t["end_ns"] for t in tables.values() if "end_ns" in t.column_names and t.num_rows]
    end_ns = max((pc.max(end).as_py() for end in ends), default=0)
    if _RUNS not in tables:
        tables[_RUNS] = schema.RUNS.table([{"run_id": 0}])
    runs = tables[_RUNS]
    if runs.num_rows == 1:
        tables[_RUNS] = _with(runs, "rank", pa.array([rank], pa.int64()))
    return _Part(profile.origin.source.name, rank, profile.origin.epoch_ns, end_ns, tables)


def _table(profile: Profile, name: str) -> pa.Table:
    """A table; one that may hold millions of rows with columns as narrow as its values allow."""
    source, spec = profile.sources[name], schema.BY_NAME[name]
    if "start_ns" not in spec.columns:
        return profile.table(name)
    if isinstance(source, pa.Table):
        return source
    rows = profile.batches(f'SELECT {", ".join(spec.columns)} FROM "{name}"')
    narrow = [_narrow(pa.Table.from_batches([batch]), spec) for batch in rows]
    # Numbers of one column are of 8 bits in one piece and of 32 in another.
    return pa.concat_tables(narrow, promote_options="permissive") if narrow else spec.empty()


def _narrow(table: pa.Table, spec: schema.Schema) -> pa.Table:
    # Else what each piece took for a while adds up.
    pa.default_memory_pool().release_unused()
    return spec.narrow(pa.table({f.name: narrow_column(table[f.name], f.type) for f in spec.arrow}))


def _refuse_twins(parts: Sequence[_Part]) -> None:
    """The same recording twice, as in a plain and a gzip file, would count twice."""
    seen: dict[tuple[object, ...], str] = {}
    for part in parts:
        rows = tuple(sorted((name, table.num_rows) for name, table in part.tables.items()))
        who = frozenset(part.numbers("process_id")), frozenset(part.numbers("device_id"))
        key = (part.origin_ns, part.end_ns, part.rank, who, rows)
        if part.origin_ns is not None and key in seen:
            msg = f"{seen[key]} and {part.name} are the same recording"
            raise InputError(msg, "Leave one of them out.")
        seen[key] = part.name


def _processes(parts: Sequence[_Part]) -> list[int]:
    """For each file the place of its process: that of the first file of the same process."""
    places: list[int] = []
    for number, part in enumerate(parts):
        same = (place for place in range(number) if part.follows(parts[place]))
        earlier = next(same, None)
        places.append(number if earlier is None else places[earlier])
    return places


def _renumbered(
    parts: Sequence[_Part], processes: Sequence[int]
) -> tuple[list[_Part], tuple[str, ...]]:
    """The same files with processes and devices that no two of them confuse."""
    pids = [part.numbers("process_id") for part in parts]
    if not all(pids) or _coincide(pids, processes):
        names = [_process_map(ids, place) for ids, place in zip(pids, processes, strict=True)]
        parts = [_called(p, ("process_id",), m) for p, m in zip(parts, names, strict=True)]
    used = [part.numbers(*_DEVICE_COLUMNS) for part in parts]
    is_shared = _coincide(used, processes)
    own: list[_Numbers] = [{number: number for number in found} for found in used]
    maps = _device_maps(used, processes) if is_shared else own
    if is_shared:
        parts = [_called(p, _DEVICE_COLUMNS, m) for p, m in zip(parts, maps, strict=True)]
    parts = [_with_devices(part, found) for part, found in zip(parts, maps, strict=True)]
    # Where a number means the same device to all, a link may join those of two processes.
    everyone: _Numbers = {number: number for found in used for number in found}
    parts = [
        _with_links(part, found if is_shared else everyone)
        for part, found in zip(parts, maps, strict=True)
    ]
    return parts, (_SHARED,) if is_shared else ()


def _coincide(numbers: Sequence[set[int]], processes: Sequence[int]) -> bool:
    by_process: dict[int, set[int]] = {}
    for found, process in zip(numbers, processes, strict=True):
        by_process.setdefault(process, set()).update(found)
    counts = Counter(number for found in by_process.values() for number in found)
    return any(count > 1 for count in counts.values())


def _process_map(pids: Iterable[int], place: int) -> _Numbers:
    base = (place + 1) << schema.PROCESS_BITS
    return {None: base, **{pid: base | pid for pid in pids}}


def _device_maps(used: Sequence[set[int]], processes: Sequence[int]) -> list[_Numbers]:
    maps: dict[int, _Numbers] = {}
    count = 0
    for place in sorted(set(processes)):
        mine = (found for found, process in zip(used, processes, strict=True) if process == place)
        devices = sorted(set().union(*mine))
        maps[place] = {device: count + number for number, device in enumerate(devices)}
        count += len(devices)
    return [maps[process] for process in processes]


def _called(part: _Part, columns: Sequence[str], numbers: _Numbers) -> _Part:
    return replace(part, new={**part.new, **dict.fromkeys(columns, numbers)})


def _with_devices(part: _Part, numbers: _Numbers) -> _Part:
    """Its devices, but only those that it used: files list all of their host."""
    known = part.tables.get(_DEVICES, schema.DEVICES.empty()).to_pylist()
    rows = [
        row | {"device_id": numbers[row["device_id"]], "rank": part.rank}
        for row in known
        if row["device_id"] in numbers
    ]
    listed = {row["device_id"] for row in rows}
    rows += [{"device_id": n, "rank": part.rank} for n in numbers.values() if n not in listed]
    return replace(part, tables={**part.tables, _DEVICES: schema.DEVICES.table(rows)})


def _with_links(part: _Part, numbers: _Numbers) -> _Part:
    """The links between devices that were used; null is the host."""
    ends = ("device_id", "peer_device_id")
    new = {None: None, **numbers}
    if _LINKS not in part.tables:
        return part
    rows = [
        row | {end: new[row[end]] for end in ends}
        for row in part.tables[_LINKS].to_pylist()
        if all(row[end] in new for end in ends)
    ]
    return replace(part, tables={**part.tables, _LINKS: schema.LINKS.table(rows)})


def _together(
    profiles: Sequence[Profile], parts: Sequence[_Part], notes: tuple[str, ...]
) -> Profile:
    origins = [part.origin_ns for part in parts if part.origin_ns is not None]
    earliest = min(origins) if len(origins) == len(parts) else None
    if earliest is None:
        notes += ("The files have no common clock: each begins at 0.",)
    first_runs = [0, *accumulate(part.tables[_RUNS].num_rows for part in parts)]
    told = tuple(dict.fromkeys(text for p in profiles for text in p.origin.warnings))
    origin = replace(profiles[0].origin, epoch_ns=earliest, warnings=(*notes, *told))
    rows: dict[str, dict[str, tuple[pa.Table, Select]]] = {}
    for part, first_run in zip(parts, first_runs, strict=False):
        shift_ns = 0 if earliest is None or part.origin_ns is None else part.origin_ns - earliest
        offsets = {"start_ns": shift_ns, "end_ns": shift_ns, "run_id": first_run}
        for name, table in part.tables.items():
            seen = f"file {len(rows.setdefault(name, {}))} of {name}"
            rows[name][seen] = table, Select(_columns(part, name, offsets), f'FROM "{seen}"')
    return _over(origin, rows)


def _columns(part: _Part, name: str, offsets: Mapping[str, int]) -> dict[str, str]:
    """SQL by column: the columns of a table, with numbers and times as they are among all files."""
    table = part.tables[name]
    held = {column: f'"{column}"' for column in table.column_names}
    columns = {}
    for column in schema.BY_NAME[name].columns:
        value = held.get(column, "NULL")
        if column in part.new:
            value = _renamed(value, part.new[column])
        if column in offsets and column in held:
            value = f"coalesce({value}, 0)" if column == "run_id" else value
            value = f"CAST({value} AS BIGINT) + {offsets[column]}"
        columns[column] = value
    return columns


def _renamed(value: str, numbers: _Numbers) -> str:
    cases = " ".join(f"WHEN {old} THEN {new}" for old, new in numbers.items() if old is not None)
    other = numbers.get(None, "NULL")
    return f"CASE {value} {cases} ELSE {other} END" if cases else f"{other}"


def _over(origin: Origin, rows: Mapping[str, Mapping[str, tuple[pa.Table, Select]]]) -> Profile:
    """A recording over the tables of all files, of which a query reads the columns it names."""
    sources: dict[str, pa.Table | View] = {}
    for name, files in rows.items():
        selects = tuple(select for table, select in files.values() if table.num_rows)
        if name in _NAMED_ANEW:
            sources[name] = _different(table for table, _ in files.values())
        elif selects:
            sources[name] = View(selects)
        else:
            sources[name] = schema.BY_NAME[name].empty()

    def prepare(connection: "duckdb.DuckDBPyConnection") -> None:
        for name in (name for name in rows if isinstance(sources[name], View)):
            for seen, (table, _) in rows[name].items():
                if table.num_rows:
                    connection.register(seen, table)

    stored = sum(table.num_rows for files in rows.values() for table, _ in files.values())
    return Profile(origin, sources, prepare, stored=stored)


def _different(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of small tables: two stretches of one process list the same devices."""
    table = pa.concat_tables(tables)
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def _with(table: pa.Table, name: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    if name not in table.column_names:
        return table.append_column(name, values)
    return table.set_column(table.column_names.index(name), name, values)
