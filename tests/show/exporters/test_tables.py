"""Tables as Parquet and CSV: the rows as the data model has them, and files whole or none."""

from pathlib import Path

import nsys_export
import pyarrow as pa
import pytest
from commands import CORPUS, ROOT, gpuprof
from drawing import draw
from pyarrow import csv, parquet

from gpuprof.base.errors import MissingTableError, OutputError, UsageError
from gpuprof.cli.commands import COMMANDS
from gpuprof.model.data_model import BY_NAME
from gpuprof.readers import read_profile
from gpuprof.show.exporters import EXPORTERS, TABLES, target

TRACE = ROOT / "sample_logs" / "nsys" / "2023.4.4" / "synthetic-two-gpus-trace.csv"
READERS = {"parquet": parquet.read_table, "csv": csv.read_csv}
# One that numbers its names, one that holds them as texts, and one of PyTorch.
REAL = [
    "nsys-sqlite/GindaChen__nsys-ai__healthy_1pct_13d76c.sqlite",
    "kineto/hta_gpu_user_annotation_gp100.json.gz",
]


def _export(profile, form, output, table=None, *, is_forced=False):
    return target(form, str(output), (), table=table, is_forced=is_forced).write(profile)


def _drawn():
    return draw(
        kernels=[(500, 1_500, {"name": "relu"}), (0, 1_000, {"name": "=cmd()", "device_id": None})],
        memcpys=[(200, 600, {"bytes": 64})],
        synchronizations=[],
    )


def test_the_command_offers_every_exporter():
    (choice,) = (option for option in COMMANDS["export"].params if option.name == "form")

    assert {*choice.type.choices} == {*EXPORTERS}


@pytest.mark.parametrize("form", TABLES)
def test_a_folder_has_a_file_for_each_recorded_table(tmp_path, form):
    _export(_drawn(), form, tmp_path / "tables")

    names = {"kernels", "memcpys", "synchronizations"}
    assert {path.name for path in tmp_path.glob("*/*")} == {f"{name}.{form}" for name in names}


def test_parquet_has_the_rows_of_the_data_model_by_their_start(tmp_path):
    profile = _drawn()
    _export(profile, "parquet", tmp_path / "tables")

    for name in profile.sources:
        rows = parquet.read_table(tmp_path / "tables" / f"{name}.parquet")
        expected = profile.table(name)
        if expected.num_rows:
            expected = expected.sort_by("start_ns")
        assert (rows.schema.names, rows.schema.types) == (
            expected.schema.names,
            expected.schema.types,
        )
        assert rows.to_pylist() == expected.to_pylist()


def test_parquet_says_what_its_columns_are(tmp_path):
    _export(_drawn(), "parquet", tmp_path / "k.parquet", "kernels")

    schema = parquet.read_schema(tmp_path / "k.parquet")
    start = schema.field("start_ns").metadata
    assert start == {b"unit": b"ns", b"description": b"Start, since the recording's origin."}
    assert schema.metadata[b"table"] == b"kernels"


def test_csv_is_in_base_units_without_formulas_and_empty_where_unknown(tmp_path):
    _export(_drawn(), "csv", tmp_path / "k.csv", "kernels")

    header, *lines = (tmp_path / "k.csv").read_text().splitlines()
    assert header.split(",")[:3] == ['"start_ns"', '"end_ns"', '"device_id"']
    assert lines[0].startswith('0,1000,,1,7,100,,"\'=cmd()",')
    assert lines[1].startswith('500,1500,0,1,7,100,,"relu",')


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("name", ["trace", *REAL])
def test_a_real_recording_is_exported_as_it_is_read(tmp_path, form, name):
    file = TRACE if name == "trace" else CORPUS / name
    if not file.exists():
        pytest.skip(f"{file} is not here")
    profile = read_profile(file)
    _export(profile, form, tmp_path / "tables")

    for table in profile.sources:
        rows = READERS[form](tmp_path / "tables" / f"{table}.{form}")
        expected = read_profile(file).table(table)
        assert rows.column_names == [*BY_NAME[table].columns]
        assert rows.num_rows == expected.num_rows
        if "start_ns" in expected.column_names and expected.num_rows:
            keys = ["start_ns", "end_ns"]
            assert _sorted(rows, keys) == _sorted(expected, keys)
            starts = rows.column("start_ns").to_pylist()
            assert starts == sorted(starts)
        if "name" in expected.column_names and form == "parquet":
            assert _counts(rows) == _counts(expected)


def _sorted(table, keys):
    return table.select(keys).sort_by([(key, "ascending") for key in keys]).to_pydict()


def _counts(table):
    columns = [c for c in ("name", "device_id") if c in table.column_names]
    counts = table.group_by(columns).aggregate([([], "count_all")])
    return {tuple(row.values()) for row in counts.to_pylist()}


def test_a_name_that_the_file_lacks_is_unknown_as_in_queries(tmp_path):
    kernels = [nsys_export.kernel(0, 5, 1), nsys_export.kernel(10, 15, 2)]
    strings = [{"id": 2, "value": "gemm"}]
    tables = {nsys_export.STRINGS: strings, nsys_export.KERNEL: kernels}
    profile = read_profile(nsys_export.write(tmp_path / "x.sqlite", tables))
    assert profile.loaded("kernels").of_names == {"name"}
    _export(profile, "parquet", tmp_path / "k.parquet", "kernels")

    names = parquet.read_table(tmp_path / "k.parquet").column("name").to_pylist()
    assert names == ["unknown", "gemm"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(TABLES, "csv", fail)
    with pytest.raises(OutputError, match="tables cannot be written: No space left on device"):
        _export(_drawn(), "csv", tmp_path / "tables")

    assert not [*tmp_path.iterdir()]


def test_a_failure_keeps_the_folder_that_was_there(tmp_path, monkeypatch):
    _export(_drawn(), "csv", tmp_path / "tables")
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(TABLES, "csv", fail)
    with pytest.raises(OutputError):
        _export(_drawn(), "csv", tmp_path / "tables", is_forced=True)

    assert {path: path.read_bytes() for path in tmp_path.glob("*/*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_a_folder_comes_back_where_the_new_one_cannot_have_its_name(tmp_path, monkeypatch):
    _export(_drawn(), "csv", tmp_path / "tables")
    replace = Path.replace

    def fail_once(path, to):
        if to.name == "tables" and (path / "memcpys.csv").exists() and not failed:
            failed.append(path)
            raise OSError(5, "Input/output error")
        return replace(path, to)

    failed = []
    monkeypatch.setattr(Path, "replace", fail_once)
    with pytest.raises(OutputError, match="tables cannot be written: Input/output error"):
        _export(draw(kernels=[(0, 1)]), "csv", tmp_path / "tables", is_forced=True)

    assert (tmp_path / "tables" / "synchronizations.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_a_folder_of_tables_is_replaced_only_with_force(tmp_path):
    _export(_drawn(), "csv", tmp_path / "tables")
    with pytest.raises(OutputError, match="tables exists already"):
        _export(_drawn(), "csv", tmp_path / "tables")
    _export(draw(kernels=[(0, 1)]), "csv", tmp_path / "tables", is_forced=True)

    assert {path.name for path in tmp_path.glob("*/*")} == {"kernels.csv", "memcpys.csv"}
    assert len((tmp_path / "tables" / "kernels.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize("other", ["notes.txt", "kernels.parquet"])
def test_a_folder_with_other_files_is_never_replaced(tmp_path, other):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / other).write_text("mine")
    with pytest.raises(OutputError, match="mine is a folder of other files"):
        _export(_drawn(), "csv", tmp_path / "mine", is_forced=True)

    assert (tmp_path / "mine" / other).read_text() == "mine"


@pytest.mark.parametrize(
    ("form", "output", "table", "message"),
    [
        ("parquet", "x.parquet", None, "x.parquet is one file"),
        ("csv", "x.csv", None, "x.csv is one file"),
        ("csv", "x.csv", "kernel", "there is no table kernel"),
        ("perfetto", "x.pftrace", "kernels", "--table is for tables, and perfetto writes a trace"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_reading(
    tmp_path, form, output, table, message
):
    with pytest.raises(UsageError, match=message):
        target(form, str(tmp_path / output), (), table=table, is_forced=False)


def test_a_table_that_was_not_recorded_is_named(tmp_path):
    with pytest.raises(MissingTableError, match="has no nvtx_ranges table"):
        _export(_drawn(), "csv", tmp_path / "x.csv", "nvtx_ranges")

    assert not [*tmp_path.iterdir()]


def test_standard_output_is_refused():
    with pytest.raises(OutputError, match="tables cannot go to standard output"):
        target("csv", "-", (), table="kernels", is_forced=False)


def test_the_command_writes_one_table(tmp_path):
    done = gpuprof("export", TRACE, "--to", "parquet", "--table", "kernels", "-o", "k.parquet",
                   cwd=tmp_path)  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert isinstance(parquet.read_table(tmp_path / "k.parquet"), pa.Table)
