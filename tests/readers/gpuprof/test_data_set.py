"""gpuprof's data set: Parquet files by table and rank, written by `gpuprof convert`."""

import gzip
import json
import re
import shutil

import duckdb
import nsys_export
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import ROOT, gpuprof
from pyarrow import parquet
from test_merged_ranks import rank_file

from gpuprof.analyses.reports import report
from gpuprof.base.errors import CorruptFileError, OutputError, UnknownFormatError
from gpuprof.facts.parts import RecordingPart, part_of
from gpuprof.readers import find_reader, read_profile, recording_files
from gpuprof.readers.gpuprof.data_set import is_data_set
from gpuprof.readers.gpuprof.write_data_set import write
from gpuprof.show.output import prepare_folder


def copying_rank(folder, name, **about):
    """A rank's trace with a copy beside its kernels, which not every rank has."""
    path = rank_file(folder, name, **about)
    trace = json.loads(path.read_text())
    place = {"device": 0, "context": 1, "stream": 7, "correlation": 99, "bytes": 8}
    copy = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": place}
    copy |= {"ph": "X", "ts": trace["traceEvents"][0]["ts"] + 2, "dur": 1, "pid": 0, "tid": 7}
    trace["traceEvents"].append(copy)
    path.write_text(json.dumps(trace))
    return path


def hosts(folder):
    """Two hosts: devices and processes of the same numbers, starts apart."""
    rank_file(folder, "rank0.json", rank=0, pid=1, start=40, kernels=("k", "l", "k"))
    copying_rank(folder, "rank1.json", rank=1, pid=1, kernels=("l",))


def stretches(folder):
    for start in (0, 1_000):
        rank_file(folder, f"rank3.{start}.json", start=start, pid=5, rank=3)


def unknown_ranks(folder):
    rank_file(folder, "a.json", device=0, pid=1, start=7)
    rank_file(folder, "b.json", device=1, pid=2)


def no_clock(folder):
    for number in (0, 1):
        path = rank_file(folder, f"rank{number}.json", device=number, pid=number + 1, start=1_000)
        path.write_text(path.read_text().replace("170000000000", ""))


def several_files_of_a_rank(folder):
    for name, pid in (("a", 1), ("b", 2)):
        rank_file(folder, f"{name}.json", rank=2, pid=pid, device=pid, start=pid)


def one_file(folder):
    copying_rank(folder, "train.json", rank=4, kernels=("k", "l"))


JOBS = (hosts, stretches, unknown_ranks, no_clock, several_files_of_a_rank, one_file)


def converted(job, tmp_path):
    """The recording of a job, and its data set."""
    folder = tmp_path / "run"
    folder.mkdir()
    job(folder)
    profile = read_profile(folder)
    data_set = tmp_path / "job.gpuprof"
    data_set.mkdir()
    write(profile, data_set)
    return profile, data_set


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return converted(hosts, tmp_path_factory.mktemp("hosts"))


@pytest.fixture
def path(written, tmp_path):
    """The data set of two hosts, whose files a test may change."""
    return shutil.copytree(written[1], tmp_path / "job.gpuprof")


def refusal(path):
    """What is said of a data set that cannot be read."""
    with pytest.raises((CorruptFileError, UnknownFormatError)) as caught:
        read_profile(path).table("kernels")
    return caught.value.message


def sorted_rows(profile, table):
    rows = profile.table(table)
    return rows.sort_by([(name, "ascending") for name in rows.column_names])


@pytest.mark.parametrize("job", JOBS)
def test_a_data_set_is_read_back_with_equal_tables(tmp_path, job):
    profile, path = converted(job, tmp_path)
    read = read_profile(path)

    assert find_reader(path).name == "gpuprof-dataset"
    assert read.sources.keys() == profile.sources.keys()
    for table in profile.sources:
        assert sorted_rows(read, table).equals(sorted_rows(profile, table)), table
    assert {**vars(read.origin), "source": None} == {**vars(profile.origin), "source": None}
    assert read.origin.source == path


@pytest.mark.parametrize("job", [hosts, stretches])
def test_a_data_set_gives_the_same_report(tmp_path, job):
    profile, path = converted(job, tmp_path)
    expected, found = report(profile), report(read_profile(path))

    assert found.notes == expected.notes
    assert found.tables == expected.tables


def test_each_table_has_a_folder_and_each_rank_a_partition(path):
    assert sorted(file.relative_to(path).as_posix() for file in path.rglob("*.parquet")) == [
        "api_calls/rank=0/part-0.parquet",
        "api_calls/rank=1/part-0.parquet",
        "devices/rank=0/part-0.parquet",
        "devices/rank=1/part-0.parquet",
        "kernels/rank=0/part-0.parquet",
        "kernels/rank=1/part-0.parquet",
        "memcpys/rank=1/part-0.parquet",
        "runs/rank=0/part-0.parquet",
        "runs/rank=1/part-0.parquet",
    ]


def test_files_of_one_rank_are_numbered(tmp_path):
    _, path = converted(several_files_of_a_rank, tmp_path)

    assert sorted(file.name for file in (path / "kernels" / "rank=2").iterdir()) == [
        "part-0.parquet",
        "part-1.parquet",
    ]


def test_an_unknown_rank_is_null_to_all_who_read_folders(tmp_path):
    _, path = converted(unknown_ranks, tmp_path)
    query = f"SELECT DISTINCT rank FROM '{path}/kernels/*/*.parquet'"

    assert duckdb.sql(query).fetchall() == [(None,)]


def test_duckdb_sees_ranks_and_times_of_one_clock(path):
    rows = duckdb.sql(
        f"SELECT rank, name, start_ns, end_ns FROM '{path}/kernels/*/*.parquet' ORDER BY start_ns"
    ).fetchall()

    assert rows == [
        (1, "l", 0, 5_000),
        (0, "k", 40_000, 45_000),
        (0, "l", 50_000, 55_000),
        (0, "k", 60_000, 65_000),
    ]


def test_all_tables_have_the_same_types_in_every_rank(path):
    for table in path.iterdir():
        files = [*table.rglob("*.parquet")]
        assert len({str(parquet.read_schema(file)) for file in files}) <= 1


def test_pandas_sees_ranks(path):
    frame = pd.read_parquet(path / "kernels")

    assert frame.groupby("rank", observed=True).size().to_dict() == {0: 3, 1: 1}


def documented(language):
    """The example of the documentation in a language."""
    text = (ROOT / "gpuprof" / "docs" / "formats.md").read_text(encoding="utf-8")
    (example,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return example


@pytest.mark.usefixtures("path")
def test_the_documented_query_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert sorted(duckdb.sql(documented("sql")).fetchall()) == [
        (0, "k", 2, 0.01),
        (0, "l", 1, 0.005),
        (1, "l", 1, 0.005),
    ]


@pytest.mark.usefixtures("path")
def test_the_documented_lines_of_polars_run(tmp_path, monkeypatch):
    pytest.importorskip("polars", reason="polars is not installed")
    monkeypatch.chdir(tmp_path)
    code = documented("python").replace("polars.scan", "rows = polars.scan")

    names = {}
    exec(code, names)  # noqa: S102 - an example of ours

    assert names["rows"].rows() == [(1, 1)]


def changed_header(path, change, name="gpuprof.json"):
    document = json.loads((path / name).read_text())
    change(document)
    (path / name).write_text(json.dumps(document))


def resized(path, size):
    """The header of rank 1 with another size of its kernels."""
    header = "recordings/rank1.json.json"
    changed_header(path, lambda d: d["tables"]["kernels"].update(bytes=size), header)


def test_a_missing_partition_is_named(path):
    shutil.rmtree(path / "kernels" / "rank=1")

    assert refusal(path) == f"{path}: kernels/rank=1/part-0.parquet is missing"


def test_many_missing_files_are_one_line(path):
    for file in path.rglob("*.parquet"):
        file.unlink()

    assert refusal(path) == (
        f"{path}: 9 files (api_calls/rank=0/part-0.parquet, api_calls/rank=1/part-0.parquet,"
        " devices/rank=0/part-0.parquet and others) are missing"
    )


PART = "kernels/rank=1/part-0.parquet"


def test_a_part_that_is_cut_short_is_named(path):
    data = (path / PART).read_bytes()
    (path / PART).write_bytes(data[:-10])

    assert refusal(path) == (
        f"{path / PART}: it has {len(data) - 10:,} bytes, and was written with {len(data):,}"
    )


@pytest.mark.parametrize(
    ("place", "message"),
    [
        pytest.param(slice(-40, -6), f"{PART}: it is damaged", id="metadata"),
        pytest.param(slice(4, 150), "job.gpuprof: a file of rank 1 is damaged", id="page"),
    ],
)
def test_a_damaged_part_is_named(path, place, message):
    data = bytearray((path / PART).read_bytes())
    data[place] = b"\xff" * len(data[place])
    (path / PART).write_bytes(data)

    assert message in refusal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda table: table.replace_schema_metadata({"gpuprof_dataset": "2"}),
            "it is of version 2 of the format, and its data set",
            id="version",
        ),
        pytest.param(
            lambda table: table.append_column("more", pa.nulls(1, pa.int64())),
            "its columns are not those of table kernels",
            id="column",
        ),
        pytest.param(
            lambda table: pa.concat_tables([table, table]),
            "it has 2 rows, and was written with 1",
            id="rows",
        ),
    ],
)
def test_a_part_with_other_contents_is_refused(path, change, message):
    parquet.write_table(change(parquet.read_table(path / PART, partitioning=None)), path / PART)
    resized(path, (path / PART).stat().st_size)

    assert message in refusal(path)


def test_files_that_are_no_part_of_it_are_left_out_and_told(path):
    (path / "_SUCCESS").touch()
    (path / ".DS_Store").touch()
    (path / "kernels" / "rank=1" / "copy.parquet").write_bytes(b"any")

    assert read_profile(path).origin.warnings[-1] == (
        f"Left out: kernels/rank=1/copy.parquet is not part of {path}."
    )


RANK_1 = "recordings/rank1.json.json"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        pytest.param(
            "gpuprof.json",
            lambda d: d.update(gpuprof_dataset=2),
            "it is of version 2; this gpuprof reads 1",
            id="version",
        ),
        pytest.param(
            RANK_1, lambda d: d.update(gpuprof_recording=2), "it is of version 2", id="rank-version"
        ),
        pytest.param(
            "gpuprof.json", lambda d: d.pop("recordings"), "it is damaged", id="no-recordings"
        ),
        pytest.param(
            "gpuprof.json", lambda d: d.update(recordings=[]), "it names no recording", id="none"
        ),
        pytest.param(
            "gpuprof.json",
            lambda d: d.update(recordings=["../../etc/rank9.json"]),
            "recordings/rank9.json is missing",
            id="missing-recording",
        ),
        pytest.param(
            RANK_1,
            lambda d: d["tables"].update(evil={"rows": 1, "bytes": 1}),
            "there is no table evil",
            id="unknown-table",
        ),
        pytest.param(
            RANK_1,
            lambda d: d["tables"]["runs"].update(ranks=[1, 2]),
            "it has other ranks than runs/rank=1/part-0.parquet has rows",
            id="ranks",
        ),
    ],
)
def test_a_broken_header_is_refused(path, name, change, message):
    changed_header(path, change, name)

    assert message in refusal(path)


def test_a_rank_of_a_data_set_is_read_alone(written, path):
    files = recording_files([path])

    assert [file.name for file in files] == ["rank0.json.json", "rank1.json.json"]
    for file, part in zip(files, written[0].parts, strict=True):
        read = read_profile(file)
        for table in part.profile.sources:
            assert sorted_rows(read, table).equals(sorted_rows(part.profile, table)), table
    (path / PART).unlink()
    assert read_profile(files[0]).has("kernels")
    assert f"{PART} is missing" in refusal(files[1])


def test_recordings_of_one_name_are_told_apart(tmp_path):
    for folder, rank in (("a", 0), ("b", 1)):
        (tmp_path / folder).mkdir()
        rank_file(tmp_path / folder, "trace.json", rank=rank, device=rank, pid=rank + 1)
    path = tmp_path / "job.gpuprof"
    path.mkdir()
    write(read_profile([tmp_path / "a" / "trace.json", tmp_path / "b" / "trace.json"]), path)

    assert [file.name for file in recording_files([path])] == [
        "trace.json.json",
        "trace.json.1.json",
    ]
    assert read_profile(path).table("runs")["rank"].to_pylist() == [0, 1]


def test_convert_makes_a_data_set_where_the_output_ends_in_a_slash(tmp_path):
    hosts(tmp_path)
    output = tmp_path / "out" / "job.gpuprof"
    output.parent.mkdir()
    done = gpuprof("convert", tmp_path / "rank0.json", tmp_path / "rank1.json", "-o", f"{output}/")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in output.parent.iterdir()] == ["job.gpuprof"]
    assert is_data_set(output)
    again = gpuprof("convert", tmp_path / "rank0.json", "-o", output)
    assert (again.returncode, again.stderr.splitlines()[0]) == (
        1,
        f"Error: {output} exists already",
    )
    forced = gpuprof("convert", tmp_path / "rank0.json", "-o", output, "--force")
    assert forced.returncode == 0
    assert [path.name for path in (output / "kernels").iterdir()] == ["rank=0"]
    assert [path.name for path in output.parent.iterdir()] == ["job.gpuprof"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda p: p.write_text("text"), "is a file, and the output is a folder", id="file"
        ),
        pytest.param(
            lambda p: (p.mkdir(), (p / "thesis.tex").touch()),
            "is a folder of other files",
            id="other",
        ),
    ],
)
def test_nothing_else_is_ever_replaced(tmp_path, make, message):
    path = tmp_path / "out"
    make(path)

    with pytest.raises(OutputError, match=message):
        prepare_folder(str(path), is_data_set, is_forced=True)


def test_a_data_set_is_never_its_own_output(path):
    with pytest.raises(OutputError, match="is an input of this command"):
        prepare_folder(f"{path}/", is_data_set, is_forced=True, inputs=[str(path)])


def test_an_unpacked_gpuprof_file_is_no_data_set(tmp_path):
    (tmp_path / "gpuprof.json").write_text('{"gpuprof_file": 3}')

    assert not is_data_set(tmp_path)


def test_the_epochs_of_a_run_stay(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for rank in (0, 1):
        trace = rank_file(run, f"trace-rank{rank}-1.json", rank=rank, pid=rank + 1, device=rank)
        (run / f"{trace.name}.gz").write_bytes(gzip.compress(trace.read_bytes()))
        trace.unlink()
    profile = read_profile(run)
    epochs = pa.table({"epoch": pa.array([0], pa.int64()), "seconds": pa.array([1.5])})
    path = tmp_path / "job.gpuprof"
    path.mkdir()
    write(profile.with_table("epochs", epochs), path)

    assert read_profile(path).table("epochs")["seconds"].to_pylist() == [1.5]


def test_rows_are_in_the_order_of_their_start_where_names_are_joined_to_them(tmp_path):
    """Names of databases are numbers there; a join gives rows in any order."""
    kernels = [
        nsys_export.kernel(10 * n, 10 * n + 5, 1 + n % 7, correlationId=n) for n in range(300_000)
    ]
    strings = [{"id": n, "value": f"kernel_{n}"} for n in range(1, 8)]
    tables = {nsys_export.KERNEL: kernels, nsys_export.STRINGS: strings}
    export, path = nsys_export.write(tmp_path / "rank0.sqlite", tables), tmp_path / "job.gpuprof"
    path.mkdir()
    write(read_profile(export), path)
    (file,) = path.glob("kernels/*/*.parquet")
    starts = parquet.read_table(file, columns=["start_ns"], partitioning=None)["start_ns"]

    assert (np.diff(starts.to_numpy()) > 0).all()


def test_a_window_of_time_is_on_the_clock_of_the_rank_that_is_read(written, path):
    window = RecordingPart(from_ns=0, to_ns=15_000)
    expected = part_of(written[0].parts[0].profile, window)
    read = part_of(read_profile(recording_files([path])[0]), window)

    assert expected.table("kernels").num_rows == 2
    assert sorted_rows(read, "kernels").equals(sorted_rows(expected, "kernels"))
