"""Sweeps of a small program, by the command line, as a user runs them."""

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from commands import ROOT, gpuprof

PROGRAM = """
import os, sys, time
import gpuprof
batch, devices, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with open(log, "a") as file:
    print("begin", batch, devices, file=file)
if devices == 3:
    sys.exit("3 devices are asked for, 2 are here")
for _ in range(2):
    with gpuprof.epoch():
        time.sleep(float(os.environ.get('SLEEP', 0.05)))
print(f"accuracy {batch / 1000}")
with open(log, "a") as file:
    print("end", batch, devices, file=file)
"""
GRID = ("--grid", "batch=64,128", "--grid", "devices=1,2")
FAILING = ("--grid", "batch=64", "--grid", "devices=1,3")
WORDS = ("--", "train.py", "{batch}", "{devices}", "log.txt")


@pytest.fixture
def here(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A sweep of two cells, one of which fails, and what it said."""
    folder = tmp_path_factory.mktemp("failing")
    (folder / "train.py").write_text(PROGRAM)
    return folder, sweep(folder, *FAILING, "--repeat", "2", "--seed", "5")


def sweep(here, *options, words=WORDS):
    return gpuprof("sweep", "--recorder", "none", "-o", "out", *options, *words, cwd=here)


def rows(here, name="results"):
    with (here / "out" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def log(here):
    path = here / "log.txt"
    return path.read_text().splitlines() if path.exists() else []


def test_each_cell_becomes_a_row_with_its_seconds_and_its_speed_up(here):
    figures = ("--figure", r"accuracy=^accuracy (\S+)", "--seed", "5")
    completed = sweep(here, *GRID, "--baseline", "devices=1", *figures)

    assert completed.returncode == 0, completed.stderr
    result_rows = rows(here)
    assert [row["cell"] for row in result_rows] == [
        "batch=64,devices=1",
        "batch=64,devices=2",
        "batch=128,devices=1",
        "batch=128,devices=2",
    ]
    assert {row["status"] for row in result_rows} == {"ok"}
    assert all(float(row["seconds"]) >= 0.05 for row in result_rows)
    assert [row["accuracy"] for row in result_rows] == ["0.064", "0.064", "0.128", "0.128"]
    for base, candidate in ((0, 1), (2, 3)):
        ratio = float(result_rows[base]["seconds"]) / float(result_rows[candidate]["seconds"])
        assert float(result_rows[candidate]["speed_up"]) == pytest.approx(ratio)
        assert float(result_rows[base]["speed_up"]) == 1
    assert len(rows(here, "runs")) == 4
    assert json.loads((here / "out" / "sweep.json").read_text())["seed"] == 5
    for name in ("break-even.svg", "scaling.svg"):
        assert (here / "out" / name).read_text().startswith("<?xml")


def test_a_failing_cell_is_a_row_with_its_reason_and_runs_only_once(failing):
    here, completed = failing

    assert completed.returncode == 5, completed.stderr
    assert completed.stderr.splitlines()[-1] == (
        "1 of 2 cells failed or cannot be read; add --retry-failed to run failed cells again"
    )
    assert [(row["status"], row["reason"]) for row in rows(here)] == [
        ("ok", ""),
        ("failed", "exit status 1: 3 devices are asked for, 2 are here"),
    ]
    ended, _ = rows(here)
    assert ended["runs"] == "2"
    assert 0.05 <= float(ended["seconds_min"]) <= float(ended["seconds"])
    assert log(here).count("begin 64 3") == 1
    assert "1 of 2 cells ran." in completed.stdout
    assert "3 devices are asked for, 2 are here" in completed.stdout


def test_a_program_that_is_not_there_is_every_cells_reason(here):
    completed = sweep(here, "--grid", "n=1", words=("--", "absent.py", "{n}"))

    assert completed.returncode == 5
    assert rows(here)[0]["reason"] == "absent.py: no such script"


def test_the_same_command_repeats_nothing_that_has_ended_and_tells_what_failed(failing):
    here, first = failing
    before = log(here)
    again = sweep(here, *FAILING, "--repeat", "2", "--seed", "5")

    assert log(here) == before
    assert (again.returncode, again.stdout) == (5, first.stdout)
    assert again.stderr.splitlines()[:2] == [
        "3 of 4 runs are already complete",
        "[1/1] batch=64,devices=3: skipped, because a run of it failed",
    ]


def test_cells_that_failed_run_again_where_that_is_asked_for(failing, tmp_path):
    here = shutil.copytree(failing[0], tmp_path / "again")
    (here / "train.py").write_text(PROGRAM.replace("devices == 3", "devices == 4"))
    again = sweep(here, *FAILING, "--repeat", "2", "--retry-failed")

    assert again.returncode == 0, again.stderr
    assert "--retry-failed" not in again.stderr
    assert [row["status"] for row in rows(here)] == ["ok", "ok"]
    assert log(here).count("begin 64 1") == 2


def test_a_cell_that_is_killed_is_said_to_need_another_try(here):
    code = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    (here / "train.py").write_text(code)
    completed = sweep(here, "--grid", "n=1", words=("--", "train.py", "{n}"))

    assert completed.returncode == 5
    assert rows(here)[0]["reason"] == "gpuprof record ended with exit status -9"
    assert "1 of 1 cell failed" in completed.stderr.splitlines()[-1]


def test_progress_says_what_runs_how_long_it_took_and_how_long_is_left(failing):
    first, ended, second, last, *_ = failing[1].stderr.splitlines()
    assert first == "[1/4] batch=64,devices=1, run 1 ..."
    assert re.fullmatch(r"    \d+\.\d+ m?s; about \d+ s left", ended)
    assert second == "[2/4] batch=64,devices=3, run 1 ..."
    assert last.startswith("    failed: exit status 1: 3 devices are asked for, 2 are here; about")


def test_force_removes_a_sweep_and_nothing_else(here):
    grid = ("--grid", "batch=64", "--grid", "devices=1")
    sweep(here, *grid)
    assert sweep(here, "--force", *grid, words=(*WORDS, "--more")).returncode == 0

    for place in ("notes.txt", "runs/batch=64,devices=1/1/notes.txt"):
        (here / "out" / place).touch()
        completed = sweep(here, "--force", *grid, words=(*WORDS, "--more"))
        assert completed.returncode == 1
        assert completed.stderr.splitlines()[0] == (
            f"Error: out holds files that gpuprof did not make: {place}"
        )
        (here / "out" / place).unlink()

    (here / "mine").mkdir()
    (here / "mine" / "thesis.txt").touch()
    completed = gpuprof("sweep", "--force", *grid, "-o", "mine", *WORDS, cwd=here)
    assert completed.stderr.splitlines()[0] == (
        "Error: mine does not contain a sweep, and --force replaces only sweeps"
    )
    assert (here / "mine" / "thesis.txt").exists()


def test_warm_ups_run_first_and_do_not_count(here):
    completed = sweep(here, "--grid", "batch=64", "--grid", "devices=1,2", "--warmup", "1")

    assert completed.returncode == 0, completed.stderr
    assert log(here).count("begin 64 1") == 2
    assert [row["folder"] for row in rows(here, "runs")] == [
        "runs/batch=64,devices=1/1",
        "runs/batch=64,devices=2/1",
    ]


def test_a_dry_run_shows_commands_and_runs_nothing(here):
    completed = sweep(
        here, "--grid", "batch=64", "--grid", "devices=1,2", "--seed", "1", "--dry-run"
    )

    shown = "gpuprof record --force --recorder none --variant batch=64,devices={0} -o"
    shown += " out/runs/batch=64,devices={0}/1 train.py 64 {0} log.txt"
    assert sorted(completed.stdout.splitlines()) == [shown.format(1), shown.format(2)]
    assert completed.stderr == "2 runs, in this order; nothing was run\n"
    assert {path.name for path in here.iterdir()} == {"train.py"}


def test_a_sweep_file_runs_by_its_name(here):
    (here / "two.toml").write_text(
        'command = ["train.py", "{batch}", "{devices}", "log.txt"]\n'
        'recorder = "none"\ngrid = { batch = [64], devices = [1, 2] }\n'
    )
    shown = gpuprof("sweep", "two.toml", "--dry-run", cwd=here)
    completed = gpuprof("sweep", "two.toml", cwd=here)

    assert len(shown.stdout.splitlines()) == 2
    assert completed.returncode == 0, completed.stderr
    assert (here / "gpuprof-sweeps" / "two" / "results.csv").is_file()


def _started(here, *before, **environment):
    words = ("sweep", "--recorder", "none", "-o", "out", "--seed", "1", *GRID, *WORDS)
    return subprocess.Popen(
        [*before, sys.executable, "-m", "gpuprof", *words],
        cwd=here,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_sweep_that_is_killed_at_any_moment_goes_on_without_repeating_or_doubling(here):
    moments = random.Random(1)  # noqa: S311 - no secret
    for _ in range(4):
        process = _started(here)
        time.sleep(moments.uniform(0.1, 1.2))
        process.kill()
        process.wait()
    completed = sweep(here, *GRID)

    assert completed.returncode == 0, completed.stderr
    assert [row["status"] for row in rows(here)] == ["ok"] * 4
    # A run that was going on ended in order: one after another, each once.
    lines = log(here)
    assert sorted(lines[::2]) == [f"begin {b} {d}" for b in (128, 64) for d in (1, 2)]
    assert [line.replace("begin", "end") for line in lines[::2]] == lines[1::2]


def test_a_sweep_that_is_stopped_drops_the_run_that_went_on(here):
    process = _started(here, SLEEP="0.4")
    while len(log(here)) != 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=30) == 130
    assert len(list((here / "out" / "runs").glob("*/1/manifest.json"))) == 1
    sweep(here, *GRID)
    assert [row["status"] for row in rows(here)] == ["ok"] * 4
    assert len([line for line in log(here) if line.startswith("end")]) == 4


def test_a_sweep_in_the_background_of_a_shell_stops_its_run_at_once(here):
    process = _started(here, "sh", "-c", 'trap "" INT; exec "$@"', "sh", SLEEP="60")
    while not log(here):
        time.sleep(0.01)
    process.terminate()

    assert process.wait(timeout=50) == 130
    assert not list((here / "out" / "runs").glob("*/1"))


def test_two_sweeps_do_not_work_in_one_folder(here):
    process = _started(here)
    while not log(here):
        time.sleep(0.01)
    completed = sweep(here, *GRID)
    process.kill()
    process.wait()

    assert completed.stderr == (
        "Error: another sweep is running in out\n"
        "Hint: Wait until it ends, or choose another folder with -o.\n"
    )
