"""`gpuprof help`: pages in the terminal, the manual page."""

import os
import pty
import re
import shutil
import subprocess
import sys

import pytest
from commands import ROOT, gpuprof

from gpuprof.cli.commands import COMMANDS
from gpuprof.cli.help import TOPICS


def test_without_a_topic_the_pages_are_listed():
    done = gpuprof("help")

    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^  (\w+) +\S", done.stdout, re.MULTILINE) == [*TOPICS]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_is_shown_without_marks_of_markdown(topic):
    done = gpuprof("help", topic)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) > 3
    assert max(len(line) for line in lines if not line.startswith("    ")) <= 80
    assert not re.search(r"\]\(|<!--|```|^#", done.stdout, re.MULTILINE)


def test_code_is_not_cut_and_links_name_the_command_that_shows_their_page():
    text = gpuprof("help", "sweep").stdout

    assert " -- train.py --placement {placement} --batch {batch}\n" in text
    assert "formats (gpuprof help formats)" in " ".join(gpuprof("help", "report").stdout.split())


def test_a_command_stands_for_its_page():
    assert gpuprof("help", "plot").stdout == gpuprof("help", "show").stdout


def test_a_topic_that_is_not_there():
    done = gpuprof("help", "sweeps")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: there is no help on sweeps\nHint: Did you mean sweep?\n"
    assert "Hint: Topics: baseline, cache, changes, " in gpuprof("help", "xyzxyz").stderr


def test_on_a_terminal_a_page_opens_in_the_pager():
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "gpuprof", "help", "changes"],
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PAGER": "sed -n 1s/^/paged:/p", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        timeout=60,
        check=True,
    )
    os.close(theirs)

    assert os.read(ours, 10_000).startswith(b"paged:")


def test_the_manual_page_has_every_command_and_nothing_that_roff_complains_of():
    text = gpuprof("help", "--man").stdout

    assert text.startswith(".TH GPUPROF 1 ")
    assert all(f"\n.SS gpuprof {name} " in text for name in COMMANDS)
    assert "\n.SS gpuprof baseline save " in text
    assert "\n  gpuprof report train.txt\n" in text
    if groff := shutil.which("groff"):
        command = [groff, "-man", "-Tutf8", "-ww"]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
