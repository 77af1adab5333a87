"""What cannot be done is said in two lines at most, with its status, and nothing is written."""

import json
import os
import random
import shlex
import shutil
import sys

import pytest
from commands import DUAL, ROOT, SINGLE, gpuprof

from gpuprof.cli import main

HEADER = b"==1== NVPROF is profiling process 1, command: ./a\n"
EMPTY = b"==1== Profiling application: ./a\n==1== Profiling result:\nNo kernels were profiled.\n"
FILES = {
    "empty.txt": b"",
    "noise.bin": random.Random(1).randbytes(100_000),  # noqa: S311 - noise, not a secret
    "paper.pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type /Catalog>>\nendobj\n",
    "notes.txt": b"hello\n" * 9,
    "killed.txt": HEADER,
    "idle.txt": HEADER + EMPTY + b"No API activities were profiled.\n",
    "trace.json": json.dumps({
        "schemaVersion": 1,
        "traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1_000, "dur": 5}
            | {"args": {"device": 0, "context": 1, "stream": 7, "correlation": 1}},
            {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1}
            | {"ts": 1_010, "dur": 10, "args": {}},
        ],
    }).encode(),
}  # fmt: skip
STAGED = ROOT / "gpuprof" / "docs" / "recordings" / "staged.gpuprof"
TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"
OLD = ROOT / "sample_logs" / "tensorflow" / "2.21.0" / "deepconn-dual.json"
NO_TIME = 'expected a number with a unit, found "ten"; write a time as 10m, 1.5s, 20ms or 300us'
NO_LAUNCHES = (
    'Error: trace.json: what NVTX range "step" launched is not known: no launches were recorded\n'
    "Hint: On the host it runs from 10000ns to 20000ns."
)
# Words -> exit status and what is said.
REFUSED = {
    "report none": (1, "none: no such file"),
    f"report {'n' * 300}": (1, f"Error: {'n' * 300}: File name too long"),
    f"compare dual.txt {'n' * 300}": (1, f"Error: {'n' * 300}"),
    f"report dual.txt -o {'n' * 300}": (1, f"Error: {'n' * 300}: File name too long"),
    "report none.txt lost.txt": (1, "Error: none.txt: no such file"),
    "report empty.txt": (1, "empty.txt is empty"),
    "report noise.bin": (1, "noise.bin is in no known format"),
    "report paper.pdf": (1, "paper.pdf is in no known format"),
    "report notes.txt": (1, "notes.txt is in no known format"),
    "report killed.txt": (1, "killed.txt"),
    "report idle.txt": (1, "idle.txt: nvprof recorded no kernels"),
    "report folder": (1, "no recording is in it"),
    "report dual.txt --nonsense": (2, "No such option"),
    "report dual.txt --format xml": (2, "'xml' is not one of"),
    "report dual.txt --table total": (2, "there is no table total"),
    "report --wide": (2, "Missing argument 'FILE...'"),
    "report dual.txt --reader nothing": (1, "there is no format nothing"),
    "report none -o no/out.txt": (1, "there is no folder"),
    "report single.txt dual.txt --section 1": (
        *(2, "Error: section 1 is asked for of several files, which are one recording\n"),
    ),
    "report dual.txt --chart variants=a.png": (
        *(2, "chart variants shows a comparison, not a recording"),
    ),
    "reprot dual.txt": (2, "Error: No such command 'reprot'. Did you mean report"),
    "compare single.txt dual.txt --label a": (2, "a is not of the form NAME=VALUE"),
    "compare single.txt --label a=": (2, "a= is not of the form NAME=VALUE"),
    "compare single.txt dual.txt --epoch-seconds x=1": (2, "has the label x"),
    "compare single.txt dual.txt --epoch-seconds dual=fast": (2, "'fast' is not a valid float"),
    "compare single.txt dual.txt --chart a.gif": (2, "a.gif does not end in"),
    "compare single.txt dual.txt --nonsense": (2, "No such option"),
    "compare single.txt none.txt": (1, "Error: none.txt: no such file"),
    "compare single.txt --label lr=0.001=none.txt": (1, "Error: none.txt: no such file"),
    "compare single.txt --label b=no/lr=0.1/x.txt": (1, "Error: no/lr=0.1/x.txt: no such file"),
    "compare single.txt notes.txt": (1, "notes.txt is in no known format"),
    "plot matrix x.txt": (2, "plot needs a CHART, a FILE and -o"),
    "plot matrx dual.txt -o a.png": (2, "there is no chart matrx"),
    "plot matrix dual.txt -o a.gif": (2, "does not end in .png"),
    "plot matrix dual.txt -o -": (2, "- does not end in .png"),
    "plot matrix dual.txt -o a.png": (1, "recording has no peer_matrix"),
    "plot variants dual.txt -o a.png": (2, "needs two"),
    "plot matrix --label a=dual.txt -o a.png": (
        *(2, "--label does not apply to matrix, a chart of a recording"),
    ),
    "plot variants dual.txt single.txt --device 0 -o a.png": (
        *(2, "--device does not apply to variants, a chart of a comparison"),
    ),
    "plot batch dual.txt --skip-steps 0 -o a.png": (
        *(2, "--skip-steps does not apply to batch, a chart of a sweep"),
    ),
    "plot variants dual.txt single.txt --workers 2 -o a.png": (2, "--workers does not apply to"),
    "plot variants dual.txt single.txt --baseline other -o a.png": (
        *(2, "no recording has the label other"),
    ),
    "slice trace.json -o x.gpuprof": (2, "Say which part: --from, --to, --range or --device."),
    "slice trace.json --range step -o x.gpuprof": (1, NO_LAUNCHES),
    "slice trace.json --from 1s --occurrence 1 -o x.gpuprof": (
        *(2, "--occurrence says which --range is meant, and none is given"),
    ),
    "slice trace.json --from ten -o x.gpuprof": (2, NO_TIME),
    "slice trace.json --from 2us --to 1us -o x.gpuprof": (
        *(2, "Error: the window is empty: --from 2.000 µs is not before --to 1.000 µs"),
    ),
    "convert none.json -o x.gpuprof": (1, "Error: none.json: no such file"),
    "convert trace.json -o -": (1, "a gpuprof file cannot go to standard output"),
    "query dual.txt": (2, "Error: query needs a FILE and a SELECT.\nHint: See `gpuprof query --h"),
    "predict dual.txt --what link=nvlink2": (
        *(1, "has no times of kernels and copies: nothing can be replayed\nHint: Record with"),
    ),
    f"predict {TRACE} --what faster": (
        *(2, "Error: there is no change faster\nHint: See `gpuprof predict --help` for the list"),
    ),
    "place trace.json --chart step.svg": (
        *(2, "Error: --chart plots the time of a step: it needs --gpus"),
    ),
    "place dual.txt": (1, "has no graph of a training step (read as nvprof-text)"),
    f"place {OLD}": (1, "was made before gpuprof recorded graphs of a step"),
    "view none.txt": (1, "none.txt: no such file\n"),
    "cache clear --older-than -1": (2, "-1.0 is not in the range x>=0"),
    "monitor --count 0": (2, "0 is not in the range x>=1"),
    "record --timeout ten a.py": (2, NO_TIME),
    "record --epochs 4:2 a.py": (
        *(2, "'4:2' is an empty range of epochs; give it as 2:4 for epochs 2 and 3, or as 2"),
    ),
    "report dual.txt --memory-limit much": (2, "write a size as 2GB or 500MB"),
    "sweep --grid batch -- a.py": (
        *(2, "Error: Invalid value for '--grid': batch is not of the form NAME=VALUE\nHint: See `"),
    ),
    "sweep -- a.py": (
        2,
        "Error: the sweep has no grid\nHint: Give a sweep.toml, or axes: --grid b",
    ),
    "sweep --grid a=1 --grid a=2 -- a.py {a}": (
        *(2, "Error: --grid a is given twice\nHint: Give all its values in one option: --grid a="),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    for path in (SINGLE, DUAL):
        shutil.copy(path, folder)
    (folder / "folder").mkdir()
    return folder


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_done_is_said_in_two_lines_and_nothing_is_written(folder, words):
    status, message = REFUSED[words]
    before = sorted(folder.rglob("*"))

    done = gpuprof(*shlex.split(words), cwd=folder)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_whose_name_is_not_utf_8_is_reported_or_refused_by_its_name(tmp_path):
    shutil.copy(STAGED, os.fsencode(tmp_path) + b"/lat\xfcn.gpuprof")
    (tmp_path / os.fsdecode(b"d\xfcr")).mkdir()

    reported = gpuprof("report", "lat\udcfcn.gpuprof", cwd=tmp_path)
    folder = gpuprof("convert", STAGED, "-o", "d\udcfcr/x.gpuprof/", cwd=tmp_path)

    assert reported.returncode == 0
    assert reported.stdout.startswith("lat\\udcfcn.gpuprof: drawn")
    assert folder.returncode == 1
    assert folder.stderr.startswith("Error: a name is not in UTF-8: ..d\\udcfcr/")
    assert folder.stderr.endswith("\nHint: Rename the file or the folder.\n")


@pytest.mark.parametrize("words", ["compare notes.txt notes.txt", "pack folder"])
def test_a_path_that_may_not_be_read_is_no_fault_of_the_command_line(folder, words, monkeypatch):
    """Root may read all; what may be read is asked for by this function."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SystemExit) as ended:
        main(words.split())

    assert ended.value.code == 1


def test_without_arguments_a_command_shows_its_help():
    done = gpuprof("report")

    assert done.returncode == 2
    assert done.stderr.startswith("Usage: gpuprof report [OPTIONS] FILE...")


@pytest.mark.parametrize("command", ["convert", "slice --from 0s"])
@pytest.mark.parametrize(
    ("end", "form"), {"parquet": "parquet", "csv": "csv", "et": "chakra"}.items()
)
def test_a_file_of_another_format_is_not_written_under_its_name(folder, command, end, form):
    done = gpuprof(*command.split(), "trace.json", "-o", f"run.{end}", cwd=folder)

    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: run.{end} ends in .{end}, but this command")
    assert f"`gpuprof export FILE --to {form}`" in done.stderr
    assert not (folder / f"run.{end}").exists()
