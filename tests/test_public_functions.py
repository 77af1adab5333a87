"""What the public functions take: paths of any kind and recordings; what they refuse, and how."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from commands import ROOT

import gpuprof
from gpuprof.base.manifest import MARKS, RUN_DIR_VARIABLE

SINGLE = ROOT / "sample_logs" / "nvprof" / "published" / "single.txt"
DUAL_LOG = SINGLE.with_name("dual.txt")


class _Entry:
    """A path of another library, as `os.scandir` gives them."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return str(self.path)


FORMS = {
    "text": str,
    "path": Path,
    "path-like": _Entry,
    "list-of-one": lambda path: [str(path)],
    "recording": gpuprof.read_profile,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_recording_is_read_from_any_form_of_it(form):
    profile = gpuprof.read_profile(form(SINGLE))

    assert (profile.origin.source, profile.origin.reader) == (SINGLE, "nvprof-text")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_report_is_made_of_any_form_of_a_recording(form):
    result = gpuprof.report(form(SINGLE), ["totals"])

    assert result.origin.source == SINGLE
    assert len(result.tables["totals"]) > 0


@pytest.mark.parametrize("name", ["text", "path", "path-like", "recording"])
def test_a_comparison_is_made_of_any_form_of_recordings_with_and_without_labels(name):
    form = FORMS[name]

    result = gpuprof.compare([form(SINGLE), ("two", form(DUAL_LOG))])

    assert list(result.variants.index) == ["single", "two"]


def test_a_report_of_several_files_is_that_of_all_their_processes(tmp_path):
    paths = [tmp_path / f"rank{number}.txt" for number in (0, 1)]
    for path in paths:
        path.write_bytes(SINGLE.read_bytes())

    (source,) = {gpuprof.report(given).origin.source for given in (paths, tmp_path)}

    assert source == tmp_path


REFUSED = {
    "read-none": (
        lambda: gpuprof.read_profile(None),
        "a recording is a path, several paths or a Profile, not NoneType",
    ),
    "report-number": (
        lambda: gpuprof.report(7),
        "a recording is a path, several paths or a Profile, not int",
    ),
    "report-bytes": (
        lambda: gpuprof.report(bytes(SINGLE)),
        "a recording is a path, several paths or a Profile, not bytes",
    ),
    "read-list": (
        lambda: gpuprof.read_profile([SINGLE, 3]),
        "a path is text or a path object, not int",
    ),
    "report-name": (
        lambda: gpuprof.report(SINGLE, "totals"),
        'table names must be a list, as in ["totals"]',
    ),
    "report-names": (lambda: gpuprof.report(SINGLE, [1]), "a table name must be text, not int"),
    "compare-number": (
        lambda: gpuprof.compare([SINGLE, 5]),
        "a recording must be a path, a Profile or (label, path or Profile), not int",
    ),
    "compare-triple": (
        lambda: gpuprof.compare([SINGLE, ("a", "b", "c")]),
        "a recording must be a path, a Profile or (label, path or Profile), not tuple",
    ),
    "compare-label": (
        lambda: gpuprof.compare([SINGLE, (1, DUAL_LOG)]),
        "a recording must be a path, a Profile or (label, path or Profile), not tuple",
    ),
    "compare-baseline": (
        lambda: gpuprof.compare([SINGLE, DUAL_LOG], baseline=1),
        "the baseline must be a label, not int",
    ),
    "compare-seconds": (
        lambda: gpuprof.compare([SINGLE, DUAL_LOG], epoch_seconds={"single": "20"}),
        "epoch seconds of single must be a number, not str",
    ),
    "compare-seconds-list": (
        lambda: gpuprof.compare([SINGLE, DUAL_LOG], epoch_seconds=[20, 22]),
        "epoch_seconds must map labels to seconds, not be list",
    ),
    "epoch": (
        lambda: gpuprof.epoch("first").__enter__(),
        "the number of an epoch or step must be an integer, not str",
    ),
    "step": (
        lambda: gpuprof.step(1.5).__enter__(),
        "the number of an epoch or step must be an integer, not float",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_arguments_of_other_types_are_refused_by_name(call, message):
    with pytest.raises(TypeError) as caught:
        call()

    assert str(caught.value) == message


@pytest.mark.parametrize("call", [gpuprof.read_profile, gpuprof.report], ids=["read", "report"])
def test_a_file_that_is_not_there_is_said_to_be_missing(call):
    with pytest.raises(gpuprof.GpuprofError, match=r"^nowhere\.sqlite: no such file$"):
        call("nowhere.sqlite")


def test_whole_numbers_of_other_libraries_number_epochs(tmp_path, monkeypatch):
    monkeypatch.setenv(RUN_DIR_VARIABLE, os.fspath(tmp_path))

    with gpuprof.epoch(np.int64(3)), gpuprof.step(np.int32(0)):
        pass

    (mark,) = (tmp_path / MARKS).read_text(encoding="utf-8").splitlines()
    assert json.loads(mark)["epoch"] == 3
