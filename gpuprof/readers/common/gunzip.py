"""The whole text of a file within limits, as the program wrote it.

It is gunzipped, in UTF-8 where PowerShell wrote UTF-16, and without what other programs put before
each line; see `line_marks`. A CSV table of a spreadsheet has commas, and points in its numbers.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, cast

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.json_input import LARGEST_TRACE_BYTES
from gpuprof.readers.common.line_marks import HEAD_BYTES, Rewrite, rewriting

MAGIC: Final = b"\x1f\x8b"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Of a packed file nobody sees how much memory it takes: six times this at most (see `json_input`).
LARGEST_UNPACKED_BYTES: Final = 1 << 30
_CHUNK_BYTES: Final = 1 << 22
_LESS: Final = "Record less of the program, such as a few steps."


class _Rewritten:
    """A text that is read line by line with something else in place of its lines."""

    def __init__(self, raw: IO[bytes], rewrite: Rewrite) -> None:
        self._raw, self._rewrite = raw, rewrite

    def read(self, size: int = -1) -> bytes:
        """So many bytes of the text, and the rest of their last line."""
        return self._rewrite(self._raw.read(size) + self._raw.readline())


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file open for reading: gunzipped, in UTF-8, without what stands before all its lines.

    Raises:
        InputError: It cannot be opened or read.
        CorruptFileError: It is a gzip file that is cut short or damaged, or is no valid UTF-16
            though it begins like it.
    """
    try:
        with path.open("rb") as raw:
            head = raw.read(HEAD_BYTES)
            raw.seek(0)
            if head.startswith(MAGIC):
                yield cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
            elif head.startswith(_UTF_16):
                yield cast("IO[bytes]", codecs.EncodedFile(raw, "utf-8", "utf-16"))
            else:
                rewrite = rewriting(head)
                yield raw if rewrite is None else cast("IO[bytes]", _Rewritten(raw, rewrite))
    except UnicodeDecodeError as error:
        msg = f"{path}: starts like UTF-16 but is not valid UTF-16"
        raise CorruptFileError(msg, "Save it as UTF-8.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        msg = f"{path}: the gzip file is cut short or damaged ({error})"
        raise CorruptFileError(msg, "Copy it again from where it was recorded.") from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def begin(head: bytes, most_bytes: int) -> bytes:
    """How the text of a file begins whose first bytes are these."""
    if head.startswith(MAGIC):
        with suppress(zlib.error):
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, most_bytes)
    if head.startswith(_UTF_16):
        return codecs.getincrementaldecoder("utf-16")(errors="replace").decode(head).encode()
    rewrite = rewriting(head[:HEAD_BYTES])
    return head if rewrite is None else rewrite(head)


def content(path: Path) -> bytes:
    """All that `opened` gives of a file.

    Raises:
        InputError: It cannot be read.
        CorruptFileError: It is larger than is read, or the gzip file is cut short or damaged.
    """
    with opened(path) as file:
        size = path.stat().st_size
        if not isinstance(file, gzip.GzipFile):
            if size > LARGEST_TRACE_BYTES:
                msg = f"{path} has {size:,} bytes; the limit for text is {LARGEST_TRACE_BYTES:,}"
                raise CorruptFileError(msg, _LESS)
            return file.read()
        text = io.BytesIO()
        for piece in pieces(path, file, _CHUNK_BYTES):
            text.write(piece)
        return text.getvalue()


def pieces(
    path: Path, file: IO[bytes], piece_bytes: int, most_bytes: int | None = None
) -> Iterator[bytes]:
    """What `opened` gave of a file, some bytes at a time.

    Args:
        path: The file, for messages.
        file: What was opened.
        piece_bytes: Size of a piece.
        most_bytes: Most that a gzip file may unpack to; None for `LARGEST_UNPACKED_BYTES`.

    Raises:
        CorruptFileError: It is a gzip file that unpacks to more than is read.
    """
    most_bytes = most_bytes or LARGEST_UNPACKED_BYTES
    unpacked_bytes = 0
    while piece := file.read(piece_bytes):
        unpacked_bytes += len(piece)
        if isinstance(file, gzip.GzipFile) and unpacked_bytes > most_bytes:
            most = f"{most_bytes:,}"
            msg = f"{path} unpacks to more than {most} bytes, the limit for gzip files"
            raise CorruptFileError(msg, "If it is a recording, unpack it first: gunzip FILE.")
        yield piece
