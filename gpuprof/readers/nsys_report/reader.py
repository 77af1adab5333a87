"""Reports of Nsight Systems, ``.nsys-rep`` and the older ``.qdrep``, read without nsys.

A first pass decodes all events and keeps none: counts, sizes, numbers of texts, times, devices and
processes must agree with what else the file says of them, no event may lack a field that each has,
and no block may be there twice. Where they do not, an installed nsys is asked instead. What could
be but was in no report at hand, as calls of a thread that cross one another, is said in a note, and
so is, counted by kind, what is not read. The blocks have no checksums: a byte that makes another
time, size, thread or text of the same kind is not noticed. After that, columns are decoded when
they are asked for.

It was compared row by row with what nsys 2023.4 exports of 39 reports, and on seven newer ones with
what their own nsys exported. Unproven are graphs recorded as a whole, nodes of graphs, page faults,
calls of UCX, and records without times, which no report at hand had.

Beside what an export by nsys 2023.4 gives: nsys' own warnings, the host, which process calls which
GPU by another number, and reports of a newer nsys. ``schema_version`` and ``exporter_version`` are
null, since nothing was exported; words of a column may be numbered in another order. Names of
threads are read by neither way; samples of GPU metrics and allocations only by way of an export.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.units import counted
from gpuprof.model.profile import Profile
from gpuprof.native.nsys_reports import ReportError
from gpuprof.readers import reader_named
from gpuprof.readers.input_format import Reader
from gpuprof.readers.inputs import check_unchanged, stamp
from gpuprof.readers.nsys import export
from gpuprof.readers.nsys.export import CANNOT, GIVES
from gpuprof.readers.nsys_report.file import HEAD, OF_CALLS, Report
from gpuprof.readers.nsys_report.report_tables import ReportTables
from gpuprof.readers.nsys_report.survey import Survey, survey_of

NAME: Final = "nsys-rep"
_THROUGH_NSYS: Final = "nsys-export"
# Before it stands whether the recorder came to its end.
_STREAM: Final = b"NVIDIA Nsight Systems Stream"
# Versions whose reports were compared with what nsys makes of them.
_COMPARED: Final = ((2019, 5), (2026, 2))
_FIRST_IN_DISORDER: Final = "2024.6"
# Types of events, as the exporter numbers them (``ENUM_NSYS_EVENT_TYPE``): of these gpuprof has no
# table; others of which it has none are named by their number.
_NO_TABLE: Final = {
    28: "mapped files", 31: "CPU samples", 41: "scheduling events", 58: "GPU context switches",
    138: "generic events",
}  # fmt: skip
# Of these it has one, but no report with them in a known layout was at hand.
_CUDA_TYPES: Final = (79, 80, 106, 127, 130)
_UNKNOWN: Final = {
    **dict.fromkeys(_CUDA_TYPES, "CUDA activities"),
    119: "page faults of the CPU", 120: "page faults of GPUs",
}  # fmt: skip
_LAST_TYPE: Final = 143
# Classes of calls: of those that are read and those that say when a kind of tracing began or ended,
# nothing is said.
_MODULE_LOADS: Final = (102, 103)
_KNOWN_CLASSES: Final = (
    *(number for classes in OF_CALLS.values() for number in classes),
    *(*range(6, 13), *range(33, 37), 45, 46, 68),
)


def _unread(survey: Survey) -> Iterator[str]:
    """What lies in a report beside what is read."""
    unknown, no_table = Counter[str](), Counter[str]()
    for number, count in survey.without_table.items():
        if number in _UNKNOWN or number > _LAST_TYPE:
            unknown[_UNKNOWN.get(number, f"events of type {number}")] += count
        else:
            no_table[_NO_TABLE.get(number, f"events of type {number}")] += count
    for number, count in survey.calls.items():
        if number not in _KNOWN_CLASSES:
            is_load = number in _MODULE_LOADS
            no_table["module loads of CUDA" if is_load else "calls of other libraries"] += count
    if listed := ", ".join(f"{count:,} {name}" for name, count in unknown.items() if count):
        yield f"Not read, since their layout is unknown: {listed}"
    if listed := ", ".join(
        f"{name} ({count:,})" for name, count in no_table.most_common() if count
    ):
        yield f"Not read, since gpuprof has no table of them: {listed}"


def _doubts(report: Report, survey: Survey) -> Iterator[str]:
    """What a reader must know of what no other report has."""
    version = report.version or "of an unknown version"
    if survey.impossible:
        yield counted(
            survey.impossible,
            "call or range ends before it starts or crosses another of its thread: "
            "it may be damaged",
            "calls or ranges end before they start or cross another of their thread: "
            "it may be damaged",
        )
    if survey.repeated:
        calls = counted(survey.repeated, "CUDA call has", "CUDA calls have")
        yield f"{calls} the correlation id of another: it may be damaged"
    disorder = survey.disorder.total()
    if disorder and version < _FIRST_IN_DISORDER:
        times = counted(disorder, "time is", "times are")
        yield f"{times} out of order, as in no report of nsys {version}: it may be damaged"
    if not _COMPARED[0] <= tuple(map(int, re.findall(r"\d+", version)[:2])) <= _COMPARED[1]:
        yield f"Reports of nsys {version} were never compared with what nsys makes of them"


def read(path: Path) -> Profile:
    """Read a report; where its checks fail, through the installed nsys.

    Raises:
        CorruptFileError: It contradicts itself, and nsys is not installed or cannot open it.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
        InputError: It cannot be read, or changes meanwhile.
    """
    before = stamp(path.stat())
    try:
        with path.open("rb") as file:
            if not file.peek(len(HEAD)).startswith(HEAD):
                return reader_named(_THROUGH_NSYS).read(path)
        report = Report(path)
        survey = survey_of(report)
        profile = export.profile(ReportTables(report, survey, before))
        warnings = (*profile.origin.warnings, *_unread(survey), *_doubts(report, survey))
    except ReportError as error:
        check_unchanged(path, before)
        fault = f"{path}: {error}"
        if shutil.which("nsys") is None:
            raise CorruptFileError(fault, "Copy it again from where it was recorded.") from error
        try:
            profile = reader_named(_THROUGH_NSYS).read(path)
        except (CorruptFileError, InputError) as refusal:
            msg = f"{fault}; {refusal.message.removeprefix(f'{path}: ')}"
            raise type(refusal)(msg, refusal.hint) from error
        note = f"Read through nsys, since a check of the report failed: {error}"
        warnings = (note, *profile.origin.warnings)
    check_unchanged(path, before)
    return replace(profile, origin=replace(profile.origin, warnings=warnings))


READER: Final = Reader(
    NAME,
    "Nsight Systems report (.nsys-rep, .qdrep)",
    "nsys 2019.5 to 2026.2",
    # No report that holds them was at hand to find their layout by.
    tuple(name for name in GIVES if name not in {"gpu_metrics", "memory_events"}),
    CANNOT,
    read,
    recognises=lambda head: head.startswith(HEAD) or head[8:].startswith(_STREAM),
)
