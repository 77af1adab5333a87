"""The summaries of real recordings equal those of the real `nsys stats`, row by row.

nsys prints rounded means and megabytes. Its own report scripts, copied with the rounding and
the units of display taken out, give what it computed.
"""

import csv
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuprof import cuda
from gpuprof.analyses.activity_summary import TABLES, activity_summary
from gpuprof.errors import EmptyRecordingError, InputError, MissingToolError
from gpuprof.readers import find_reader, read_profile

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
RECORDINGS = [*sorted(CORPUS.glob("nsys-sqlite/*")), *sorted(CORPUS.glob("nsys-rep/*"))]
# Report -> kind of activity, and the column that names a row.
REPORTS = {
    "cuda_gpu_kern_sum": ("kernel", "Name"),
    "cuda_gpu_mem_time_sum": ("copy", "Operation"),
    "cuda_gpu_mem_size_sum": ("copy", "Operation"),
    "cuda_api_sum": ("api", "Name"),
}
MEMORY = {"cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"}
NO_ENUM = "joins the names of memcpy kinds, which are not in exports before 2022.4 or trimmed ones"
# What nsys 2023.4 does not print of what is in the file, and why.
SKIPPED = {
    "PolPuigPuy__OpenACC_Project_PolPuig__report2.sqlite": (MEMORY, NO_ENUM),
    "lockfuehrer__beast_ressoruces__report1.sqlite": (MEMORY, NO_ENUM),
}

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
    subprocess.run(command, capture_output=True, check=True)
    files = {name: folder / f"nsys_exact_{name}.csv" for name in REPORTS}
    found = {n: rows(f, REPORTS[n][1]) for n, f in files.items() if f.exists()}
    return {name: table for name, table in found.items() if table}


def rows(file, key):
    found = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert len({row[key] for row in found}) == len(found)
    return {row[key]: row for row in found}


def ours(profile):
    """Kind -> name as nsys has it -> row."""
    labels = {"memset": "[CUDA memset]"}
    found = {"kernel": {}, "copy": {}, "api": {}}
    if not any(map(profile.has, TABLES)):
        return found
    for row in activity_summary(profile).to_pylist():
        kind = row["activity_kind"] if row["activity_kind"] in found else "copy"
        found[kind][labels.get(row["name"], row["name"])] = row
    return found


def named(name):
    """A name of nsys in our words; it prints nothing where the file lacks the name."""
    return cuda.memcpy_kind(name) or name or cuda.UNKNOWN


def same_times(nsys, row):
    given = [nsys["Total Time"], nsys["Min"], nsys["Max"]]
    assert [row["total_ns"], row["min_ns"], row["max_ns"]] == [int(n) for n in given]
    assert math.isclose(float(nsys["Avg"]), row["mean_ns"], rel_tol=1e-9)
    assert math.isclose(float(nsys["Med"]), row["median_ns"], rel_tol=1e-9)
    if row["calls"] == 1:
        # nsys says 0 of a single call, whose deviation nobody knows.
        assert (float(nsys["StdDev"]), row["stddev_ns"]) == (0, None)
    else:
        assert math.isclose(float(nsys["StdDev"]), row["stddev_ns"], rel_tol=1e-9, abs_tol=1e-6)


@pytest.mark.parametrize("path", RECORDINGS, ids=[path.name for path in RECORDINGS])
def test_summaries_equal_those_of_nsys_stats(path, exact_reports, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    if not find_reader(path).name.startswith("nsys"):
        pytest.skip("no recording of nsys, whatever its suffix")
    try:
        profile = read_profile(path)
    except (EmptyRecordingError, InputError, MissingToolError) as error:
        pytest.skip(error.message.removeprefix(f"{path}: "))
    theirs, mine = nsys_stats(path, exact_reports, tmp_path), ours(profile)

    skipped, _ = SKIPPED.get(path.name, (set(), ""))
    assert {name for name, (kind, _) in REPORTS.items() if mine[kind]} - skipped == set(theirs)
    for name, (kind, _) in REPORTS.items():
        if name not in theirs:
            continue
        printed = {named(key): row for key, row in theirs[name].items()}
        assert printed.keys() == mine[kind].keys()
        for key, row in printed.items():
            calls = row.get("Instances") or row.get("Count") or row.get("Num Calls")
            assert mine[kind][key]["calls"] == int(calls)
            if name == "cuda_gpu_mem_size_sum":
                assert mine[kind][key]["bytes"] == int(row["Total"])
            else:
                same_times(row, mine[kind][key])
