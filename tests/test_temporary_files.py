"""Drafts of outputs go whatever ends the process, and only those that nobody writes any more."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT

from gpuprof.show.output import FolderOutput, Output

HOLDS = """
import sys, time
from pathlib import Path
from gpuprof.base import signals
from gpuprof.base.temporary_files import unfinished

signals.remove_before_end()
with unfinished(Path(sys.argv[1]), is_folder=sys.argv[2] == "folder") as draft:
    print(draft, flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def writing(target, kind):
    """A process that writes a target, and its draft."""
    words = [sys.executable, "-c", HOLDS, str(target), kind]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def save(target, kind):
    if kind == "folder":
        FolderOutput(target).save(lambda draft: (draft / "a").write_text("new"))
    else:
        Output(target).write_text("new")


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", ["a.svg", "[a]*.b.csv", "a"])
def test_what_a_killed_command_left_goes_when_the_output_is_made(tmp_path, kind, name):
    target = tmp_path / name
    with writing(target, kind) as (process, draft):
        process.kill()
        process.wait()
    foreign = tmp_path / f".{name}-20240101"
    foreign.touch()
    assert draft.exists()

    save(target, kind)

    assert sorted(tmp_path.iterdir()) == sorted([foreign, target])


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_draft_that_another_process_writes_is_left_alone(tmp_path, kind):
    target = tmp_path / "a.svg"
    with writing(target, kind) as (_, draft):
        save(target, kind)

        assert draft.exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_command_that_is_told_to_end_leaves_no_draft(tmp_path, kind, number):
    with writing(tmp_path / "a.svg", kind) as (process, draft):
        process.send_signal(number)
        status = process.wait(timeout=60)

    assert status == -number
    assert draft.name.startswith(".a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_moved_away_is_no_draft(tmp_path):
    """A command that is killed between two renames leaves what was there before under its name."""
    before = tmp_path / ".a.before-12345678"
    before.mkdir()

    save(tmp_path / "a", "folder")

    assert before.exists()
