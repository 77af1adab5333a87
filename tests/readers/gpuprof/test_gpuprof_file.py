import json
import math
import re
import shutil
import zipfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import nsys_export
import numpy as np
import own_files
import pyarrow as pa
import pytest
from commands import printed_by
from left_threads import left_threads, only_linux
from pyarrow import parquet
from recordings import copy, kernel, trace

from gpuprof.base.errors import CorruptFileError, GpuprofError, InputError
from gpuprof.facts.numbers import read_columns
from gpuprof.model import data_model
from gpuprof.model.derived import UNKNOWN
from gpuprof.model.origin import Origin
from gpuprof.model.table import Selection
from gpuprof.readers import find_reader, read_profile
from gpuprof.readers.common import parquet_columns
from gpuprof.readers.gpuprof import write_gpuprof_file
from gpuprof.readers.gpuprof.gpuprof_file import HEADER
from gpuprof.readers.gpuprof.write_gpuprof_file import write

ORIGIN = Origin(
    Path("/home/someone/train.sqlite"),
    "nsys-sqlite",
    "nsys",
    tool_version="2024.1",
    schema_version="3.7",
    command="python train.py",
    recorded_at="2024-05-01",
    epoch_ns=1_700_000_000_000_000_001,
    variant="dual",
    start_resolution_ns=1000,
    warnings=("Not all events might have been collected.",),
    exporter_version="2024.6",
)
RECORDING = replace(
    trace(
        kernels=[
            kernel(f"kernel {i % 7} µ", i * 10, i * 10 + 5, device_id=i % 2) for i in range(5000)
        ],
        memcpys=[copy("PtoP", 2**61, 2**61 + 2**40, bytes=2**40, src_device_id=0, dst_device_id=1)],
        memsets=[],
        epochs=[{"epoch": 0, "seconds": 1.5}],
    ),
    origin=ORIGIN,
)


def written(folder, profile=RECORDING):
    path = folder / "run.gpuprof"
    write(profile, path)
    return path


def refusal(path):
    """What is said of a file that is read as one of gpuprof and cannot be."""
    with pytest.raises(CorruptFileError) as caught:
        read_profile(path, "gpuprof")
    return caught.value.message


def test_a_file_without_the_version_that_exported_is_read(tmp_path):
    path = written(tmp_path)
    with zipfile.ZipFile(path) as file:
        header = json.loads(file.read(HEADER))
    del header["origin"]["exporter_version"]
    repacked(path, {HEADER: json.dumps(header)})

    assert read_profile(path).origin == replace(ORIGIN, source=path, exporter_version=None)


def assert_equal_tables(one, other):
    assert one.sources.keys() == other.sources.keys()
    for name in one.sources:
        order = [(column, "ascending") for column in data_model.BY_NAME[name].columns]
        assert one.table(name).sort_by(order).equals(other.table(name).sort_by(order)), name


def test_every_table_comes_back_as_it_was(tmp_path):
    path = written(tmp_path)

    assert find_reader(path).name == "gpuprof"
    assert_equal_tables(RECORDING, read_profile(path))


def test_a_file_is_recognised_without_importing_what_reads_other_formats(tmp_path):
    code = "import sys, gpuprof; gpuprof.read_profile(sys.argv[1]); print(*sys.modules)"

    modules = printed_by(code, written(tmp_path)).split()

    readers = {name.split(".")[2] for name in modules if name.startswith("gpuprof.readers.")}
    assert "gpuprof" in readers
    assert not readers & {"kineto", "xplane", "nvprof", "nsys_stats", "tf1_timeline"}


@only_linux
def test_no_thread_is_left_that_could_abort_the_end_of_the_process(tmp_path):
    code = "gpuprof.read_profile(path).table('kernels')"

    assert left_threads("numpy, pyarrow.parquet, gpuprof", code, written(tmp_path)) == 0


def test_a_table_with_no_rows_is_not_an_absent_one(tmp_path):
    profile = read_profile(written(tmp_path))

    assert profile.has("memsets")
    assert not profile.has("api_calls")


def test_where_it_came_from_comes_back_but_for_its_folder(tmp_path):
    path = written(tmp_path)

    assert read_profile(path).origin == replace(ORIGIN, source=path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("gpuprof.json"))
    assert header["converted_from"] == "train.sqlite"
    assert "someone" not in json.dumps(header)


def test_the_same_recording_gives_the_same_bytes(tmp_path):
    first = written(tmp_path).read_bytes()

    assert written(tmp_path).read_bytes() == first


def test_a_query_reads_only_the_columns_that_it_names(tmp_path):
    # The page of another column is damaged, and its checksum is never looked at.
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[_last_page_of(path, "kernels.parquet", "end_ns")] ^= 0xFF
    path.write_bytes(data)
    profile = read_profile(path)

    assert profile.query("SELECT sum(device_id)::BIGINT AS n FROM kernels").to_pylist() == [
        {"n": 2500}
    ]
    with pytest.raises(CorruptFileError) as caught:
        profile.table("kernels")
    assert caught.value.message == f"{path}: one of its tables is damaged"
    assert caught.value.hint == "Make it again from the original with `gpuprof convert`."


def _last_page_of(path, member, column):
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
        content = archive.read(member)
    start = path.read_bytes().index(content)
    assert info.compress_type == zipfile.ZIP_STORED
    (tmp := path.with_suffix(".parquet")).write_bytes(content)
    group = parquet.ParquetFile(tmp).metadata.row_group(0)
    chunk = next(
        group.column(i)
        for i in range(group.num_columns)
        if group.column(i).path_in_schema == column
    )
    return start + chunk.data_page_offset + chunk.total_compressed_size - 2


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    whole = written(tmp_path).read_bytes()
    path = tmp_path / "cut.gpuprof"
    for length in range(64, len(whole), 997):
        path.write_bytes(whole[:length])
        assert "cut short or damaged" in refusal(path)


def repacked(path, members):
    """The file again with some members changed or added."""
    with zipfile.ZipFile(path) as archive:
        old = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (old | members).items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "header", ["[1]", '{"gpuprof_file": 1, "origin": {}}'], ids=["list", "empty"]
)
def test_a_header_that_breaks_its_rules_is_refused(tmp_path, header):
    path = repacked(written(tmp_path), {HEADER: header})

    assert "gpuprof.json in it is missing or broken" in refusal(path)


@pytest.mark.parametrize(
    ("place", "byte"), [(6, 84), (46, 0xFF)], ids=["version", "name-that-is-not-utf-8"]
)
def test_a_list_of_members_that_cannot_be_read_is_refused(tmp_path, place, byte):
    path = written(tmp_path)
    data = bytearray(path.read_bytes())
    last = data.rindex(b"PK\x01\x02")  # entry of the list at the end of the archive
    data[last + 9] |= 8  # its name is said to be UTF-8
    data[last + place] = byte
    path.write_bytes(data)

    assert "the file is cut short or damaged" in refusal(path)


def test_a_table_that_this_version_does_not_know_is_left_alone(tmp_path):
    path = repacked(written(tmp_path), {"of_the_future.parquet": b"?"})

    assert_equal_tables(RECORDING, read_profile(path))


def test_any_damage_is_told_as_a_gpuprof_error_or_changes_nothing(tmp_path):
    whole = written(tmp_path).read_bytes()
    path = tmp_path / "damaged.gpuprof"
    for place in range(0, len(whole), 331):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            found = read_profile(path, "gpuprof").table("kernels")
        except GpuprofError:
            continue
        assert found.equals(read_profile(written(tmp_path)).table("kernels"))


@pytest.mark.parametrize("cut", [1, 100])
def test_a_file_that_lost_its_beginning_is_refused(tmp_path, cut):
    path = tmp_path / "cut.gpuprof"
    path.write_bytes(written(tmp_path).read_bytes()[cut:])

    assert refusal(path)


def test_a_table_whose_column_has_no_readable_name_is_refused(tmp_path):
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"device_id", b"device_\xdd\xdd"))

    assert "its table kernels is damaged" in refusal(path)


def test_the_environment_and_the_host_of_a_recording_do_not_travel(tmp_path):
    names = {"PROCESS_0:COMMAND": "train", "PROCESS_0:ENVIRONMENT_0": "TOKEN=hunter2"}
    host = {"name": "HOSTNAME", "value": "node17.example"}
    rows = [{"name": name, "value": value} for name, value in names.items()]
    tables = {"META_DATA_CAPTURE": rows, nsys_export.KERNEL: [nsys_export.kernel(0, 9)]}
    tables |= {"TARGET_INFO_SYSTEM_ENV": [host]}
    export = nsys_export.write(tmp_path / "x.sqlite", tables)

    recorded = read_profile(export)
    path = written(tmp_path, recorded)

    assert recorded.origin.host == "node17.example"
    kept = read_profile(path)
    texts = [repr(kept.origin), *(str(kept.table(name).to_pylist()) for name in kept.sources)]
    with zipfile.ZipFile(path) as file:
        texts += [file.read(name).decode("latin-1") for name in file.namelist()]
    assert "train" in "".join(texts)
    assert "hunter2" not in "".join(texts)
    assert "node17" not in "".join(texts)


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        (pa.array(["8", "big"]), "'big' (string)"),
        (pa.array([8, 1.5]), "1.5 (double)"),
        (pa.array([8, math.nan]), "nan (double)"),
        (pa.array([8, math.inf]), "inf (double)"),
        (pa.array([8, 2**64 - 1], pa.uint64()), "18446744073709551615 (uint64)"),
        (pa.array([Decimal("8.0"), Decimal("1.5")]), "Decimal('1.5') (decimal128(2, 1))"),
        (pa.array([[], [1]]), "[] (list<element: int64>)"),
        (pa.array([{"a": 1}, {"a": 1}]), "{'a': 1} (struct<a: int64>)"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_a_value_of_another_type_is_named_with_its_place(tmp_path, values, holds):
    path = own_files.changed(written(tmp_path), memcpys=sized(values))

    row = 1 if pa.types.is_nested(values.type) else 2
    assert refusal(path) == f"{path}, table memcpys: column bytes holds {holds} in row {row}"


@pytest.mark.parametrize(
    "values", [["8", "9"], [8.0, 9.0], [Decimal("8.0"), Decimal("9.0")]], ids=str
)
def test_values_that_another_program_wrote_as_another_type_are_read(tmp_path, values):
    path = own_files.changed(written(tmp_path), memcpys=sized(pa.array(values)))

    assert read_profile(path).query("SELECT sum(bytes) AS b FROM memcpys").to_pylist() == [
        {"b": 17}
    ]


def sized(values):
    """Two copies whose sizes are these."""
    table = trace(memcpys=[copy("HtoD", 0, 1), copy("HtoD", 2, 3)]).table("memcpys")
    return table.set_column(table.column_names.index("bytes"), "bytes", values)


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = sized(pa.array([1, 2]))
    path = own_files.changed(written(tmp_path), memcpys=table.append_column("bytes", [[3, 4]]))

    assert refusal(path) == f"{path}, table memcpys: it has two columns bytes"


def test_a_column_that_is_none_of_ours_is_not_read(tmp_path):
    table = sized(pa.array([1, 2])).append_column("more", [[Decimal(1), Decimal(10) ** 60]])
    path = own_files.changed(written(tmp_path), memcpys=table)

    assert read_profile(path).table("memcpys")["bytes"].to_pylist() == [1, 2]


def test_a_table_that_grows_a_thousandfold_is_refused(tmp_path):
    zeros = pa.array(np.zeros(3_000_000, np.int64))
    rows = pa.table({"start_ns": zeros, "end_ns": zeros})
    path = own_files.changed(written(tmp_path), memsets=rows)

    assert re.fullmatch(
        rf"{path}, table memsets: \d+,\d+ bytes that unpack to 3,000,000 rows are no recording",
        refusal(path),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("warnings", [1]),
        ("warnings", "Not all events."),
        ("command", ["python", "train.py"]),
        ("start_resolution_ns", 10**24),
        ("start_resolution_ns", 0),
        ("epoch_ns", 1.5),
        ("tool", None),
        ("variant", {}),
    ],
)
def test_a_header_of_other_types_is_refused_when_it_is_read(tmp_path, field, value):
    path = own_files.changed(written(tmp_path), header={field: value})

    message = refusal(path)
    assert message.startswith(f"{path}: gpuprof.json in it is missing or broken (")
    assert f"`$.{field}" in message


SAMPLES = Path(__file__).parents[3] / "sample_logs"


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.gpuprof")), ids=lambda path: path.name)
def test_a_file_of_version_1_comes_back_the_same_as_version_3(tmp_path, path):
    older = read_profile(path)

    assert_equal_tables(older, read_profile(written(tmp_path, older)))


def numbered(folder, **columns):
    """Two kernels and their names as version 2 has them, but for some columns."""
    names = {"name_id": [1, 2], "name": ["one", "two"]} | columns
    kernels = {"start_ns": [1, 3], "end_ns": [2, 4], "name_id": pa.array([2, 1], pa.int8())}
    tables = {"kernels": pa.table(kernels), "kernels.names": pa.table(names)}
    return own_files.changed(written(folder, trace(kernels=[])), **tables)


def test_names_are_told_by_their_numbers(tmp_path):
    profile = read_profile(numbered(tmp_path))

    assert profile.table("kernels")["name"].to_pylist() == ["two", "one"]
    assert profile.loaded("kernels").names.by_number == {1: "one", 2: "two"}


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"name_id": [1, 1]}, "table kernels: two of its names have one number"),
        ({"name_id": ["1", "1"]}, "table kernels: two of its names have one number"),
        ({"name_id": [None, None]}, "table kernels: one of its names has no number"),
        ({"name_id": [1, None]}, "table kernels: one of its names has no number"),
        ({"name_id": ["1", "b"]}, "table kernels: column name_id holds 'b' (string) in row 2"),
        ({"name": [1, 2]}, None),
    ],
)
def test_names_whose_numbers_mean_two_things_are_refused(tmp_path, columns, fault):
    path = numbered(tmp_path, **columns)

    if fault is None:
        assert read_profile(path).table("kernels")["name"].to_pylist() == ["2", "1"]
        return
    assert refusal(path) == f"{path}, {fault}"


def test_numbers_without_names_are_refused(tmp_path):
    path = own_files.changed(numbered(tmp_path), **{"kernels.names": pa.table({"name_id": [1]})})
    assert "its names have no numbers, or its numbers no" in refusal(path)

    path = own_files.changed(path, **{"kernels.names": None})
    assert "its table kernels has no column name" in refusal(path)


ROWS_OF_TWO_GROUPS = 150_000
LARGE = trace(memsets=[{"start_ns": n, "end_ns": n + 1} for n in range(ROWS_OF_TWO_GROUPS)])


def test_a_window_of_time_reads_only_the_groups_of_rows_that_hold_it(tmp_path):
    path = written(tmp_path, LARGE)
    data = bytearray(path.read_bytes())
    data[_last_page_of(path, "memsets.parquet", "end_ns")] ^= 0xFF  # of the first group
    path.write_bytes(data)
    profile = read_profile(path)
    late = profile.restricted(Selection(windows=((140_000, 140_010),)))

    assert late.query("SELECT sum(end_ns)::BIGINT AS sum FROM memsets").to_pylist() == [
        {"sum": sum(range(140_001, 140_011))}
    ]
    with pytest.raises(CorruptFileError, match="one of its tables is damaged"):
        late.unrestricted.query("SELECT sum(end_ns) FROM memsets")


SUMS = "SELECT sum(end_ns - start_ns)::BIGINT AS busy, count(bytes) AS sizes FROM memsets"


@pytest.mark.parametrize(("most_kept", "is_kept"), [(ROWS_OF_TWO_GROUPS, True), (1, False)])
def test_a_table_that_is_not_large_is_decoded_once(tmp_path, monkeypatch, most_kept, is_kept):
    path, decoded = written(tmp_path, LARGE), []
    monkeypatch.setattr(parquet_columns, "_MOST_KEPT", most_kept)
    profile = read_profile(path)
    opened = parquet_columns.opened
    monkeypatch.setattr(parquet_columns, "opened", lambda *a: decoded.append(a) or opened(*a))

    sums = [profile.query(SUMS).to_pylist() for _ in range(2)]
    queries = len(decoded)
    starts = np.concatenate([part[0] for part in profile.columns("memsets", "start_ns")])

    assert sums == [[{"busy": ROWS_OF_TWO_GROUPS, "sizes": 0}]] * 2
    assert starts.tolist() == [*range(ROWS_OF_TWO_GROUPS)]
    assert queries == (1 if is_kept else 2)
    assert len(decoded) == queries + (0 if is_kept else 1)


def test_narrow_columns_of_a_large_table_are_decoded_once(tmp_path, monkeypatch):
    rows = [{"start_ns": n, "end_ns": n + 1, "device_id": n % 3} for n in range(10)]
    path, decoded = written(tmp_path, trace(memsets=rows)), []
    monkeypatch.setattr(parquet_columns, "_MOST_KEPT", 1)
    monkeypatch.setattr(parquet_columns, "_BATCH_ROWS", 4)
    profile, opened = read_profile(path), parquet_columns.opened
    monkeypatch.setattr(parquet_columns, "opened", lambda *a: decoded.append(a) or opened(*a))
    parts = [[*profile.columns("memsets", "device_id", "start_ns")] for _ in range(2)]

    device, start = (np.concatenate(column) for column in zip(*parts[1], strict=True))
    assert (device.tolist(), start.tolist()) == ([n % 3 for n in range(10)], [*range(10)])
    assert len(decoded) == 3  # the devices once, the starts twice


def test_how_many_rows_a_table_has_is_known_before_they_are_read(tmp_path):
    path = written(tmp_path, LARGE)

    assert read_profile(path).loaded("memsets").rows_known() == ROWS_OF_TWO_GROUPS


def test_a_recording_that_is_not_in_order_is_written_in_order(tmp_path):
    rows = [{"start_ns": n, "end_ns": n + 1} for n in (5, 3, 9)]

    path = written(tmp_path, trace(memsets=rows))

    assert starts(path, "memsets.parquet") == [[3, 5, 9]]


def starts(path, *members):
    with zipfile.ZipFile(path) as archive:
        files = [parquet.read_table(pa.BufferReader(archive.read(name))) for name in members]
    return [file["start_ns"].to_pylist() for file in files]


@pytest.mark.parametrize("form", ["arrow", "sqlite"])
def test_ranges_are_written_in_order_though_a_query_joins_their_texts(tmp_path, form):
    ranges = [
        {"start": n, "end": n + 5, "eventType": 59, "textId": n % 50 + 1, "globalTid": 1 << 24}
        for n in range(1, 20_001)
    ]
    texts = [{"id": n, "value": f"text {n}"} for n in range(1, 51)]
    export = nsys_export.write(
        tmp_path / "x.sqlite",
        {nsys_export.NVTX: ranges, nsys_export.KERNEL: [nsys_export.kernel(0, 9)]}
        | {"StringIds": texts},
    )
    profile = read_profile(export)
    if form == "arrow":
        profile = trace(nvtx_ranges=profile.table("nvtx_ranges").to_pylist())

    path = written(tmp_path, profile)

    assert starts(path, "nvtx_ranges.parquet") == [[*range(1, 20_001)]]


ROWS_OF_A_PART = 1000


@pytest.fixture
def in_parts(tmp_path, monkeypatch):
    """Kernels in three files; only those of the second have a stream and wide correlation ids."""
    monkeypatch.setattr(write_gpuprof_file, "_PART_ROWS", ROWS_OF_A_PART)
    rows = [
        kernel(
            f"kernel {n % 3}", n * 10, n * 10 + 5,
            correlation_id=n * 1000 if 1000 <= n < 2000 else 7,
            stream_id=3 if 1000 <= n < 2000 else None,
        )
        for n in range(2 * ROWS_OF_A_PART + 1)
    ]  # fmt: skip
    profile = trace(kernels=rows)
    return profile, written(tmp_path, profile)


def test_a_large_table_in_several_files_comes_back_as_it_was(in_parts):
    profile, path = in_parts

    names = ["kernels.parquet", "kernels.1.parquet", "kernels.2.parquet"]
    assert [len(part) for part in starts(path, *names)] == [ROWS_OF_A_PART, ROWS_OF_A_PART, 1]
    assert_equal_tables(profile, read_profile(path))
    assert read_profile(path).events == 2 * ROWS_OF_A_PART + 1


def test_what_a_file_of_a_large_table_lacks_is_unknown_in_its_rows_alone(in_parts):
    profile, path = in_parts
    asked = "SELECT count(stream_id) AS streams, sum(correlation_id)::BIGINT AS ids FROM kernels"

    (stream,) = read_columns(read_profile(path), "kernels", "stream_id")

    assert read_profile(path).query(asked).equals(profile.query(asked))
    rows = range(0, len(stream), ROWS_OF_A_PART)
    of_parts = [stream[low : low + ROWS_OF_A_PART].tolist() for low in rows]
    assert [{*of} for of in of_parts] == [{UNKNOWN}, {3}, {UNKNOWN}]


def test_a_window_of_a_large_table_reads_only_the_files_that_hold_it(in_parts):
    _, path = in_parts
    data = bytearray(path.read_bytes())
    data[_last_page_of(path, "kernels.1.parquet", "end_ns")] ^= 0xFF
    path.write_bytes(data)
    late = read_profile(path).restricted(Selection(windows=((20_000, 20_010),)))

    assert late.query("SELECT start_ns, end_ns FROM kernels").to_pylist() == [
        {"start_ns": 20_000, "end_ns": 20_005}
    ]
    assert [end.tolist() for (end,) in late.columns("kernels", "end_ns")] == [[20_005]]
    with pytest.raises(CorruptFileError, match="one of its tables is damaged"):
        read_profile(path).query("SELECT sum(end_ns) FROM kernels")


def test_a_large_table_of_which_a_file_is_missing_is_refused(in_parts):
    _, path = in_parts

    own_files.changed(path, **{"kernels.1": None})

    assert refusal(path) == f"{path}, table kernels: kernels.1.parquet is missing"


def test_a_value_of_another_type_is_named_with_its_place_in_the_whole_table(in_parts):
    _, path = in_parts
    rows = pa.table({"start_ns": [1, 2], "end_ns": pa.array(["2", "late"])})

    own_files.changed(path, **{"kernels.1": rows})

    holds = "column end_ns holds 'late' (string) in row 1,002"
    assert refusal(path) == f"{path}, table kernels: {holds}"


@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_file_that_is_replaced_while_it_is_read_is_told(tmp_path, keeps_time):
    path = written(tmp_path)
    profile = read_profile(path)
    path.rename(tmp_path / "before")
    written(tmp_path)
    if keeps_time:
        shutil.copystat(tmp_path / "before", path)

    with pytest.raises(InputError) as caught:
        profile.table("kernels")

    assert caught.value.message == f"{path} changed while it was read"
