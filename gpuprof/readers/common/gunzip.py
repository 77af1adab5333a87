"""The whole text of a file, gunzipped where it is a gzip file, within limits."""

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, Final

from gpuprof.errors import CorruptFileError, InputError
from gpuprof.json_input import LARGEST_TRACE_BYTES

MAGIC: Final = b"\x1f\x8b"
# Texts of profilers pack to a tenth or a fiftieth. Beyond this a file was made to exhaust memory.
MOST_TIMES: Final = 200
# What a small file may unpack to in any case.
FREE_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 22
_LESS: Final = "Record less of the program, such as a few steps."


def content(path: Path) -> bytes:
    """A file's bytes, gunzipped where it is a gzip file.

    Raises:
        InputError: It cannot be read.
        CorruptFileError: It is larger than is read, or the gzip file is cut short or damaged,
            or unpacks to too many times its size.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(MAGIC)) == MAGIC
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            return _gunzipped(path, file, size) if is_packed else _plain(path, file, size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        msg = f"{path}: the gzip file is cut short or damaged ({error})"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.") from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def _plain(path: Path, file: IO[bytes], size: int) -> bytes:
    if size > LARGEST_TRACE_BYTES:
        msg = (
            f"{path} has {size:,} bytes; the largest text that is read has {LARGEST_TRACE_BYTES:,}"
        )
        raise CorruptFileError(msg, _LESS)
    return file.read()


def _gunzipped(path: Path, file: IO[bytes], size: int) -> bytes:
    text = io.BytesIO()
    with gzip.GzipFile(fileobj=file) as unpacked:
        while chunk := unpacked.read(_CHUNK_BYTES):
            text.write(chunk)
            _check(path, text.tell(), size)
    return text.getvalue()


def _check(path: Path, unpacked: int, size: int) -> None:
    if unpacked > LARGEST_TRACE_BYTES:
        msg = f"{path} unpacks to more than {LARGEST_TRACE_BYTES:,} bytes, the most that is read"
        raise CorruptFileError(msg, _LESS)
    check_times(path, unpacked, size)


def check_times(path: Path, unpacked: int, size: int) -> None:
    """See that what a file unpacks to is no more than a recording of its size.

    Args:
        path: The file.
        unpacked: Bytes that it has unpacked to by now.
        size: Its own bytes.

    Raises:
        CorruptFileError: It is more, and may go on for ever.
    """
    if unpacked > FREE_BYTES + MOST_TIMES * size:
        msg = f"{path} unpacks to more than {MOST_TIMES} times its size, as no recording does"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.")
