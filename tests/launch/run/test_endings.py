"""The table of what is kept: however a program or gpuprof ends, under each kind of recorder."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from recorded_runs import ENVIRONMENT, PROGRAMS, manifest, record, script, start

from gpuprof import read_profile
from gpuprof.base.errors import InputError
from gpuprof.launch.run import process
from gpuprof.launch.run.program_signals import tree

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")

TRAINING = str(PROGRAMS / "training.py")
RECORDERS = ("plain", "wrapped", "nsys")
# How the program ends, and its exit status as a shell has it; all three epochs are kept always.
STATUSES = {
    "returns": 0,
    "status": 7,
    "exception": 1,
    "leaves-at-once": 3,
    "abort": 134,
    "segmentation-fault": 139,
    "killed": 137,
    "terminated": 143,
    "hung-up": 129,
}
STOPS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
LATE = "The program was stopped: it ran for longer than --timeout."


def under(recorders, *cases):
    """Cases under some recorders; the real profiler takes long, and is asked once of each kind."""
    return [
        pytest.param(
            recorder,
            case,
            id=f"{recorder}-{case}",
            marks=[pytest.mark.profilers] * (recorder == "nsys"),
        )
        for recorder in recorders
        for case in cases
    ]


def agents_of_nsys(process_ids):
    """What nsys leaves running, by no means its child, when it is killed itself."""
    sessions = [f"--session-name=profile-{number}".encode() for number in process_ids]
    for words_of in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if set(sessions) & set(words_of.read_bytes().split(b"\0")):
                yield int(words_of.parent.name)


def started(recorder, ending):
    child = start(recorder, [TRAINING, ending])
    assert child.stdout.readline() == "trained\n"
    return child


def assert_all_is_kept(recorder, status):
    """Marks, output and a recording, always; nsys itself may lack the last moments."""
    saved_manifest = manifest()
    assert saved_manifest["exit_status"] == status
    assert [(e["epoch"], e["steps"]) for e in saved_manifest["epochs"]] == [(0, 1), (1, 1), (2, 1)]
    assert Path("run/program.log").read_bytes().startswith(b"trained\n")
    if recorder != "nsys":
        assert read_profile("run").has("epochs")
        return
    assert saved_manifest["recordings"] == ["nsys.sqlite"], (
        saved_manifest,
        Path("run/recorder.log").read_text(),
    )
    signalled = status > 128 and status != 130
    lost = f"Signal {status - 128} ended the program; events that nsys had not yet saved are lost."
    assert (lost in saved_manifest["warnings"]) == signalled


@pytest.mark.parametrize(
    ("recorder", "ending"),
    [
        *under(["wrapped"], *STATUSES),
        *under(["plain"], "returns", "status", "killed"),
        *under(["nsys"], "status", "abort", "killed", "terminated"),
    ],
)
def test_a_program_that_ends_by_itself(recorder, ending):
    completed = record(recorder, [TRAINING, ending])

    assert (completed.returncode, completed.stdout) == (STATUSES[ending], "trained\n")
    assert_all_is_kept(recorder, STATUSES[ending])


@pytest.mark.parametrize(
    ("recorder", "name"), [*under(["plain", "wrapped"], *STOPS), *under(["nsys"], "SIGHUP")]
)
def test_gpuprof_that_is_told_to_stop(recorder, name):
    child = started(recorder, "hangs")
    child.send_signal(signal.Signals[name])
    child.communicate(timeout=60)

    assert child.returncode == STOPS[name]
    assert_all_is_kept(recorder, STOPS[name])


@pytest.mark.parametrize(
    ("recorder", "ending"), [*under(["plain"], "hangs"), *under(RECORDERS[1:], "hangs-in-a-child")]
)
def test_a_program_that_hangs_is_stopped_when_its_time_is_over(recorder, ending):
    completed = record(recorder, [TRAINING, ending], "--timeout", "3s")

    assert completed.returncode == 130
    assert_all_is_kept(recorder, 130)
    assert manifest()["warnings"][0] == LATE
    assert f"Warning: {LATE}" in completed.stderr


@pytest.mark.parametrize(
    ("ending", "status"), [("ignores-ctrl-c", 143), ("ignores-everything", 137)]
)
def test_a_program_that_will_not_stop_is_stopped_harder(monkeypatch, ending, status):
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)
    with Path("log").open("wb") as log:
        output = process.ProgramOutput(log)
        arguments = [sys.executable, TRAINING, ending]
        ended = process.run_program(arguments, ENVIRONMENT, output, timeout_seconds=3)

    assert (ended.exit_status, ended.timed_out) == (status, True)


def test_a_program_that_ends_in_time_is_left_alone():
    completed = record("plain", [TRAINING, "returns"], "--timeout", "60s")

    assert completed.returncode == 0
    assert manifest()["warnings"] == []


@pytest.mark.parametrize(("recorder", "ending"), under(RECORDERS, "hangs"))
def test_gpuprof_that_is_killed_leaves_a_run_that_says_it_did_not_finish(recorder, ending):
    child = started(recorder, ending)
    below = tree(child.pid)[1:]
    child.kill()
    for process_id in below:
        os.kill(process_id, signal.SIGKILL)
    child.communicate(timeout=30)
    for agent in agents_of_nsys(below):
        os.kill(agent, signal.SIGKILL)

    with pytest.raises(InputError, match="run: the recording did not finish"):
        read_profile("run")
    assert Path("run/program.log").read_bytes() == b"trained\n"
    assert len(Path("run/marks.jsonl").read_text().splitlines()) == 3
    again = record("plain", [TRAINING, "returns"], "--force")
    assert again.returncode == 0


def test_a_program_whose_recorder_gpuprof_was_killed_ends_at_its_next_output():
    code = (
        "import time\nwhile True: print('x', flush=True); open('alive', 'w').close(); "
        "time.sleep(0.05)"
    )
    child = start("plain", script(code))
    child.stdout.readline()
    [below] = tree(child.pid)[1:]
    child.kill()
    child.communicate(timeout=30)

    until = time.monotonic() + 30
    while Path(f"/proc/{below}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{below}").exists()
