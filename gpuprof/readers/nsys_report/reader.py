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
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.units import counted
from gpuprof.model import schema
from gpuprof.model.profile import Origin, Profile
from gpuprof.native.reports import ReportError
from gpuprof.readers import reader_named
from gpuprof.readers.common.file_stamp import check, stamp
from gpuprof.readers.input_format import Reader
from gpuprof.readers.nsys import device_ordinals, diagnostics, export
from gpuprof.readers.nsys.export import CANNOT, GIVES
from gpuprof.readers.nsys_report.file import DIAGNOSTICS, HEAD, LAYOUT, Report, Rows
from gpuprof.readers.nsys_report.to_tables import devices, runs, tables

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
_CUDA_TRACE: Final = 123  # among what was to be recorded
_UTC_TO_TARGET: Final = (11, 7)  # kinds of clocks
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
# Their layout is not known: no report with them was at hand.
_NOT_READ: Final = {119: "page faults of the CPU", 120: "page faults of GPUs"}

_GPU_WORK: Final = ("kernels", "memcpys", "memsets", "graph_launches")


def _diagnoses(report: Report) -> list[str]:
    rows = report.rows(DIAGNOSTICS)
    is_doubt = np.isin(rows.numbers("severity"), (diagnostics.WARNING, diagnostics.ERROR))
    texts = rows.numbers("text")[is_doubt].tolist()
    return diagnostics.doubts(rows.texts[text] for text in texts if text >= 0)


def _capture(report: Report) -> dict[str, list[str]]:
    """The settings that are read, by the names of an export; the others may hold secrets."""
    programs = report.settings.messages(26)
    if not programs:
        return {}
    program = programs[0]
    kinds = [number for of in report.settings.messages(2) for number in of.integers(1)]
    is_on = {
        "CUDA": bool(program.integer(21)) or _CUDA_TRACE in kinds,
        "NVTX": bool(program.integer(20)),
    }
    capture = {f"COLLECT_{trace}_TRACE": [f"{is_on[trace]}".lower()] for trace in is_on}
    arguments = {f"ARGUMENT_{place}": [text] for place, text in enumerate(program.texts(11))}
    return capture | {"COMMAND": [program.text(10) or ""]} | arguments


def _fault(
    report: Report, capture: Mapping[str, list[str]], calls: Rows, *, has_cuda: bool
) -> str | None:
    """Why GPU work may have been done though none is in the file."""
    if not has_cuda:
        is_off = "COLLECT_CUDA_TRACE" in capture and not export.was_on(capture, "CUDA")
        return "CUDA was not traced" if is_off else "no CUDA call was recorded"
    names = report.named(calls.numbers("nameId")[calls.numbers("returnValue", 0) == 0])
    is_launch = [name.startswith(export.LAUNCHES) for name in names.values]
    call = next((names.values[code] for code in names.codes.tolist() if is_launch[code]), None)
    if call is None:
        return None
    return f"{call.partition('_v')[0]} was called, and nsys recorded no work that calls started"


def _epoch_ns(report: Report) -> int | None:
    """Unix time that times count from."""
    edges = {
        (edge.integer(1), edge.integer(2)): int(edge.text(5) or 0)
        for edge in report.head.messages(16, 1)
        if edge.text(6) == "Offset" and _NUMBER.fullmatch(edge.text(5) or "0")
    }
    epoch_ns = None
    if {(3, 9), (1, 3), (7, 1)} <= edges.keys():  # to 2025
        epoch_ns = (-edges[3, 9] - edges[1, 3] - edges[7, 1]) % (1 << 64)
    clocks = {clock.text(1): clock.integer(2) for clock in report.clocks.messages(1, 1)}
    for edge in report.clocks.messages(2, 1):  # in 2026
        ends = tuple(clocks.get(edge.text(number)) for number in (1, 2))
        for pair in edge.messages(3, 1)[:1]:
            if ends in {_UTC_TO_TARGET, _UTC_TO_TARGET[::-1]}:
                places = (1, 2) if ends == _UTC_TO_TARGET else (2, 1)
                utc_ns, target_ns = map(pair.integer, places)
                epoch_ns = utc_ns - target_ns + report.head.integer(17)
    return epoch_ns if epoch_ns is not None and 0 <= epoch_ns <= schema.LARGEST else None


def _profile(path: Path, report: Report) -> Profile:
    places, numbers = devices(report)
    recorded, untimed, calls = tables(report, numbers)
    capture, diagnoses = _capture(report), _diagnoses(report)
    has_cuda = bool(recorded.keys() & {*export.CUDA_TABLES, *_GPU_WORK, "cuda_events"})
    fault = None
    if not recorded.keys() & {*_GPU_WORK}:
        causes = diagnostics.faults(diagnoses)
        fault = f'nsys could not collect it ("{causes[0]}")' if causes else None
        fault = fault or _fault(report, capture, calls, has_cuda=has_cuda)
    sources = {"devices": places} if places.num_rows else {}
    sources |= recorded | runs(report, recorded)
    sources = export.with_empty(path, sources, capture, fault)
    warnings = (
        *(f'nsys reported: "{line}"' for line in diagnoses),
        *export.notes(recorded.keys(), fault, untimed),
        *_doubts(report, numbers),
    )
    epoch_ns = _epoch_ns(report)
    start = None if epoch_ns is None else datetime.fromtimestamp(epoch_ns // 10**9, UTC)
    origin = Origin(
        source=path,
        reader=NAME,
        tool="nsys",
        tool_version=report.version,
        command=export.command(capture),
        recorded_at=None if start is None else f"{start:%Y-%m-%dT%H:%M:%SZ}",
        epoch_ns=epoch_ns,
        warnings=warnings,
        host=report.about.text(5),
    )
    return Profile(origin, sources)


def _doubts(report: Report, numbers: device_ordinals.MachineNumbers) -> Iterator[str]:
    """What a reader must know of the devices, and of what is not read."""
    if numbers:
        yield device_ordinals.RENUMBERED
    elif not report.tail.messages(1, 2, 9):
        contexts = ((m.integer(4), m.integer(5)) for m in report.tail.messages(14))
        if (doubt := device_ordinals.shared(contexts)) is not None:
            yield doubt
    cuda = sum(int(report.types[number]) for number in _CUDA_TYPES)
    unread = {"CUDA activities": cuda - sum(report.counts[name] for name in _CUDA_TABLES)}
    unread |= {name: int(report.types[number]) for number, name in _NOT_READ.items()}
    later = range(_LAST_TYPE + 1, len(report.types))
    unread |= {f"events of type {number}": int(report.types[number]) for number in later}
    listed = ", ".join(f"{count:,} {name}" for name, count in unread.items() if count > 0)
    if listed:
        yield f"Not read, since their layout is unknown: {listed}"
    yield from _damage(report)


def _damage(report: Report) -> Iterator[str]:
    """What no other report has."""
    version = report.version or "of an unknown version"
    if report.impossible:
        yield counted(
            report.impossible,
            "call or range ends before it starts or crosses another of its thread: "
            "it may be damaged",
            "calls or ranges end before they start or cross another of their thread: "
            "it may be damaged",
        )
    if report.repeated:
        calls = counted(report.repeated, "CUDA call has", "CUDA calls have")
        yield f"{calls} the correlation id of another: it may be damaged"
    if report.disorder and version < _FIRST_IN_DISORDER:
        times = counted(report.disorder, "time is", "times are")
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
            file.seek(0)
            profile = _profile(path, Report(file))
    except ReportError as error:
        check(path, before)
        return _checked_by_nsys(path, error)
    check(path, before)
    return profile


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
    origin = replace(profile.origin, warnings=(note, *profile.origin.warnings))
    return replace(profile, origin=origin)


READER: Final = Reader(
    NAME,
    "Nsight Systems report (.nsys-rep, .qdrep)",
    "nsys 2019.5 to 2026.2",
    GIVES,
    CANNOT,
    read,
    recognises=lambda head: head.startswith(HEAD) or head[8:].startswith(_STREAM),
)
