"""What a run tells of where it came from, and that no secret gets into anything it leaves."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuprof.launch.contract import Program
from gpuprof.launch.recorders.nsys import REPORT
from gpuprof.launch.run.provenance import git_state, packages

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

GPUPROF = [sys.executable, str(Path(__file__).parents[1].joinpath("plain_gpuprof.py"))]
ROOT = Path(__file__).parents[3]
# Nobody's: put together here, each to be found again in whatever is written.
SECRETS = {
    "TOKEN": "planted-option-7f3a",
    "USER": "planteduser:planted-url-91bc",
    "HF_TOKEN": "hf_" + "plantedAbC1" * 3,
    "AWS_SECRET_ACCESS_KEY": "Planted/7" + "aB3+" * 7 + "xyz",
    "MY_SETTING": "planted-variable-55aa",
}
ARGUMENTS = [
    "--api-key", SECRETS["TOKEN"], f"https://{SECRETS['USER']}@host/x", SECRETS["HF_TOKEN"],
    f"--aws={SECRETS['AWS_SECRET_ACCESS_KEY']}",
]  # fmt: skip
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    **{name: SECRETS[name] for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_SETTING")},
    "XLA_FLAGS": f"--xla_token={SECRETS['TOKEN']}",
}
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
    completed = subprocess.run(
        [*GPUPROF, *words], capture_output=True, timeout=120, env=ENVIRONMENT, check=False
    )
    assert b"Traceback" not in completed.stderr, completed.stderr
    return completed


def planted_in(data):
    parts = [part for secret in SECRETS.values() for part in secret.split(":")]
    return [part for part in parts if part.encode() in data]


def skip_without(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


@pytest.mark.parametrize(
    ("recorder", "code"),
    [
        ("plain", PLAIN),
        pytest.param(
            "tensorflow",
            TENSORFLOW,
            marks=[pytest.mark.tensorflow, skip_without("tensorflow")],
        ),
        pytest.param(
            "nsys",
            PLAIN,
            marks=[
                pytest.mark.profilers,
                pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed"),
            ],
        ),
    ],
)
def test_no_planted_secret_is_in_anything_that_gpuprof_writes(recorder, code):
    Path("train.py").write_text(code)
    outputs = [gpuprof("record", "--recorder", recorder, "-o", "run", "train.py", *ARGUMENTS)]
    outputs += [
        gpuprof("report", "run", "--all", "--format", form)
        for form in ("terminal", "markdown", "csv", "json")
    ]
    outputs += [gpuprof("compare", "run", "run", "--format", form) for form in ("markdown", "json")]
    outputs += [
        gpuprof("convert", "run", "-o", "run.gpuprof"),
        gpuprof("pack", "run", "-o", "run.zip"),
    ]
    outputs += [gpuprof("doctor", "--format", "json")]

    for completed in outputs:
        assert planted_in(completed.stdout + completed.stderr) == []
    # The report of nsys is its own; the README tells people so.
    files = [p for p in Path().rglob("*") if p.is_file() and p.name not in ("train.py", REPORT)]
    assert Path("run.zip") in files
    assert {str(p): found for p in files if (found := planted_in(p.read_bytes()))} == {}
    command = json.loads(Path("run/manifest.json").read_text())["command"]
    assert command[1:] == ["train.py", "--api-key", "***", "https://***@host/x", "***", "--aws=***"]


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
