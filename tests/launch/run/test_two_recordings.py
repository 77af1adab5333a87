"""Recordings that meet in one folder, and folders that go while they are recorded into."""

import shutil
import time

import pytest
from commands import gpuprof, started

from gpuprof.base.errors import OutputError
from gpuprof.base.manifest import UNFINISHED, is_run, read_manifest
from gpuprof.launch.run.folder import check_folder, claimed, make_folder

PROGRAM = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"


@pytest.fixture
def recording(tmp_path):
    """A recording into the folder ``run`` that goes on until its program is let go."""
    (tmp_path / "train.py").write_text(PROGRAM)
    process = started("record", "--recorder", "none", "-o", "run", "train.py", cwd=tmp_path)
    while not (tmp_path / "run" / "program.log").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)

    def ended():
        (tmp_path / "go").touch()
        stderr = process.communicate(timeout=60)[1]
        return process.returncode, stderr

    yield ended
    process.kill()
    process.communicate()


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "force"])
def test_a_folder_that_is_recorded_into_is_never_replaced(recording, tmp_path, force):
    second = gpuprof("record", "--recorder", "none", *force, "-o", "run", "train.py", cwd=tmp_path)
    status, _ = recording()

    reason = "another recording writes into run" if force else "run exists already"
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"Error: {reason}\n")
    assert status == 0
    assert read_manifest(tmp_path / "run").exit_status == 0


def test_repeats_are_not_replaced_while_they_are_recorded(tmp_path):
    folder = tmp_path / "runs"
    make_folder(folder, force=False)
    (folder / "run-1").mkdir()
    (folder / "run-1" / UNFINISHED).touch()

    with claimed(folder), pytest.raises(OutputError, match="another recording writes into"):
        check_folder(folder, force=True)
    check_folder(folder, force=True)


def test_a_folder_that_was_removed_is_told(recording, tmp_path):
    shutil.rmtree(tmp_path / "run")
    status, stderr = recording()

    assert status == 1
    assert stderr.splitlines()[-2:] == [
        "Error: run was removed while it was recorded into; nothing of the run is left",
        "Hint: Record again, and leave the folder alone until the end.",
    ]
    assert not (tmp_path / "run").exists()


def test_what_stands_in_the_place_of_a_removed_folder_is_left_alone(recording, tmp_path):
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("keep")
    status, stderr = recording()

    assert status == 1
    assert "run was removed while it was recorded into" in stderr
    assert (tmp_path / "run" / "mine").read_text() == "keep"
    assert not is_run(tmp_path / "run")


def test_a_link_to_a_folder_of_a_run_keeps_leading_to_it(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / UNFINISHED).touch()
    (tmp_path / "link").symlink_to("place")

    make_folder(tmp_path / "link", force=True)

    assert (tmp_path / "link").is_symlink()
    assert not any((tmp_path / "place").iterdir())


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_another_recording_has_just_made_is_not_shared(tmp_path, force):
    check_folder(tmp_path / "run", force=force)
    make_folder(tmp_path / "run", force=force)

    with claimed(tmp_path / "run"), pytest.raises(OutputError):
        make_folder(tmp_path / "run", force=force)
