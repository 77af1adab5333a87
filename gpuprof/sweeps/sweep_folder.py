"""A sweep's folder: its plan and seed, its runs, and its locks.

sweep.json     the plan and the seed, written once
runs/          CELL/NUMBER, each a folder that `gpuprof record` made
runs/CELL/NUMBER.failed.txt   why a run left no such folder
results.csv    a row per cell; runs.csv a row per run; both as .parquet too
"""

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from gpuprof.base import json_input
from gpuprof.base.errors import OutputError, check_no_foreign_files
from gpuprof.base.manifest import MANIFEST, PROGRAM_LOG, foreign_files, is_run, read_manifest
from gpuprof.base.secrets import masked_text, masked_words
from gpuprof.base.sweep_cells import FORMAT, PLAN, RUNS, is_sweep, read_plan
from gpuprof.base.temporary_files import lock, put
from gpuprof.sweeps.plan import Plan, SweepRun

DEFAULT_PARENT: Final = "gpuprof-sweeps"
# Runs can be added to a sweep only where these are the same.
_COMPARABLE: Final = ("command", "skipped_epochs", "recorder")
# Exit statuses of programs that were stopped: 128 + SIGINT and 128 + SIGTERM.
_STOPPED: Final = (130, 143)
# Of the files beside the runs, with those that a kill left half written; and of failures.
_OWN_FILES: Final = re.compile(
    r"\.?(sweep\.json|(results|runs)\.(csv|parquet)|(break-even|scaling)\.svg)(\.unfinished)?"
    r"|\.(results|runs|break-even|scaling)\.unfinished-\w+\.(csv|parquet|svg)|\.(sweep|run)\.lock"
)
_FAILED: Final = re.compile(r"\.?[\w-]+\.failed\.txt(\.unfinished)?")
_LONGEST_REASON: Final = 200


def open_sweep(folder: Path, plan: Plan) -> int:
    """Create a sweep's folder or resume the sweep in it, and return the seed of its order.

    Raises:
        OutputError: It cannot be created, or holds another sweep or something else.
        CorruptFileError: Its plan cannot be read.
    """
    path = folder / PLAN
    if not path.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            msg = f"{folder} exists but does not contain a sweep"
            raise OutputError(msg, "Choose another folder with -o.")
        seed = random.SystemRandom().randrange(10**6) if plan.seed is None else plan.seed
        head = {"format": FORMAT, "format_version": 1, "seed": seed, "plan": _stored(plan)}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(head, indent=1) + "\n")
        except OSError as error:
            msg = f"{folder} cannot be created: {error.strerror}"
            raise OutputError(msg) from error
        return seed
    before = read_plan(path)
    requested = json_input.loads(json.dumps(_stored(plan)))
    differing = [key for key in _COMPARABLE if before.get(key) != requested[key]]
    if [*before["axes"]] != [*plan.axes]:
        differing.append("axes")
    if differing:
        msg = f"{folder} contains a sweep with another {' and '.join(differing)}"
        raise OutputError(msg, "Choose another folder with -o, or replace it with --force.")
    return int(before["seed"])


def remove_sweep(folder: Path) -> None:
    """Remove a sweep with all its runs, and nothing else.

    Raises:
        OutputError: The folder does not contain a sweep, or cannot be removed.
    """
    if not folder.exists():
        return
    if not is_sweep(folder):
        msg = f"{folder} does not contain a sweep, and --force replaces only sweeps"
        raise OutputError(msg, "Choose another folder with -o.")
    try:
        check_no_foreign_files(folder, [*_foreign_files(folder)])
        shutil.rmtree(folder)
    except OSError as error:
        msg = f"{folder} cannot be removed: {error.strerror}"
        raise OutputError(msg) from error


def _foreign_files(folder: Path) -> Iterator[Path]:
    """What neither a sweep nor its runs have put into its folder."""
    for entry in folder.iterdir():
        if entry.name != RUNS and not _OWN_FILES.fullmatch(entry.name):
            yield entry
    for cell in (folder / RUNS).iterdir() if (folder / RUNS).is_dir() else ():
        for run in cell.iterdir() if cell.is_dir() else [cell]:
            if is_run(run):
                yield from foreign_files(run)
            elif not _FAILED.fullmatch(run.name) and (run.is_file() or any(run.iterdir())):
                yield run


def _stored(plan: Plan) -> dict[str, Any]:
    return asdict(plan) | {"command": masked_words(plan.command)}


def write_whole(path: Path, text: str) -> None:
    """Write a file of the owner alone so that a kill or crash leaves the old one or the new one."""
    temporary = path.with_name(f".{path.name}.unfinished")
    temporary.touch(mode=0o600)
    temporary.write_text(text, encoding="utf-8")
    put(temporary, path)


@contextmanager
def working_in(folder: Path, say: Callable[[str], None]) -> Iterator[IO[bytes]]:
    """Lock the folder; yields the lock that a run's process holds open while it runs.

    A killed sweep leaves its run behind. This waits for it, because two runs at a time would
    disturb each other's times.

    Raises:
        OutputError: Another sweep is running in the folder.
    """
    with (
        (folder / ".sweep.lock").open("wb") as of_sweep,
        (folder / ".run.lock").open("wb") as shared,
    ):
        if lock(of_sweep.fileno()) is False:
            msg = f"another sweep is running in {folder}"
            raise OutputError(msg, "Wait until it ends, or choose another folder with -o.")
        if lock(shared.fileno()) is False:
            say("A run of an interrupted sweep is still active; waiting until it ends ...")
            lock(shared.fileno(), waits=True)
        yield shared


def has_ended(folder: Path, run: SweepRun) -> bool:
    """Whether a run ended by itself, successfully or not."""
    where = folder / run.folder
    if _failure_file(where).is_file():
        return True
    if not (where / MANIFEST).is_file():
        return False
    return read_manifest(where).exit_status not in _STOPPED


def failure(folder: Path, run: SweepRun) -> tuple[str, int | None] | None:
    """Why a run that ended has no figures, and its exit status, if it started; None if it has."""
    where = folder / run.folder
    if _failure_file(where).is_file():
        return _failure_file(where).read_text(encoding="utf-8").strip(), None
    status = read_manifest(where).exit_status
    if status == 0:
        return None
    lines = (where / PROGRAM_LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"exit status {status}: {masked_text(last)[:_LONGEST_REASON]}", status


def note_failure(folder: Path, run: SweepRun, reason: str) -> None:
    """Write down why a run left no recording."""
    path = _failure_file(folder / run.folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, masked_text(reason) + "\n")


def forget(folder: Path, run: SweepRun) -> None:
    """Remove the files of a run, so that it runs again.

    Raises:
        OutputError: Others lie there, too.
    """
    where = folder / run.folder
    _failure_file(where).unlink(missing_ok=True)
    if where.is_dir() and (is_run(where) or not os.listdir(where)):  # noqa: PTH208 - emptiness
        check_no_foreign_files(where, foreign_files(where) if is_run(where) else [])
        shutil.rmtree(where)


def _failure_file(where: Path) -> Path:
    return where.with_name(f"{where.name}.failed.txt")
