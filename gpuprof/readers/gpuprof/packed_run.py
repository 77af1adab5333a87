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
from typing import Any, Final

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, InputError, OutputError, UnknownFormatError
from gpuprof.base.manifest import MANIFEST, read_manifest
from gpuprof.base.secrets import make_private
from gpuprof.readers.input_format import begins_archive

INDEX: Final = "gpuprof-pack.json"
VERSION: Final = 1
CHUNK_BYTES: Final = 1 << 20

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
    return begins_archive(head, INDEX)


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
    try:
        archive = zipfile.ZipFile(file)
    # Of another version of the format, or with names in no encoding, it is not ours either.
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        msg = f"{file}: is no packed run, or is cut short"
        raise UnknownFormatError(msg, _HINT) from error
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    with archive:
        listed = _index(file, archive)
        infos = [info for info in archive.infolist() if info.filename != INDEX]
        for problem in _problems(infos, listed, file.stat().st_size):
            msg = f"{file}: {problem}; nothing was unpacked"
            raise CorruptFileError(msg, _HINT)
        try:
            _unpack_whole(file, archive, listed, folder)
        except OSError as error:
            msg = f"{folder} cannot be made: {error.strerror or error}"
            raise OutputError(msg) from error


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


def _problems(
    infos: Sequence[zipfile.ZipInfo], listed: Mapping[str, tuple[int, str]], archive_bytes: int
) -> Iterator[str]:
    """Why an archive is refused before any of it is written: the first of these is said."""
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
    for name, info in zip(names, infos, strict=True):
        parts, kind = name.split("/"), stat.S_IFMT(info.external_attr >> 16)
        is_stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
        is_absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor != ""
        is_odd = [
            bool(_FORBIDDEN & {*part}) or min(part, default="") < " " or part != part.rstrip(". ")
            for part in parts
        ]
        reasons = {
            "was packed by another program": not is_stored,
            "has not the listed size": info.file_size != listed[name][0],
            "is a link or no plain file": kind not in (0, stat.S_IFREG),
            "has an absolute path": is_absolute,
            "would leave the folder, or is a folder": not {"", ".", ".."}.isdisjoint(parts),
            "has a name that not every system can have": any(is_odd),
            "has the name of a device": any(
                part.partition(".")[0].upper() in _DEVICES for part in parts
            ),
        }
        yield from (f"{name!r} in it {reason}" for reason, is_so in reasons.items() if is_so)


def _unpack_whole(
    file: Path, archive: zipfile.ZipFile, listed: Mapping[str, tuple[int, str]], folder: Path
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, (size, expected) in listed.items():
            target = temporary.joinpath(*name.split("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            digest, remaining_bytes = hashlib.sha256(), size
            with archive.open(name) as source, target.open("xb") as copy:
                while remaining_bytes and (chunk := source.read(min(remaining_bytes, CHUNK_BYTES))):
                    digest.update(chunk)
                    copy.write(chunk)
                    remaining_bytes -= len(chunk)
            if digest.hexdigest() != expected:
                msg = f"{file}: {name!r} in it was changed or damaged; nothing was unpacked"
                raise CorruptFileError(msg, _HINT)
        if not (temporary / MANIFEST).is_file():
            msg = f"{file}: holds no {MANIFEST}; nothing was unpacked"
            raise CorruptFileError(msg, _HINT)
        read_manifest(temporary)
        make_private(temporary)
        temporary.replace(folder)
    except zipfile.BadZipFile as error:
        msg = f"{file}: {error}; nothing was unpacked"
        raise CorruptFileError(msg, _HINT) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
