"""Recording real processes: what is shown, what is kept, and how it ends."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded_runs import ENVIRONMENT, WAITS, gpuprof, manifest, record, script, start, words

from gpuprof import read_profile
from gpuprof.base.errors import EmptyRecordingError

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")
BOTH_RECORDERS = pytest.mark.parametrize("recorder", ["plain", "wrapped"])


def piped(recorder, program, **keywords):
    command = words(recorder, program)
    return subprocess.run(command, env=ENVIRONMENT, timeout=60, check=False, **keywords)


@BOTH_RECORDERS
def test_output_and_status_are_the_programs_and_the_run_can_be_read(recorder):
    code = "import sys; print('out', sys.argv[1:]); print('err', file=sys.stderr)"
    completed = record(recorder, script(code, "--variant", "x", "-o", "y"), "--variant", "dual")

    assert completed.returncode == 0
    assert completed.stdout == "out ['--variant', 'x', '-o', 'y']\n"
    assert completed.stderr.splitlines() == [
        f"Recording with {recorder} (as requested) into run",
        "err",
        "Recorded in run",
        "Next: gpuprof report run",
    ]
    log = Path("run/program.log").read_text()
    assert sorted(log.splitlines()) == ["err", "out ['--variant', 'x', '-o', 'y']"]
    profile = read_profile("run")
    assert profile.origin.variant == "dual"
    assert profile.query("SELECT sum(calls) AS n FROM activity_summary")["n"].to_pylist() == [4]


# Beside those of test_endings.py.
ENDS = {
    "no-python": ("this is no python", 1),
    "out-of-memory": (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 30, 1 << 30)); b' ' * (1 << 32)",
        1,
    ),
}


@BOTH_RECORDERS
@pytest.mark.parametrize(("code", "status"), ENDS.values(), ids=ENDS.keys())
def test_exit_status_is_passed_on_and_what_was_recorded_kept(recorder, code, status):
    completed = record(recorder, script(code))

    assert completed.returncode == status
    assert manifest()["exit_status"] == status
    assert manifest()["recordings"] == ["plain.txt"]
    last = completed.stderr.splitlines()[-3:]
    assert last[0] == f"The program ended with exit status {status}"
    warnings = read_profile("run").origin.warnings
    assert warnings[0] == f"The program ended with exit status {status}."


@BOTH_RECORDERS
def test_output_without_a_newline_is_shown_as_it_comes(recorder):
    code = "import sys; sys.stdout.write('50 %'); sys.stdin.read(); sys.stdout.write(' done')"
    with subprocess.Popen(
        words(recorder, script(code)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    ) as process:
        readable, _, _ = select.select([process.stdout], [], [], 20)
        shown = os.read(process.stdout.fileno(), 100) if readable else b""
        process.stdin.close()
        remaining_output = process.stdout.read()

    # It came while the program still waited for its input.
    assert shown
    assert shown + remaining_output == b"50 % done"
    assert Path("run/program.log").read_bytes() == b"50 % done"


def test_megabytes_of_any_bytes_arrive_unchanged():
    code = (
        "import os\n"
        "block = bytes(range(256)) * 4096\n"
        "for _ in range(32): os.write(1, block)\n"
        "os.write(2, b'\\xff\\r\\x00')\n"
    )
    completed = piped("wrapped", script(code), capture_output=True)

    assert completed.stdout == bytes(range(256)) * 4096 * 32
    assert b"\xff\r\x00" in completed.stderr
    assert Path("run/program.log").stat().st_size == len(completed.stdout) + 3


def test_streams_that_go_to_one_place_keep_their_order():
    code = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d\\n' % i)"
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    completed = piped("wrapped", script(code), text=True, **together)

    numbers = [line for line in completed.stdout.splitlines() if line.isdigit()]
    assert numbers == [str(i) for i in range(200)]


def test_reader_of_the_pipe_that_leaves_does_not_end_the_program():
    code = "for i in range(100_000): print('line', i)\nopen('ended', 'w').close()"
    command = " ".join(f"'{word}'" for word in words("plain", script(code)))
    completed = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -1"],
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
        timeout=60,
    )

    assert completed.stdout == b"line 0\n"
    assert completed.returncode == 0
    assert completed.stderr.splitlines()[1:] == [b"Recorded in run", b"Next: gpuprof report run"]
    assert Path("ended").exists()
    assert Path("run/program.log").read_text().endswith("line 99999\n")


def test_output_of_children_is_shown_too():
    code = (
        "import subprocess, sys, multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    subprocess.run([sys.executable, '-c', 'print(\"child\")'], check=True)\n"
        "    p = multiprocessing.get_context('spawn').Process(target=print, args=('spawned',))\n"
        "    p.start(); p.join()\n"
        "    print('parent')\n"
    )
    completed = record("wrapped", script(code))

    assert completed.stdout.split() == ["child", "spawned", "parent"]
    assert completed.returncode == 0


def test_process_that_is_left_behind_does_not_hold_the_run_open():
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    completed = record("plain", script(code))
    os.kill(int(completed.stdout), signal.SIGKILL)

    assert completed.returncode == 0
    assert manifest()["recordings"] == ["plain.txt"]


STUBBORN = """
import signal, time
{handlers}
print("ready", flush=True)
while True: time.sleep(60)
"""
IGNORES_INT = "signal.signal(signal.SIGINT, lambda *_: print('no', flush=True))\n"
IGNORES_TERM = "signal.signal(signal.SIGTERM, lambda *_: print('nor', flush=True))\n"


@BOTH_RECORDERS
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["gpuprof-alone", "its-group"])
def test_ctrl_c_lets_the_program_end_in_order_and_keeps_the_recording(recorder, send):
    process = start(recorder, script(WAITS))
    assert process.stdout.readline() == "ready\n"
    send(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert out == "cleaned up\n"
    assert process.returncode == 5
    assert "Traceback" not in err
    assert manifest()["exit_status"] == 5
    assert manifest()["recordings"] == ["plain.txt"]


@BOTH_RECORDERS
@pytest.mark.parametrize(
    ("ignored", "answers", "status"),
    [(IGNORES_INT, ["no"], 143), (IGNORES_INT + IGNORES_TERM, ["no", "nor"], 137)],
    ids=["the-first", "all"],
)
def test_further_ctrl_c_end_a_program_that_ignores_some(recorder, ignored, answers, status):
    process = start(recorder, script(STUBBORN.format(handlers=ignored)))
    for answer in ("ready", *answers):
        assert process.stdout.readline() == f"{answer}\n"
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert process.returncode == status
    assert manifest()["recordings"] == ["plain.txt"]


@BOTH_RECORDERS
def test_ctrl_c_reaches_the_children_as_in_a_terminal(recorder):
    code = (
        "import subprocess, sys\n"
        "child = 'import time\\ntry:\\n  print(\"ready\", flush=True); time.sleep(60)\\n'\n"
        "child += 'except KeyboardInterrupt:\\n  print(\"child stopped\")'\n"
        "p = subprocess.Popen([sys.executable, '-c', child])\n"
        "try:\n  p.wait()\nexcept KeyboardInterrupt:\n  p.wait(); raise SystemExit(4)\n"
    )
    process = start(recorder, script(code))
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert out == "child stopped\n"
    assert process.returncode == 4


@pytest.mark.parametrize(
    ("variable", "when", "seconds", "status"),
    [
        pytest.param("PROFILER_STARTS", "recorder.starting", 60, 130, id="before-the-program"),
        pytest.param("PROFILER_SLEEPS", "recorder.said", 0, 0, id="while-the-profiler-finishes"),
    ],
)
def test_ctrl_c_beside_the_program_loses_nothing(monkeypatch, variable, when, seconds, status):
    monkeypatch.setitem(ENVIRONMENT, variable, "2")
    # Not a Python program: one that is interrupted while it starts ends in ways of its own.
    process = start("wrapped", ["--", "sleep", str(seconds)])
    while not Path("run", when).exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert process.returncode == status
    assert manifest()["recordings"] == ["plain.txt"]


@pytest.mark.parametrize("times", [1, 2])
def test_recording_that_is_brought_home_takes_two_ctrl_c_to_drop(times):
    process = start("slow", script(""))
    while not Path("run/recorder.finishing").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    message = [process.stderr.readline() for _ in range(2)][1]
    if times == 2:
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)

    assert message == "Saving the recording; stop again to discard it\n"
    assert Path("run").exists() == (times == 1)
    assert process.returncode == (0 if times == 1 else 130)
    assert "Traceback" not in err


def test_profiler_that_fails_before_the_program_is_started_once_more():
    completed = record("flaky", script("print('ran')"))

    assert completed.stdout == "ran\n"
    assert completed.returncode == 0


def test_empty_recording_says_so_and_is_refused_by_the_reader():
    completed = record("empty", script("print(1)"))

    assert completed.returncode == 0
    assert "Warning: empty recorded no GPU work: none was requested" in completed.stderr
    assert "gpuprof report" not in completed.stderr
    with pytest.raises(EmptyRecordingError) as caught:
        read_profile("run")
    assert caught.value.message == "run: empty recorded no GPU work: none was requested"


def test_module_runs_as_python_runs_it():
    Path("package").mkdir()
    Path("package/__init__.py").touch()
    Path("package/train.py").write_text("import sys; print(__name__, sys.argv[1:])")
    completed = record("plain", ["package.train", "--variant", "x"], "-m")

    assert completed.stdout == "__main__ ['--variant', 'x']\n"


@BOTH_RECORDERS
def test_executable_after_two_dashes_runs_as_it_is(recorder):
    completed = record(recorder, ["--", "sh", "-c", "echo $0 $1; exit 3", "-o", "--variant"])

    assert completed.stdout == "-o --variant\n"
    assert completed.returncode == 3


@BOTH_RECORDERS
def test_standard_input_is_the_programs(recorder):
    program = script("print(input()[::-1])")
    completed = piped(recorder, program, input=b"abc\n", capture_output=True)

    assert completed.stdout == b"cba\n"


def test_table_of_what_is_kept():
    record("wrapped", script("import gpuprof\nwith gpuprof.epoch(): pass"), "--variant", "dual")

    assert sorted(p.name for p in Path("run").iterdir()) == [
        "manifest.json",
        "marks.jsonl",
        "monitor.jsonl",
        "plain.txt",
        "program.log",
        "recorder.log",
        "recorder.said",
        "recorder.starting",
    ]
    saved_manifest = manifest()
    assert {
        k: v for k, v in saved_manifest.items() if isinstance(v, (str, int)) and k != "started_at"
    } == {
        "format": "gpuprof-run",
        "format_version": 1,
        "recorder": "wrapped",
        "variant": "dual",
        "exit_status": 0,
    }
    assert saved_manifest["command"] == [sys.executable, "script.py"]
    assert [e["epoch"] for e in saved_manifest["epochs"]] == [0]
    assert saved_manifest["seconds_per_epoch"] == saved_manifest["epochs"][0]["seconds"]
    assert set(saved_manifest["versions"]) == {"gpuprof", "python", "system"}
    assert "profiler: 100 %" in Path("run/recorder.log").read_text()
    assert sorted(p.name for p in Path().iterdir()) == ["run", "script.py"]
    assert os.uname().nodename not in "".join(p.read_text() for p in Path("run").iterdir())


def test_variant_is_the_name_of_the_folder_unless_given():
    record("plain", script("pass"))

    assert manifest()["variant"] == "run"


def test_folders_are_numbered_where_none_is_named():
    for _ in range(2):
        gpuprof("record", "--recorder", "plain", "--variant", "a b/c", *script("pass"))

    assert sorted(p.name for p in Path("gpuprof-runs").iterdir()) == ["a-b-c", "a-b-c-2"]
    assert manifest("gpuprof-runs/a-b-c-2")["variant"] == "a b/c"


def test_without_a_recorder_the_times_are_said():
    code = "import gpuprof\nfor _ in range(2):\n    with gpuprof.epoch(): pass"
    completed = record("none", script(code))

    announced, times, _ = completed.stderr.splitlines()
    assert announced == "Recording with none (as requested) into run"
    assert re.fullmatch(r"It ran for [\d.]+ m?s; 2 marked epochs of [\d.]+ (m|µ)?s", times)
