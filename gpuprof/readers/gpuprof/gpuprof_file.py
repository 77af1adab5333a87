"""gpuprof's own file: a recording of any format as Parquet, one file small enough to mail.

A zip archive, stored and not compressed again, of ``gpuprof.json`` (version, provenance) and one
``<table>.parquet`` per recorded table. Each is read in place, and of it only the columns that an
analysis asks for. It holds what the data model holds: no environment, no names of hosts.
"""

import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import pyarrow as pa

from gpuprof import borders, json_input, schema
from gpuprof.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.profile import Origin, Profile
from gpuprof.readers.contract import Reader
from gpuprof.views import Select, View

if TYPE_CHECKING:
    import duckdb

VERSION: Final = 1
HEADER: Final = "gpuprof.json"
SUFFIX: Final = ".parquet"


class _OriginFields(msgspec.Struct):
    """The origin of the recording in the header, as `gpuprof.profile.Origin` holds it."""

    reader: str
    tool: str
    tool_version: str | None
    schema_version: str | None
    command: str | None
    recorded_at: str | None
    epoch_ns: Annotated[int, msgspec.Meta(ge=-schema.LARGEST, le=schema.LARGEST)] | None
    variant: str | None
    start_resolution_ns: Annotated[int, msgspec.Meta(ge=1, le=schema.LARGEST)]
    warnings: tuple[str, ...]
    exporter_version: str | None = None  # Files of older versions of gpuprof lack it.


TOOL_FIELDS: Final = _OriginFields.__struct_fields__
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
    mapped = _mapped(path)
    members = _members(path, mapped)
    origin = _origin(path, members)
    contents = {name: members[name + SUFFIX] for name in schema.BY_NAME if name + SUFFIX in members}
    stored = {name: _rows(path, name, content) for name, content in contents.items()}

    def prepare(connection: "duckdb.DuckDBPyConnection") -> None:
        for name, rows in stored.items():
            connection.register(_stored(name), rows)

    views = {name: _view(name, rows) for name, rows in stored.items()}
    return Profile(origin, views, prepare, partial(_failure, path))


# What DuckDB 1 and 2 say where a stream that they read raises an error.
_STREAM_FAILED: Final = ("arrow_scan", "reading the stream registered")


def _failure(path: Path, error: Exception) -> GpuprofError | None:
    """What a failed query says about the file: each page of it carries a checksum."""
    is_of_stream = any(sign in str(error) for sign in _STREAM_FAILED)
    if not isinstance(error, pa.ArrowException | OSError) and not is_of_stream:
        return None
    return CorruptFileError(f"{path}: one of its tables is damaged", _HINT)


def _view(name: str, rows: Any) -> View:  # noqa: ANN401 - pyarrow has no types
    columns = {column: f'"{column}"' for column in rows.schema.names}
    return View((Select(columns, f'FROM "{_stored(name)}"'),))


def _stored(table: str) -> str:
    return f"stored_{table}"


def _mapped(path: Path) -> pa.Buffer:
    try:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error


def _members(path: Path, mapped: pa.Buffer) -> Mapping[str, pa.Buffer]:
    """The archive's members, as parts of the mapped file."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    # What a list of members says of another version of the format, or of names in no encoding.
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        msg = f"{path}: the file is cut short or damaged ({error})"
        raise CorruptFileError(msg, _HINT) from error
    return {info.filename: _content(path, mapped, info) for info in infos}


def _content(path: Path, mapped: pa.Buffer, info: zipfile.ZipInfo) -> pa.Buffer:
    begin = info.header_offset + _LOCAL_HEADER_BYTES
    if info.header_offset >= 0 and begin <= mapped.size:
        lengths = bytes(mapped.slice(info.header_offset, _LOCAL_HEADER_BYTES))[_LENGTHS]
        begin += sum(int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
    if info.header_offset < 0 or begin + info.file_size > mapped.size:
        msg = f"{path}: {info.filename} in it goes beyond its end"
        raise CorruptFileError(msg, _HINT)
    if info.compress_type != zipfile.ZIP_STORED:
        msg = f"{path}: {info.filename} in it was packed by another program"
        raise CorruptFileError(msg, _HINT)
    return mapped.slice(begin, info.file_size)


def _origin(path: Path, members: Mapping[str, pa.Buffer]) -> Origin:
    try:
        header: dict[str, Any] = json_input.loads(bytes(members[HEADER]))
        version, origin = header["gpuprof_file"], header["origin"]
        if version == VERSION:
            return Origin(path, **msgspec.structs.asdict(msgspec.convert(origin, _OriginFields)))
    except (KeyError, TypeError, ValueError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        msg = f"{path}: {HEADER} in it is missing or broken{why}"
        raise CorruptFileError(msg, _HINT) from error
    msg = f"{path} is a gpuprof file of version {version}; this gpuprof reads {VERSION}"
    raise UnknownFormatError(msg, "Install the newest gpuprof: pip install -U gpuprof-toolkit")


def _rows(path: Path, name: str, content: pa.Buffer) -> Any:  # noqa: ANN401 - pyarrow has no types
    """What DuckDB reads of a member: its file, or its rows where other types must be cast.

    Raises:
        CorruptFileError: It is damaged, or its columns are not those of the table.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 ms that other formats do not need

    where, table = f"{path}, table {name}", schema.BY_NAME[name]
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        columns = file.schema_arrow
        borders.check_names(where, columns)
        borders.check_growth(where, file.metadata, content.size)
        for column, spec in table.columns.items():
            if spec.required and column not in columns.names:
                msg = f"{path}: its table {name} has no column {column}"
                raise CorruptFileError(msg, _HINT)
        if borders.unlike(columns, table.kinds):
            rows = file.read([column for column in columns.names if column in table.columns])
            return borders.cast(where, rows, table.kinds)
    except (pa.ArrowException, OSError, ValueError) as error:
        msg = f"{path}: its table {name} is damaged"
        raise CorruptFileError(msg, _HINT) from error
    return _dataset(name, content)


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
    expected = [field for field in fragment.physical_schema if field.name in columns]
    return Frugal([fragment], pa.schema(expected), fragment.format)


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
