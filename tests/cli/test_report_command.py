import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import CORPUS, DUAL, EXAGGERATED, ROOT, SINGLE, gpuprof, python, started

from gpuprof.cli import main


def test_a_report_is_printed():
    done = gpuprof("report", EXAGGERATED)

    assert (done.returncode, done.stderr) == (0, "")
    assert "between devices 94,774 13.070 s" in " ".join(done.stdout.split())
    assert "rows listed 13.1 s, implied total 53.3 s" in done.stdout


def test_json_has_the_documented_keys():
    done = gpuprof("report", EXAGGERATED, "--format", "json")

    document = json.loads(done.stdout)
    assert list(document) == ["format_version", "origin", "tables", "notes"]
    assert document["format_version"] == 1
    assert document["origin"]["source"] == EXAGGERATED
    assert document["tables"]["breakdown"] is None


def test_a_report_goes_into_a_file(tmp_path):
    out = tmp_path / "report.md"

    done = gpuprof("report", DUAL, "--format", "markdown", "-o", out)

    assert (done.stdout, done.stderr) == ("", "")
    assert out.read_text().startswith("# ")


def test_kernels_bear_short_names_unless_full_ones_are_asked_for(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("100.00%  7.5ms  10  750us  700us  800us  void a::fill<half>(half*, int=4)\n")

    short, full = (gpuprof("report", path, *o).stdout for o in ([], ["--full-names"]))
    rows = json.loads(gpuprof("report", path, "--format", "json").stdout)["tables"][
        "top_activities"
    ]

    assert [line.split()[-1] for line in short.splitlines() if "7.500 ms" in line][-1] == "fill"
    assert "void a::fill<half>(half*, int=4)" in full
    page = tmp_path / "page.html"
    gpuprof("report", path, "--full-names", "--html", page)
    assert "void a::fill&lt;half&gt;" in page.read_text()
    assert [(row["name"], row["short_name"]) for row in rows] == [
        ("void a::fill<half>(half*, int=4)", "fill")
    ]


RUNS = "".join(
    f"==7{number}== NVPROF is profiling process 7{number}, command: ./a.out {number}\n"
    f"==7{number}== Profiling result:\n"
    "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    f"100.00%  {number}.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy PtoP]\n"
    for number in (1, 2)
)


def test_runs_of_one_log_are_not_added_up_unless_asked_for(tmp_path):
    log = tmp_path / "runs.log"
    log.write_text(RUNS, encoding="utf-8")

    refused = gpuprof("report", log)
    one = gpuprof("report", log, "--section", "2", "--format", "csv")
    every = gpuprof("report", log, "--section", "all", "--format", "csv")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"Error: {log} holds 2 recordings, which are not added up\n"
        "Hint: Name one with --section: 1 (./a.out 1, process 71, 1.00 ms of GPU time), "
        "2 (./a.out 2, process 72, 2.00 ms of GPU time) or all.\n"
    )
    assert "PtoP,peer_transfers,1,2000000," in one.stdout
    assert "PtoP,peer_transfers,2,3000000," in every.stdout


@pytest.mark.parametrize(
    ("command", "output"),
    [
        pytest.param(("convert",), ("-o", "run.gpuprof"), id="convert"),
        pytest.param(("baseline", "save", "main"), (), id="baseline"),
    ],
)
def test_commands_of_one_recording_take_a_section(tmp_path, command, output):
    log = tmp_path / "runs.log"
    log.write_text(RUNS, encoding="utf-8")

    refused = gpuprof(*command, log, *output, cwd=tmp_path)
    done = gpuprof(*command, log, *output, "--section", "72", cwd=tmp_path)

    assert (refused.returncode, done.returncode) == (1, 0)
    assert "Name one with --section" in refused.stderr


@pytest.mark.parametrize("command", ["view", "slice", "export", "plot"])
def test_commands_that_need_a_trace_take_a_section(command):
    done = gpuprof(command, "--help")

    assert "--section N" in done.stdout


def test_tables_are_listed_with_what_they_need():
    done = gpuprof("report", "--list")

    assert "breakdown" in done.stdout
    assert "Needs kernels and memcpys" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_standard_output_is_an_error_in_one_line():
    with Path("/dev/full").open("w") as full:
        done = gpuprof("report", DUAL, stdout=full)

    assert done.returncode == 1
    assert done.stderr == "Error: standard output cannot be written: No space left on device\n"


def test_a_reader_of_a_pipe_may_leave_early():
    text = f"{sys.executable} -m gpuprof report {DUAL} --all | head -1"

    command = ["bash", "-o", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["report", "--help"],
        ["help", "report"],
        ["formats"],
        ["monitor", "--count", "9"],
    ],
)
def test_a_closed_pipe_is_no_error_of_any_command(words):
    if words[0] == "monitor":
        pytest.importorskip("psutil")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "gpuprof", *words],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


def test_no_colour_and_80_columns_without_a_terminal():
    done = gpuprof("report", DUAL)

    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.replace(DUAL, "").splitlines())) <= 80


def test_pipes_get_utf_8_in_every_locale(tmp_path):
    path = tmp_path / "für.txt"
    path.write_bytes(Path(DUAL).read_bytes())

    words = ("-m", "gpuprof", "report", path.name, "--format", "json")
    done = python(*words, cwd=tmp_path, PYTHONIOENCODING="ascii")

    assert json.loads(done.stdout)["origin"]["source"] == "für.txt"


class Screen(io.TextIOWrapper):
    def isatty(self):
        return True


def test_a_terminal_without_the_micro_sign_gets_us(tmp_path, monkeypatch):
    # The folder's path may be too long for one line of the terminal.
    (tmp_path / "für.txt").write_bytes(Path(EXAGGERATED).read_bytes())
    monkeypatch.chdir(tmp_path)
    screen = Screen(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", Screen(io.BytesIO(), "ascii"))

    with pytest.raises(SystemExit):
        main(["report", "für.txt"])

    text = screen.buffer.getvalue().decode("ascii")
    assert "137.9 us" in text
    assert "f\\xfcr.txt" in text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_a_name_that_is_no_utf_8_is_spelled_out_in_every_output(tmp_path):
    path = tmp_path / os.fsdecode(b"f\xfcr.txt")
    path.write_bytes(Path(DUAL).read_bytes())
    outputs = [tmp_path / name for name in ("r.json", "r.html", "c.svg", "c.gpuprof")]

    reported = gpuprof("report", path, "--format", "json", "-o", outputs[0], "--html", outputs[1])
    compared = gpuprof("compare", SINGLE, path, "--chart", outputs[2])
    converted = gpuprof("convert", path, "-o", outputs[3])

    assert [reported.stderr, compared.stderr, converted.stderr] == ["", "", ""]
    assert json.loads(outputs[0].read_text())["origin"]["source"] == str(path)
    assert r"f\udcfcr takes" in compared.stdout.replace("\n", " ")
    assert all(output.is_file() for output in outputs)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_ends_with_its_status(tmp_path):
    fifo = tmp_path / "slow.txt"
    os.mkfifo(fifo)
    process = started("report", fifo)
    writer = os.open(fifo, os.O_WRONLY)  # Opens once the command reads.
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    os.close(writer)

    assert process.returncode == 130
    assert errors.strip() == "Error: stopped by Ctrl-C"


@pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of real logs is not beside this repository"
)
def test_a_full_log_is_reported_on_one_screen():
    done = gpuprof("report", CORPUS / "nvprof-text" / "dlprof_dual_gpu_bad_placement_profile.txt")

    assert done.returncode == 0
    assert done.stdout.count("\n") <= 40
    assert "53.275 s" in done.stdout


@pytest.mark.parametrize(
    ("command", "named"),
    [
        pytest.param(["report", DUAL, "-o", "one.html", "--html", "./one.html"], "one.html"),
        pytest.param(["compare", SINGLE, DUAL, "--chart", "a.svg", "--html", "a.svg"], "a.svg"),
        pytest.param(
            ["compare", SINGLE, DUAL, "--chart", "a.svg", "--chart", "a.png", "--chart-data=csv"],
            "a.csv",
        ),
        pytest.param(
            ["compare", SINGLE, DUAL, "-o", "x", "--junit", "x", "--fail-if", "span_ns > 1"], "x"
        ),
    ],
)
def test_two_outputs_of_one_name_are_refused_before_anything_is_written(command, named, tmp_path):
    done = gpuprof(*command, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"Error: {named} is given for two outputs" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_device_may_take_several_outputs():
    done = gpuprof("report", DUAL, "-o", os.devnull, "--html", os.devnull)

    assert (done.returncode, done.stderr) == (0, "")
