import os
from pathlib import Path

import pytest

from gpuprof.base.errors import OutputError
from gpuprof.show.output import prepare


def _refusal(path, **options):
    with pytest.raises(OutputError) as caught:
        prepare(str(path), **options)
    return caught.value.message


def test_a_text_is_written(tmp_path):
    prepare(str(tmp_path / "a.txt")).write_text("done\n")

    assert (tmp_path / "a.txt").read_text() == "done\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_missing_folder_is_found_before_the_work(tmp_path):
    path = tmp_path / "none" / "a.txt"

    assert _refusal(path) == f"{path}: there is no folder {path.parent}"


def test_a_folder_is_no_file(tmp_path):
    assert _refusal(tmp_path) == f"{tmp_path} is a folder"


def test_what_exists_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("mine")

    assert _refusal(path) == f"{path} exists already"
    prepare(str(path), is_forced=True).write_text("new")
    assert path.read_text() == "new"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only folders")
def test_a_read_only_folder_is_found_before_the_work(tmp_path):
    tmp_path.chmod(0o500)

    assert "no permission" in _refusal(tmp_path / "a.txt")


def test_nothing_is_left_of_what_failed(tmp_path):
    path = tmp_path / "a.png"

    def fail(file):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"a.png cannot be written: No space left on device"):
        prepare(str(path)).save(fail)
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("mine")

    def fail(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError):
        prepare(str(path), is_forced=True).save(fail)
    assert path.read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error_in_words():
    with pytest.raises(OutputError, match=r"/dev/full cannot be written: No space left"):
        prepare("/dev/full").write_text("text")


def test_a_picture_cannot_go_to_standard_output():
    with pytest.raises(OutputError, match="a picture cannot go to standard output"):
        prepare("-").save(lambda _: None)


def test_a_written_file_has_the_usual_permissions(tmp_path):
    prepare(str(tmp_path / "a.txt")).write_text("")
    (tmp_path / "b.txt").touch()

    modes = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert modes["a.txt"] == modes["b.txt"]
