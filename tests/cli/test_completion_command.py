"""`gpuprof completion`: the shell's code, and what it completes."""

import os
import shutil
import subprocess
import sys

import pytest
from commands import ROOT, gpuprof, python


def completed(*words, cwd=ROOT):
    """What bash is offered for the last word: kind and text of each."""
    env = {
        "_GPUPROF_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["gpuprof", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return python("-m", "gpuprof", cwd=cwd, **env).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["report", "--chart", "mat"], ["plain,matrix="], id="chart-of-report"),
        pytest.param(["plot", "wat"], ["plain,waterfall"], id="chart"),
        pytest.param(["help", "gl"], ["plain,glossary"], id="topic"),
        pytest.param(["compare", "README"], ["file,README"], id="file"),
        pytest.param(["query", "README"], ["file,README"], id="file-of-query"),
    ],
)
def test_names_are_completed(words, expected):
    assert completed(*words) == expected


def test_tables_and_columns_are_completed_within_a_query():
    # A shell hands over what stands after an open quotation mark as one word.
    tables = completed("query", "a.sqlite", '"SELECT end_ns FROM memse')
    columns = completed("query", "a.sqlite", '"SELECT count(*) FROM memsets WHERE devi')

    assert tables == ["plain,SELECT", "end_ns", "FROM", "memsets"]
    assert {"device_id", "devices"} <= {*columns}


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


@pytest.fixture
def shell_environment(tmp_path):
    """A folder with the command gpuprof, first on PATH."""
    command = tmp_path / "bin" / "gpuprof"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpuprof "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TERM": "dumb"}


TYPED = {
    "command": ("gpuprof rep", "report"),
    "table": ("gpuprof export --table kern", "kernels"),
    "option": ("gpuprof report --per", "--per-step"),
}


def _needs(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.mark.parametrize(("typed", "completion"), TYPED.values(), ids=TYPED)
def test_bash_completes_what_was_typed(shell_environment, typed, completion):
    _needs("bash")
    words = typed.split()
    code = (
        "source <(gpuprof completion bash);"
        f" COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1};"
        f" _gpuprof_completion gpuprof {words[-1]} {words[-2]}; echo ${{COMPREPLY[@]}}"
    )

    assert _printed(["bash", "-c", code], shell_environment).split() == [completion]


@pytest.mark.parametrize(("typed", "completion"), TYPED.values(), ids=TYPED)
def test_fish_completes_what_was_typed(shell_environment, typed, completion):
    _needs("fish")
    code = f"gpuprof completion fish | source; complete -C '{typed}'"

    shown = _printed(["fish", "--no-config", "-c", code], shell_environment).splitlines()

    assert [line.split("\t")[0] for line in shown] == [completion]


@pytest.mark.parametrize(("typed", "completion"), TYPED.values(), ids=TYPED)
def test_zsh_completes_what_was_typed(shell_environment, tmp_path, typed, completion):
    _needs("zsh")
    # Tab completes only in a terminal, which zpty is; Return then runs what stands there.
    (tmp_path / "type.zsh").write_text(ZSH.format(typed=typed))

    shown = _printed(["zsh", "-f", str(tmp_path / "type.zsh")], shell_environment)

    assert f"<{typed[: typed.rindex(' ')]} {completion}>" in " ".join(shown.split())


ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; unsetopt zle_bracketed_paste'
zpty -w shell 'source <(gpuprof completion zsh); show() {{ print "<${{BUFFER% }}>"; exit }}'
zpty -w shell 'zle -N show; bindkey "^X" show; print ready'
zpty -r shell text '*ready*ready*'
zpty -n -w shell $'{typed}\t\x18'
while zpty -r shell text; do print -rn -- "$text"; done
"""


def _printed(words, environment):
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout
