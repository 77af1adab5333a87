"""What a run tells of where it came from, and that no secret gets into anything it leaves."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import recorded_runs
from hypothesis import HealthCheck, Phase, given, settings
from secret_forms import FORMS, NEXT_FORM, commands, forms_left

from gpuprof.launch.contract import Program
from gpuprof.launch.recorders.nsys import REPORT
from gpuprof.launch.run.provenance import git_state, packages

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

# Nobody's: drawn here, each to be found again in whatever is written.
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "GPUPROF_CACHE": "cache",
    "HF_TOKEN": "planted-variable-55aa",
    "MY_SETTING": "planted-variable-7f3a",
    "XLA_FLAGS": "--xla_token=planted-variable-91bc",
}
# The tools' own; the documentation says so.
TOOLS_OWN = {"train.py", "sweeps.py", REPORT}


TENSORFLOW = """
import gpuprof, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
@tf.function
def step(x):
    with tf.device("CPU:1"): y = x * 2
    with tf.device("CPU:0"): return tf.reduce_sum(y)
with gpuprof.epoch():
    with gpuprof.step(): step(tf.ones([4]))
"""
PLAIN = "import gpuprof\nwith gpuprof.epoch():\n    with gpuprof.step(): pass\n"


def gpuprof(*words):
    """A command with planted variables, which does not fail without a word."""
    completed = recorded_runs.gpuprof(*words, **ENVIRONMENT)
    assert "Traceback" not in completed.stderr, completed.stderr
    return completed


def leaks(data, secrets):
    """The forms of whose secrets a piece stands in bytes, and the variables that do."""
    return [*forms_left(secrets, data), *["variable"] * (b"planted-variable" in data)]


@pytest.mark.parametrize(
    ("recorder", "code"),
    [
        ("wrapped", PLAIN),
        pytest.param("tensorflow", TENSORFLOW, marks=pytest.mark.tensorflow),
        pytest.param("nsys", PLAIN, marks=pytest.mark.profilers),
    ],
)
@settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(command=commands())
def test_no_form_of_a_secret_is_in_anything_that_gpuprof_writes(recorder, code, command):
    words, secrets = command
    Path("train.py").write_text(code)
    outputs = [
        gpuprof("record", "--force", "--recorder", recorder, "-o", "run", "train.py", *words),
        gpuprof("report", "run", "--all", "--force", "--html", "page.html"),
        *(gpuprof("report", "run", "--format", form) for form in ("markdown", "csv", "json")),
        *(gpuprof("compare", "run", "run", "--format", form) for form in ("markdown", "json")),
        gpuprof("convert", "run", "--force", "-o", "run.gpuprof"),
        gpuprof("export", "run", "--to", "csv", "--force", "-o", "tables"),
        gpuprof("pack", "run", "--force", "-o", "run.zip"),
        gpuprof("doctor", "--format", "json"),
    ]
    if recorder == "nsys":
        report = ("report", f"run/{REPORT}", "--format", "json")
        outputs += [gpuprof(*report), gpuprof(*report, "--via", "nsys")]

    printed = "".join(run.stdout + run.stderr for run in outputs)
    assert leaks(printed.encode(), secrets) == []
    files = [p for p in Path().rglob("*") if p.is_file() and p.name not in TOOLS_OWN]
    assert {Path("run.zip"), Path("run/manifest.json")} <= {*files}
    # Without a GPU nsys records nothing that a page could show.
    assert recorder == "nsys" or Path("page.html") in files
    assert (recorder == "nsys") == any(p.name == "report.sqlite" for p in files)
    assert {str(p): forms for p in files if (forms := leaks(p.read_bytes(), secrets))} == {}
    assert [p for p in (Path("run"), *Path("run").rglob("*")) if p.stat().st_mode & 0o077] == []
    assert recorder != "wrapped" or b"starting" in Path("run/recorder.log").read_bytes()
    masked = json.loads(Path("run/manifest.json").read_text())["command"]
    assert (len(masked), masked[1]) == (len(words) + 2, "train.py")
    assert masked.count(NEXT_FORM) == len(FORMS)


@settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(command=commands())
def test_no_form_of_a_secret_is_in_the_folder_of_a_sweep(command):
    words, secrets = command
    Path("train.py").write_text("import sys\nsys.exit(f'password: {sys.argv[3]}')")
    braced = [word.replace("{", "{{").replace("}", "}}") for word in words]
    sweep = ["sweep", "--grid", "batch=1,2", "--recorder", "none", "--repeat", "1", "-o", "sweep"]
    first = gpuprof(*sweep, "--force", "--", "train.py", "{batch}", *braced)
    again = gpuprof(*sweep, "--", "train.py", "{batch}", *braced)

    # What the program itself prints is passed on, and kept in a log of its owner's alone.
    assert "another" not in again.stderr
    files = [p for p in Path("sweep").rglob("*") if p.is_file() and p.name != "program.log"]
    assert {str(p): forms for p in files if (forms := leaks(p.read_bytes(), secrets))} == {}
    assert Path("sweep/sweep.json").stat().st_mode & 0o077 == 0
    assert first.returncode == again.returncode


def test_manifest_tells_commit_packages_settings_and_seconds_per_step(monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "OMP_NUM_THREADS", "3")
    Path("train.py").write_text(PLAIN * 2)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words], check=True
        )
    gpuprof("record", "--recorder", "plain", "-o", "run", "train.py")
    saved_manifest = json.loads(Path("run/manifest.json").read_text())

    head = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
    assert saved_manifest["git"] == {"commit": head, "is_dirty": False}
    assert saved_manifest["environment"]["OMP_NUM_THREADS"] == "3"
    assert "MY_SETTING" not in saved_manifest["environment"]
    assert saved_manifest["packages"]["numpy"].count(".") == 2
    seconds = [epoch["seconds"] for epoch in saved_manifest["epochs"]]
    assert saved_manifest["seconds_per_step"] == pytest.approx(sum(seconds) / 2)


def test_a_changed_program_is_dirty_and_one_outside_of_a_repository_has_no_commit():
    Path("train.py").write_text("pass")
    program = Program((sys.executable, "train.py"), Path("train.py"))
    assert git_state(program) is None

    subprocess.run(["git", "init", "-q"], check=True)
    assert git_state(program) is None
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"],
        check=True,
    )
    Path("train.py").write_text("changed")
    assert git_state(program)["is_dirty"] is True


def test_a_repository_cannot_make_git_run_a_program(tmp_path):
    subprocess.run(["git", "init", "-q"], check=True)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(hook)], check=True)
    Path("train.py").write_text("pass")
    git_state(Program((sys.executable, "train.py"), Path("train.py")))

    assert not (tmp_path / "ran").exists()


def test_packages_of_another_interpreter_are_unknown():
    assert packages(Program(("/usr/bin/other-python",))) == {}
    assert "numpy" in packages(Program((sys.executable,)))
