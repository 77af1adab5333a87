"""A type checker in strict mode knows what the functions take and return."""

from pathlib import Path

import pytest
from commands import ROOT, python

SCRIPT = """
from pathlib import Path

import pandas as pd
import pyarrow as pa
from matplotlib.figure import Figure

import gpuprof

report = gpuprof.report(Path("a.sqlite"), ["totals"], from_="1s", device=0)
findings: pd.DataFrame = report.findings
totals: pd.DataFrame = report["totals"]
absent: pd.DataFrame | None = report.tables.get("ranks")
table: pa.Table = report.arrow("totals")
sentence: str = report.bottom_line
figure: Figure = report.plot("matrix")
page: str = report.to_html()
report.to_html("page.html")

comparison = gpuprof.compare("a.sqlite", ("b", report), baseline="b")
gpuprof.compare({"a": "a.sqlite", "b": [Path("b.sqlite"), report]})
gpuprof.compare([("a", "a.sqlite"), ("b", "b.sqlite")], epoch_seconds={"a": 2})
verdict: str = comparison.verdict
comparison.fail_if("step_ns > 1.05x")

run = gpuprof.record("train.py", "--epochs", 5, out="runs/a", timeout="2h")
figures: dict[str, float] = gpuprof.metrics(run)
gpuprof.report(run)
gpuprof.compare(run, "b.sqlite")

sweep = gpuprof.sweep("train.py", "{batch}", grid={"batch": [1, 2]}, baseline={"batch": 1})
gpuprof.compare(sweep)
other: Figure = gpuprof.plot("waterfall", comparison)
gpuprof.plot("matrix", "a.sqlite", to=5_000_000)
gpuprof.plot("batch", sweep)


def label(result: gpuprof.ReportResult | gpuprof.ComparisonResult) -> tuple[str, ...]:
    return result.notes
"""
WRONG = """
import gpuprof

gpuprof.report(7)
gpuprof.compare("a", baselin="b")
gpuprof.report("a").findngs
"""


@pytest.mark.filterwarnings("ignore")
def test_a_script_that_uses_everything_passes_and_mistakes_are_found(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")

    for name, text in {"right.py": SCRIPT, "wrong.py": WRONG}.items():
        (tmp_path / name).write_text(text)
    cache = ("--cache-dir", ROOT / ".mypy_cache")
    checked = python("-m", "mypy", "--strict", *cache, *tmp_path.iterdir(), cwd=ROOT, check=False)

    # What it finds in its cache it says with the folder of an earlier run.
    errors = [line.split(":")[:2] for line in checked.stdout.splitlines() if ": error:" in line]
    places = [(Path(path).name, line) for path, line in errors]
    assert places == [("wrong.py", "4"), ("wrong.py", "5"), ("wrong.py", "6")], checked.stdout
