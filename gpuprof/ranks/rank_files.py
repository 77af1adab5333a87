"""The files of a job: what paths, folders and patterns name, and when they were written."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpuprof.base.errors import GpuprofError, InputError
from gpuprof.ranks.work import JobFile
from gpuprof.readers import inputs, read_profile, recording_files
from gpuprof.readers.gpuprof import data_set, run_folder
from gpuprof.readers.job_files import file_of, ranks_of_names


def job_files(files: Sequence[Path]) -> list[JobFile]:
    """The files of a job with what tells their versions apart.

    Args:
        files: As `gpuprof.readers.recording_files` gives them. One that is not there is a file of
            the job, too.

    Raises:
        InputError: One is standard input or a pipe.
    """
    for file in files:
        if inputs.is_pipe(file):
            name = "standard input" if str(file) == inputs.STDIN else f"pipe {file}"
            msg = f"{name} is one recording, and cannot be read beside others"
            raise InputError(msg)
    ranks = ranks_of_names([file.name for file in files])
    return [
        JobFile(file, place, rank, *_size_and_time(file))
        for place, (file, rank) in enumerate(zip(files, ranks, strict=True))
    ]


def job_place(paths: Sequence[str], files: Sequence[Path]) -> Path:
    """What people call a job: its folder, pattern or list, or the folder of files that are named.

    Args:
        paths: What the user named.
        files: All files of the job.
    """
    if len(paths) == 1:
        return inputs.list_path(paths[0]) if inputs.is_list(paths[0]) else inputs.path_of(paths[0])
    return inputs.common_folder(files)


def file_of_rank(paths: Sequence[str], rank: int) -> Path:
    """The file of one rank of a job.

    A rank that a file itself records counts, else that in the names of all files.

    Args:
        paths: As for `job_files`.
        rank: The rank.

    Raises:
        InputError: No file of the job has this rank.
    """
    files = [
        file
        for path in recording_files(paths, are_fetched=False)
        for file in (run_folder.rank_files(path) or [path])
    ]
    named = dict(zip(files, ranks_of_names([file.name for file in files]), strict=True))
    for file in sorted(files, key=lambda file: named[file] != rank):
        recorded = None
        with suppress(GpuprofError), inputs.copies_discarded():
            recorded = file_of(read_profile(file)).rank
        if rank == (named[file] if recorded is None else recorded):
            return file
    ranks = sorted(number for number in named.values() if number is not None)
    hint = f"File names give ranks {ranks[0]} to {ranks[-1]}." if ranks else None
    of_files = f"{files[0]} is not" if len(files) == 1 else f"none of {len(files):,} files is"
    msg = f"{of_files} of rank {rank}"
    raise InputError(msg, hint)


def has_changed(file: JobFile) -> bool:
    """Whether it was written to, or came or went, since the job was planned."""
    return _size_and_time(file.path) != (file.size_bytes, file.modified_ns)


def _size_and_time(path: Path) -> tuple[int, int]:
    """Its bytes and when it was last written; of a folder those of all files in it.

    Of a recording in a data set the bytes are those of its tables, too.
    """
    if isinstance(path, inputs.Address):
        from gpuprof.readers import remote  # noqa: PLC0415 - few recordings need it

        return remote.size_and_time(path)
    paths = [path, *path.rglob("*")] if path.is_dir() else [path]
    try:
        stats = [entry.stat() for entry in paths]
    except OSError:
        return 0, 0
    table_bytes = data_set.recording_bytes(path) if data_set.is_recording(path) else 0
    size_bytes = table_bytes + sum(stat.st_size for stat in stats)
    return size_bytes, max(stat.st_mtime_ns for stat in stats)
