"""Devices, pipes, sockets and links in the place of files: read, refused or replaced."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, SINGLE, gpuprof
from cupti_folder import at
from cupti_folder import write as write_cupti

HINT = "Hint: Give a file, or - for standard input.\n"

pytestmark = pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero here")


@pytest.fixture
def linked(tmp_path):
    """A link to a device that never ends, of any name."""

    def link(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to("/dev/zero")
        return path

    return link


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null", "/dev/urandom"])
def test_a_device_is_no_recording(device):
    done = gpuprof("report", device)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {device} is a device, and no file\n{HINT}"


@pytest.mark.parametrize(
    "words",
    [
        ["report", "FILE", "--reader", "nvprof-text"],
        ["compare", SINGLE, "FILE"],
        ["convert", "FILE", "-o", "x.gpuprof"],
        ["plot", "timeline", "FILE", "-o", "x.svg"],
        ["sweep", "FILE"],
    ],
    ids=lambda words: words[0],
)
def test_a_link_to_a_device_is_none_either(tmp_path, linked, words):
    path = linked("x.toml")

    done = gpuprof(*(path if word == "FILE" else word for word in words), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {path} is a device, and no file\n{HINT}"


def test_devices_among_the_files_of_a_folder_are_left_out(tmp_path, linked):
    linked("ranks/a.txt")
    shutil.copy(SINGLE, tmp_path / "ranks" / "b.txt")

    done = gpuprof("report", tmp_path / "ranks")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_socket_is_no_recording_and_no_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        read = gpuprof("report", "s", cwd=tmp_path)
        written = gpuprof("report", SINGLE, "-o", "s", cwd=tmp_path)

    assert read.stderr == f"Error: s is a socket, and no file\n{HINT}"
    assert written.stderr == "Error: s is a socket\nHint: Give a file name.\n"


@pytest.mark.parametrize("name", ["process.json", "kernels.parquet", "texts.parquet"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_parts_of_a_folder_that_never_end_are_not_read(tmp_path, name, kind):
    folder = write_cupti(tmp_path / "cupti-42", kernels=[at(0, 9)])
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")

    done = gpuprof("report", folder)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["named pipe", "standard input", "/dev/stdin", "substitution"])
def test_a_pipe_is_read_to_its_end(tmp_path, place):
    """Who looks at a pipe's head before it is read takes that from who reads it."""
    report = f"{sys.executable} -m gpuprof report"
    os.mkfifo(tmp_path / "pipe")
    command = {
        "named pipe": f"cat {SINGLE} > {tmp_path / 'pipe'} & {report} {tmp_path / 'pipe'}",
        "standard input": f"cat {SINGLE} | {report} -",
        "/dev/stdin": f"cat {SINGLE} | {report} /dev/stdin",
        "substitution": f"{report} <(cat {SINGLE})",
    }[place]

    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "6.92" in done.stdout


def test_links_that_lead_in_a_circle_are_told(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    read = gpuprof("report", "a", cwd=tmp_path)
    written = gpuprof("report", SINGLE, "-o", "a", "--page", "b", cwd=tmp_path)

    assert read.stderr == "Error: a cannot be read: Too many levels of symbolic links\n"
    assert "Traceback" not in written.stderr


def test_a_link_that_is_written_to_is_replaced_and_what_it_names_is_not(tmp_path):
    named, link = tmp_path / "named", tmp_path / "link"
    named.write_text("mine")
    link.symlink_to(named)

    done = gpuprof("report", SINGLE, "-o", link, "--force")

    assert (done.returncode, done.stderr) == (0, "")
    assert named.read_text() == "mine"
    assert not link.is_symlink()


@pytest.mark.parametrize("command", ["report", "convert"])
def test_a_full_device_is_told(command):
    done = gpuprof(command, SINGLE, "-o", "/dev/full")

    assert done.stderr == "Error: /dev/full cannot be written: No space left on device\n"
