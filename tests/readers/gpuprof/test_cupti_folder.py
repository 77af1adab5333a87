"""Folders of the CUPTI recorder: no field of theirs is trusted."""

import pytest
from cupti_folder import COLUMNS, EPOCH_NS, at, replace, write
from recording_checks import refusal

from gpuprof import read_profile
from gpuprof.base.errors import CorruptFileError, EmptyRecordingError
from gpuprof.readers.gpuprof import cupti_run as cupti


def folder(path):
    return write(
        path / "cupti-42",
        kernels=[at(0, 9), at(20, 29)],
        memcpys=[at(10, 12, bytes=64, copy_kind=1)],
        peer_memcpys=[at(12, 14, bytes=64, copy_kind=10, dst_device_id=1)],
        memsets=[at(14, 15, bytes=8)],
        api_calls=[{"start": EPOCH_NS, "end": EPOCH_NS + 1, "kind": 5}],
        markers=[
            {"timestamp": EPOCH_NS, "id": 1, "flags_": 2},
            {"timestamp": EPOCH_NS + 30, "id": 1, "flags_": 4},
        ],
        synchronizations=[{"start": EPOCH_NS, "end": EPOCH_NS + 5, "type": 3}],
    )


def test_a_folder_without_work_of_a_gpu_says_so(tmp_path):
    with pytest.raises(EmptyRecordingError, match="CUPTI recorded no kernels and no copies"):
        read_profile(write(tmp_path / "cupti-42"))


def test_every_table_is_read(tmp_path):
    profile = read_profile(folder(tmp_path))

    counts = {name: profile.table(name).num_rows for name in profile.sources}
    assert counts == {
        "kernels": 2, "memcpys": 2, "memsets": 1, "api_calls": 1, "nvtx_ranges": 1,
        "synchronizations": 1,
    }  # fmt: skip
    assert profile.table("kernels")["name"].to_pylist() == ["saxpy(float*)"] * 2
    assert profile.origin.warnings == ()


def test_records_without_times_are_left_out_and_counted(tmp_path):
    kernels = [at(0, 9), at(0, 0) | {"start": 0, "end": 0}, at(9, 5)]

    profile = read_profile(write(tmp_path / "cupti-42", kernels=kernels))

    assert profile.table("kernels")["end_ns"].to_pylist() == [9]
    assert profile.origin.warnings == (
        "2 records without times left out: when they ran could not be collected",
    )


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]]
)
def test_a_column_that_is_missing_is_named(tmp_path, table, column):
    path = folder(tmp_path)
    replace(path, table, column, None)

    assert refusal(path) == f"{path}, table {table}: it has no column {column}"


@pytest.mark.parametrize(
    ("column", "value", "holds"),
    [
        *((column, -1, "-1 (int64)") for column in COLUMNS["kernels"]),
        ("start", None, "no value"),
        ("start", "many", "'many' (string)"),
        ("start", 1.5, "1.5 (double)"),
        ("start", [1], "[1] (list<element: int64>)"),
    ],
    ids=str,
)
def test_a_cell_of_another_type_is_named(tmp_path, column, value, holds):
    path = folder(tmp_path)
    sound = "8" if isinstance(value, str) else [] if isinstance(value, list) else 8
    replace(path, "kernels", column, [sound, value])

    message = refusal(path)

    # Lists of any values are refused from the first one on.
    row, holds = (1, holds.replace("[1]", "[]")) if isinstance(value, list) else (2, holds)
    expected = f"{path}, table kernels: column {column} holds {holds} in row {row}"
    assert message == expected


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("kernels", c) for c in ("grid_x", "block_z", "registers_per_thread")),
        ("kernels", "static_shared_memory"),
        ("memcpys", "bytes"),
        ("peer_memcpys", "bytes"),
        ("memsets", "bytes"),
    ],
)
def test_a_size_beyond_all_memory_is_refused(tmp_path, table, column):
    path = folder(tmp_path)
    rows = 2 if table == "kernels" else 1
    replace(path, table, column, [2**63 - 1] * rows)

    with pytest.raises(CorruptFileError, match=rf"column {column}\w* holds {2**63 - 1} in row"):
        read_profile(path)


@pytest.mark.parametrize(("time", "ranges"), [(1, 0), (EPOCH_NS + 2**49, 1)])
def test_a_marker_at_any_time_is_read(tmp_path, time, ranges):
    path = folder(tmp_path)
    replace(path, "markers", "timestamp", [EPOCH_NS, time])

    assert read_profile(path).table("nvtx_ranges").num_rows == ranges


def test_a_marker_beyond_146_years_is_refused(tmp_path):
    path = folder(tmp_path)
    replace(path, "markers", "timestamp", [EPOCH_NS, 2**63 - 1])

    with pytest.raises(CorruptFileError, match="table nvtx_ranges: column end_ns holds"):
        read_profile(path)


@pytest.mark.parametrize("process_id", [None, "42", -1, 2**32, 1.5, [42]], ids=str)
def test_a_process_that_is_no_number_is_refused(tmp_path, process_id):
    path = write(tmp_path / "cupti-42", process={"process_id": process_id}, kernels=[at(0, 9)])

    message = refusal(path)

    assert message.startswith(f"{path}: its file {cupti.PROCESS} is missing or damaged")
    assert "`$.process_id`" in message


@pytest.mark.parametrize(
    ("texts", "holds"), [([None], "no value"), ([b"\xff"], r"b'\xff' (binary)")]
)
def test_names_that_are_no_text_are_refused(tmp_path, texts, holds):
    path = folder(tmp_path)
    replace(path, "texts", "text", texts)

    assert refusal(path) == f"{path}, table texts: column text holds {holds} in row 1"
