"""The whole text of a file, gunzipped where it is a gzip file, within limits."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from gpuprof.errors import CorruptFileError, InputError
from gpuprof.json_input import LARGEST_TRACE_BYTES

MAGIC: Final = b"\x1f\x8b"
# Texts of profilers pack to a tenth or a fiftieth. Beyond this a file was made to exhaust memory.
MOST_TIMES: Final = 200
# What a small file may unpack to in any case.
FREE_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 22
_LESS: Final = "Record less of the program, such as a few steps."


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file open for reading, gunzipped where it is a gzip file.

    Raises:
        InputError: It cannot be opened or read.
        CorruptFileError: It is a gzip file that is cut short or damaged.
    """
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(len(MAGIC)) == MAGIC
            raw.seek(0)
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if is_packed else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        msg = f"{path}: the gzip file is cut short or damaged ({error})"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.") from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def content(path: Path) -> bytes:
    """A file's bytes, gunzipped where it is a gzip file.

    Raises:
        InputError: It cannot be read.
        CorruptFileError: It is larger than is read, or the gzip file is cut short or damaged,
            or unpacks to too many times its size.
    """
    most = f"{LARGEST_TRACE_BYTES:,}"
    with opened(path) as file:
        size = path.stat().st_size
        if not isinstance(file, gzip.GzipFile):
            if size > LARGEST_TRACE_BYTES:
                msg = f"{path} has {size:,} bytes; the limit for text is {most}"
                raise CorruptFileError(msg, _LESS)
            return file.read()
        text = io.BytesIO()
        while chunk := file.read(_CHUNK_BYTES):
            text.write(chunk)
            if text.tell() > LARGEST_TRACE_BYTES:
                msg = f"{path} unpacks to more than {most} bytes, which is the limit"
                raise CorruptFileError(msg, _LESS)
            check_times(path, text.tell(), size)
        return text.getvalue()


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
        msg = f"{path} unpacks to more than {MOST_TIMES} times its size, unlike any recording"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.")
