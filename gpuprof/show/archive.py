"""A run as one file to mail or to keep; `gpuprof.readers.gpuprof.packed_run` says what is in it.

Without the original recordings it holds nothing of the environment but the manifest's list.
"""

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuprof.base.errors import ROOM, OutputError
from gpuprof.base.manifest import MANIFEST, MARKS, read_manifest
from gpuprof.readers import read_profile
from gpuprof.readers.gpuprof.packed_run import CHUNK_BYTES, INDEX, VERSION
from gpuprof.readers.gpuprof.write_gpuprof_file import write
from gpuprof.show.output import Output

RECORDING: Final = "recording.gpuprof"
ORIGINALS: Final = "original"

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)


def pack(folder: Path, output: Output, *, with_original: bool = False) -> None:
    """Write a run's manifest, marks and normalised recording as one file.

    Args:
        folder: A run that `gpuprof record` made.
        output: The file to write; not standard output.
        with_original: Whether the tools' own files and the program's output go with them.

    Raises:
        GpuprofError: The run cannot be read, or the file cannot be written.
    """
    if output.path is None:
        msg = "a packed run cannot be written to standard output"
        raise OutputError(msg, "Give a file name: -o run.zip")
    manifest = read_manifest(folder)
    with tempfile.TemporaryDirectory(prefix="gpuprof-pack-") as name:
        converted_path = Path(name)
        members = {
            MANIFEST: converted_path / MANIFEST,
            MARKS: folder / MARKS,
            RECORDING: converted_path / RECORDING,
        }
        try:
            if manifest.recordings and manifest.nothing_recorded is None:
                write(read_profile(folder), members[RECORDING])
            recordings = (RECORDING,) if members[RECORDING].exists() else ()
            text = replace(manifest, recordings=recordings).to_json()
            members[MANIFEST].write_text(text, encoding="utf-8")
        except OSError as error:
            msg = f"{folder} cannot be converted in {name}: {error.strerror or error}"
            raise OutputError(msg, ROOM) from error
        # Links are left out, as they lead who knows where.
        files = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink())
        for path in files if with_original else ():
            if path.resolve().is_relative_to(folder.resolve()):
                members[f"{ORIGINALS}/{path.relative_to(folder).as_posix()}"] = path
        file_members = {n: members[n] for n in members if members[n].is_file()}
        output.save(lambda archive: _write(archive, file_members), is_private=with_original)


def _write(temporary: Path, members: Mapping[str, Path]) -> None:
    listed = []
    for name, path in members.items():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        listed.append({"name": name, "size": path.stat().st_size, "sha256": digest})
    index = {"gpuprof_pack": VERSION, "members": listed}
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(INDEX, _NO_TIME), json.dumps(index, indent=1) + "\n")
        for name, path in members.items():
            with (
                path.open("rb") as source,
                archive.open(zipfile.ZipInfo(name, _NO_TIME), "w", force_zip64=True) as target,
            ):
                shutil.copyfileobj(source, target, CHUNK_BYTES)
