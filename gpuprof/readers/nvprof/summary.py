"""What nvprof's summaries share, printed as text or as CSV: sections, rows, and refusals."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from gpuprof.base import cuda, units
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError, GpuprofError
from gpuprof.model import data_model
from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile, Section
from gpuprof.readers.nvprof.log import Frame, Job, LogLine

# Heads of times.
TIMES: Final = {"Time": "total_ns", "Avg": "mean_ns", "Min": "min_ns", "Max": "max_ns"}
LABELS: Final = {"GPU activities": "gpu", "API calls": "api"}
# For rows without a label or heading: CUDA's own functions are calls, the rest is GPU work.
_API_NAME: Final = re.compile(r"^cu(?:da)?[A-Z][A-Za-z0-9]*(?:_v[0-9]+|_ptsz|_ptds)*$")
SHARE: Final = re.compile(r"^[0-9.]{1,20}%?$")
_MIGRATION: Final = re.compile(r"^(Host|Device) To (Host|Device)$")
REMOTE_MAPPING: Final = "Remote mapping from device"
# A device's label, "Tesla K80 (0)".
DEVICE: Final = re.compile(r"^(.*\S) \(([0-9]{1,6})\)$")
# Warnings that explain why nothing was recorded.
_TELLING: Final = re.compile(
    r"cuda driver|permission|invalid records|not recorded|received signal|non-zero code|No profile"
)
_NOTHING: Final = frozenset({"nothing", "head of GPU rows"})
_OTHER_KINDS: Final = {
    "CPU": "a CPU profile",
    "Metric": "metrics",
    "Event": "events",
    "Kernel": "metrics or events",
}
# The head of a table of counters; nvprof says what they are above it, or in its columns alone.
_COUNTERS: Final = re.compile(
    r"(?P<kind>Metric|Event) Name|Context\"?[,\s]+\"?Stream\"?[,\s]+\"?(?P<each>Kernel)\b"
)
_RERECORD: Final = (
    "Run nvprof without --metrics, --events, --cpu-profiling and --print-api-summary for times."
)
GIVES: Final = ("activity_summary", "runs", "devices")
CANNOT: Final = (
    "A printed nvprof summary has no timestamps, so overlap, the split by device and the sources"
    " and targets of copies are unknown."
)
# A century of nanoseconds, and some exabytes.
LARGEST: Final = 1 << 62
_LONGEST_SHOWN: Final = 60  # What fits into a line of a terminal.
_HINT: Final = "Was the file edited, or written by two programs at once?"
NO_UNITS: Final = "nvprof writes one under the head with --csv: was the file edited?"
_NOT_READ: Final = {
    table: f"The file also has {title}, which is not read. Use --reader nvprof-{table} to read it."
    for table, title in (
        ("text", "a summary as text"),
        ("csv", "a summary as CSV"),
        ("trace", "a trace"),
    )
}
SKIPPED: Final = frozenset({"nvtx", "other", "skipped"})


@dataclass
class PrintedSummary:
    """What a log has told so far.

    Args:
        path: The log.
        section: Where the next row belongs: ``gpu``, ``api``, ``migrations``, ``unknown`` (by
            its name), or one of `SKIPPED`.
        broken: What is wrong with the last row; an error only if the log goes on.
        unread_tables: Kinds of nvprof's tables that the log holds, too.
        is_new_table: Whether the next row is the first of a table.
    """

    path: Path
    section: str = "unknown"
    broken: GpuprofError | None = None
    unread_tables: Sequence[str] = ()
    is_new_table: bool = True
    frame: Frame = field(default_factory=Frame)
    run_id: int | None = None
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _migrations: dict[tuple[int | None, str], dict[str, Any]] = field(default_factory=dict)
    _remote: list[tuple[int | None, int, int]] = field(default_factory=list)
    _devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    _without_kernels: int = 0
    _names: dict[int | None, set[tuple[str, str]]] = field(default_factory=dict)
    _signs: set[str] = field(default_factory=set)

    def hear(self, text: str) -> bool:
        """Take in a line if nvprof speaks in it, with or without its prefix."""
        heard = self.frame.hear(text)
        if heard is not None:
            run_id, line = heard
            if line.startswith(
                ("Profiling result:", "API calls:", "Unified Memory profiling result:")
            ):
                self.run_id = run_id
            self._heading(line)
            return True
        bare = text.strip()
        if bare.startswith("No kernels were profiled."):
            self._without_kernels += 1
        elif bare.startswith("No events/metrics were profiled."):
            self._signs.add("nothing")
        elif bare in {"Profiling result:", "API calls:"}:
            # Somebody cut the process ids away.
            if bare == "Profiling result:":
                self.run_id, _ = self.frame.hear(f"======== {bare}") or (None, "")
            self._heading(bare)
        elif (counters := _COUNTERS.search(bare)) is not None:
            self._signs.add(counters["kind"] or counters["each"])
        else:
            return False
        return True

    def _heading(self, line: str) -> None:
        if line.startswith('Device "'):
            self._names.pop(self.run_id, None)
        elif line.startswith("Profiling result:"):
            self.section = "gpu"
        elif line.startswith("Unified Memory profiling result:"):
            self.section = "migrations"
        elif line.startswith("API calls:"):
            self.section = "api" if self.section != "nvtx" else "nvtx"
        elif line.startswith("NVTX result:"):
            # Each range repeats the table of what ran in it: counted already.
            self.section = "nvtx"
        elif line.startswith(("CPU profiling result", "Metric result:", "Event result:")):
            self.section = "other"
            self._signs.add(line.partition(" ")[0])
        elif line.endswith(":"):
            self.section = "other"

    def head(self, *, is_labelled: bool) -> None:
        """Take in the head of a table; from CUDA 9 on its rows say what they are."""
        if self.section in {"nvtx", "other"}:
            return
        self.is_new_table = True
        is_gpu = self.section == "gpu" and not is_labelled
        self._signs.add("head of GPU rows" if is_gpu else "head")
        if is_labelled:
            self.section = "unknown"

    def label(self, text: str) -> None:
        """Take in the label of a group of rows: ``GPU activities``, ``API calls``, ..."""
        if self.section not in {"nvtx", "other"}:
            self.section = LABELS.get(text.strip().rstrip(":"), "skipped")

    def row(self, line: LogLine, expected: str, cells: Mapping[str, str]) -> None:
        """Take in a row of the current section.

        Args:
            line: Where it stands; that it is broken is an error only if the log goes on.
            expected: What is expected there, for people.
            cells: By the names in a head: ``Name``, ``Calls``, ``Time(%)``, and times with units.
        """
        try:
            self._add(
                cells["Name"].rstrip(),
                calls=units.parse_count(cells["Calls"]),
                printed_share=share(cells["Time(%)"]),
                **{column: units.parse_ns(cells[name]) for name, column in TIMES.items()},
            )
        except (ValueError, ArithmeticError):
            self.broken = self.fault(line, expected)

    def _add(self, name: str, **columns: float | None) -> None:
        if not name:
            msg = "a row without a name"
            raise ValueError(msg)
        check_size(columns.values())
        if (memcpy_kind := cuda.memcpy_kind(name)) is not None:
            kind, name = "memcpy", memcpy_kind
        elif cuda.is_memset(name):
            kind = name = "memset"
        else:
            is_api = self.section == "api" or (self.section == "unknown" and _API_NAME.match(name))
            kind = "api" if is_api else "kernel"
        if kind != "api":
            # A run prints each name once, or once a device: else this is a further one's.
            names = self._names.setdefault(self.run_id, set())
            if names and (self.is_new_table or (kind, name) in names):
                self.run_id = self.frame.start_unnamed()
            self._names.setdefault(self.run_id, set()).add((kind, name))
        self.is_new_table = False
        self._rows.append({"run_id": self.run_id, "activity_kind": kind, "name": name, **columns})

    def migrate(self, name: str, calls: int, size: int | None, total_ns: int | None) -> None:
        """Add migrations of unified memory, one row for all devices, or its remote mappings.

        Raises:
            ValueError: A number is larger than any that nvprof could print.
        """
        match = _MIGRATION.match(name)
        if match is None and name != REMOTE_MAPPING:
            return
        check_size((calls, size, total_ns))
        if match is None:
            self._remote.append((self.run_id, calls, size or 0))
            return
        kind = f"UVM_{match[1][0]}to{match[2][0]}"
        row = self._migrations.setdefault(
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
        row["calls"] += calls
        row["bytes"] = _plus(row["bytes"], size)
        row["total_ns"] = _plus(row["total_ns"], total_ns)

    def device(self, label: str) -> None:
        """Take in a device's label, ``Tesla K80 (0)``; its table is of the same run."""
        if self.section != "migrations":
            self._names.pop(self.run_id, None)
        if (match := DEVICE.match(label)) is not None:
            number = int(match[2])
            self._devices.setdefault(number, {"device_id": number, "name": match[1]})

    def tensorflow_device(self, number: int, **columns: str) -> None:
        """Take in what TensorFlow prints of a device."""
        self._devices[number] = {"device_id": number, **columns}

    def profile(self, reader: str) -> Profile:
        """The recording.

        Raises:
            GpuprofError: The log has no GPU activity.
        """
        rows = [*self._rows, *self._migrations.values()]
        working = {row["run_id"] for row in rows if row["activity_kind"] != "api"}
        if not working:
            raise self.refusal()
        unknown: Job = (None,)
        jobs = [job for job in (unknown, *self.frame.jobs) if working & {*job}]
        if len(jobs) == 1:
            return self._recording(reader, rows, jobs[0])
        sections = [self.job(job, self._recording(reader, rows, job)) for job in jobs]
        everything = tuple(run_id for job in jobs for run_id in job)
        return replace(self._recording(reader, rows, everything), sections=tuple(sections))

    def _recording(self, reader: str, rows: Iterable[dict[str, Any]], run_ids: Job) -> Profile:
        """What ran in some of the runs."""
        rows = [row for row in rows if row["run_id"] in run_ids]
        return self.recording(
            reader, run_ids, {"activity_summary": data_model.ACTIVITY_SUMMARY.table(rows)}
        )

    def recording(
        self, reader: str, run_ids: Job, activities: Mapping[str, pa.Table], resolution_ns: int = 1
    ) -> Profile:
        """A recording of some of the runs, with their provenance and devices from the log."""
        tables, frame = dict(activities), self.frame
        if listed := frame.listed(run_ids):
            tables["runs"] = data_model.RUNS.table(listed)
        if self._devices:
            devices = [self._devices[number] for number in sorted(self._devices)]
            tables["devices"] = data_model.DEVICES.table(devices)
        notes, runs = [*frame.job_notes(run_ids), *frame.notes.values()], len(frame.runs)
        if self._without_kernels:
            where = f" in {self._without_kernels} of {runs} runs" if runs > 1 else ""
            notes.append(f"nvprof profiled no kernels{where}.")
        if (silent := frame.without_result) and runs > silent:
            notes.append(f"{silent} of {runs} runs ended before nvprof printed their result.")
        if remote := [(calls, size) for run_id, calls, size in self._remote if run_id in run_ids]:
            calls, size = map(sum, zip(*remote, strict=True))
            mappings = units.counted(calls, "remote mapping", "remote mappings")
            notes.append(
                f"Kernels use managed memory where it lies, across the bus ({mappings}, of"
                f" {units.say_bytes(size)}): they wait for it in their own time."
            )
        notes += [_NOT_READ[table] for table in self.unread_tables]
        if self.broken is not None:
            notes.append("The log is cut off in its last row, which is left out.")
        origin = Origin(
            source=self.path,
            reader=reader,
            tool="nvprof",
            command=frame.command(run_ids),
            start_resolution_ns=resolution_ns,
            warnings=tuple(notes),
        )
        return Profile(origin, tables)

    def job(self, run_ids: Job, profile: Profile) -> Section:
        """A job of the log, named by its command, else by a person's comment."""
        process_ids = [run["process_id"] for run in self.frame.listed(run_ids)]
        comments = [self.frame.comments.get(run_id) for run_id in run_ids if run_id is not None]
        name = next(filter(None, (profile.origin.command, *comments)), "")
        return Section(name, process_ids[0] if len(process_ids) == 1 else None, profile)

    def refusal(self) -> GpuprofError:
        """Why there is nothing to tell, from the most to the least telling sign."""
        reason = next((n for n in self.frame.notes.values() if _TELLING.search(n)), None)
        if self._without_kernels or reason is not None or self._signs & _NOTHING:
            shown = f"; {reason}" if reason is not None else ""
            msg = f"{self.path}: nvprof recorded no kernels and no copies{shown}"
            return EmptyRecordingError(
                msg, "Did the program use a GPU? nvprof sees none of compute capability 8 and up."
            )
        only = next(
            (content for sign, content in _OTHER_KINDS.items() if sign in self._signs), None
        )
        if self._rows or only is not None:
            msg = f"{self.path} has only {only or 'API calls'}, no times of kernels or copies"
            return EmptyRecordingError(msg, _RERECORD)
        if self.frame.result_file is not None:
            msg = f"{self.path}: nvprof wrote its result into {self.frame.result_file}, not here"
            return EmptyRecordingError(msg, "Give that file instead.")
        if "head" in self._signs:
            msg = f"{self.path} ends after the head of nvprof's table"
            return CorruptFileError(msg, "Was the log cut off, or the table not copied whole?")
        if self.frame.runs:
            msg = f"{self.path} ends before nvprof prints its result"
            return CorruptFileError(msg, "nvprof prints it when the program ends: was it killed?")
        msg = f"{self.path} has no output of nvprof"
        return CorruptFileError(msg, "`gpuprof formats` lists the formats.")

    def fault(
        self, line: LogLine, expected: str, cell: str | None = None, hint: str = _HINT
    ) -> CorruptFileError:
        """That a line, or what is found in it, is not what is expected there."""
        shown = line.text.strip() if cell is None else cell
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[: _LONGEST_SHOWN - 3]}..."
        msg = f'{self.path}, line {line.number}: expected {expected}, found "{shown}"'
        return CorruptFileError(msg, hint)


def check_size(numbers: Iterable[float | None]) -> None:
    """Check that sums of such numbers fit into 64 bits.

    Raises:
        ValueError: One does not.
    """
    for number in numbers:
        if number is not None and number > LARGEST:
            msg = f"{number:,.0f} is too large for a recording"
            raise ValueError(msg)


def share(text: str) -> float:
    """A printed percentage as a fraction of 0 to 1.

    Raises:
        ArithmeticError: It is no number.
        ValueError: It is more than all.
    """
    fraction = Decimal(text.rstrip("%")) / 100 if SHARE.match(text) else Decimal(-1)
    if not 0 <= fraction <= Decimal("1.001"):
        msg = f'"{text}" is no share'
        raise ValueError(msg)
    return float(fraction)


def _plus(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
