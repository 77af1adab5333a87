"""The benchmark: says which targets are reached, and believes no tool that did nothing."""

import sys

import benchmark
import benchmark_targets
import pytest
from benchmark import Contender, Section
from benchmark_targets import Cost

TABLE = "Time (%),Total Time (ns),Name\\n17.8,218654661,gemm\\n"
OURS, THEIRS = Cost(2.0, 3.0, 100_000_000), Cost(110.0, 100.0, 800_000_000)


def shown(capsys, output, *, status=0, reports=1):
    ours = Contender("gpuprof", (sys.executable, "-c", "print(7)"))
    code = f"import sys; print('{output}'); sys.exit({status})"
    command = (sys.executable, "-c", code)
    target = benchmark_targets.faster(0)
    nsys = Contender("nsys stats", command, has_answer=False, reports=reports, targets=(target,))
    section = Section("readers", "Kernels", lambda _, __: [ours, nsys])

    benchmark.show(section, [ours, nsys], benchmark.measure([ours, nsys], 1))

    return capsys.readouterr().out.splitlines()[-1]


def test_a_run_of_nsys_whose_tables_have_rows_counts(capsys):
    assert "0x: reached (" in shown(capsys, TABLE * 3, reports=3)


@pytest.mark.parametrize(
    ("output", "status", "reports"),
    [
        ("", 0, 1),
        ("Time (%),Total Time (ns),Name\\n", 0, 1),
        ("SKIPPED: it does not contain CUDA kernel data.", 0, 1),
        (TABLE, 0, 3),
        (TABLE, 1, 1),
    ],
)
def test_a_run_of_nsys_that_did_not_do_its_work_is_told_and_not_compared(
    capsys, output, status, reports
):
    last = shown(capsys, output, status=status, reports=reports)

    assert last.split(maxsplit=2)[2] == "failed: its output lacks tables with rows"


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (benchmark_targets.faster(50), "50x: reached (55x)"),
        (benchmark_targets.faster(60), "60x: missed (55x)"),
        (benchmark_targets.within(6), "within 6x: reached (0.0182x)"),
        (benchmark_targets.lighter(1 / 4), "0.25 of its memory: reached (0.125)"),
        (benchmark_targets.seconds(0.6, 34_000), "0.6 s: missed (2 s)"),
        (benchmark_targets.cpu_seconds(8, 10_000_000), "8 s CPU: reached (3 s)"),
        (benchmark_targets.gigabytes(0.05, 50_000_000), "0.05 GB: missed (0.1 GB)"),
    ],
)
def test_a_target_says_whether_it_is_reached(target, verdict):
    assert target.verdict(OURS, THEIRS) == verdict


def test_a_target_holds_for_exports_of_its_size(tmp_path):
    export = tmp_path / "one.sqlite"
    with export.open("wb") as file:
        file.truncate(benchmark_targets.BYTES_PER_EVENT * 1_000_000)
    small, large = benchmark_targets.faster(20, 1_000_000), benchmark_targets.faster(60, 10_000_000)

    assert benchmark_targets.aimed(export, small, large) == (small,)
