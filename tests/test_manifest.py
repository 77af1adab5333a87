"""The manifest is whole or not there, and says nothing of the environment."""

import json
from dataclasses import replace

import pytest

from gpuprof.base.errors import CorruptFileError, InputError
from gpuprof.base.manifest import (
    MANIFEST,
    UNFINISHED,
    Manifest,
    begin_manifest,
    finish_manifest,
    is_run,
    read_manifest,
)

RUN = Manifest(
    recorder="nsys",
    variant="dual",
    command=("python", "train.py", "--epochs", "5"),
    started_at="2026-01-02T03:04:05+00:00",
)


def test_manifest_reads_back_as_written(tmp_path):
    ended = replace(
        RUN,
        wall_seconds=1.5,
        exit_status=7,
        recordings=("nsys.sqlite",),
        versions={"nsys": "2023.4.4"},
        epochs=({"epoch": 0, "seconds": 1.25, "steps": None},),
        seconds_per_epoch=1.25,
        warnings=("A sentence.",),
    )
    finish_manifest(tmp_path, ended)

    assert read_manifest(tmp_path) == ended
    assert not (tmp_path / UNFINISHED).exists()


def test_keys_are_those_that_are_documented():
    assert list(json.loads(RUN.to_json())) == [
        "format",
        "format_version",
        "recorder",
        "variant",
        "command",
        "started_at",
        "wall_seconds",
        "exit_status",
        "recordings",
        "nothing_recorded",
        "versions",
        "packages",
        "environment",
        "git",
        "devices",
        "epochs",
        "processes",
        "seconds_per_epoch",
        "seconds_per_step",
        "warnings",
    ]


def test_unfinished_run_is_refused_and_says_so(tmp_path):
    begin_manifest(tmp_path, RUN)

    assert is_run(tmp_path)
    with pytest.raises(InputError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == f"{tmp_path}: the recording did not finish"


def test_what_is_no_run_is_not_called_unfinished(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()

    for name in ("file", "folder", "nothing"):
        with pytest.raises(InputError) as caught:
            read_manifest(tmp_path / name)
        assert caught.value.message == f"{tmp_path / name} is not a run folder"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": "gpuprof-run"}', RUN.to_json().replace("[]", "5")],
    ids=["empty", "cut-off", "list", "null", "keys-missing", "number-for-a-list"],
)
def test_file_that_is_no_manifest_is_refused(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text)

    with pytest.raises(CorruptFileError, match="is not the manifest of a run"):
        read_manifest(tmp_path)


def test_manifest_of_another_format_is_refused(tmp_path):
    (tmp_path / MANIFEST).write_text(RUN.to_json().replace("gpuprof-run", "sweep"))

    with pytest.raises(CorruptFileError) as caught:
        read_manifest(tmp_path)
    assert caught.value.message == (
        f'{tmp_path / MANIFEST}: expected the format "gpuprof-run", found "sweep"'
    )


def test_keys_of_a_newer_version_are_passed_over(tmp_path):
    newer = {**json.loads(RUN.to_json()), "colour": "blue"}
    (tmp_path / MANIFEST).write_text(json.dumps(newer))

    assert read_manifest(tmp_path) == RUN


def test_manifest_that_cannot_be_written_leaves_no_run(tmp_path, monkeypatch):
    begin_manifest(tmp_path, RUN)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpuprof.base.manifest.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        finish_manifest(tmp_path, RUN)
    assert not (tmp_path / MANIFEST).exists()
