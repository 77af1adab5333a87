"""``manifest.json``: what ran, how it ended, and which files in the run's folder were recorded.

It is the only thing that recording and reading share. Of the environment it keeps only variables
that say how a training ran, and no host name; secrets in the command are masked. A folder without
it is no run; it is written last.

Repeats of one variant are runs side by side in a folder of their own, which has no manifest:
``dual/run-1``, ``dual/run-2``, ...
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from gpuprof.base import json_input
from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError
from gpuprof.base.json_input import integer, mapping, mappings, number, text, texts, words
from gpuprof.base.secrets import masked_words

MANIFEST: Final = "manifest.json"
UNFINISHED: Final = "manifest.json.unfinished"
PROGRAM_LOG: Final = "program.log"
RECORDER_LOG: Final = "recorder.log"
MARKS: Final = "marks.jsonl"
MONITOR: Final = "monitor.jsonl"
FORMAT: Final = "gpuprof-run"
FORMAT_VERSION: Final = 1

# Names the run's folder to the program, so that gpuprof.epoch() can write its marks there.
RUN_DIR_VARIABLE: Final = "GPUPROF_RUN_DIR"
# Names the epochs to record, such as 2:4 for epochs 2 and 3, so that gpuprof.epoch() can mark them.
EPOCHS_VARIABLE: Final = "GPUPROF_EPOCHS"
_REPEAT: Final = re.compile(r"run-([0-9]+)")
# How the names of files begin that gpuprof and its recorders make, and of what `unpack` made.
_OWN_FILES: Final = (
    *(MANIFEST, PROGRAM_LOG, "recorder.", MARKS, MONITOR, "python-started", "original"),
    *("nsys.", "nvprof-", "cupti-", "tensorflow-", "torch-", "jax-"),
)
_RESERVED_BYTES: Final = 64 * 1024
_GIVE_ONE: Final = "Give one that `gpuprof record` made."


@dataclass(frozen=True)
class Manifest:
    """One run; null (None) where unknown.

    Args:
        recorder: Name of the recorder.
        variant: Device placement that the run stands for; its label in comparisons.
        command: What ran, without the profiler before it; secrets in it masked.
        started_at: Start as ISO 8601 with the offset from UTC.
        wall_seconds: From the start of the process to its end, profiler included.
        exit_status: Of the program, 128 + n where signal n ended it; null if unknown.
        recordings: Files that readers read, relative to the folder.
        nothing_recorded: Why there is nothing to read, in a sentence; null where there is.
        versions: Of gpuprof, Python, the operating system, the driver and the recorder's tools.
        packages: Versions of the Python packages that matter, where they are known.
        environment: Variables that say how a training ran, of a fixed list.
        git: ``commit`` and ``is_dirty`` of the program's repository; null outside of one.
        devices: What the recorder knows of the devices, one mapping each, with "name".
        epochs: What the script marked: ``epoch``, ``seconds`` (null if unknown), ``steps`` (null
            if none) and ``started_at_unix_ns``.
        processes: Those that marked epochs, by rank: ``process_id``, ``rank``, ``epochs``,
            ``seconds_per_epoch``.
        seconds_per_epoch: Mean of the marked epochs.
        seconds_per_step: Seconds of the epochs whose steps were marked, per step.
        warnings: What a reader of the numbers must know, a sentence each.
    """

    recorder: str
    variant: str | None
    command: tuple[str, ...]
    started_at: str
    wall_seconds: float | None = None
    exit_status: int | None = None
    recordings: tuple[str, ...] = ()
    nothing_recorded: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Any] | None = None
    devices: tuple[Mapping[str, Any], ...] = ()
    epochs: tuple[Mapping[str, Any], ...] = ()
    processes: tuple[Mapping[str, Any], ...] = ()
    seconds_per_epoch: float | None = None
    seconds_per_step: float | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of the file."""
        head = {"format": FORMAT, "format_version": FORMAT_VERSION}
        return json.dumps({**head, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, source: Path) -> Self:
        """The manifest that a file's text holds; keys of newer versions are passed over.

        Raises:
            CorruptFileError: It is not JSON, not a run's, or lacks what every run has.
        """
        try:
            values = json_input.loads(text)
            read = {name: of(values[name]) for name, of in _READ.items() if name in values}
            if lacking := [name for name in _NEEDED & read.keys() if read[name] is None]:
                raise ValueError(*lacking)  # noqa: TRY301 - as of any field that is none
            manifest = cls(**{"variant": None} | {n: v for n, v in read.items() if v is not None})
            file_format = values["format"]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            msg = f"{source}: is not the manifest of a run"
            raise CorruptFileError(msg, "Was the file edited or cut off?") from error
        if file_format != FORMAT:
            msg = f'{source}: expected the format "{FORMAT}", found "{file_format}"'
            raise CorruptFileError(msg)
        return manifest


def _sentences(value: object) -> tuple[str, ...] | None:
    return tuple(s for s in value if isinstance(s, str)) if isinstance(value, list) else None


def _command(value: object) -> tuple[str, ...] | None:
    """The command; an older gpuprof left more in it than this one."""
    command = texts(value)
    return None if command is None else masked_words(command)


def _epochs(value: object) -> tuple[dict[str, Any], ...] | None:
    epochs = mappings(value)
    if epochs is None:
        return None
    typed = tuple(
        {key: _EPOCH[key](part) if key in _EPOCH else part for key, part in epoch.items()}
        for epoch in epochs
    )
    # Python writes a time that is no number as NaN, which is null when read.
    is_whole = all(epoch.get("epoch") is not None and "seconds" in epoch for epoch in typed)
    return typed if is_whole else None


_EPOCH: Final[Mapping[str, Callable[[object], Any]]] = {
    "epoch": integer,
    "seconds": number,
    "steps": integer,
    "started_at_unix_ns": integer,
}
# How each field is read. Without those that are needed there is no telling what was recorded.
_READ: Final[Mapping[str, Callable[[object], Any]]] = {
    "recorder": text,
    "variant": text,
    "command": _command,
    "started_at": text,
    "wall_seconds": number,
    "exit_status": integer,
    "recordings": texts,
    "nothing_recorded": text,
    "versions": words,
    "packages": words,
    "environment": words,
    "git": mapping,
    "devices": mappings,
    "epochs": _epochs,
    "processes": mappings,
    "seconds_per_epoch": number,
    "seconds_per_step": number,
    "warnings": _sentences,
}
_NEEDED: Final = frozenset({"recorder", "command", "started_at", "recordings", "epochs"})


def repeats(folder: Path) -> tuple[Path, ...]:
    """The runs ``run-1``, ``run-2``, ... in a folder of repeats, in order; none in any other."""
    if not folder.is_dir() or is_run(folder):
        return ()
    named = ((_REPEAT.fullmatch(entry.name), entry) for entry in folder.iterdir())
    runs = {int(match[1]): entry for match, entry in named if match and is_run(entry)}
    return tuple(runs[number] for number in sorted(runs))


def foreign_files(folder: Path) -> list[Path]:
    """What neither gpuprof nor a recorder has put into a run's folder, or into one of repeats.

    Raises:
        OSError: The folder cannot be read.
    """
    if not is_run(folder):
        runs = [entry for entry in folder.iterdir() if is_run(entry)]
        entries = [entry for entry in folder.iterdir() if entry not in runs]
        return sorted([*entries, *(file for run in runs for file in foreign_files(run))])
    try:
        recordings = read_manifest(folder).recordings
    except GpuprofError:
        recordings = ()
    folders = {name.partition("/")[0] for name in recordings}
    return sorted(
        entry
        for entry in folder.iterdir()
        if entry.name not in folders and not entry.name.startswith(_OWN_FILES)
    )


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, finished or not."""
    return (folder / MANIFEST).is_file() or (folder / UNFINISHED).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a run's folder.

    Raises:
        InputError: There is no run, it did not finish, or the file cannot be read.
        CorruptFileError: The file is no manifest.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError) as error:
        if not is_run(folder):
            msg = f"{folder} is not a run folder"
            runs = ", ".join(run.name for run in repeats(folder))
            hint = f"Give one of its runs: {runs}." if runs else _GIVE_ONE
            raise InputError(msg, hint) from error
        msg = f"{folder}: the recording did not finish"
        raise InputError(msg, "Record it again, with --force to replace it.") from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    return Manifest.from_json(text, path)


def begin_manifest(folder: Path, manifest: Manifest) -> None:
    """Mark a folder as a run that has not finished.

    Raises:
        OSError: The file cannot be written.
    """
    # The last manifest takes the place of these blanks, also on a disk that has filled up.
    _write(folder / UNFINISHED, manifest, " " * _RESERVED_BYTES)


def finish_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder a run, in one step: either the whole manifest is there or none is.

    Raises:
        OSError: The file cannot be written.
    """
    _write(folder / UNFINISHED, manifest)
    (folder / UNFINISHED).replace(folder / MANIFEST)


def _write(path: Path, manifest: Manifest, more: str = "") -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(manifest.to_json() + more)
        file.flush()
        os.fsync(file.fileno())
