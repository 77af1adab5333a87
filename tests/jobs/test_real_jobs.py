"""Recordings of real jobs, whose files are reduced one by one."""

import tarfile

import pytest
from commands import CORPUS
from jobs.joint import alike, exact, job_report

from gpuprof.analyses import analysis_named
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


def test_eight_ranks_of_a_recommender_answer_as_their_joined_recording(eight_ranks):
    report, recording = job_report(eight_ranks), joined(eight_ranks)

    for name in exact():
        analysis = analysis_named(name)
        if not analysis.missing(recording):
            assert alike(report.tables[name], analysis.run(recording)), name
    (line,) = report.tables["bottom_line"].to_pylist()
    assert "median of 8 devices" in line["bottom_line"]
    assert "Rank 7 makes the others wait" in line["bottom_line"]
