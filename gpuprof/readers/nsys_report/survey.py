"""One pass over all events of a report, which keeps none: its checks, and what there is of each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuprof.base.units import counted
from gpuprof.native import nsys_reports
from gpuprof.native.nsys_reports import NO_VALUE, Int64s, Layout, ReportError
from gpuprof.readers.nsys.export_schema import DIAGNOSTICS, KERNEL, MEMSET, NVTX, TIMED
from gpuprof.readers.nsys_report.file import (
    CALLS,
    CUDA,
    DOMAIN_CREATED,
    LAYOUT,
    OF_CALLS,
    OPTIONAL,
    OS,
    PROCESSES,
    PUSH_POP,
    Report,
    agree,
)

Columns = Mapping[str, Int64s]
Flags = npt.NDArray[np.bool_]
_ALL: Final = Layout(LAYOUT)
# Events may lie so far outside of the recording. In reports of 2019.5 to 2026.2 some began 138 s
# before it, and none ended after it.
_BEFORE_NS, _AFTER_NS = 3_600 * 10**9, 10**9
# Other copies and waits may have contexts that no report lists.
_OF_CONTEXTS: Final = (KERNEL, MEMSET)
_UNDECODED: Final = "\ufffd"
# What stops the recording has the number of the next call.
_STOPS: Final = ("cudaProfilerStop", "cuProfilerStop")


class Survey:
    """What some events say together.

    Attributes:
        without_table: By type how many events are of no table.
        calls: By class how many calls there are.
        counts: By table of the layout, and of an export, how many rows there are.
        lacking: By table and column of the layout how many rows have no value.
        untimed: By table how many activities have no times.
        disorder: By table how many rows start before the one before.
        impossible: How many calls and ranges have times that none can have.
        repeated: How many calls of CUDA have the number of another.
        names: The numbers of names of kernels and calls.
        domains: Processes, their numbers of domains, and the names of these.
        diagnoses: What nsys says of the recording: severity and text.
        processes: Processes with their names, else with what they were started as.
        starts: By table its first and last start.
    """

    def __init__(self) -> None:
        self.without_table, self.calls = Counter[int](), Counter[int]()
        self.lacking = Counter[tuple[str, str]]()
        self.counts, self.untimed, self.disorder = (Counter[str]() for _ in range(3))
        self.impossible = self.repeated = 0
        self.names = set[int]()
        self.domains: list[tuple[int, int, str]] = []
        self.diagnoses: list[tuple[int, str]] = []
        self.processes: list[tuple[int, str]] = []
        self.starts: dict[str, list[int]] = {}

    def add(self, later: "Survey") -> None:
        """Add what later events say."""
        for name, starts in later.starts.items():
            known_starts = self.starts.setdefault(name, starts)
            later.disorder[name] += starts[0] < known_starts[1] and known_starts is not starts
            known_starts[1] = starts[1]
        self.without_table.update(later.without_table)
        self.calls.update(later.calls)
        self.lacking.update(later.lacking)
        self.counts.update(later.counts)
        self.untimed.update(later.untimed)
        self.disorder.update(later.disorder)
        self.impossible += later.impossible
        self.repeated += later.repeated
        self.names |= later.names
        self.domains += later.domains
        self.diagnoses += later.diagnoses
        self.processes += later.processes


def survey_of(report: Report) -> Survey:
    """What all events of a report say.

    Raises:
        ReportError: Something in it does not agree with what else is there.
    """
    survey = Survey()
    stops = [n for n, text in enumerate(report.strings) if text.startswith(_STOPS)]
    for batch in report.of_blocks(partial(_of_blocks, report, stops)):
        survey.add(batch)
    events = survey.without_table.total() + sum(survey.counts[name] for name in LAYOUT)
    agree("events", report.declared_events, events)
    for (table, column), count in survey.lacking.items():
        if count and not {column, (table, column)} & OPTIONAL:
            rows = counted(count, f"event of {table} has", f"events of {table} have")
            msg = f"{rows} no {column}"
            raise ReportError(msg)
    names = (report.strings[number] for number in survey.names)
    if not all(name.isprintable() and _UNDECODED not in name for name in names):
        msg = "a name has characters that no name has"
        raise ReportError(msg)
    return survey


def _of_blocks(report: Report, stops: Sequence[int], data: bytes) -> Survey:
    events, survey = nsys_reports.events(data, _ALL), Survey()
    survey.without_table.update(dict(enumerate(events.without_table.tolist())))
    texts = [text.decode("utf-8", "replace") for text in events.texts]
    tables = {
        name: dict(zip(LAYOUT[name].columns, columns, strict=True))
        for name, columns in events.columns.items()
        if columns.size
    }
    for name, of in tables.items():
        _add_table(survey, report, name, of)
    if kernels := tables.get(KERNEL):
        is_short = kernels["demangledName"] == NO_VALUE
        names = np.where(is_short, kernels["shortName"], kernels["demangledName"])
        survey.names.update(_texts_used(report, names))
    if calls := tables.get(CALLS):
        _add_calls(survey, report, stops, calls)
    if ranges := tables.get(NVTX):
        _add_ranges(survey, report, texts, ranges)
    if diagnoses := tables.get(DIAGNOSTICS):
        survey.diagnoses += _with_texts(diagnoses["severity"], diagnoses["text"], texts)
    if processes := tables.get(PROCESSES):
        is_unnamed = processes["name"] == NO_VALUE
        names = np.where(is_unnamed, processes["command"], processes["name"])
        survey.processes += _with_texts(bits(processes["globalPid"]), names, texts)
    return survey


def _add_table(survey: Survey, report: Report, name: str, of: Columns) -> None:
    """Check a table's times and places, and count its rows."""
    survey.counts[name] = rows = len(next(iter(of.values())))
    survey.lacking.update({(name, column): rows - _without_nulls(of[column]).size for column in of})
    for times in (_without_nulls(of[column]) for column in ("start", "end") if column in of):
        if times.size and not -_BEFORE_NS <= times.min() <= times.max() <= report.last + _AFTER_NS:
            msg = f"a time of {name} lies outside of the recording"
            raise ReportError(msg)
    units = _without_nulls(of["isInNs"]) if "isInNs" in of else np.ones(1, np.int64)
    if units.size and not units.min() == units.max() == 1:
        msg = f"times of {name} are of another unit"
        raise ReportError(msg)
    devices, used = report.devices, of.get("deviceId")
    if devices and used is not None and not np.isin(used, [NO_VALUE, -1, *devices]).all():
        msg = f"{name} has a device that the report does not list"
        raise ReportError(msg)
    contexts = [*report.contexts] if name in _OF_CONTEXTS else []
    if contexts and not np.isin(bits(of["globalPid"]) << 24 | of["contextId"], contexts).all():
        msg = f"{name} has a context that the report does not list"
        raise ReportError(msg)
    if (start := of.get("start")) is not None:
        survey.starts[name] = [int(start[0]), int(start[-1])]
        survey.disorder[name] = int((start[1:] < start[:-1]).sum())
    if name in TIMED:
        survey.untimed[name] = int((~_are_timed(of) | (of["end"] < of["start"])).sum())


def _with_texts(numbers: Int64s, codes: Int64s, texts: list[str]) -> Iterable[tuple[int, str]]:
    pairs = zip(numbers.tolist(), codes.tolist(), strict=True)
    return ((number, texts[code]) for number, code in pairs if code != NO_VALUE)


def bits(global_ids: Int64s, shift: int = 24) -> Int64s:
    """24 bits of global ids: of the process from 24 on, of the thread from 0 on."""
    return global_ids >> shift & 0xFFFFFF


def _are_timed(of: Columns) -> Flags:
    """Which rows have times; of 0 and 0, these could not be collected."""
    is_timed: Flags = ((of["start"] != 0) | (of["end"] != 0)) & (of["end"] != NO_VALUE)
    return is_timed


def _without_nulls(values: Int64s) -> Int64s:
    """Those that are no nulls, of which most columns have none."""
    return values[values != NO_VALUE] if values.min() == NO_VALUE else values


def _check_texts(report: Report, numbers: Int64s) -> None:
    known_numbers = _without_nulls(numbers)
    if known_numbers.size and not -1 <= known_numbers.min() <= known_numbers.max() < len(
        report.strings
    ):
        msg = f"a text has a number beyond {len(report.strings) - 1:,}"
        raise ReportError(msg)


def _texts_used(report: Report, numbers: Int64s) -> list[int]:
    """The different numbers of texts; -1 is none."""
    _check_texts(report, numbers)
    is_used = np.zeros(len(report.strings) + 1, np.bool_)
    is_used[np.maximum(numbers, -1)] = True
    used: list[int] = np.flatnonzero(is_used[:-1]).tolist()
    return used


def _add_calls(survey: Survey, report: Report, stops: Sequence[int], of: Columns) -> None:
    survey.names.update(_texts_used(report, of["nameId"]))
    survey.calls.update(dict(enumerate(np.bincount(of["eventClass"].clip(0, 255)).tolist())))
    for table, classes in OF_CALLS.items():
        is_row = np.isin(of["eventClass"], classes)
        if not (count := int(is_row.sum())):
            continue
        survey.counts[table] = count
        if classes in (CUDA, OS):
            survey.impossible += _impossible(of, is_row)
        if classes == CUDA:
            ids = bits(of["globalTid"]) << 32 | np.maximum(of["correlationId"], 0)
            ids = np.sort(ids[is_row])
            repeated = int((ids[1:] == ids[:-1]).sum())
            survey.repeated += max(repeated - int(np.isin(of["nameId"], stops).sum()), 0)


def _add_ranges(survey: Survey, report: Report, texts: list[str], of: Columns) -> None:
    _check_texts(report, of["textId"])
    for row in np.flatnonzero(of["eventType"] == DOMAIN_CREATED).tolist():
        here, number = int(of["text"][row]), int(of["textId"][row])
        if here != NO_VALUE or number >= 0:
            name = texts[here] if here != NO_VALUE else report.strings[number]
            survey.domains.append((int(bits(of["globalTid"])[row]), int(of["domainId"][row]), name))
    survey.impossible += _impossible(of, of["eventType"] == PUSH_POP)


def _impossible(of: Columns, is_row: Flags) -> int:
    """How many rows end before they start, or after the one of their thread that they began in.

    Calls and nested ranges of a thread do neither, but for ranges of two domains.
    """
    is_row = is_row & _are_timed(of)
    columns = (of[name] for name in ("start", "end", "globalTid", "domainId") if name in of)
    start, end, *group = columns if is_row.all() else (column[is_row] for column in columns)
    count = int((end < start).sum())
    thread = group[0]
    if (thread[1:] != thread[:-1]).any() or (start[1:] < start[:-1]).any():
        order = np.lexsort((start, thread))
        start, end, *group = (values[order] for values in (start, end, *group))
    is_crossing = (start[1:] < end[:-1]) & (end[:-1] < end[1:]) & (start[:-1] < start[1:])
    if is_crossing.any():
        is_crossing &= np.logical_and.reduce([values[1:] == values[:-1] for values in group])
    return count + int(is_crossing.sum())
