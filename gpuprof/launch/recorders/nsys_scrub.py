"""Take the program's environment and secrets out of an export of nsys.

The export is made for gpuprof's run folder; the report beside it is nsys's own and stays as it is.
nsys 2023.4 writes variables into ``META_DATA_CAPTURE``, ``TARGET_INFO_SYSTEM_ENV`` and
``StringIds`` (one text with a NUL between each two variables).
"""

import errno
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from gpuprof.secrets import REMOVED, masked_words

_OF_ENVIRONMENT: Final = {
    "META_DATA_CAPTURE": "name LIKE '%ENVIRONMENT%' OR name = 'DEVICE_DISPLAY_NAME'",
    "TARGET_INFO_SYSTEM_ENV": "name = 'Hostname' OR name LIKE '%Environment%'",
    "StringIds": "instr(CAST(value AS BLOB), x'00') > 0 AND instr(value, '=') > 0",
}


def scrub(export: Path) -> None:
    """Take variables, the host's name and tokens out of a database of ours, for good.

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
        raise OSError(errno.ENOSPC, str(error)) from error


def _remove(connection: sqlite3.Connection) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    for table, condition in _OF_ENVIRONMENT.items():
        if table in tables:
            connection.execute(f"UPDATE {table} SET value = ? WHERE {condition}", (REMOVED,))
    if "META_DATA_CAPTURE" in tables:
        _mask_arguments(connection)


def _mask_arguments(connection: sqlite3.Connection) -> None:
    rows = connection.execute(
        "SELECT rowid, value FROM META_DATA_CAPTURE WHERE name LIKE '%:ARGUMENT_%' "
        "ORDER BY CAST(substr(name, instr(name, 'ARGUMENT_') + 9) AS INTEGER)"
    ).fetchall()
    masked = masked_words(str(value) for _, value in rows)
    connection.executemany(
        "UPDATE META_DATA_CAPTURE SET value = ? WHERE rowid = ?",
        [(word, row) for word, (row, _) in zip(masked, rows, strict=True)],
    )
