"""Text summaries that nvprof prints: kernels, copies and API calls, one row per name.

Written by nvprof of CUDA 5.5 to 12, on its own (``--log-file``) or mixed with what the profiled
program prints; also excerpts that people pasted, down to a single row.
Source: https://docs.nvidia.com/cuda/profiler-users-guide/, "Summary Mode".
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gpuprof import cuda, schema, units
from gpuprof.errors import CorruptFileError, EmptyRecordingError, GpuprofError
from gpuprof.profile import Origin, Profile
from gpuprof.readers import nvprof_log as log
from gpuprof.readers.contract import HEAD_BYTES, Reader

_ANCHORS: Final = (
    log.MESSAGE,
    re.compile(rb"%[ \t]+[0-9.,]+[A-Za-z\xc2\xb5]+[ \t]+[0-9]"),
    re.compile(rb"Time\(%\)[ \t]+Time[ \t]+Calls"),
    re.compile(rb"Profiling result:"),
    re.compile(rb"API calls:"),
    re.compile(rb"No (?:kernels|events/metrics) were profiled\."),
    re.compile(rb" To (?:Host|Device)"),
    re.compile(rb'Device "'),
    re.compile(rb"\(device: [0-9]+, name: "),
)
_TIME: Final = r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s)"
_ROW_START: Final = re.compile(r'^([^"%]*?)([0-9.]+)%\s+([0-9.,]+[A-Za-zµ]+\s+[0-9]+)(?=\s|$)')
_ROW: Final = re.compile(
    rf"^([0-9.]+)%\s+{_TIME}\s+([0-9]+)\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(\S.*)$"
)
_LABEL: Final = re.compile(r"([A-Z][A-Za-z ()]*):\s*$")
_LABELS: Final = {"GPU activities": "gpu", "API calls": "api"}
# For rows without a label or heading: CUDA's own functions are calls, the rest is GPU work.
_API_NAME: Final = re.compile(r"^cu(?:da)?[A-Z][A-Za-z0-9]*(?:_v[0-9]+|_ptsz|_ptds)*$")
_MIGRATION: Final = re.compile(
    r"^\s*([0-9]+)\s+\S+\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s+(Host|Device) To (Host|Device)\s*$"
)
_DEVICE: Final = re.compile(r'^\s*Device "(.+) \(([0-9]+)\)"')
_TENSORFLOW_DEVICE: Final = re.compile(
    r"\(device: ([0-9]+), name: ([^,]+), pci bus id: ([^,)]+)"
    r"(?:, compute capability: ([0-9.]+))?\)"
)
# Warnings that explain why nothing was recorded.
_TELLING: Final = re.compile(
    r"cuda driver|permission|invalid records|not recorded|received signal|non-zero code|No profile"
)
_NOTHING: Final = frozenset({"nothing", "head of GPU rows"})
_OTHER_KINDS: Final = {"CPU": "a CPU profile", "Metric": "metrics", "Event": "events"}
_RERECORD: Final = (
    "Run nvprof without --metrics, --events, --cpu-profiling and --print-api-summary for times."
)


@dataclass
class _Summary:
    """What a log has told so far."""

    path: Path
    frame: log.Frame = field(default_factory=log.Frame)
    rows: list[dict[str, Any]] = field(default_factory=list)
    migrations: dict[tuple[int | None, str], dict[str, Any]] = field(default_factory=dict)
    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    without_kernels: int = 0
    section: str = "unknown"
    seen: set[str] = field(default_factory=set)
    run_id: int | None = None
    broken: log.Line | None = None

    def take(self, line: log.Line) -> None:
        """Take in one line that may be nvprof's."""
        if self.broken is not None:
            raise self._broken_row(self.broken)
        heard = self.frame.hear(line.text)
        if heard is not None:
            self._message(*heard)
        elif _ROW_START.match(line.text):
            self._row(line)
        elif "Time(%)" in line.text:
            self._header(line.text)
        else:
            self._other(line)

    def _message(self, run_id: int | None, said: str) -> None:
        if said.startswith(("Profiling result:", "API calls:", "Unified Memory profiling result:")):
            self.run_id = run_id
        self._heading(said)

    def _heading(self, said: str) -> None:
        if said.startswith("Profiling result:"):
            self.section = "gpu"
        elif said.startswith("Unified Memory profiling result:"):
            self.section = "migrations"
        elif said.startswith("API calls:"):
            self.section = "api" if self.section != "nvtx" else "nvtx"
        elif said.startswith("NVTX result:"):
            # Each range repeats the table of what ran in it: counted already.
            self.section = "nvtx"
        elif said.startswith(("CPU profiling result", "Metric result:", "Event result:")):
            self.section = "other"
            self.seen.add(said.partition(" ")[0])
        elif said.endswith(":"):
            self.section = "other"

    def _header(self, text: str) -> None:
        if self.section in {"nvtx", "other"}:
            return
        typed = "Type" in text
        self.seen.add("head of GPU rows" if self.section == "gpu" and not typed else "head")
        if typed:
            self.section = "unknown"

    def _other(self, line: log.Line) -> None:
        text = line.text.strip()
        if text.startswith("No kernels were profiled."):
            self.without_kernels += 1
        elif text.startswith("No events/metrics"):
            self.seen.add("nothing")
        elif text == "Profiling result:":
            # Somebody cut the process ids away.
            self.run_id, _ = self.frame.hear(f"======== {text}") or (None, "")
            self._heading(text)
        elif text == "API calls:":
            self._heading(text)
        elif self.section == "migrations" and (row := _MIGRATION.match(line.text)):
            self._migration(row, line)
        else:
            self._device(line.text)

    def _row(self, line: log.Line) -> None:
        if line.after_comment and all(run["process_id"] is None for run in self.frame.runs):
            # An excerpt of several runs, told apart by a person's comments.
            self.run_id = self.frame.start_unnamed()
        lead, share = _ROW_START.match(line.text).group(1, 2)  # type: ignore[union-attr]
        label = _LABEL.search(lead)
        if self.section in {"nvtx", "other"}:
            return
        if label is not None:
            self.section = _LABELS.get(label[1].strip(), "skipped")
        if self.section == "skipped":
            return
        match = _ROW.match(line.text[len(lead) :])
        if match is None or not _is_share(share):
            self.broken = line
            return
        self.rows.append({"run_id": self.run_id, **self._activity(match)})

    def _activity(self, match: re.Match[str]) -> dict[str, Any]:
        (
            share,
            total,
            total_unit,
            calls,
            mean,
            mean_unit,
            least,
            least_unit,
            most,
            most_unit,
            name,
        ) = match.groups()
        return {
            **kind_and_name(name.rstrip(), self.section),
            "calls": int(calls),
            "total_ns": units.to_ns(total, total_unit),
            "mean_ns": float(units.to_ns(mean, mean_unit)),
            "min_ns": units.to_ns(least, least_unit),
            "max_ns": units.to_ns(most, most_unit),
            "printed_share": float(Decimal(share) / 100),
        }

    def _migration(self, match: re.Match[str], line: log.Line) -> None:
        """Add up the migrations of all devices: the table has a row per run and kind."""
        calls, size, time, source, target = match.groups()
        kind = f"UVM_{source[0]}to{target[0]}"
        row = self.migrations.setdefault(
            (self.run_id, kind),
            {
                "run_id": self.run_id,
                "activity_kind": "memcpy",
                "name": kind,
                "calls": 0,
                "total_ns": 0,
                "bytes": 0,
                # A table of its own, without shares.
                "section": "memcpy",
            },
        )
        try:
            row["calls"] += int(calls)
            row["bytes"] = _plus(
                row["bytes"], None if size == "-" else units.parse_binary_bytes(size)
            )
            row["total_ns"] = _plus(row["total_ns"], None if time == "-" else units.parse_ns(time))
        except ValueError as error:
            msg = f"{self.path}, line {line.number}: {error}"
            raise CorruptFileError(msg, "Was the log edited?") from error

    def _device(self, text: str) -> None:
        if (match := _DEVICE.match(text)) is not None and self.section in {"migrations", "other"}:
            self.devices.setdefault(int(match[2]), {"device_id": int(match[2]), "name": match[1]})
        elif (match := _TENSORFLOW_DEVICE.search(text)) is not None:
            self.devices[int(match[1])] = {
                "device_id": int(match[1]),
                "name": match[2],
                "bus_id": match[3],
                "compute_capability": match[4],
            }

    def _broken_row(self, line: log.Line) -> GpuprofError:
        msg = (
            f"{self.path}, line {line.number}: expected Time(%), Time, Calls, Avg, Min, Max and "
            f'Name as nvprof prints them, found "{_shortened(line.text.strip())}"'
        )
        return CorruptFileError(msg, "Was the log edited, or written by two programs at once?")

    def profile(self) -> Profile:
        """The recording.

        Raises:
            GpuprofError: The log tells of no GPU work.
        """
        rows = [*self.rows, *self.migrations.values()]
        if all(row["activity_kind"] == "api" for row in rows):
            raise self._nothing()
        tables = {"activity_summary": schema.ACTIVITY_SUMMARY.table(rows)}
        if self.frame.runs:
            tables["runs"] = schema.RUNS.table(self.frame.runs)
        if self.devices:
            tables["devices"] = schema.DEVICES.table(
                [self.devices[device_id] for device_id in sorted(self.devices)]
            )
        origin = Origin(
            source=self.path,
            reader=READER.name,
            tool="nvprof",
            command=self.frame.command,
            warnings=self._warnings(),
        )
        return Profile(origin, tables)

    def _warnings(self) -> tuple[str, ...]:
        notes = list(self.frame.notes.values())
        runs = len(self.frame.runs)
        if self.without_kernels:
            where = f" in {self.without_kernels} of {runs} runs" if runs > 1 else ""
            notes.append(f"nvprof profiled no kernels{where}.")
        if (silent := self.frame.without_result) and runs > silent:
            notes.append(f"{silent} of {runs} runs ended before nvprof printed their result.")
        if self.broken is not None:
            notes.append("The log is cut off in its last row, which is left out.")
        return tuple(notes)

    def _nothing(self) -> GpuprofError:
        """Why there is nothing to tell, from the most to the least telling sign."""
        reason = next((n for n in self.frame.notes.values() if _TELLING.search(n)), None)
        if self.without_kernels or reason is not None or self.seen & _NOTHING:
            said = f"; {reason}" if reason is not None else ""
            msg = f"{self.path}: nvprof recorded no kernels and no copies{said}"
            return EmptyRecordingError(
                msg, "Did the program use a GPU? nvprof sees none of compute capability 8 and up."
            )
        only = next((what for sign, what in _OTHER_KINDS.items() if sign in self.seen), None)
        if self.rows or only is not None:
            msg = f"{self.path} holds {only or 'API calls'} only, no times of kernels or copies"
            return EmptyRecordingError(msg, _RERECORD)
        return self._unfinished()

    def _unfinished(self) -> GpuprofError:
        if self.frame.result_file is not None:
            msg = f"{self.path}: nvprof wrote its result into {self.frame.result_file}, not here"
            return EmptyRecordingError(msg, "Give that file instead.")
        if "head" in self.seen:
            msg = f"{self.path} ends after the head of nvprof's table"
            return CorruptFileError(msg, "Was the log cut off, or the table not copied whole?")
        if self.frame.runs:
            msg = f"{self.path} ends before nvprof prints its result"
            return CorruptFileError(msg, "nvprof prints it when the program ends: was it killed?")
        msg = f"{self.path} holds no line that nvprof printed"
        return CorruptFileError(msg, "See `gpuprof formats` for what is read.")


def kind_and_name(name: str, section: str) -> dict[str, str]:
    """Columns ``activity_kind`` and ``name`` of a row of nvprof's.

    Args:
        name: As nvprof prints it.
        section: ``gpu``, ``api`` or ``unknown``.
    """
    memcpy_kind = cuda.memcpy_kind(name)
    if memcpy_kind is not None:
        return {"activity_kind": "memcpy", "name": memcpy_kind}
    if cuda.is_memset(name):
        return {"activity_kind": "memset", "name": "memset"}
    is_api = section == "api" or (section == "unknown" and _API_NAME.match(name) is not None)
    return {"activity_kind": "api" if is_api else "kernel", "name": name}


def _is_share(text: str) -> bool:
    return text.count(".") <= 1 and text != "." and float(text) <= 100.01  # noqa: PLR2004 - percent


def _plus(known: int | None, more: int | None) -> int | None:
    return None if known is None or more is None else known + more


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line of a terminal


def read(path: Path) -> Profile:
    """Read all tables of a log, whatever else the log holds."""
    summary = _Summary(path)
    for line in log.lines_with(path, _ANCHORS):
        summary.take(line)
    return summary.profile()


def _recognises(head: bytes) -> bool:
    table = log.first_table(head)
    # Where the log goes on, its table may still be of another kind.
    return table == "text" or (table is None and len(head) < HEAD_BYTES and log.is_log(head))


def _searches(path: Path) -> bool:
    return log.table_in(path) in {"text", "none"}


READER: Final = Reader(
    name="nvprof-text",
    title="nvprof's printed summary, or rows of it",
    versions="CUDA 5.5 to 12",
    gives=("activity_summary", "runs", "devices"),
    cannot="When anything ran: no overlap, no split by device, no source and target of copies.",
    read=read,
    recognises=_recognises,
    searches=_searches,
)
