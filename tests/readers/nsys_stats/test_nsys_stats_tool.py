"""What the real `nsys stats` prints of one recording reads the same in all its formats."""

import shutil
import subprocess
from pathlib import Path

import pytest

import gpuprof

EXPORT = (
    Path(__file__).parents[4]
    / "shared/corpus/nsys-sqlite/lukas-ruettger__dphpc-gemm__nsys.log.sqlite"
)
REPORTS = "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum,cuda_api_sum"
TRACES = "cuda_gpu_trace,cuda_api_trace"
FORMATS = ("column", "table", "csv", "tsv", "json", "hdoc", "htable")

pytestmark = [
    pytest.mark.profilers,
    pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed"),
    pytest.mark.skipif(not EXPORT.exists(), reason="the corpus of real files is not here"),
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Print reports of the recording and read what was printed."""
    folder = tmp_path_factory.mktemp("stats")
    export = folder / "run.sqlite"
    shutil.copyfile(EXPORT, export)

    def read(reports, name):
        command = ["nsys", "stats", "--format", name, "--report", reports, str(export)]
        completed = subprocess.run(command, capture_output=True, check=True, timeout=300)
        path = folder / f"{name}-{len(reports)}.txt"
        path.write_bytes(completed.stdout)
        return gpuprof.read_profile(path)

    return read


def _without_long_names(table):
    """Rows with the names as far as the tables for people show them."""
    return [{**row, "name": row["name"].rstrip("…")[:99]} for row in table.to_pylist()]


def test_sums_are_the_same_in_all_formats(printed):
    found = {name: printed(REPORTS, name).table("activity_summary") for name in FORMATS}
    expected = _without_long_names(found["csv"])

    assert [row["total_ns"] for row in expected[:2]] == [5_954_009, 10_427_581]
    assert {name: _without_long_names(table) == expected for name, table in found.items()} == (
        dict.fromkeys(FORMATS, True)
    )


@pytest.mark.parametrize("table", ["kernels", "memcpys", "api_calls"])
def test_traces_are_the_same_in_all_formats(printed, table):
    names = ("column", "csv", "json")
    found = {name: printed(TRACES, name).table(table) for name in names}
    rows = {
        name: [*found[name].drop_columns("name").to_pylist()]
        if table == "kernels"
        else found[name].to_pylist()
        for name in names
    }

    assert rows["csv"]
    assert rows["column"] == rows["csv"] == rows["json"]


def test_trace_gives_the_rows_of_the_database(printed):
    trace, database = printed(TRACES, "csv"), gpuprof.read_profile(EXPORT)
    for table in ("kernels", "memcpys"):
        columns = ["start_ns", "end_ns", "device_id", "stream_id", "context_id", "correlation_id"]
        assert trace.table(table).select(columns) == database.table(table).select(columns)
        assert trace.table(table).num_rows


def test_sums_of_other_reports_stand_in(printed):
    expected = printed(REPORTS, "csv").table("activity_summary").to_pylist()
    found = printed("cuda_api_gpu_sum", "csv").table("activity_summary").to_pylist()

    wanted = ("activity_kind", "name", "calls", "total_ns", "median_ns")
    assert [[row[key] for key in wanted] for row in found] == [
        [row[key] for key in wanted] for row in expected
    ]
