"""The files of a job: what paths, folders and patterns name, and when they were written."""

from collections.abc import Sequence
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.jobs.contract import JobFile
from gpuprof.readers import places, recording_files
from gpuprof.readers.many import ranks_of_names


def job_files(paths: Sequence[str]) -> list[JobFile]:
    """The files of a job in their order.

    Args:
        paths: Files, folders, patterns and lists (``@files.txt``). A folder that is a recording
            is one file. A file that is not there is one of the job, too.

    Raises:
        InputError: One is standard input or a pipe, or no file has such a name.
    """
    files = recording_files(paths)
    for file in files:
        if places.is_pipe(file):
            msg = f"{file} can be read only once, and no worker reads it"
            raise InputError(msg, "Write it to a file first.")
    ranks = ranks_of_names([file.name for file in files])
    return [
        JobFile(file, place, rank, *_size_and_time(file))
        for place, (file, rank) in enumerate(zip(files, ranks, strict=True))
    ]


def has_changed(file: JobFile) -> bool:
    """Whether it was written to, or came or went, since the job was planned."""
    return _size_and_time(file.path) != (file.size_bytes, file.modified_ns)


def _size_and_time(path: Path) -> tuple[int, int]:
    """Its bytes and when it was last written; of a folder those of all files in it."""
    paths = [path, *path.rglob("*")] if path.is_dir() else [path]
    try:
        stats = [entry.stat() for entry in paths]
    except OSError:
        return 0, 0
    return sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)
