"""Reports of Nsight Systems, ``.nsys-rep`` and the older ``.qdrep``, read without nsys.

Each is checked as it is read: counts, sizes, numbers of texts, times and devices must agree with
what else the file says of them, and no event may lack a field that each has. Where they do not, an
installed nsys is asked instead. What could be but was in no report at hand, as calls of a thread
that cross one another, is said in a note. The blocks have no checksums: a byte that makes another
time, size, thread or text of the same kind is not noticed.

Beside what an export gives: nsys' own warnings of all versions, the host, records of CUDA events,
reports newer than the installed nsys. ``schema_version`` and ``exporter_version`` are null, since
nothing was exported; words of a column may be numbered in another order. Names of threads and
samples of GPU metrics are read by neither way.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.units import counted
from gpuprof.model.profile import Profile
from gpuprof.native.reports import LARGEST_TYPE, ReportError
from gpuprof.readers import reader_named
from gpuprof.readers.common.file_stamp import check, stamp
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys import export
from gpuprof.readers.nsys.export import CANNOT, GIVES
from gpuprof.readers.nsys_report.event_tables import ReportTables
from gpuprof.readers.nsys_report.file import HEAD, Report
from gpuprof.readers.nsys_report.layout import LAYOUT
from gpuprof.readers.nsys_report.survey import Survey, survey

NAME: Final = "nsys-rep"
_THROUGH_NSYS: Final = "nsys-export"
# Before it stands whether the recorder came to its end.
_STREAM: Final = b"NVIDIA Nsight Systems Stream"
# Versions whose reports were compared with what nsys makes of them.
_COMPARED: Final = ((2019, 5), (2026, 2))
# Types of events, as the exporter numbers them (``ENUM_NSYS_EVENT_TYPE``), end here.
_LAST_TYPE: Final = 143
_FIRST_IN_DISORDER: Final = "2024.6"
_CUDA_TYPES: Final = (79, 80, 106, 127, 130)
_CUDA_TABLES: Final = [name for name, fields in LAYOUT.items() if len(fields.message) > 1]
# Their layout is not known: no report with them was at hand.
_NOT_READ: Final = {119: "page faults of the CPU", 120: "page faults of GPUs"}


def _doubts(report: Report, found: Survey) -> Iterator[str]:
    """What a reader must know of what is not read, and what no other report has."""
    cuda = sum(found.types[number] for number in _CUDA_TYPES)
    unread = {"CUDA activities": cuda - sum(found.counts[name] for name in _CUDA_TABLES)}
    unread |= {name: found.types[number] for number, name in _NOT_READ.items()}
    later = range(_LAST_TYPE + 1, LARGEST_TYPE + 1)
    unread |= {f"events of type {number}": found.types[number] for number in later}
    listed = ", ".join(f"{count:,} {name}" for name, count in unread.items() if count > 0)
    if listed:
        yield f"Not read, since their layout is unknown: {listed}"
    version = report.version or "of an unknown version"
    if found.impossible:
        yield counted(
            found.impossible,
            "call or range ends before it starts or crosses another of its thread: "
            "it may be damaged",
            "calls or ranges end before they start or cross another of their thread: "
            "it may be damaged",
        )
    if found.repeated:
        calls = counted(found.repeated, "CUDA call has", "CUDA calls have")
        yield f"{calls} the correlation id of another: it may be damaged"
    disorder = found.disorder.total()
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
        found = survey(report)
        profile = export.profile(ReportTables(report, found, before))
    except ReportError as error:
        check(path, before)
        return _checked_by_nsys(path, error)
    check(path, before)
    return _with_warnings(profile, *profile.origin.warnings, *_doubts(report, found))


def _with_warnings(profile: Profile, *warnings: str) -> Profile:
    return replace(profile, origin=replace(profile.origin, warnings=warnings))


def _checked_by_nsys(path: Path, error: ReportError) -> Profile:
    """What nsys makes of a report whose checks fail."""
    fault = f"{path}: {error}"
    if shutil.which("nsys") is None:
        raise CorruptFileError(fault, "Copy it again from where it was recorded.") from error
    try:
        profile = reader_named(_THROUGH_NSYS).read(path)
    except (CorruptFileError, InputError) as refusal:
        refused = refusal.message.removeprefix(f"{path}: ")
        msg = f"{fault}; {refused}"
        raise type(refusal)(msg, refusal.hint) from error
    note = f"Read through nsys, since a check of the report failed: {error}"
    return _with_warnings(profile, note, *profile.origin.warnings)


READER: Final = Reader(
    NAME,
    "Nsight Systems report (.nsys-rep, .qdrep)",
    "nsys 2019.5 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises=lambda head: head.startswith(HEAD) or head[8:].startswith(_STREAM),
)
