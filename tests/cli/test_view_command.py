import re
import sys
from pathlib import Path

import pytest
from commands import DUAL, SINGLE, gpuprof

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="BROWSER is a POSIX habit")


def test_a_page_is_opened_in_the_browser_that_is_asked_for(tmp_path):
    done = gpuprof("view", DUAL, BROWSER="echo opened %s", GPUPROF_CACHE=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    (page,) = tmp_path.glob("page-*/dual.html")
    assert done.stdout == f"opened {page.as_uri()}\n"
    assert "<h1>" in page.read_text()


def test_pages_are_kept_once_listed_and_cleared(tmp_path):
    cache = {"BROWSER": "true", "GPUPROF_CACHE": str(tmp_path)}

    for recording in (DUAL, DUAL, SINGLE):
        assert gpuprof("view", recording, **cache).returncode == 0

    listed = gpuprof("cache", **cache).stdout.splitlines()
    assert [line.partition("page of ")[2] for line in listed[1:-1]] == [
        str(Path(recording).absolute()) for recording in (SINGLE, DUAL)
    ]
    assert gpuprof("cache", "clear", **cache).stdout.startswith("Removed 2 entries, ")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_kept_is_told(tmp_path):
    folder = tmp_path / "file"
    folder.touch()

    done = gpuprof("view", DUAL, GPUPROF_CACHE=str(folder))

    assert done.returncode == 1
    assert done.stderr.startswith("Error: the page of ")
    assert done.stderr.endswith(
        "dual.txt cannot be kept in the cache: File exists\n"
        "Hint: Name a folder with room for it in the environment variable GPUPROF_CACHE.\n"
    )


def test_without_a_browser_the_page_s_path_is_printed(tmp_path):
    done = gpuprof("view", DUAL, BROWSER="", PATH="", DISPLAY="", GPUPROF_CACHE=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    found = re.fullmatch(r"(.*/page-.*/dual\.html)\n", done.stdout)
    assert Path(found[1]).is_file()
