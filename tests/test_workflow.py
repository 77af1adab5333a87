"""Workflows are valid, and the steps of the one in the documentation do what they say."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from commands import ROOT
from ruamel.yaml import YAML

PAGE = ROOT / "gpuprof" / "docs" / "ci.md"
(TEXT,) = re.findall(
    r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
OWN = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
BASE = "${{ github.event.pull_request.base.sha }}"
# A program that leaves a recording of its steps, a little longer or shorter in each run.
TRAIN = """
import os, sys
from pathlib import Path
from drawing import draw
from gpuprof.readers.gpuprof.write_gpuprof_file import write

folder = Path(os.environ["GPUPROF_RUN_DIR"])
length = {step_ns} + sum(folder.name.encode()) % 7
starts = range(0, length * int(sys.argv[-1]), length)
called = [(s, s + 1, {{"correlation_id": s}}) for s in starts]
ranges = [(s, s + length, {{"text": f"step {{n}}"}}) for n, s in enumerate(starts)]
kernels = [(s + 1, s + length - 5, {{"correlation_id": s}}) for s in starts]
write(draw(nvtx_ranges=ranges, api_calls=called, kernels=kernels), folder / "drawn.gpuprof")
"""
# Puts what the program leaves in place of what a profiler records.
PROGRAM = """#!{python}
import json, subprocess, sys
from pathlib import Path

command, *words = sys.argv[1:]
is_record = command == "record"
words = ["--recorder", "none", *words] if is_record else words
status = subprocess.run([sys.executable, "-m", "gpuprof", command, *words]).returncode
for path in Path("runs").glob("*/run-*/manifest.json") if is_record else ():
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(
        manifest | {{"recordings": ["drawn.gpuprof"], "nothing_recorded": None}}
    ))
sys.exit(status)
"""


def _checked(text, tmp_path):
    (tmp_path / "workflow.yml").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows",
         tmp_path / "workflow.yml"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("text", [TEXT, *OWN.values()], ids=["documentation", *OWN])
def test_a_workflow_fits_the_schema_of_github(tmp_path, text):
    done = _checked(text, tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_schema_refuses_keys_that_github_does_not_know(tmp_path):
    assert _checked(TEXT.replace("timeout-minutes", "timeout"), tmp_path).returncode == 1


@pytest.mark.parametrize("text", [TEXT, *OWN.values()], ids=["documentation", *OWN])
def test_a_workflow_has_no_faults_that_a_linter_finds(text):
    linter = shutil.which("actionlint")
    if linter is None:
        pytest.skip("actionlint is not installed")
    done = subprocess.run([linter, "-"], input=text, capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


STEPS = YAML(typ="safe").load(TEXT)["jobs"]["compare"]["steps"]


def _git(folder, *arguments):
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def pull_request(tmp_path_factory):
    """A repository at the head of a pull request that makes steps a twentieth slower."""
    folder = tmp_path_factory.mktemp("project")
    _git(folder, "init", "--quiet")
    commits = []
    for step_ns in (100_000, 105_000):
        (folder / "train.py").write_text(TRAIN.format(step_ns=step_ns))
        _git(folder, "add", "train.py")
        _git(folder, "commit", "--quiet", "--message", f"Steps of {step_ns} ns")
        commits.append(_git(folder, "rev-parse", "HEAD"))
    return folder, commits[0]


def _runner(folder, base):
    """What runs a step as GitHub's runners do."""
    programs = folder / ".git" / "programs"
    programs.mkdir()
    (programs / "gpuprof").write_text(PROGRAM.format(python=sys.executable))
    (programs / "gpuprof").chmod(0o755)
    usual = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        "GITHUB_STEP_SUMMARY": str(folder / ".git" / "summary.md"),
    }

    def run(step):
        env = {name: value.replace(BASE, base) for name, value in step.get("env", {}).items()}
        return subprocess.run(["bash", "-e", "-c", step["run"]], cwd=folder, env=usual | env,
                              capture_output=True, text=True, timeout=600, check=False)  # fmt: skip

    return run


def test_the_steps_fail_on_slower_steps_and_pass_on_faster_ones(pull_request):
    folder, base = pull_request
    run = _runner(folder, base)
    *record, compare = (step for step in STEPS if "run" in step)

    for step in record:
        done = run(step)
        assert done.returncode == 0, done.stderr
    slower = run(compare)

    assert slower.returncode == 3, slower.stderr
    assert "step_ns > 1.02x beyond noise" in slower.stderr
    assert "head takes" in (folder / ".git" / "summary.md").read_text(encoding="utf-8")
    (upload,) = (step for step in STEPS if step.get("uses", "").startswith("actions/upload"))
    assert upload["if"] == "always()"
    assert all((folder / name).is_file() for name in upload["with"]["path"].split())

    # The other way round the pull request makes steps faster; a checkout cleans up before.
    for name in upload["with"]["path"].split():
        (folder / name).unlink()
    (folder / "runs" / "base").rename(folder / "runs" / "slow")
    (folder / "runs" / "head").rename(folder / "runs" / "base")
    (folder / "runs" / "slow").rename(folder / "runs" / "head")
    faster = run(compare)

    assert faster.returncode == 0, faster.stderr
