"""Reports and streams (``.qdstrm``) of Nsight Systems, through the installed nsys.

It exports what is needed into a cache outside the user's folder. A report of a newer nsys than the
installed one cannot be opened. `gpuprof.readers.nsys_report` reads reports without it.
"""

import errno
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from gpuprof.base import json_input, nsight
from gpuprof.base.errors import CorruptFileError, InputError, MissingToolError
from gpuprof.base.nsight import OUTPUTS, scrub
from gpuprof.model.profile import Profile
from gpuprof.readers.input_format import Reader
from gpuprof.readers.inputs import check_unchanged, stamp
from gpuprof.readers.nsys import sqlite_export
from gpuprof.readers.nsys.export import CANNOT, GIVES, READ_SETTINGS, SETTINGS
from gpuprof.readers.nsys.export_cache import cached
from gpuprof.readers.nsys.export_schema import DIAGNOSTICS, ERROR, TIMED, USED, WARNING
from gpuprof.readers.sqlite.source import tables_in

NAME: Final = "nsys-rep"
# A disk with less is full.
_LEAST_FREE_BYTES: Final = 64 * 1024
# Before it stands whether the recorder came to its end, as "U3w[END]".
_STREAM: Final = re.compile(
    rb".{8}NVIDIA Nsight Systems Stream(?: (?P<version>\d{4}(?:\.\d+){3}))?", re.DOTALL
)
_STREAM_HEAD_BYTES: Final = 64
# A report ends with who recorded it (field 6, after the date and the host) and who imported the
# stream of that (field 7), each as a length and a text such as 2021.3.2.4-027534f.
_VERSIONS: Final = re.compile(
    rb"\x32[\x0c-\x40](?P<version>\d{4}(?:\.\d+){3})-\w+\x3a[\x0c-\x40]\d{4}(?:\.\d+){3}-"
)
_END_BYTES: Final = 64 * 1024
_NEWER: Final = re.compile(
    r"created in Nsight Systems version \((?P<report>[\d.]+).*?\).*?"
    r"your current version \((?P<installed>[\d.]+)",
    re.DOTALL,
)
# Its importer prints progress bars, and C++ exceptions with their places in its sources.
_PROGRESS: Final = re.compile(
    r"(?:Processing|\[\d+/\d+\]) *\[[= ]*\d+%|Importing\.\.\.|Saved report file|\[libprotobuf"
)
_PLACE: Final = re.compile(r"[: ]*/\S+\(\d+\): Throw in function.*")
# From the most to the least telling.
_DETAILS: Final = (
    re.compile(r"tag_message\*\] = (?!Status:)(.+)"),
    re.compile(r'ErrorText\s+Value: "(?!/\S+\(\d+\): Throw)([^"\n]+)'),
    re.compile(r"std::exception::what: (\S.*)"),
)
_JSON_EVENT: Final = re.compile(
    r'\{"Type":\d+,"DiagnosticEvent":\{.*"Level":"(?P<level>Warning|Error)"'
    r',"Text":(?P<text>"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")'
)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_SEVERITIES: Final = {"Warning": WARNING, "Error": ERROR}
_ELSEWHERE: Final = "export the report where it was recorded: nsys export --type sqlite FILE."
_SQLITE: Final = "report.sqlite"
# Changes with what is exported, so that an older cache is not taken for complete.
_LAYOUT: Final = "7"
_MOST_BYTES_AS_JSON: Final = 8 * 2**20


def read(path: Path) -> Profile:
    """Read a report through the installed nsys.

    Raises:
        MissingToolError: nsys is not installed.
        InputError: A newer nsys recorded it.
        CorruptFileError: nsys cannot open it.
        EmptyRecordingError: Neither CUDA nor NVTX was recorded.
    """
    if shutil.which("nsys") is None:
        msg = f"{path} can only be opened by nsys, which is not installed"
        raise MissingToolError(msg, f"Install Nsight Systems, or {_ELSEWHERE}")
    key = f"{NAME}-{_LAYOUT}-{nsight.version('nsys') or 'unknown'}"
    before = stamp(path.stat())
    folder = cached(path, key, lambda into: _export(path, into))
    version = _recorder_version(path)
    check_unchanged(path, before)
    return sqlite_export.read(path, folder / _SQLITE, NAME, version)


def _recorder_version(path: Path) -> str | None:
    """The version of nsys that recorded; the installed one names its own in what it exports."""
    with path.open("rb") as file:
        version = _STREAM.match(file.read(_STREAM_HEAD_BYTES))
        if version is None:
            file.seek(max(path.stat().st_size - _END_BYTES, 0))
            version = _VERSIONS.search(file.read())
    return version["version"].decode() if version and version["version"] else None


def _export(path: Path, into: Path) -> None:
    """Export what is read into a database in a folder, without secrets."""
    database, diagnoses = into / _SQLITE, []
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as scratch:
        with path.open("rb") as file:
            is_stream = _STREAM.match(file.read(_STREAM_HEAD_BYTES)) is not None
        report = _imported(path, Path(scratch)) if is_stream else path
        can_choose = "--tables" in nsight.printed("nsys", "export", "--help")
        patterns = ",".join(f"^{table}$" for table in (*USED, OUTPUTS))
        tables = [f"--tables={patterns}"] if can_choose else []
        _run(["nsys", "export", "--type=sqlite", *tables], report, database, path)
        there = tables_in(database)
        # An export as JSON takes some 40 times the bytes of a report.
        is_short = report.stat().st_size <= _MOST_BYTES_AS_JSON
        if can_choose and is_short and not there & {DIAGNOSTICS, *TIMED}:
            # Why is no GPU work in it?
            events = Path(scratch) / "events.json"
            _run(["nsys", "export", "--type=json"], report, events, path)
            with events.open(encoding="utf-8", errors="replace") as lines:
                # One event a line; nsys exports diagnostics to tables since 2024 alone.
                for event in filter(None, map(_JSON_EVENT.match, lines)):
                    words = json_input.loads(_CONTROL.sub(" ", event["text"]))
                    diagnoses.append((_SEVERITIES[event["level"]], words))

    def change(connection: sqlite3.Connection) -> None:
        if diagnoses:
            connection.execute(f"CREATE TABLE {DIAGNOSTICS} (severity INTEGER, text TEXT)")
            connection.executemany(f"INSERT INTO {DIAGNOSTICS} VALUES (?, ?)", diagnoses)
        # Other settings may hold secrets.
        if SETTINGS in there:
            names = connection.execute(f"SELECT rowid, name FROM {SETTINGS}").fetchall()
            unread = [(row,) for row, name in names if not READ_SETTINGS.fullmatch(str(name))]
            connection.executemany(f"DELETE FROM {SETTINGS} WHERE rowid = ?", unread)

    scrub(database, change)


def reason(output: str, status: int) -> str:
    """Why a command failed: its own words, else its exit status.

    Args:
        output: What it printed.
        status: Its exit status.
    """
    # Texts within fields have their lines' ends escaped.
    printed = (line.strip() for line in output.replace("\\n", "\n").splitlines())
    lines = [line for line in printed if line and not _PROGRESS.match(line)]
    if not lines:
        return f"exit status {status}"
    head = _PLACE.sub("", lines[0]).strip("* :")
    text = "\n".join(lines)
    matches = (pattern.search(text) for pattern in _DETAILS)
    detail = next((match[1].strip(' "') for match in matches if match), None)
    return f"{head.rstrip('.')}: {detail.rstrip(':')}" if detail else head


def _imported(path: Path, scratch: Path) -> Path:
    """A stream as a report; of a copy, since the importer writes into what it reads."""
    importer = nsight.importer()
    if importer is None:
        msg = f"{path} is a stream, and nsys' QdstrmImporter is not installed"
        hint = "Install all of Nsight Systems, or import it where it was recorded."
        raise MissingToolError(msg, hint)
    stream, report = scratch / "stream.qdstrm", scratch / "report.nsys-rep"
    shutil.copyfile(path, stream)
    try:
        _run([importer, "-i"], stream, report, path)
    except CorruptFileError as error:
        recorder, installed = _recorder_version(path), nsight.version("nsys")
        recorded_by, imported_by = (
            [*map(int, re.findall(r"\d+", version or ""))] for version in (recorder, installed)
        )
        if not recorded_by or not imported_by or recorded_by <= imported_by:
            raise
        versions = f"nsys {recorder} recorded it, and the installed nsys {installed} is older"
        msg = f"{error.message}; {versions}"
        hint = "Install that nsys or a newer one, or import it where it was recorded."
        raise InputError(msg, hint) from error
    return report


def _run(command: list[str], report: Path, output: Path, path: Path) -> None:
    force = ["-q", "true", "--force-overwrite=true"] if "export" in command else []
    words = [*command, str(report.absolute()), *force, "-o", str(output)]
    completed = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    # On a full disk nsys leaves an empty file.
    is_file_made = output.exists() and output.stat().st_size > 0
    is_made = any(output.iterdir()) if output.is_dir() else is_file_made
    if not is_made and shutil.disk_usage(output.parent).free < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if completed.returncode or not is_made:
        printed = f"{completed.stderr}\n{completed.stdout}"
        if (newer := _NEWER.search(printed)) is not None:
            installed = f"the installed nsys {newer['installed']} is older"
            msg = f"{path}: nsys {newer['report']} recorded it, and {installed}"
            raise InputError(msg, f"Install that nsys or a newer one, or {_ELSEWHERE}")
        msg = f"{path}: nsys cannot open it ({reason(printed, completed.returncode)})"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.")


READER: Final = Reader(
    "nsys-export",
    "Nsight Systems report or stream, through the installed nsys (--via nsys)",
    "nsys 2019.5 up to the installed one",
    GIVES,
    CANNOT,
    read,
)
