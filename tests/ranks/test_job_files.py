"""The files of a job: those of data sets and of runs with many ranks."""

import pytest
from commands import gpuprof
from drawn_jobs import job as drawn_job
from ranks.joint import of_rank

from gpuprof.base.errors import InputError
from gpuprof.base.manifest import Manifest, finish_manifest
from gpuprof.ranks.rank_files import file_of_rank, job_files
from gpuprof.readers import recording_files
from gpuprof.readers.gpuprof.write_data_set import write as write_data_set
from gpuprof.readers.gpuprof.write_gpuprof_file import write
from gpuprof.readers.merged_ranks import joined

RUN = Manifest("nsys", None, ("python", "train.py"), "2026-01-02T03:04:05+00:00", exit_status=0)


def drawn_ranks(count):
    return [of_rank(drawn_job([300 + 10 * rank]), rank) for rank in range(count)]


@pytest.fixture
def data_set(tmp_path):
    """A data set of three ranks."""
    folder = tmp_path / "job.gpuprof"
    folder.mkdir()
    write_data_set(joined(drawn_ranks(3)), folder)
    return folder


@pytest.fixture
def run(tmp_path):
    """What `gpuprof record` makes of a program with three ranks."""
    folder = tmp_path / "run"
    folder.mkdir()
    names = tuple(f"trace-rank{rank}-{70 + rank}.gpuprof" for rank in range(3))
    for name, profile in zip(names, drawn_ranks(3), strict=True):
        write(profile, folder / name)
    finish_manifest(folder, Manifest(**(vars(RUN) | {"recordings": names})))
    return folder


def test_a_recording_in_a_data_set_is_as_large_as_its_tables(data_set):
    recordings = job_files(recording_files([data_set]))
    tables = sum(file.stat().st_size for file in data_set.glob("*/rank=1/*.parquet"))

    assert [file.rank for file in recordings] == [0, 1, 2]
    assert recordings[1].size_bytes == tables + recordings[1].path.stat().st_size > tables


def test_a_rank_is_found_in_a_data_set(data_set):
    assert file_of_rank([str(data_set)], 2) == recording_files([data_set])[2]


def test_a_rank_is_found_in_a_run(run):
    completed = gpuprof("report", run, "--rank", "1", "--table", "breakdown", "--format", "csv")

    assert file_of_rank([str(run)], 1) == run / "trace-rank1-71.gpuprof"
    assert completed.returncode == 0, completed.stderr
    assert len(completed.stdout.splitlines()) == 2


def test_what_a_file_says_of_its_rank_counts_and_not_its_name(tmp_path):
    path = tmp_path / "rank2.gpuprof"
    write(drawn_ranks(1)[0], path)

    assert file_of_rank([str(path)], 0) == path
    with pytest.raises(InputError, match="is not of rank 2"):
        file_of_rank([str(path)], 2)


def test_ranks_of_a_large_data_set_are_read_one_by_one(tmp_path):
    folder = tmp_path / "job.gpuprof"
    folder.mkdir()
    write_data_set(joined(drawn_ranks(17)), folder)
    options = ("--table", "kernel_summary", "--table", "breakdown", "--format", "json")
    tables = gpuprof("report", folder, *options)
    (folder / "kernels" / "rank=3" / "part-0.parquet").unlink()
    partial = gpuprof("report", folder, *options)

    assert tables.returncode == 0, tables.stderr
    # One process refuses the data set.
    assert (partial.returncode, partial.stderr) == (
        4,
        "Partial result: 1 of 17 files could not be read.\n",
    )
