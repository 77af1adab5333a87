"""gpuprof's own file: a recording of any format as Parquet, one file small enough to mail.

A zip archive, stored and not compressed again, of ``gpuprof.json`` (version, provenance) and one
``<table>.parquet`` per recorded table. Each is read in place, and of it only the columns that an
analysis asks for. It holds what the data model holds: no environment, no names of hosts.
"""

import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from gpuprof import json_input, schema
from gpuprof.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.profile import Origin, Profile, View
from gpuprof.readers.contract import Reader

if TYPE_CHECKING:
    import duckdb

VERSION: Final = 1
HEADER: Final = "gpuprof.json"
SUFFIX: Final = ".parquet"
TOOL_FIELDS: Final = (
    "reader",
    "tool",
    "tool_version",
    "schema_version",
    "command",
    "recorded_at",
    "epoch_ns",
    "variant",
    "start_resolution_ns",
    "warnings",
    "exporter_version",
)
# Files of older versions of gpuprof lack it.
_OPTIONAL: Final = {"exporter_version": None}

_ZIP_MAGIC: Final = b"PK\x03\x04"
# A member's header in the archive: so long before its name, and where the lengths are.
_LOCAL_HEADER_BYTES: Final = 30
_LENGTHS: Final = slice(26, 30)
_HINT: Final = "Make it again from the original with `gpuprof convert`."


def read(path: Path) -> Profile:
    """Open a file that `gpuprof convert` or `gpuprof slice` wrote.

    Raises:
        InputError: The file cannot be read.
        CorruptFileError: It is cut short or damaged.
        UnknownFormatError: A newer gpuprof wrote it.
    """
    whole = _mapped(path)
    members = _members(path, whole)
    origin = _origin(path, members)
    tables = [name for name in schema.BY_NAME if name + SUFFIX in members]
    for name in tables:
        _check(path, name, members[name + SUFFIX])

    def prepare(connection: "duckdb.DuckDBPyConnection") -> None:
        for name in tables:
            connection.register(_stored(name), _dataset(name, members[name + SUFFIX]))

    views = {name: View(f'SELECT * FROM "{_stored(name)}"') for name in tables}
    return Profile(origin, views, prepare, partial(_failure, path))


# What DuckDB 1 and 2 say where a stream that they read raises an error.
_STREAM_FAILED: Final = ("arrow_scan", "reading the stream registered")


def _failure(path: Path, error: Exception) -> GpuprofError | None:
    """What a failed query says about the file: each page of it carries a checksum."""
    is_of_stream = any(sign in str(error) for sign in _STREAM_FAILED)
    if not isinstance(error, pa.ArrowException | OSError) and not is_of_stream:
        return None
    return CorruptFileError(f"{path}: one of its tables is damaged", _HINT)


def _stored(table: str) -> str:
    return f"stored_{table}"


def _mapped(path: Path) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error


def _members(path: Path, whole: pa.Buffer) -> Mapping[str, pa.Buffer]:
    """The archive's members, as parts of the mapped file."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    # What a list of members says of another version of the format, or of names in no encoding.
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        msg = f"{path}: the file is cut short or damaged ({error})"
        raise CorruptFileError(msg, _HINT) from error
    return {info.filename: _content(path, whole, info) for info in infos}


def _content(path: Path, whole: pa.Buffer, info: zipfile.ZipInfo) -> pa.Buffer:
    begin = info.header_offset + _LOCAL_HEADER_BYTES
    if info.header_offset >= 0 and begin <= whole.size:
        lengths = bytes(whole.slice(info.header_offset, _LOCAL_HEADER_BYTES))[_LENGTHS]
        begin += sum(int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
    if info.header_offset < 0 or begin + info.file_size > whole.size:
        msg = f"{path}: {info.filename} in it goes beyond its end"
        raise CorruptFileError(msg, _HINT)
    if info.compress_type != zipfile.ZIP_STORED:
        msg = f"{path}: {info.filename} in it was packed by another program"
        raise CorruptFileError(msg, _HINT)
    return whole.slice(begin, info.file_size)


def _origin(path: Path, members: Mapping[str, pa.Buffer]) -> Origin:
    try:
        header: dict[str, Any] = json_input.loads(bytes(members[HEADER]))
        version, told = header["gpuprof_file"], header["origin"]
        if version == VERSION:
            fields = {name: (_OPTIONAL | told)[name] for name in TOOL_FIELDS}
            return Origin(**fields | {"source": path, "warnings": tuple(fields["warnings"])})
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{path}: {HEADER} in it is missing or broken"
        raise CorruptFileError(msg, _HINT) from error
    msg = f"{path} is a gpuprof file of version {version}; this gpuprof reads {VERSION}"
    raise UnknownFormatError(msg, "Install the newest gpuprof: pip install -U gpuprof-toolkit")


def _check(path: Path, name: str, content: pa.Buffer) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    try:
        found = set(pq.read_schema(pa.BufferReader(content)).names)
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"{path}: its table {name} is damaged"
        raise CorruptFileError(msg, _HINT) from error
    required = {column for column, c in schema.BY_NAME[name].columns.items() if c.required}
    if required - found:
        msg = f"{path}: its table {name} has no column {min(required - found)}"
        raise CorruptFileError(msg, _HINT)


def _dataset(table: str, content: pa.Buffer) -> Any:  # noqa: ANN401 - pyarrow has no types
    """One Parquet file in memory, of which DuckDB reads the columns that a query names."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - as above

    class Frugal(ds.FileSystemDataset):  # type: ignore[misc]
        """Decodes one batch ahead of the query, where Arrow would sixteen, and keeps none."""

        def scanner(self, **options: Any) -> Any:  # noqa: ANN401
            ahead = dict.fromkeys(("batch_readahead", "fragment_readahead"), 1)
            # Arrow's own pool holds on to what is given back.
            return super().scanner(**options, **ahead, memory_pool=pa.system_memory_pool())

    columns = schema.BY_NAME[table].columns
    texts = [name for name, column in columns.items() if column.dtype == schema.TEXT]
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    form = ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(dictionary_columns=texts),
        default_fragment_scan_options=options,
    )
    fragment = form.make_fragment(content)
    return Frugal([fragment], fragment.physical_schema, fragment.format)


def _recognises(head: bytes) -> bool:
    name = HEADER.encode()
    start = _LOCAL_HEADER_BYTES
    return head.startswith(_ZIP_MAGIC) and head[start : start + len(name)] == name


READER: Final = Reader(
    name="gpuprof",
    title="gpuprof's own file (.gpuprof)",
    versions=f"version {VERSION}",
    gives=tuple(schema.BY_NAME),
    cannot="",
    read=read,
    recognises=_recognises,
)
