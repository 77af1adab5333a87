"""File -> Profile: each format is one file here and one line in `READERS`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from gpuprof.base.errors import (
    CorruptFileError,
    EmptyRecordingError,
    GpuprofError,
    InputError,
    UnknownFormatError,
    UsageError,
    one_of,
)
from gpuprof.base.machine import in_turn
from gpuprof.base.units import counted
from gpuprof.model import borders, data_model
from gpuprof.model.profile import Profile, UnreadFiles
from gpuprof.readers import inputs, sections
from gpuprof.readers.common import gunzip
from gpuprof.readers.input_format import HEAD_BYTES, ZIP_MAGIC, Reader, unsupported
from gpuprof.readers.inputs import Address, AnyPath
from gpuprof.readers.job_notes import left_out
from gpuprof.readers.sqlite.source import MAGIC

# Name of a format -> its module here, which is imported when a file may be of it.
READERS: Final = {
    "run": "gpuprof.run_folder",
    "nsys-sqlite": "nsys.sqlite_export",
    "nvprof-sqlite": "nvprof.database",
    "nsys-parquet": "nsys.parquet",
    "nsys-rep": "nsys_report.reader",
    "nsys-export": "nsys.nsys_tool",
    "nvprof-text": "nvprof.text_summary",
    "nvprof-csv": "nvprof.csv_summary",
    "nvprof-trace": "nvprof.trace",
    "nsys-stats": "nsys_stats.report_text",
    "kineto": "kineto.trace_file",
    "tensorflow-run": "gpuprof.tensorflow_run",
    "cupti": "gpuprof.cupti_run",
    "xplane": "xplane.profile_file",
    "tf1-timeline": "tf1_timeline",
    "gpuprof": "gpuprof.gpuprof_file",
    "gpuprof-dataset": "gpuprof.data_set",
}
# Readers of databases, of reports, of archives and of folders are known: to import all takes longer
# than many a report.
_DATABASES: Final = ("nsys-sqlite", "nvprof-sqlite")
_REPORT_MAGIC: Final = b"NVIDIA Tegra Profiler Report "
_ARCHIVES: Final = ("gpuprof", "run")
_FOLDERS: Final = ("run", "nsys-parquet", "cupti", "gpuprof-dataset")
_DATA_SET: Final = "gpuprof-dataset"


Recording = AnyPath | Sequence[AnyPath] | Profile


def read_profile(
    path: Recording, reader: str | None = None, section: str | int | None = None
) -> Profile:
    """Read one recording, whichever tool wrote it.

    Args:
        path: A file in one of the formats that ``gpuprof formats`` lists; a folder that is one
            recording; a folder, a glob, a list (``@files.txt``) or a sequence of files of one
            format, one per process, which are read as one recording with its ranks; an address
            such as ``s3://bucket/rank*.sqlite``; ``-`` for standard input. What was read already
            is given back.
        reader: Name of the format, for a file that cannot be recognised; else it is found.
        section: Which recording of a file that holds several, such as a log of several runs:
            its number (from 1), its process, or a part of its name; ``all`` adds them up.

    Returns:
        The recording. Its ``tables`` are DataFrames by name (see `gpuprof.model.data_model`), times
        in integer nanoseconds, sizes in bytes, NA where unknown.

    Raises:
        GpuprofError: The file cannot be opened, is of no known format, breaks its format's
            rules, or holds nothing; or several recordings, and none of them is named.
        TypeError: It is no path, no sequence of paths and no recording.
    """
    if isinstance(path, Profile):
        return path
    path_or_paths = [path] if inputs.is_path(path) else path
    if isinstance(path_or_paths, bytes) or not isinstance(path_or_paths, Sequence):
        msg = f"a recording is a path, several paths or a Profile, not {type(path).__name__}"
        raise TypeError(msg)
    paths = [*map(inputs.path_of, path_or_paths)]
    try:
        profile = _read_paths(paths, reader, section)
    except GpuprofError as error:
        if (message := inputs.shown(error.message)) == error.message:
            raise
        raise type(error)(message, error.hint) from error
    if not inputs.copies:
        return profile
    # Addresses are named in place of their copies.
    source = inputs.shown_path(profile.origin.source)
    warnings = tuple(map(inputs.shown, profile.origin.warnings))
    return replace(profile, origin=replace(profile.origin, source=source, warnings=warnings))


def _read_paths(paths: Sequence[Path], reader: str | None, section: str | int | None) -> Profile:
    try:
        if len(paths) == 1:
            return _read_path(paths[0], reader, section)
        _check_no_section(section)
        files = recording_files(paths)
        return _read_many(inputs.folder_of(files), files, reader)
    except OSError as error:
        # Its folder is closed, or no file can have such a name.
        if error.filename is None:
            raise
        msg = f"{error.filename} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def recording_files(paths: Sequence[AnyPath], *, are_fetched: bool = True) -> list[Path]:
    """The files that several paths name, each one recording of a process, in their order.

    Args:
        paths: Files, globs, folders of recordings, data sets, lists (``@files.txt``), and
            addresses.
        are_fetched: Whether copies are made of files at addresses; else these are as they are.
            Of folders at addresses copies are always made.

    Raises:
        InputError: One of them names nothing, or a list cannot be read.
    """
    named: list[Path] = []
    for path in map(inputs.path_of, paths):
        named += inputs.named_in(path) if inputs.is_list(path) else [path]
    files: list[Path] = []
    for path in _at_hand(named, are_fetched):
        is_folder = not isinstance(path, Address) and path.is_dir()
        if not isinstance(path, Address) and inputs.is_glob(path):
            files += inputs.matching(path)
        elif is_folder and not (readers := _folder_readers(path)):
            files += inputs.files_in(path)
        elif is_folder and readers[0].name == _DATA_SET:
            from gpuprof.readers.gpuprof.data_set import recordings_in  # noqa: PLC0415 - as above

            files += recordings_in(path)
        else:
            files.append(path)
    return files


def _at_hand(paths: Sequence[Path], are_fetched: bool) -> list[Path]:  # noqa: FBT001 - by position
    """The same paths, with copies of what addresses name in their place, or single addresses."""
    addresses = [path for path in paths if isinstance(path, Address)]
    if not addresses:
        return [*paths]
    from gpuprof.readers import remote  # noqa: PLC0415 - few recordings need it

    copies = iter(remote.fetched(addresses) if are_fetched else remote.listed(addresses))
    return [
        file for path in paths for file in (next(copies) if isinstance(path, Address) else [path])
    ]


def _read_path(path: Path, reader: str | None, section: str | int | None) -> Profile:
    if isinstance(path, Address) and not path.is_pattern:
        (path,) = _at_hand([path], are_fetched=True)
    is_list, is_address = inputs.is_list(path), isinstance(path, Address)
    is_file = str(path) != inputs.STDIN and path.is_file()
    if not (is_list or is_address or is_file) and inputs.is_pipe(path):
        copy = inputs.spooled(path)
        try:
            profile = read_profile(copy, reader, section)
        except GpuprofError as error:
            name = "standard input" if str(path) == inputs.STDIN else str(path)
            raise type(error)(error.message.replace(str(copy), name), error.hint) from error
        return replace(profile, origin=replace(profile.origin, source=path))
    is_several = is_list or is_address
    if not is_file and not is_several:
        is_several = inputs.is_glob(path) or (path.is_dir() and not _folder_readers(path))
    if is_several:
        _check_no_section(section)
        place = inputs.list_path(path) if is_list else path
        return _read_many(place, recording_files([path]), reader)
    if reader is None:
        chosen = find_reader(path)
    else:
        inputs.check_ends(path)
        chosen = reader_named(reader)
    profile = _read_by(chosen, path)
    if section is None and not profile.sections:
        return profile
    return sections.chosen(profile, section)


def _read_by(reader: Reader, path: Path) -> Profile:
    """A recording whose tables in memory hold nothing impossible; a file's own check themselves.

    Raises:
        CorruptFileError: A value is beyond what the data model can hold.
    """
    try:
        profile = reader.read(path)
    except OverflowError as error:
        msg = f"{path}: a number is too large"
        raise CorruptFileError(msg, borders.HINT) from error
    except OSError as error:
        msg = f"{error.filename or path} cannot be read: {error.strerror or error}"
        raise InputError(msg) from error
    if (fault := profile.origin.fault()) is not None:
        msg = f"{path}: {fault}, which it cannot be"
        raise CorruptFileError(msg, borders.HINT)
    for name, rows in profile.sources.items():
        if not isinstance(rows, pa.Table) or not rows.num_rows:
            continue
        if (fault := borders.fault(data_model.BY_NAME[name], rows)) is not None:
            msg = f"{profile.origin.source}, table {name}: {fault}"
            raise CorruptFileError(msg, borders.HINT)
    return profile


def _check_no_section(section: str | int | None) -> None:
    if section is not None:
        msg = f"section {section} is asked for of several files, which are one recording"
        raise UsageError(msg, "Give the one file that holds it.")


def _read_many(place: Path, files: Sequence[Path], reader: str | None) -> Profile:
    from gpuprof.readers import merged_ranks  # noqa: PLC0415 - loads pyarrow.compute

    chosen: dict[Path, Reader] = {}
    faults: list[tuple[Path, str]] = []
    empty: list[tuple[Path, str]] = []
    for file in files:
        try:
            chosen[file] = find_reader(file)
        except (UnknownFormatError, InputError, CorruptFileError) as error:
            faults.append((file, error.message))
    if reader is not None:
        chosen = {file: candidate for file, candidate in chosen.items() if candidate.name == reader}
    if not chosen:
        raise _nothing_in(place)
    check_one_format(place, {reader.name: file.name for file, reader in chosen.items()})
    # Of a database little is read, and that without Python.
    are_databases = all(reader.name in _DATABASES for reader in chosen.values())
    read = (in_turn if are_databases else map)(_read_or_fault, chosen.items())
    opened = dict(zip(chosen, read, strict=True))
    profiles = [profile for profile in opened.values() if isinstance(profile, Profile)]
    errors = {file: error for file, error in opened.items() if isinstance(error, GpuprofError)}
    if not profiles:
        raise next(iter(errors.values()))
    profile = profiles[0] if len(profiles) == 1 else merged_ranks.joined(profiles, len(files))
    for file, fault in errors.items():
        (empty if isinstance(fault, EmptyRecordingError) else faults).append((file, fault.message))
    warnings = (*left_out([*faults, *empty]), *profile.origin.warnings)
    origin = replace(profile.origin, source=place, warnings=warnings)
    return replace(profile, origin=origin, unread=UnreadFiles(tuple(faults), len(files)))


def _read_or_fault(chosen: tuple[Path, Reader]) -> Profile | GpuprofError:
    path, reader = chosen
    try:
        return sections.chosen(_read_by(reader, path), None)
    except (CorruptFileError, EmptyRecordingError) as error:
        # A rank that did nothing on a GPU is normal; one whose file is broken is one of many.
        return error


def check_one_format(place: Path, formats: Mapping[str, str]) -> None:
    """See that files are of one format: a report beside its own export would count twice.

    Args:
        place: What people call all files.
        formats: Name of a format -> the name of a file of it.

    Raises:
        UnknownFormatError: There are several formats.
    """
    if len(formats) > 1:
        names = " and ".join(f"{name} ({file})" for name, file in sorted(formats.items()))
        msg = f"{place} holds files of several formats: {names}"
        hint = "Name one format with --reader, or the files with a glob, or use `gpuprof compare`."
        raise UnknownFormatError(msg, hint)


def reader_named(name: str) -> Reader:
    """The reader of this name.

    Raises:
        UnknownFormatError: There is none.
    """
    if name not in READERS:
        msg = f"there is no format {name}"
        raise UnknownFormatError(msg, one_of("Formats", name, [*READERS]))
    reader: Reader = import_module(f"gpuprof.readers.{READERS[name]}").READER
    return reader


def all_readers() -> list[Reader]:
    """Every format."""
    return [*map(reader_named, READERS)]


def find_reader(path: Path) -> Reader:
    """The one reader that is certain that a file or folder is its own.

    Raises:
        InputError: The path cannot be opened.
        UnknownFormatError: None is certain, or more than one is.
    """
    certain = _folder_readers(path) if path.is_dir() else _file_readers(path)
    if len(certain) == 1:
        return certain[0]
    if certain:
        msg = f"{path}: could be {' or '.join(r.name for r in certain)}"
        raise UnknownFormatError(msg, "Name one with --reader.")
    if path.is_dir():
        raise _nothing_in(path)
    if (unsupported_kind := unsupported(read_head(path))) is not None:
        description, hint = unsupported_kind
        msg = f"{path} is {description}"
        raise UnknownFormatError(msg, hint)
    msg = f"{path} is in no known format"
    raise UnknownFormatError(msg, "See `gpuprof formats`, or name one with --reader.")


def _nothing_in(place: Path) -> UnknownFormatError:
    from gpuprof.base.manifest import repeats  # noqa: PLC0415 - start-up time
    from gpuprof.base.sweep_cells import cell_runs, cells_of, is_sweep  # noqa: PLC0415

    if is_sweep(place):
        msg = f"{place} is a sweep of {counted(len(cells_of(place)), 'cell', 'cells')}"
        return UnknownFormatError(msg, "Give one of its runs; `gpuprof compare` takes all cells.")
    is_pattern = inputs.is_glob(place)
    kind = "a list" if place.is_file() else "a pattern" if is_pattern else "a folder"
    runs = repeats(place) or cell_runs(place)
    if runs:
        names = ", ".join(run.name for run in runs)
        msg = f"{place} is a folder of {counted(len(runs), 'run', 'runs')}, and this reads one"
        return UnknownFormatError(msg, f"Give one of them: {names}; `gpuprof compare` takes all.")
    msg = f"{place} is {kind}, and no recording is in it"
    return UnknownFormatError(msg, "Give a folder that `gpuprof record` made, or a file.")


def _folder_readers(path: Path) -> list[Reader]:
    readers = map(reader_named, _FOLDERS)
    return [r for r in readers if r.recognises_folder and r.recognises_folder(path)]


def _file_readers(path: Path) -> list[Reader]:
    head = read_head(path)
    if not head:
        msg = f"{path} is empty"
        raise InputError(msg, "Was the recording cut off, or the disk full?")
    if head.startswith(MAGIC):
        # The second reader need not be asked after the first.
        databases = map(reader_named, _DATABASES)
        return [*islice((r for r in databases if r.recognises(head) or r.searches(path)), 1)]
    if head.startswith(_REPORT_MAGIC):
        return [reader_named("nsys-rep")]
    if head.startswith(ZIP_MAGIC):
        reader = next((r for r in map(reader_named, _ARCHIVES) if r.recognises(head)), None)
        if reader is not None:
            return [reader]
    certain = [r for r in all_readers() if r.recognises(head)]
    # A program may print megabytes before its profiler prints a word. The first that finds its
    # marks ends the search.
    return certain or [*islice((r for r in all_readers() if r.searches(path)), 1)]


def read_head(path: Path) -> bytes:
    """How the text of a file begins, of its first 64 KiB (see `gunzip`).

    Raises:
        InputError: The file is not there or cannot be read.
    """
    inputs.check_ends(path)
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        msg = f"{path}: no such file"
        raise InputError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    return gunzip.begin(head, HEAD_BYTES)
