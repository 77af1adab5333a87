"""Runs that ``gpuprof pack`` made one file of: back into a folder, with everything checked.

A zip archive, stored and not compressed (Parquet is), so that no archive can unpack to more than
its own size. ``gpuprof-pack.json`` comes first: version, and name, size and SHA-256 of every other
member.
"""

import hashlib
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, Final

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, InputError, OutputError, UnknownFormatError
from gpuprof.base.manifest import MANIFEST, read_manifest
from gpuprof.base.secrets import make_private

INDEX: Final = "gpuprof-pack.json"
VERSION: Final = 1
CHUNK_BYTES: Final = 1 << 20

_ZIP_MAGIC: Final = b"PK\x03\x04"
# A member's header in the archive: so long before its name.
_LOCAL_HEADER_BYTES: Final = 30
_MOST_MEMBERS: Final = 10_000
_MOST_INDEX_BYTES: Final = 16 << 20
# Names that Windows gives to devices, whatever their suffix.
_DEVICES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", *(f"{n}{i}" for n in ("COM", "LPT") for i in range(1, 10))}
)
_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_HINT: Final = "Ask for it again, packed by `gpuprof pack`."


def is_packed_run(head: bytes) -> bool:
    """Whether a file that begins so is a packed run."""
    name = INDEX.encode()
    return head.startswith(_ZIP_MAGIC) and head[_LOCAL_HEADER_BYTES:].startswith(name)


def unpack(file: Path, folder: Path) -> None:
    """Make a run's folder of a packed run; nothing is left of one that fails a check.

    Raises:
        InputError: The file cannot be read.
        UnknownFormatError: It is no packed run, or a newer gpuprof's.
        CorruptFileError: A member is missing, too much, changed, or would leave the folder.
        OutputError: The folder exists already or cannot be made.
    """
    if folder.exists() or folder.is_symlink():
        msg = f"{folder} exists already"
        raise OutputError(msg, "Choose another folder with -o.")
    with _opened(file) as archive:
        listed = _index(file, archive)
        _check(file, archive, listed)
        try:
            _unpack_whole(file, archive, listed, folder)
        except OSError as error:
            msg = f"{folder} cannot be made: {error.strerror or error}"
            raise OutputError(msg) from error


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    # Of another version of the format, or with names in no encoding, it is not ours either.
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        msg = f"{file}: is no packed run, or is cut short"
        raise UnknownFormatError(msg, _HINT) from error
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg) from error


def _index(file: Path, archive: zipfile.ZipFile) -> dict[str, tuple[int, str]]:
    """Size and hash of every member by its name."""
    try:
        info = archive.getinfo(INDEX)
        # Stored, so that reading it is bounded however large it claims to be.
        stored = info.compress_type == zipfile.ZIP_STORED
        text = archive.open(info).read(_MOST_INDEX_BYTES) if stored else b""
        index: dict[str, Any] = json_input.loads(text)
        version = index["gpuprof_pack"]
        if version == VERSION:
            return {str(m["name"]): (int(m["size"]), str(m["sha256"])) for m in index["members"]}
    except (
        KeyError, TypeError, ValueError, OverflowError, zipfile.BadZipFile, NotImplementedError,
    ) as error:  # fmt: skip
        msg = f"{file}: is no packed run: {INDEX} in it is missing or broken"
        raise UnknownFormatError(msg, _HINT) from error
    msg = f"{file} is a packed run of version {version}; this gpuprof reads {VERSION}"
    raise UnknownFormatError(msg, "Install the newest gpuprof.")


def _check(file: Path, archive: zipfile.ZipFile, listed: Mapping[str, tuple[int, str]]) -> None:
    """Refuse an archive before any of it is written."""
    infos = [info for info in archive.infolist() if info.filename != INDEX]
    for problem in _problems(infos, listed, file.stat().st_size):
        msg = f"{file}: {problem}; nothing was unpacked"
        raise CorruptFileError(msg, _HINT)


def _problems(
    infos: Sequence[zipfile.ZipInfo], listed: Mapping[str, tuple[int, str]], archive_bytes: int
) -> Iterator[str]:
    if len(infos) > _MOST_MEMBERS:
        yield f"holds {len(infos)} files, and a run has at most {_MOST_MEMBERS}"
    # Stored members that overlap, or that claim more than the file has, could unpack to more.
    if sum(info.file_size for info in infos) > archive_bytes:
        yield "would unpack to more than its own size"
    names = [info.filename for info in infos]
    if len({name.casefold() for name in names}) < len(names):
        yield "names a file twice"
    for name in {*names} ^ {*listed}:
        yield f"{name!r} is {'in it but not listed' if name in names else 'listed but missing'}"
    for info in infos:
        if (reason := _doubt(info, listed)) is not None:
            yield f"{info.filename!r} in it {reason}"


def _doubt(info: zipfile.ZipInfo, listed: Mapping[str, tuple[int, str]]) -> str | None:
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        return "was packed by another program"
    if info.file_size != listed[info.filename][0]:
        return "has not the listed size"
    return _escape(info)


def _escape(info: zipfile.ZipInfo) -> str | None:
    """Why a member could leave the folder, or be no file; None where it stays and is one."""
    name = info.filename
    parts = name.split("/")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "is a link or no plain file"
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor:
        return "has an absolute path"
    if any(part in ("", ".", "..") for part in parts):
        return "would leave the folder, or is a folder"
    if any(
        _FORBIDDEN & set(part) or min(part) < " " or part != part.rstrip(". ") for part in parts
    ):
        return "has a name that not every system can have"
    if any(part.partition(".")[0].upper() in _DEVICES for part in parts):
        return "has the name of a device"
    return None


def _unpack_whole(
    file: Path, archive: zipfile.ZipFile, listed: Mapping[str, tuple[int, str]], folder: Path
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, (size, expected) in listed.items():
            target = temporary.joinpath(*name.split("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("xb") as copy:
                digest = _copied(source, copy, size)
            if digest != expected:
                msg = f"{file}: {name!r} in it was changed or damaged; nothing was unpacked"
                raise CorruptFileError(msg, _HINT)
        _check_is_run(file, temporary)
        make_private(temporary)
        temporary.replace(folder)
    except zipfile.BadZipFile as error:
        msg = f"{file}: {error}; nothing was unpacked"
        raise CorruptFileError(msg, _HINT) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copied(source: IO[bytes], copy: IO[bytes], size: int) -> str:
    """The hash of what was copied: the listed size, and nothing beyond it."""
    digest = hashlib.sha256()
    remaining_bytes = size
    while remaining_bytes and (chunk := source.read(min(remaining_bytes, CHUNK_BYTES))):
        digest.update(chunk)
        copy.write(chunk)
        remaining_bytes -= len(chunk)
    return digest.hexdigest()


def _check_is_run(file: Path, folder: Path) -> None:
    if not (folder / MANIFEST).is_file():
        msg = f"{file}: holds no {MANIFEST}; nothing was unpacked"
        raise CorruptFileError(msg, _HINT)
    read_manifest(folder)
