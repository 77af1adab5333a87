"""What a report says of the machine and the recording, as the small tables of an export."""

import re
from datetime import UTC, datetime
from typing import Any, Final

from gpuprof.model import schema
from gpuprof.readers.nsys import export_schema
from gpuprof.readers.nsys.export import SETTINGS, SYSTEM
from gpuprof.readers.nsys_report.file import Report
from gpuprof.readers.nsys_report.layout import PROCESSES
from gpuprof.readers.nsys_report.survey import Survey

_CUDA_TRACE: Final = 123  # among what was to be recorded
_UTC_TO_TARGET: Final = (11, 7)  # kinds of clocks
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_FIRST_WITH_USES: Final = "2025"
_Rows = list[dict[str, Any]]


def small_tables(report: Report, survey: Survey) -> dict[str, _Rows]:
    """Those that have rows."""
    uses, gpu = export_schema.GPUS[0], export_schema.GPUS[-1]
    streams, contexts = export_schema.PROCESSES
    users = report.tail.messages(15) or report.tail.messages(14)
    by_process = [{"processId": m.integer(4), "deviceId": m.integer(5)} for m in users]
    host = report.about.text(5)
    tables: dict[str, _Rows] = {
        SETTINGS: [{"name": name, "value": value} for name, value in _settings(report)],
        SYSTEM: [{"name": "Hostname", "value": host}] if host else [],
        "TARGET_INFO_SESSION_START_TIME": _start(report),
        export_schema.DIAGNOSTICS: [
            {"severity": level, "text": text} for level, text in survey.diagnoses
        ],
        PROCESSES: [{"pid": process, "name": name} for process, name in survey.processes],
        gpu: _gpus(report),
        uses: _uses(report),
        # Where it is not known which GPU a process calls by which number, its contexts tell.
        streams if report.tail.messages(1, 2, 9) else contexts: by_process,
    }
    return {name: rows for name, rows in tables.items() if rows}


def _settings(report: Report) -> list[tuple[str, str]]:
    """The settings that are read; the others may hold secrets."""
    programs = report.settings.messages(26)
    if not programs:
        return []
    program = programs[0]
    kinds = [number for of in report.settings.messages(2) for number in of.integers(1)]
    is_traced = bool(program.integer(21)) or _CUDA_TRACE in kinds
    return [
        ("COLLECT_CUDA_TRACE", f"{is_traced}".lower()),
        ("COLLECT_NVTX_TRACE", f"{bool(program.integer(20))}".lower()),
        ("PROCESS_0:COMMAND", program.text(10) or ""),
        *((f"PROCESS_0:ARGUMENT_{n}", text) for n, text in enumerate(program.texts(11))),
    ]


def _start(report: Report) -> _Rows:
    """The Unix time that times count from."""
    edges = {
        (edge.integer(1), edge.integer(2)): int(edge.text(5) or 0)
        for edge in report.head.messages(16, 1)
        if edge.text(6) == "Offset" and _NUMBER.fullmatch(edge.text(5) or "0")
    }
    epoch_ns = -1
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
    if not 0 <= epoch_ns <= schema.LARGEST:
        return []
    start = datetime.fromtimestamp(epoch_ns // 10**9, UTC)
    return [{"utcEpochNs": epoch_ns, "utcTime": f"{start:%Y-%m-%dT%H:%M:%S}"}]


def _gpus(report: Report) -> _Rows:
    gpus = {gpu.integer(1): gpu for gpu in report.tail.messages(1, 2, 7)}
    return [
        {
            "id": number,
            "name": gpu.text(2),
            "busLocation": gpu.text(3),
            "totalMemory": gpu.integer(11) or None,
            "memoryBandwidth": gpu.integer(12) or None,
            "clockRate": gpu.integer(13) or None,
            "smCount": gpu.integer(14) or None,
            "computeMajor": gpu.integer(41) or None,
            "computeMinor": gpu.integer(42),
        }
        for number, gpu in gpus.items()
    ]


def _uses(report: Report) -> _Rows:
    """Which process calls which GPU by which number.

    nsys exports that since 2025; before it matters where a process has other numbers.
    """
    gpus = {gpu.integer(1) for gpu in report.tail.messages(1, 2, 7)}
    uses = [
        {"gpuId": m.integer(1), "cudaId": m.integer(2), "pid": m.integer(3)}
        for m in report.tail.messages(1, 2, 9)
        if m.integer(1) in gpus
    ]
    is_told = (report.version or "") >= _FIRST_WITH_USES
    return uses if is_told or any(use["cudaId"] != use["gpuId"] for use in uses) else []
