"""``gpuprof convert``; and what is read is never replaced, by no command."""

import json

import commands
import pytest

from gpuprof.readers import read_profile

TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {
            "ph": "X",
            "cat": "kernel",
            "name": f"k{start}",
            "pid": 0,
            "tid": 7,
            "ts": 1_000 + start,
            "dur": 5,
            "args": {"device": 0, "context": 1, "stream": 7, "correlation": start},
        }
        for start in (0, 10, 20)
    ]
    + [
        {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1}
        | {"ts": 1_010, "dur": 10, "args": {}}
    ],
}


def gpuprof(*words, folder, status=0):
    done = commands.gpuprof(*words, cwd=folder)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(TRACE), encoding="utf-8")
    return tmp_path


def kernels(folder, name):
    return read_profile(folder / name).table("kernels").column("name").to_pylist()


def test_a_converted_recording_says_what_the_original_says(folder):
    gpuprof("convert", "trace.json", "-o", "run.gpuprof", folder=folder)
    reports = [
        json.loads(gpuprof("report", name, "--format", "json", folder=folder).stdout)["tables"]
        for name in ("trace.json", "run.gpuprof")
    ]

    assert reports[0] == reports[1]
    assert kernels(folder, "run.gpuprof") == ["k0", "k10", "k20"]


def test_an_output_that_exists_is_replaced_only_when_told(folder):
    (folder / "out.gpuprof").write_text("mine", encoding="utf-8")
    refused = gpuprof("convert", "trace.json", "-o", "out.gpuprof", folder=folder, status=1)

    assert "out.gpuprof exists already" in refused.stderr
    assert (folder / "out.gpuprof").read_text(encoding="utf-8") == "mine"
    gpuprof("convert", "trace.json", "-o", "out.gpuprof", "--force", folder=folder)
    assert kernels(folder, "out.gpuprof") == ["k0", "k10", "k20"]


COMMANDS = [
    *(
        f"{command} {given} -o trace.json"
        for command in ("convert", "slice --from 1us", "report", "compare trace.json")
        for given in ("trace.json", "./trace.json", "trace.*")
    ),
    "report trace.json --html trace.json",
    "report trace.json --chart trace.png --chart-data json",
    "plot timeline trace.json -o trace.svg --chart-data json",
    "export trace.json --format perfetto -o trace.json",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_recording_that_is_read_is_never_replaced(folder, command):
    before = (folder / "trace.json").read_bytes()

    done = gpuprof(*command.split(), "--force", folder=folder, status=1)

    assert done.stderr == (
        "Error: trace.json is an input of this command and is never replaced\n"
        "Hint: Give the output another name.\n"
    )
    assert (folder / "trace.json").read_bytes() == before


def test_a_folder_may_have_the_name_of_another_format(folder):
    gpuprof("convert", "trace.json", "-o", "run.parquet/", folder=folder)

    assert kernels(folder, "run.parquet") == ["k0", "k10", "k20"]
