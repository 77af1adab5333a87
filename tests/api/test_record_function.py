"""`gpuprof.record` runs a program and returns its run; failures and Ctrl-C are errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT

import gpuprof
from gpuprof.base.errors import RecordError, StoppedError, UsageError

PROGRAM = """
import sys, time, gpuprof
print("words:", *sys.argv[1:])
for _ in range(2):
    with gpuprof.epoch():
        pass
if "stop" in sys.argv:
    print("waiting", flush=True)
    time.sleep(60)
raise SystemExit(3 if "fail" in sys.argv else 0)
"""


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("program.py").write_text(PROGRAM)


def test_a_run_has_its_folder_output_and_epochs(capfd):
    run = gpuprof.record(
        Path("program.py"), "--epochs", 2, recorder="none", out="runs/a", variant="single"
    )

    assert run.folder == Path("runs/a")
    assert run.output == "words: --epochs 2\n"
    assert capfd.readouterr().out == run.output
    assert (run.manifest.variant, len(run.manifest.epochs)) == ("single", 2)
    assert list(run.report()["marked_epochs"]["epoch"]) == [0, 1]
    assert "Only times were recorded, in runs/a" in repr(run)
    assert "program.py --epochs 2" in run._repr_html_()


def test_runs_are_compared_as_they_are():
    runs = [gpuprof.record("program.py", recorder="none", out=name, variant=name) for name in "ab"]

    result = gpuprof.compare(*runs)

    assert list(result.variants.index) == ["a", "b"]
    assert list(result.variants["epochs"]) == [2, 2]
    assert gpuprof.metrics(runs[0])["gpuprof/epochs"] == 2


def test_repeats_are_several_runs_of_which_a_report_takes_the_first():
    run = gpuprof.record("program.py", recorder="none", out="runs", repeat=2, warmup=1)

    assert run.runs == (Path("runs/run-1"), Path("runs/run-2"))
    assert run.report().origin.source == Path("runs/run-1")
    assert repr(run).startswith("2 runs of ")


@pytest.mark.parametrize(
    "words",
    [("-m", "program", "x"), ("--", sys.executable, "program.py", "x")],
    ids=["module", "executable"],
)
def test_modules_and_programs_are_named_as_in_the_command(words):
    assert gpuprof.record(*words, recorder="none", out="run").output == "words: x\n"


def test_a_program_that_fails_is_an_error_that_says_where_its_output_is():
    with pytest.raises(RecordError, match=r"^the program ended with exit status 3") as caught:
        gpuprof.record("program.py", "fail", recorder="none", out="run")

    assert caught.value.hint == "Its output and what was recorded are in run."
    assert Path("run/program.log").read_text() == "words: fail\n"


def test_ctrl_c_stops_the_program_and_is_an_error_of_both_kinds():
    code = (
        "import gpuprof\n"
        "try:\n"
        "    gpuprof.record('program.py', 'stop', recorder='none', out='run')\n"
        "except gpuprof.GpuprofError as error:\n"
        "    print(type(error).__name__, isinstance(error, KeyboardInterrupt), error.hint)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "words: stop\n"
    assert process.stdout.readline() == "waiting\n"
    os.killpg(process.pid, 2)
    rest, _ = process.communicate(timeout=60)

    assert issubclass(StoppedError, KeyboardInterrupt)
    assert rest == "StoppedError True Its output and what was recorded are in run.\n"


@pytest.mark.parametrize(
    ("words", "options", "error", "message"),
    [
        ((), {}, UsageError, "record needs a script"),
        (("-m",), {}, UsageError, "record needs a name after -m"),
        (("program.py", None), {}, TypeError, "a word of a command must be text, a path or a"),
        (("program.py",), {"timeout": 1.5}, TypeError, "timeout must be text with a unit"),
        (("program.py",), {"epochs": "4:2"}, UsageError, "epochs: '4:2' is an empty range"),
        (("program.py",), {"repeat": 0}, UsageError, "repeat must be at least 1, not 0"),
        (("program.py",), {"recorder": "nsis"}, UsageError, "there is no recorder nsis"),
        (("absent.py",), {}, gpuprof.GpuprofError, "absent.py: no such script"),
    ],
    ids=["nothing", "module", "word", "time", "epochs", "repeat", "recorder", "absent"],
)
def test_arguments_that_do_not_fit_are_refused(words, options, error, message):
    with pytest.raises(error) as caught:
        gpuprof.record(*words, **({"recorder": "none"} | options))

    assert str(caught.value).startswith(message)
    assert not Path("gpuprof-runs").exists()
