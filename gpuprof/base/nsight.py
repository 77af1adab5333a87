"""NVIDIA's tools on PATH: what they print, their versions, and what comes with nsys.

An export of nsys is gpuprof's own, of a run or in the cache: the program's environment, its output
and secrets are taken out of it. A report of nsys stays as it is. nsys 2023.4 writes variables into
``META_DATA_CAPTURE``, ``TARGET_INFO_SYSTEM_ENV`` and ``StringIds`` (one text with a NUL between
each two variables), and what the program printed into ``StringIds``, too. Names of kernels, calls
and ranges stay as the program gave them.
"""

import errno
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from gpuprof.base.secrets import REMOVED, masked_text, masked_words

_IMPORTER: Final = "QdstrmImporter"
_PATIENCE_S: Final = 20
_SCRIPT_BYTES: Final = 4096
# Which texts of StringIds a program printed: ``contentId``.
OUTPUTS: Final = "ProcessStreams"
_REMOVED: Final = {
    "META_DATA_CAPTURE": "name LIKE '%ENVIRONMENT%' OR name = 'DEVICE_DISPLAY_NAME'",
    "TARGET_INFO_SYSTEM_ENV": "name = 'Hostname' OR name LIKE '%Environment%'",
    "StringIds": "instr(CAST(value AS BLOB), x'00') > 0 AND instr(value, '=') > 0",
}
# Who printed nothing has the empty text, which may be that of a range, too.
_PRINTED: Final = f"""
    UPDATE StringIds SET value = ? WHERE value != '' AND id IN (SELECT contentId FROM {OUTPUTS})
"""
_ARGUMENTS: Final = """
    SELECT substr(name, 1, instr(name, 'ARGUMENT_')) AS process, rowid, value
    FROM META_DATA_CAPTURE WHERE name LIKE '%:ARGUMENT_%'
    ORDER BY process, CAST(substr(name, instr(name, 'ARGUMENT_') + 9) AS INTEGER)
"""


def printed(tool: str, *words: str) -> str:
    """What a tool prints to either stream, such as its help; empty where it cannot be run."""
    path = shutil.which(tool)
    return "" if path is None else _printed(path, *words)


@cache
def _printed(*words: str) -> str:
    try:
        process = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{process.stdout}\n{process.stderr}"


def version(tool: str) -> str | None:
    """A tool's version, such as 2023.4.4.54; None where it is not on PATH or does not say."""
    number = re.search(r"\d+(?:\.\d+)+", printed(tool, "--version"))
    return number[0] if number else None


def importer() -> str | None:
    """The importer of nsys' streams: on PATH, where nsys' help names a file, or beside nsys."""
    named = re.search(r"'(/\S+/host-[\w-]+)/", printed("nsys", "profile", "--help"))
    nsys = shutil.which("nsys")
    beside = sorted(Path(nsys).resolve().parent.parent.glob("host-*")) if nsys else []
    places = [None, *([named[1]] if named else []), *beside]
    programs = (shutil.which(_IMPORTER, path=place) for place in places)
    return next(filter(None, programs), None)


def newest_cuda() -> tuple[int, int] | None:
    """The newest CUDA that nsys brings a tracer for; None where that is unknown."""
    path = shutil.which("nsys")
    if path is None:
        return None
    program = Path(path).resolve()
    try:
        # Some packages start it by a script that names it.
        with program.open("rb") as file:
            named = re.search(rb"(/\S+/target-[\w-]+)/nsys", file.read(_SCRIPT_BYTES))
    except OSError:
        return None
    folder = Path(named[1].decode()) if named else program.parent
    names = (path.name for path in folder.glob("libcupti.so.*"))
    versions = [re.fullmatch(r"libcupti\.so\.(\d+)\.(\d+)", name) for name in names]
    return max(((int(v[1]), int(v[2])) for v in versions if v), default=None)


def scrub(export: Path, change: Callable[[sqlite3.Connection], object] | None = None) -> None:
    """Take variables, the host's name, output and secrets out of a database of ours, for good.

    Args:
        export: The database.
        change: What else is changed in it.

    Raises:
        OSError: The disk is full.
    """
    try:
        with closing(sqlite3.connect(export)) as connection:
            with connection:
                if change is not None:
                    change(connection)
                _remove(connection)
            # What was there stays in unused parts of pages until they are written anew.
            connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


def _remove(connection: sqlite3.Connection) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for table in tables.intersection(_REMOVED):
        connection.execute(f"UPDATE {table} SET value = ? WHERE {_REMOVED[table]}", (REMOVED,))
    if {"StringIds", OUTPUTS} <= tables:
        connection.execute(_PRINTED, (REMOVED,))
    # A command may hold what is no UTF-8.
    connection.text_factory = lambda value: value.decode(errors="replace")
    if "META_DATA_CAPTURE" in tables:
        arguments = connection.execute(_ARGUMENTS).fetchall()
        for _, rows in groupby(arguments, key=lambda row: row[0]):
            _, numbers, words = zip(*rows, strict=True)
            masked = masked_words(map(str, words))
            _replace(connection, "META_DATA_CAPTURE", zip(masked, numbers, strict=True))
    for table in tables.intersection(("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV")):
        texts = f"SELECT rowid, value FROM {table} WHERE typeof(value) = 'text'"
        values = connection.execute(texts).fetchall()
        _replace(connection, table, [(masked_text(value), row) for row, value in values])


def _replace(connection: sqlite3.Connection, table: str, rows: Iterable[tuple[str, int]]) -> None:
    connection.executemany(f"UPDATE {table} SET value = ? WHERE rowid = ?", rows)
