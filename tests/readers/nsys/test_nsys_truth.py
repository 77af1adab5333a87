"""What `gpuprof report --format json` prints equals the real `nsys stats`, row by row.

nsys prints rounded means and megabytes. Its own report scripts, copied with the rounding and
the units of display taken out, give what it computed.
"""

import csv
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuprof.base import cuda
from gpuprof.base.errors import GpuprofError
from gpuprof.cli import cli
from gpuprof.readers import find_reader

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
# Every export, and few reports, all of whose tables equal their exports (`test_nsys_report`).
FEW = re.compile("jacobi_memcpy_sys|bucketcap|OpenACC_Project|gpu_practice|Darknet")
RECORDINGS = [
    *sorted(CORPUS.glob("nsys-sqlite/*")),
    *(path for path in sorted(CORPUS.glob("nsys-rep/*")) if FEW.search(path.name)),
]
# Report of nsys -> our table, the kinds of its rows (all where None), the column that names a
# row, the unit in our columns, and the column of nsys with the sum.
REPORTS = {
    "cuda_gpu_kern_sum": ("activity_summary", {"kernel"}, "Name", "ns", "Total Time"),
    "cuda_gpu_mem_time_sum": (
        "activity_summary",
        {"memcpy", "memset"},
        "Operation",
        "ns",
        "Total Time",
    ),
    "cuda_gpu_mem_size_sum": ("size_summary", None, "Operation", "bytes", "Total"),
    "cuda_api_sum": ("activity_summary", {"api"}, "Name", "ns", "Total Time"),
}
MEMORY = {"cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"}
NO_ENUM = "joins the names of memcpy kinds, which are not in exports before 2022.4 or trimmed ones"
# What nsys 2023.4 does not print of what is in the file, and why. Two more differences are in
# the comparison itself: it prints a deviation of 0 for a single call, where ours is unknown,
# and no name where the file lacks it, where we say unknown. Bandwidths are not compared: its
# own are of whole megabytes and whole seconds.
SKIPPED = {
    "PolPuigPuy__OpenACC_Project_PolPuig__report2.sqlite": (MEMORY, NO_ENUM),
    "lockfuehrer__beast_ressoruces__report1.sqlite": (MEMORY, NO_ENUM),
}
# Reports that the installed nsys cannot open, exports without CUDA, incomplete streams.
REFUSED = re.compile("and the installed nsys|nothing to report|nsys cannot open it|is a Git LFS")

pytestmark = [
    pytest.mark.profilers,
    pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed"),
    pytest.mark.skipif(not RECORDINGS, reason="the recordings are not on this machine"),
]


@pytest.fixture(scope="session")
def exact_reports(tmp_path_factory):
    """The report scripts of the installed nsys without rounding and units of display."""
    folder = tmp_path_factory.mktemp("reports")
    sample = folder / "sample.sqlite"
    shutil.copy(RECORDINGS[1], sample)
    command = ["nsys", "stats", "--report", ",".join(REPORTS), str(sample)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for name in REPORTS:
        script = Path(re.search(rf"with \[(.*{name}\.py)\]", said)[1])
        exact = re.sub(r"round\((summary\.[a-z]+), 1\)", r"\1", script.read_text())
        exact = re.sub(r':(dur_ns|mem_B|ratio_%)"', '"', exact)
        (folder / f"exact_{name}.py").write_text(exact)
    return folder


def nsys_stats(path, scripts, folder):
    """What nsys says of a recording: report -> name -> row; no report where it printed none."""
    database = folder / "run.sqlite"
    if find_reader(path).name == "nsys-sqlite":
        shutil.copy(path, database)
        source = [str(database)]
    else:
        source = ["--sqlite", str(database), str(path)]
    reports = ",".join(f"exact_{name}" for name in REPORTS)
    options = ["--report-dir", scripts, "--report", reports, "-o", folder / "nsys"]
    command = ["nsys", "stats", "-q", "--format=csv", *options, *source]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if "newer than your current version" in done.stdout + done.stderr:
        pytest.skip("a newer nsys recorded it")
    assert done.returncode == 0
    files = {name: folder / f"nsys_exact_{name}.csv" for name in REPORTS}
    found = {n: rows(f, REPORTS[n][2]) for n, f in files.items() if f.exists()}
    return {name: table for name, table in found.items() if table}


def rows(file, key):
    found = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert len({row[key] for row in found}) == len(found)
    return {row[key]: row for row in found}


def ours(tables, name):
    """The rows of a table of our report that are those of nsys' report, by nsys' names."""
    table, kinds, *_ = REPORTS[name]
    wanted = [r for r in tables[table] or [] if kinds is None or r["activity_kind"] in kinds]
    return {"[CUDA memset]" if row["name"] == "memset" else row["name"]: row for row in wanted}


def named(name):
    """A name of nsys in our words; it prints nothing where the file lacks the name."""
    return cuda.memcpy_kind(name) or name or cuda.UNKNOWN


def check_row(nsys, row, unit, total):
    calls = nsys.get("Instances") or nsys.get("Count") or nsys.get("Num Calls")
    whole = [row["calls"], row["total_ns" if unit == "ns" else "bytes"]]
    whole += [row[f"min_{unit}"], row[f"max_{unit}"]]
    assert whole == [int(calls), int(nsys[total]), int(nsys["Min"]), int(nsys["Max"])]
    for theirs, mine in (("Avg", "mean"), ("Med", "median")):
        assert math.isclose(float(nsys[theirs]), row[f"{mine}_{unit}"], rel_tol=1e-9)
    if row["calls"] == 1:
        # nsys says 0 of a single call, whose deviation nobody knows.
        assert (float(nsys["StdDev"]), row[f"stddev_{unit}"]) == (0, None)
    else:
        deviation = row[f"stddev_{unit}"]
        assert math.isclose(float(nsys["StdDev"]), deviation, rel_tol=1e-9, abs_tol=1e-6)


@pytest.mark.parametrize("path", RECORDINGS, ids=[path.name for path in RECORDINGS])
def test_report_equals_nsys_stats(path, exact_reports, tmp_path):
    done = CliRunner().invoke(cli, ["report", str(path), "--format", "json"])
    if done.exit_code:
        assert isinstance(done.exception, GpuprofError)
        assert REFUSED.search(done.exception.message)
        pytest.skip(done.exception.message.replace(str(path), "FILE"))
    report = json.loads(done.stdout)
    if not report["origin"]["reader"].startswith("nsys"):
        pytest.skip("no recording of nsys, whatever its suffix")
    theirs = nsys_stats(path, exact_reports, tmp_path)
    mine = {name: ours(report["tables"], name) for name in REPORTS}

    skipped, _ = SKIPPED.get(path.name, (set(), ""))
    assert {name for name in REPORTS if mine[name]} - skipped == set(theirs)
    for name, table in theirs.items():
        printed = {named(key): row for key, row in table.items()}
        assert printed.keys() == mine[name].keys()
        for key, row in printed.items():
            check_row(row, mine[name][key], *REPORTS[name][3:])
