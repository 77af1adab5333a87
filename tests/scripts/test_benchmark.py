"""The benchmark: says which targets are reached, and believes no tool that did nothing."""

import shutil
import sys
from pathlib import Path

import benchmark
import benchmark_core
import benchmark_ranks
import benchmark_runs
import large_recordings
import pytest
from benchmark_core import Question
from benchmark_runs import Contender, Cost, Target, Timing

import gpuprof

SAMPLES = Path(__file__).parents[2] / "sample_logs"
TRACE = SAMPLES / "nsys/2023.4.4/synthetic-two-gpus-trace.csv"

NSYS = "\nTime (%),Total Time (ns),Instances,Name\n90.0,70,2,a/gemm\n10.0,5,1,axpy\n"
OURS, THEIRS = Cost(2.0, 3.0, 100_000_000), Cost(110.0, 100.0, 800_000_000)
EMPTY_NSYS = (
    "",
    "Time (%),Total Time (ns),Instances,Name\n",
    "SKIPPED: it does not contain CUDA kernel data.",
)


def printing(name, output, *, status=0):
    code = f"import sys; print({output!r}); sys.exit({status})"
    return Contender(name, (sys.executable, "-c", code), benchmark_core.kernel_totals)


@pytest.mark.parametrize(("output", "status"), [*((output, 0) for output in EMPTY_NSYS), (NSYS, 1)])
def test_a_run_of_nsys_that_did_not_do_its_work_is_told_and_not_compared(capsys, output, status):
    contenders = [
        printing("gpuprof", "calls,total_ns\n3,75"),
        printing("nsys stats", output, status=status),
    ]
    timings = benchmark_runs.measure(contenders, 2)
    question = Question("gpuprof", "", {}, nsys="cuda_gpu_kern_sum")

    benchmark.show("Kernels", contenders, timings)

    assert len(timings["nsys stats"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=2)[2] == "failed"
    assert benchmark_core.row(question, 3, timings).endswith(" failed")


def test_different_answers_end_the_comparison():
    contenders = [printing("gpuprof", "calls,total_ns\n3,76"), printing("nsys stats", NSYS)]
    timings = benchmark_runs.measure(contenders, 1)

    with pytest.raises(SystemExit, match=r"^The answers differ: \['3 75', '3 76'\]$"):
        benchmark.show("Kernels", contenders, timings)


@pytest.mark.parametrize(
    ("answer", "ours", "expected"),
    [
        (benchmark_core.kernel_totals, "calls,total_ns,name\n2,70,gemm\n1,5,axpy\n", "3 75"),
        (benchmark_core.range_totals, "text,self_kernel_ns\na,70\nb,\n", "70"),
    ],
)
def test_tables_of_ours_and_of_nsys_give_the_same_answer(answer, ours, expected):
    assert answer(ours) == answer(NSYS) == expected
    assert [answer(output) for output in EMPTY_NSYS] == [None] * len(EMPTY_NSYS)


@pytest.mark.parametrize(
    ("target", "text", "verdict"),
    [
        (Target(50, 2, 100), "50x, 2 s, 100 MB", "yes"),
        (Target(60), "60x", "no: 60x"),
        (Target(50, 1.5, 99), "50x, 1.5 s, 99 MB", "no: 1.5 s, 99 MB"),
        (Target(), "", ""),
    ],
)
def test_a_target_says_whether_it_is_reached(target, text, verdict):
    assert (str(target), target.verdict(OURS, THEIRS)) == (text, verdict)


def test_without_nsys_a_target_beside_it_is_unknown():
    assert Target(50, 2).verdict(OURS, None) == "n/a: 50x"
    assert Target(50, 1).verdict(OURS, None) == "no: 1 s"
    assert Target(seconds=2).verdict(OURS, None) == "yes"


def test_a_row_shows_both_sides_and_the_target_of_files_of_that_size():
    took = {
        "kernels": [Timing(s, s, 2 * 10**8, "3 75") for s in (1.0, 9.0, 2.0)],
        "nsys stats": [Timing(110.0, 99.0, 8 * 10**8, "3 75")],
    }
    question = Question("kernels", "", {1_000_000: Target(50), 10_000_000: Target(60, 3)})

    rows = [benchmark_core.row(question, n, took).split() for n in (8_000_000, 900_000, 100)]

    assert " ".join(rows[0]) == "kernels 8,000,000 2.00 200 110.00 800 55.0 60x, 3 s no: 60x"
    assert rows[1][-2:] == ["50x", "yes"]
    assert rows[2][-1] == "55.0"


def test_core_asks_its_questions_of_a_file(tmp_path, monkeypatch):
    names = ("kernel summary", "ranges", "compare of two", "convert", "kernel summary of .gpuprof")
    questions = [q for q in benchmark_core.QUESTIONS if q.name.startswith(names)]
    monkeypatch.setattr(benchmark_core, "QUESTIONS", questions)

    _, *lines = benchmark_core.table([TRACE], tmp_path, 1, with_nsys=True)

    assert [line.split("  ")[0] for line in lines] == ["--help", *(q.name for q in questions)]
    assert [line.split()[-1] for line in lines if " failed" in line] == ["n/a"]
    assert next(line for line in lines if " failed" in line).startswith("ranges")


def test_every_question_is_a_command(tmp_path):
    inputs = benchmark_core.paths(TRACE, tmp_path / "0")

    commands = [benchmark_core.ours(q, inputs).command for q in benchmark_core.QUESTIONS]

    assert {command[3] for command in commands} == {"report", "compare", "convert"}
    assert not [word for command in commands for word in command if "{" in word]
    assert len(list((tmp_path / "0" / "many").iterdir())) == 64


def test_a_file_that_is_not_there_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "core", str(tmp_path / "absent.sqlite")])

    with pytest.raises(SystemExit, match="2"):
        benchmark.main()

    assert "no such file: " in capsys.readouterr().err


def test_that_nsys_is_not_installed_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert not benchmark.has_nsys()
    assert capsys.readouterr().out.startswith("nsys stats is left out, since it is not installed")


def test_ranks_are_read_by_workers_and_what_is_missing_is_told(tmp_path, monkeypatch, capsys):
    for rank in range(2):
        shutil.copy(TRACE, tmp_path / f"rank{rank}.csv")
    monkeypatch.setattr(benchmark_ranks, "_dask_address", lambda _: None)
    arguments = ["ranks", str(tmp_path), "--times", "1", "--recipe", "there-is-none"]
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *arguments])

    benchmark.main()

    printed = capsys.readouterr().out
    assert "nsys recipe is left out, since it does not start: there is no there-is-none." in printed
    names = ("gpuprof, 2 workers", "gpuprof, 1 worker", "gpuprof, one process")
    rows = [line for line in printed.splitlines() if line.startswith(names)]
    assert len(rows) == 3
    assert not any("failed" in row for row in rows)


def test_the_table_of_a_recipe_gives_the_same_answer():
    table = "Name,Time,Total Time,Instances\ngemm,90.0,70,2\naxpy,10.0,5,1\n"

    assert benchmark_ranks.recipe_totals(table) == "3 75"
    assert benchmark_ranks.recipe_totals("") is None


@pytest.mark.parametrize(
    ("reader", "ending"), [(reader, ending) for reader, ending, *_ in benchmark.FORMATS]
)
def test_a_drawn_recording_is_read_in_every_format(tmp_path, monkeypatch, reader, ending):
    path = tmp_path / f"drawn{ending}"
    monkeypatch.setattr(sys, "argv", ["large_recordings.py", str(path), "2100"])

    large_recordings.main()

    profile = gpuprof.read_profile(path)
    assert profile.origin.reader == ("drawn" if reader == "gpuprof" else reader)
    assert profile.table("kernels").num_rows == 2080
    ids = profile.table("kernels")["correlation_id"].to_pylist()
    assert len({*ids}) == len(ids)


def test_an_ending_of_no_format_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["large_recordings.py", str(tmp_path / "run.txt"), "1"])

    with pytest.raises(SystemExit, match="2"):
        large_recordings.main()

    assert "run.txt ends in none of .gpuprof, .json, .json.gz" in capsys.readouterr().err


def test_a_file_stands_in_the_place_of_the_drawn_ones(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", "formats", str(TRACE), "--times", "1"])

    benchmark.main()

    title, _, *rows = capsys.readouterr().out.splitlines()
    assert title == f"nsys-stats: {TRACE.name}, 0 MB"
    names = ["gpuprof report", "pyarrow.csv.read_csv", "gpuprof predict"]
    assert [row.split("  ")[0] for row in rows] == names
    assert not any("failed" in row for row in rows[:1])
