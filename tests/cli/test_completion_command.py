"""`gpuprof completion`: the shell's code, and what it completes."""

import os
import shutil
import subprocess
import sys

import pytest
from commands import ROOT, gpuprof


def completed(*words, cwd=ROOT):
    """What bash is offered for the last word: kind and text of each."""
    env = {
        "PYTHONPATH": str(ROOT),
        "_GPUPROF_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["gpuprof", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gpuprof"],
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["rep"], ["plain,report"], id="command"),
        pytest.param(["report", "--per"], ["plain,--per-step"], id="option"),
        pytest.param(["report", "--table", "fin"], ["plain,findings"], id="table"),
        pytest.param(["report", "--chart", "mat"], ["plain,matrix="], id="chart-of-report"),
        pytest.param(["plot", "wat"], ["plain,waterfall"], id="chart"),
        pytest.param(["help", "gl"], ["plain,glossary"], id="topic"),
        pytest.param(["compare", "README"], ["file,README"], id="file"),
    ],
)
def test_names_are_completed(words, expected):
    assert completed(*words) == expected


def test_folders_of_runs_are_completed(tmp_path):
    for folder in ("gpuprof-runs/dual", "gpuprof-runs/single", "gpuprof-sweeps/train"):
        (tmp_path / folder).mkdir(parents=True)

    assert completed("report", "gpuprof-", cwd=tmp_path) == [
        "plain,gpuprof-runs/dual",
        "plain,gpuprof-runs/single",
        "plain,gpuprof-sweeps/train",
    ]
    assert completed("compare", "gpuprof-runs/d", cwd=tmp_path) == ["plain,gpuprof-runs/dual"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_of_a_shell_calls_gpuprof(shell):
    if shell == "bash" and not shutil.which("bash"):
        pytest.skip("no bash on PATH")
    done = gpuprof("completion", shell)

    assert (done.returncode, done.stderr) == (0, "")
    assert f"_GPUPROF_COMPLETE={shell}_complete" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-c", done.stdout], check=True, timeout=60)
