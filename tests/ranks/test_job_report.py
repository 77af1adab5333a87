"""`gpuprof report` on jobs that workers read, as a user runs it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from commands import ROOT, gpuprof, python, started
from counted import children
from drawn_jobs import job as drawn_job

from gpuprof.readers.gpuprof.write_gpuprof_file import write


@pytest.fixture
def ranks(tmp_path):
    """Files of four ranks with a device each, the last of which computes longer."""
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(4):
        profile = drawn_job([300 + 100 * (rank == 3)])
        write(profile, folder / f"rank{rank}.gpuprof")
    return folder


def rows(completed, table):
    return json.loads(completed.stdout)["tables"][table]


def report(*arguments):
    return gpuprof("report", *arguments, "--format", "json")


def test_workers_give_the_tables_of_one_process(ranks):
    tables = ("kernel_summary", "breakdown", "totals", "steps")
    words = [word for table in tables for word in ("--table", table)]
    together, apart = report(ranks, *words), report(ranks, *words, "--workers", "2")

    assert (together.returncode, apart.returncode) == (0, 0), apart.stderr
    for table in tables:
        assert rows(apart, table) == rows(together, table) != []


def test_workers_tell_of_a_recording_what_one_process_tells(tmp_path):
    for rank in range(2):
        profile = drawn_job([300 + rank])
        told = {"command": "train", "variant": "a", "start_resolution_ns": 1000}
        origin = replace(profile.origin, **told)
        write(replace(profile, origin=origin), tmp_path / f"rank{rank}.gpuprof")
    runs = report(tmp_path), report(tmp_path, "--workers", "2")

    together, apart = (json.loads(run.stdout)["origin"] for run in runs)
    assert apart == together
    assert (apart["command"], apart["start_resolution_ns"]) == ("train", 1000)


def test_workers_draw_the_charts_of_one_process(ranks, tmp_path):
    options = ("--chart-data", "csv")
    by_one = gpuprof("plot", "ranks", ranks, "-o", tmp_path / "one.svg", *options)
    by_two = gpuprof("plot", "ranks", ranks, "-o", tmp_path / "two.svg", *options, "--workers", "2")

    assert (by_one.returncode, by_two.returncode) == (0, 0), by_two.stderr
    assert (tmp_path / "two.csv").read_text() == (tmp_path / "one.csv").read_text() != ""
    assert (tmp_path / "two.svg").stat().st_size


def test_a_report_of_workers_has_charts_and_a_page_beside_it(ranks, tmp_path):
    page, chart = tmp_path / "page.html", tmp_path / "kernels.svg"
    alone = gpuprof("report", ranks, "--workers", "2")
    beside = gpuprof(
        *("report", ranks, "--workers", "2", "--html", page, "--chart", f"kernels={chart}")
    )

    assert (beside.returncode, beside.stdout) == (0, alone.stdout), beside.stderr
    text = page.read_text(encoding="utf-8")
    assert all(f'id="table-{name}"' in text for name in ("kernel_summary", "breakdown", "phases"))
    assert "use --rank N for one rank" in text
    assert chart.stat().st_size


def test_a_chart_of_single_activities_takes_one_rank(ranks, tmp_path):
    picture = tmp_path / "timeline.svg"
    of_all = gpuprof("plot", "timeline", ranks, "--workers", "2", "-o", picture)
    of_one = gpuprof("plot", "timeline", ranks, "--rank", "2", "-o", picture)

    assert of_all.returncode == 2
    assert of_all.stderr.endswith("Hint: Ask for one rank: --rank 17.\n")
    assert of_one.returncode == 0, of_one.stderr


def test_a_complete_result_says_nothing_on_stderr(ranks):
    completed = gpuprof("report", ranks, "--workers", "2")

    assert (completed.returncode, completed.stderr) == (0, "")
    assert "4 devices" in completed.stdout


def test_a_partial_result_ends_with_status_4_and_its_reasons(ranks):
    (ranks / "rank1.gpuprof").write_bytes(b"no recording")
    completed = report(ranks, "--workers", "2", "--table", "kernel_summary")

    assert completed.returncode == 4
    assert completed.stderr == "Partial result: 1 of 4 files could not be read.\n"
    note = f"Left out: {ranks / 'rank1.gpuprof'} is in no known format."
    assert note in json.loads(completed.stdout)["notes"]


def test_a_csv_has_no_notes_so_stderr_has_them(ranks):
    (ranks / "rank1.gpuprof").unlink()
    completed = gpuprof(
        "report",
        *(ranks / f"rank{rank}.gpuprof" for rank in range(4)),
        *("--workers", "2", "--table", "kernel_summary", "--format", "csv"),
    )

    assert completed.returncode == 4
    assert completed.stderr == (
        f"Note: Left out: {ranks / 'rank1.gpuprof'}: no such file.\n"
        "Partial result: 1 of 4 files could not be read.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "has_notes"),
    [
        pytest.param(["report", "{job}", "--table", "totals"], True, id="report"),
        pytest.param(["report", "{job}/rank*.gpuprof", "--format", "csv"], False, id="glob"),
        pytest.param(["compare", "{job}", "{rank}"], True, id="compare"),
        pytest.param(["plot", "kernels", "{job}", "-o", "{out}.png"], False, id="plot"),
        pytest.param(["convert", "{job}", "-o", "{out}.gpuprof"], False, id="convert"),
        pytest.param(["export", "{job}", "--to", "csv", "-o", "{out}"], False, id="export"),
    ],
)
def test_every_command_ends_with_status_4_where_a_file_is_missing(
    ranks, tmp_path, arguments, has_notes
):
    bad = ranks / "rank1.gpuprof"
    bad.write_bytes(b"no recording")
    names = {"job": ranks, "rank": ranks / "rank0.gpuprof", "out": tmp_path / "out"}
    completed = gpuprof(*(argument.format(**names) for argument in arguments))

    note = "" if has_notes else f"Note: Left out: {bad} is in no known format.\n"
    assert completed.returncode == 4
    assert completed.stderr == f"{note}Partial result: 1 of 4 files could not be read.\n"


def test_where_nothing_can_be_read_the_status_is_1(ranks):
    for file in ranks.iterdir():
        file.write_bytes(b"")
    completed = gpuprof("report", ranks, "--workers", "2")

    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr == (
        f"Error: none of 4 files can be read\nHint: {ranks / 'rank0.gpuprof'} is empty\n"
    )


def test_files_of_several_formats_are_refused(ranks):
    sample = ROOT / "sample_logs" / "nvprof" / "published" / "single.txt"
    (ranks / "rank4.txt").write_bytes(sample.read_bytes())
    completed = gpuprof("report", ranks, "--workers", "2", "--table", "kernel_summary")

    assert completed.returncode == 1
    assert completed.stderr == (
        f"Error: {ranks} holds files of several formats: drawn (rank3.gpuprof) and nvprof-text"
        " (rank4.txt)\n"
        "Hint: Name one format with --reader, or the files with a glob, or use `gpuprof compare`.\n"
    )


def test_one_rank_has_all_tables(ranks):
    completed = report(ranks, "--rank", "3", "--table", "ping_pong", "--table", "breakdown")
    alone = report(ranks / "rank3.gpuprof", "--table", "ping_pong", "--table", "breakdown")

    assert json.loads(completed.stdout)["tables"] == json.loads(alone.stdout)["tables"]


def test_a_rank_that_is_not_there_is_refused(ranks):
    completed = gpuprof("report", ranks, "--rank", "7")

    assert (completed.returncode, completed.stderr) == (
        1,
        "Error: none of 4 files is of rank 7\nHint: File names give ranks 0 to 3.\n",
    )


REFUSED = {
    "chart": (["--chart", "timeline=a.png"], "Error: table lanes_over_time is made for pictures"),
    "part": (["--from", "1us"], "Error: --from needs all files in one process\n"),
    "table": (["--table", "ping_pong"], "Error: table ping_pong shows single activities"),
    "cluster": (
        ["--scheduler", "tcp://127.0.0.1:1"],
        "Error: --workers and --memory-limit are those of this machine's processes\n",
    ),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_workers_cannot_do_is_said_before_the_work(ranks, options, message):
    completed = gpuprof("report", ranks, "--workers", "2", *options)

    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr.startswith(message)


def test_more_files_than_one_process_joins_are_read_by_workers(tmp_path):
    for rank in range(17):
        write(drawn_job([300]), tmp_path / f"rank{rank}.gpuprof")
    (tmp_path / "rank17.gpuprof").write_bytes(b"no recording")
    overview = gpuprof("report", tmp_path, "--format", "json")
    # One process reads a few columns of all files sooner.
    table = gpuprof("report", tmp_path, "--table", "kernel_summary", "--format", "json")

    assert (overview.returncode, table.returncode) == (4, 4)
    assert "workers read" in overview.stdout
    assert "workers read" not in table.stdout


def test_a_list_from_standard_input_is_read_once(ranks):
    files = "\n".join(str(file) for file in sorted(ranks.iterdir()))
    for options in [], ["--workers", "2"]:
        words = [sys.executable, "-m", "gpuprof", "report", "@-", "--table", "totals", *options]
        completed = subprocess.run(
            words, input=files, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (completed.returncode, completed.stderr) == (0, "")


def test_a_resumed_report_is_the_same(ranks, tmp_path):
    options = ["--workers", "2", "--resume", tmp_path / "state", "--table", "totals"]
    first, second = report(ranks, *options), report(ranks, *options)

    assert first.stdout == second.stdout
    assert len([*(tmp_path / "state").glob("*.partial")]) == 1


def test_one_file_loads_nothing_of_workers_and_nothing_loads_dask_unasked(ranks):
    code = (
        "import sys; from gpuprof.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = ('gpuprof.ranks.engine', 'multiprocessing', 'dask', 'distributed', 'psutil')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )

    def loaded(*arguments):
        return python("-c", code, "report", *arguments).stderr.strip()

    assert loaded(ranks / "rank0.gpuprof") == "[]"
    assert loaded(ranks, "--workers", "1") == "['gpuprof.ranks.engine']"


@pytest.mark.dask
def test_the_cluster_of_the_documentation_gives_the_same_report(ranks, tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed (extra scale)")
    address = tmp_path / "dask.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    dask = [sys.executable, "-m", "dask"]
    programs = [
        [*dask, "scheduler", "--port", "0", "--dashboard-address", ":0"],
        [*dask, "worker", "--nworkers", "2", "--nthreads", "1", "--dashboard-address", ":0"],
    ]
    running = [
        subprocess.Popen([*program, "--scheduler-file", address], cwd=tmp_path, **quiet)
        for program in programs
    ]
    try:
        end = time.monotonic() + 60
        while not address.exists():
            assert time.monotonic() < end, "the scheduler does not start"
            time.sleep(0.1)
        table = ("--table", "breakdown")
        distant = report(ranks, *table, "--scheduler", address)
        local = report(ranks, *table, "--workers", "2")
    finally:
        for process in running[::-1]:
            process.terminate()
            process.wait(20)

    assert (distant.returncode, distant.stderr) == (0, "")
    assert rows(distant, "breakdown") == rows(local, "breakdown")


def test_ctrl_c_ends_workers_too(tmp_path):
    for rank in range(60):
        write(drawn_job([300] * 8, steps=200), tmp_path / f"rank{rank}.gpuprof")
    screen, terminal = pty.openpty()
    process = started("report", tmp_path, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown, end = b"", time.monotonic() + 60
    while b"left" not in shown and time.monotonic() < end:
        shown += os.read(screen, 4096) if select.select([screen], [], [], 1)[0] else b""
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)

    assert process.wait(10) == 130
    assert re.search(rb"Reading files \[[# ]{20}\] \d+ done, 0 failed, \d+ left", shown)
    assert workers
    while any(os.path.exists(f"/proc/{child}") for child in workers):  # noqa: PTH110
        assert time.monotonic() < end
        time.sleep(0.05)
    os.close(screen)
