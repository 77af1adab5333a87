import re
import sys
from pathlib import Path

import pytest
from commands import DUAL, gpuprof

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="BROWSER is a POSIX habit")


def test_a_page_is_opened_in_the_browser_that_is_asked_for(tmp_path):
    done = gpuprof("view", DUAL, BROWSER="echo opened %s", TMPDIR=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    (page,) = tmp_path.glob("gpuprof-*/dual.html")
    assert done.stdout == f"opened {page.as_uri()}\n"
    assert "<h1>" in page.read_text()


def test_without_a_browser_the_page_s_path_is_printed(tmp_path):
    done = gpuprof("view", DUAL, BROWSER="", PATH="", DISPLAY="", TMPDIR=str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    found = re.fullmatch(r"(.*/gpuprof-.*/dual\.html)\n", done.stdout)
    assert Path(found[1]).is_file()


def test_what_cannot_be_read_makes_no_page(tmp_path):
    done = gpuprof("view", tmp_path / "none.txt", TMPDIR=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.endswith("none.txt: no such file\n")
    assert list(tmp_path.iterdir()) == []
