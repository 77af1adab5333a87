"""Take the program's environment, its output and secrets out of an export of nsys.

The export is gpuprof's own, of a run or in the cache; a report of nsys stays as it is. nsys 2023.4
writes variables into ``META_DATA_CAPTURE``, ``TARGET_INFO_SYSTEM_ENV`` and ``StringIds`` (one text
with a NUL between each two variables), and what the program printed into ``StringIds``, too.
Names of kernels, calls and ranges stay as the program gave them.
"""

import errno
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Final

from gpuprof.base.secrets import REMOVED, masked_text, masked_words

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


def scrub(export: Path) -> None:
    """Take variables, the host's name, output and secrets out of a database of ours, for good.

    Raises:
        OSError: The disk is full.
    """
    try:
        with closing(sqlite3.connect(export)) as connection:
            with connection:
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
