"""Real exports and reports of Nsight Systems, recorded by other people."""

import shutil
import subprocess
from pathlib import Path

import pytest
from summary_figures import expectations, figures

from gpuprof import schema
from gpuprof.analyses.activity_summary import with_summary
from gpuprof.errors import EmptyRecordingError, GpuprofError
from gpuprof.readers import find_reader, nsys_sqlite, read_profile, sqlite_source

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
EXPORTS = sorted((CORPUS / "nsys-sqlite").glob("*.sqlite"))
EXPECTED_EXPORTS = expectations("nsys-sqlite")
EXPECTED_REPORTS = expectations("nsys-rep")
# Which reports are too new depends on the nsys that opens them.
INSTALLED = "2023.4"
needs_corpus = pytest.mark.skipif(not EXPORTS, reason="the recordings are not on this machine")


def told(path):
    """The totals of a recording, or the reason for which it is refused."""
    try:
        profile = with_summary(read_profile(path))
    except GpuprofError as error:
        return ["-"] * 7 + [error.message.replace(str(path), "FILE")]
    if not profile.has("activity_summary"):
        profile = profile.with_table("activity_summary", schema.ACTIVITY_SUMMARY.empty())
    return figures(profile)


@needs_corpus
@pytest.mark.parametrize("expected", EXPECTED_EXPORTS, ids=[row[0] for row in EXPECTED_EXPORTS])
def test_an_export_is_read_with_its_totals_or_refused_with_a_reason(expected):
    path = CORPUS / "nsys-sqlite" / expected[0]

    assert told(path) == expected[1:]
    assert find_reader(path) is nsys_sqlite.READER


@pytest.mark.profilers
@needs_corpus
@pytest.mark.parametrize("expected", EXPECTED_REPORTS, ids=[row[0] for row in EXPECTED_REPORTS])
def test_a_report_is_read_with_its_totals_or_refused_with_a_reason(expected, tmp_path, monkeypatch):
    if shutil.which("nsys") is None:
        pytest.skip("nsys is not installed")
    version = subprocess.run(["nsys", "--version"], capture_output=True, text=True, check=True)
    if f"version {INSTALLED}." not in version.stdout:
        pytest.skip(f"these refusals are those of nsys {INSTALLED}")
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path))

    assert told(CORPUS / "nsys-rep" / expected[0]) == expected[1:]


@needs_corpus
def test_every_export_and_report_has_an_expectation():
    for folder, rows in (("nsys-sqlite", EXPECTED_EXPORTS), ("nsys-rep", EXPECTED_REPORTS)):
        assert sorted(row[0] for row in rows) == sorted(p.name for p in (CORPUS / folder).iterdir())


@needs_corpus
@pytest.mark.parametrize("path", EXPORTS, ids=[p.stem for p in EXPORTS])
def test_both_ways_into_a_file_give_equal_tables(path, monkeypatch):
    try:
        fast = read_profile(path)
    except EmptyRecordingError:
        pytest.skip("nothing was recorded")
    tables = {name: fast.table(name) for name in fast.sources}
    monkeypatch.setattr(sqlite_source, "scanner", lambda _: None)
    slow = read_profile(path)

    for name, table in tables.items():
        order = [(column, "ascending") for column in table.column_names]
        assert slow.table(name).sort_by(order) == table.sort_by(order), name
