"""Recordings of real jobs, whose files are reduced one by one."""

import tarfile

import pytest
from commands import CORPUS
from ranks.joint import job_report, mergeable

from gpuprof.analyses.reports import report
from gpuprof.readers import read_profile
from gpuprof.readers.merged_ranks import joined

ARCHIVE = CORPUS / "kineto" / "param_dlrm_8rank_kineto.tar.gz"


@pytest.fixture(scope="module")
def eight_ranks(tmp_path_factory):
    if not ARCHIVE.exists():
        pytest.skip("the corpus of recordings is not here")
    folder = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return [read_profile(path) for path in sorted(folder.rglob("*.json"))]


def without_command(table):
    return table.drop_columns([name for name in ("command",) if name in table.column_names])


def test_eight_ranks_of_a_recommender_answer_alike_by_one_process_and_by_workers(eight_ranks):
    names = mergeable()
    by_one, by_workers = report(joined(eight_ranks), names), job_report(eight_ranks, names)

    # Only the command that predicts names what was read.
    assert {n: without_command(by_one.tables[n]) for n in names} == {
        n: without_command(by_workers.tables[n]) for n in names
    }
    assert by_one.notes == by_workers.notes
    assert any(row["predicted_win_ns"] for row in by_one.rows("findings"))
    (line,) = by_one.rows("bottom_line")
    assert "median of 8 devices" in line["bottom_line"]
    assert "Rank 7 makes the others wait" in line["bottom_line"]


def test_without_the_last_of_eight_ranks_nothing_is_called_moving_data(eight_ranks):
    (whole,) = [file for file in eight_ranks if file.table("runs")["rank"].to_pylist() == [7]]
    files = [file for file in eight_ranks if file is not whole]

    for result in (job_report(files, ["findings"]), report(joined(files), ["findings"])):
        assert "moves data" not in str(result.rows("findings"))
        assert "No file has rank 7; the job has 8 ranks." in result.notes
    assert "moves data" in str(job_report(eight_ranks, ["findings"]).rows("findings"))
