"""Files that were made or damaged to do harm are refused with a message, as every other one."""

import os
import re
import shutil
from threading import Timer

import own_files
import pyarrow as pa
import pytest
import test_data_set
from nsys_export import HTOD, KERNEL, MEMCPY, STRINGS, export, kernel, memcpy, write
from recordings import copy, trace
from test_fuzz import SEEDS

from gpuprof.analyses import reports
from gpuprof.base import errors
from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError, UnknownFormatError
from gpuprof.model import data_model
from gpuprof.readers import inputs, read_profile
from gpuprof.readers.gpuprof import write_data_set
from gpuprof.readers.gpuprof.write_gpuprof_file import write as write_own

KERNEL_ROW = {"start_ns": 0, "end_ns": 9, "name": "k", "device_id": 0}
LAUNCHED = {"gridX": 1, "registersPerThread": 16}
FOREIGN = re.compile("TProtocol|thrift|DuckDB|Input Error")


def own_file(folder, **tables):
    path = folder / "x.gpuprof"
    write_own(trace(kernels=[KERNEL_ROW], memcpys=[copy("HtoD", 0, 5)]), path)
    return own_files.changed(path, **tables)


def refusal(path):
    with pytest.raises(GpuprofError) as caught:
        reports.report(read_profile(path))
    assert not FOREIGN.search(caught.value.message)
    return caught.value.message


@pytest.mark.parametrize("device", [-1, -(2**15) - 1, 40_000, 2**40])
@pytest.mark.parametrize("table", [KERNEL, MEMCPY])
def test_no_machine_has_a_device_of_such_a_number(tmp_path, device, table):
    rows = {KERNEL: [kernel(0, 9)], MEMCPY: [memcpy(0, 5, HTOD)]}
    rows[table][0]["deviceId"] = device

    path = write(tmp_path / "x.sqlite", rows)

    assert f"column device_id holds {device} in row 1" in refusal(path)


@pytest.mark.parametrize(
    ("column", "value"), [("gridX", -1), ("registersPerThread", 2**63 - 1), ("gridX", 2**31)]
)
def test_a_report_refuses_a_launch_that_convert_refuses(tmp_path, column, value):
    row = kernel(0, 9, **LAUNCHED | {column: value})
    path = write(tmp_path / "x.sqlite", {KERNEL: [kernel(0, 9, **LAUNCHED), row]})

    with pytest.raises(CorruptFileError, match=f"holds {value} in row 2"):
        write_own(read_profile(path), tmp_path / "x.gpuprof")
    assert f"holds {value} in row 2" in refusal(path)


@pytest.mark.parametrize(
    ("table", "column"), [("epochs", "epoch"), ("runs", "rank"), ("monitor", "device_id")]
)
def test_what_is_counted_is_not_negative(tmp_path, table, column):
    spec = data_model.BY_NAME[table]
    row = dict.fromkeys(spec.columns, 0) | {"command": "a", column: -1}
    rows = spec.table([{name: row[name] for name in spec.columns}])

    assert f"column {column} holds -1 in row 1" in refusal(own_file(tmp_path, **{table: rows}))


def test_no_recording_began_before_1970(tmp_path):
    path = own_files.changed(own_file(tmp_path), header={"epoch_ns": -1})

    assert "gpuprof.json in it is missing or broken" in refusal(path)


@pytest.mark.parametrize("value", ["x", None])
def test_a_text_without_a_number_is_refused(tmp_path, value):
    texts = [{"id": 1, "value": "k"}, {"id": None, "value": value}]
    path = write(tmp_path / "x.sqlite", {STRINGS: texts, KERNEL: [kernel(0, 9)]})

    assert refusal(path) == f"{path}, table StringIds: 1 of 2 rows have no id"


def test_an_integer_where_a_text_stands_is_read_as_its_text(tmp_path):
    column = "memcpy_kind"
    rows = data_model.MEMCPYS.table([{"start_ns": 0, "end_ns": 9, column: "HtoD"}])
    place = rows.column_names.index(column)
    path = own_file(tmp_path, memcpys=rows.set_column(place, column, pa.array([-5])))

    assert reports.report(read_profile(path))
    assert read_profile(path).table("memcpys")[column].to_pylist() == ["-5"]


def test_an_overhead_of_an_unknown_source_is_refused(tmp_path):
    rows = data_model.OVERHEADS.table([{"start_ns": 0, "end_ns": 9, "source": "x", "name": "b"}])

    assert "column source holds 'x' in row 1" in refusal(own_file(tmp_path, overheads=rows))


def test_a_start_that_is_missing_is_refused_where_starts_alone_are_read(tmp_path):
    starts = data_model.KERNELS.table([KERNEL_ROW]).set_column(
        0, "start_ns", pa.nulls(1, pa.int64())
    )
    path = own_file(tmp_path, kernels=starts, **{"kernels.names": None})

    with pytest.raises(CorruptFileError, match="column start_ns holds no value in row 1"):
        [*read_profile(path).columns("kernels", "start_ns")]


@pytest.fixture(scope="module")
def data_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("set")
    (folder / "ranks").mkdir()
    test_data_set.hosts(folder / "ranks")
    (folder / "set").mkdir()
    write_data_set.write(read_profile(folder / "ranks"), folder / "set")
    return folder / "set"


def copied(data_set, folder, table):
    shutil.copytree(data_set, folder / "set")
    return folder / "set", next((folder / "set" / table).rglob("*.parquet"))


@pytest.mark.parametrize("table", ["kernels", "memcpys", "devices"])
@pytest.mark.parametrize("place", [4, 8, 20])
def test_a_damaged_page_of_a_data_set_is_refused(tmp_path, data_set, table, place):
    path, file = copied(data_set, tmp_path, table)
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)

    assert "damaged" in refusal(path)


def test_a_data_set_whose_metadata_name_other_columns_is_refused(tmp_path, data_set):
    path, file = copied(data_set, tmp_path, "memcpys")
    file.write_bytes(file.read_bytes().replace(b"src_memory_kind", b"srd_memory_kind"))

    refusal(path)


def test_a_loop_of_links_is_no_file(tmp_path, data_set):
    path, file = copied(data_set, tmp_path, "kernels")
    file.unlink()
    file.symlink_to(file.name)

    assert refusal(path).endswith(" is missing")


def test_a_loop_of_links_beside_a_data_set_is_passed_over(tmp_path, data_set):
    path, _ = copied(data_set, tmp_path, "kernels")
    (path / "loop").symlink_to("loop")

    assert read_profile(path).table("kernels").num_rows


def test_a_run_whose_recording_is_a_loop_of_links_is_refused(tmp_path):
    import fuzz_structure  # noqa: PLC0415 - only to borrow a run

    path = fuzz_structure._run(tmp_path / "run")  # noqa: SLF001 - as above
    (path / "log.txt").unlink()
    (path / "log.txt").symlink_to("log.txt")

    assert "which is not in its folder" in refusal(path)


def test_a_pipe_that_nobody_writes_into_is_waited_for_no_longer_than_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "WRITER_WAIT_S", 0.01)
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError) as caught:
        read_profile(tmp_path / "pipe")

    message = f"{tmp_path / 'pipe'} is a pipe, and no program has written into it for 0.01 s"
    assert caught.value.message == message


def test_a_program_that_writes_into_a_pipe_late_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "WRITER_WAIT_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    # As long as the test reads too, the writer never finds a pipe that nobody reads.
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(tmp_path / "pipe", os.O_WRONLY)

    def write() -> None:
        os.write(writing, SEEDS["nvprof.txt"])
        os.close(writing)

    Timer(10 * inputs.WRITER_WAIT_S, write).start()

    assert read_profile(tmp_path / "pipe").origin.reader == "nvprof-text"
    os.close(reading)


@pytest.mark.parametrize("name", ["gpuprof.json", "process.json", "manifest.json"])
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)

    with pytest.raises(UnknownFormatError):
        read_profile(tmp_path)


def test_a_message_is_never_longer_than_it_may_be():
    error = GpuprofError(f"/path/x: {'y' * 100_000} in it is damaged")

    assert len(error.message) == errors.LONGEST_MESSAGE
    assert error.message.startswith("/path/x: yyy")
    assert error.message.endswith(" in it is damaged")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_table_of_an_export_that_is_damaged_is_told_in_our_words(tmp_path, suffix):
    folder = export(tmp_path / "run", {KERNEL: [kernel(0, 9)]}, suffix)
    file = folder / f"{KERNEL}{suffix}"
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(content)

    with pytest.raises(GpuprofError) as caught:
        reports.report(read_profile(folder))
    assert not FOREIGN.search(caught.value.message)


def test_a_name_that_no_file_can_have_is_refused_with_a_message():
    with pytest.raises(InputError, match=r"n cannot be read: File name too long"):
        read_profile("n" * 300)
