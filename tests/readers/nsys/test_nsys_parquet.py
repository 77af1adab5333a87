import math
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from nsys_export import HTOD, KERNEL, MEMCPY, export, kernel, memcpy, stored
from recording_checks import refusal

from gpuprof.readers import find_reader, read_profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "nsys-rep"
REPORTS = [
    "NERSC__sc21-dl-tutorial__4gpu_bucketcap100mb.qdrep",
    "PolPuigPuy__OpenACC_Project_PolPuig__report3.qdrep",
    "gartangh__Master-s-Dissertation__Darknet-19.qdrep",
]


@pytest.fixture(params=[".parquet", ".arrow"])
def suffix(request):
    return request.param


def test_a_folder_gives_the_tables_of_the_database(tmp_path, suffix):
    tables = {KERNEL: [kernel(0, 9), kernel(9, 12)], MEMCPY: [memcpy(0, 5, HTOD)]}
    folder = export(tmp_path / "run", tables, suffix)

    profile = read_profile(folder)

    assert find_reader(folder).name == "nsys-parquet"
    database = read_profile(tmp_path / "x.sqlite")
    assert profile.table("kernels") == database.table("kernels")
    assert profile.table("memcpys") == database.table("memcpys")
    assert profile.events == database.events == len(tables[KERNEL]) + len(tables[MEMCPY])


@pytest.fixture
def kernels(tmp_path, suffix):
    """A folder, and the table of its kernels."""
    folder = export(tmp_path / "run", {KERNEL: [kernel(0, 9), kernel(10, 12)]}, suffix)
    rows = [kernel(0, 9), kernel(10, 12)]
    return folder, pa.Table.from_pylist(rows)


COLUMNS = [*kernel(0, 9)]
DEVICE_ID = COLUMNS.index("deviceId")


@pytest.mark.parametrize(
    ("column", "values", "holds"),
    [
        *((column, ["8", "soon"], "'soon' (string)") for column in COLUMNS),
        ("start", [8.0, 1.5], "1.5 (double)"),
        ("start", [8.0, math.nan], "nan (double)"),
        ("start", [8.0, math.inf], "inf (double)"),
        ("start", [8.0, 2.0**63], "9.223372036854776e+18 (double)"),
        ("start", [Decimal("8.0"), Decimal("1.5")], "Decimal('1.5') (decimal128(2, 1))"),
        ("start", [b"8", b"\xff"], "b'\\xff' (binary)"),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_named_with_its_place(kernels, suffix, column, values, holds):
    folder, table = kernels
    place = table.column_names.index(column)
    stored(folder / f"{KERNEL}{suffix}", table.set_column(place, column, pa.array(values)))

    expected = f"{folder}, table {KERNEL}: column {column} holds {holds} in row 2"
    assert refusal(folder) == expected


def test_of_many_rows_the_first_that_is_no_number_is_named(kernels, suffix):
    folder, table = kernels
    devices = pa.array(["0", "1", "0", "soon", "late", "0"])
    many = pa.concat_tables([table] * 3).set_column(DEVICE_ID, "deviceId", devices)
    stored(folder / f"{KERNEL}{suffix}", many)

    assert refusal(folder).endswith("column deviceId holds 'soon' (string) in row 4")


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.decimal128(38, 2), pa.int64()])
def test_numbers_that_another_program_wrote_as_another_type_are_read(kernels, suffix, kind):
    folder, table = kernels
    expected = read_profile(folder).table("kernels")
    changed = table.column("deviceId").cast(kind)
    stored(folder / f"{KERNEL}{suffix}", table.set_column(DEVICE_ID, "deviceId", changed))

    assert read_profile(folder).table("kernels") == expected


def test_a_list_in_the_place_of_a_number_is_refused(kernels, suffix):
    folder, table = kernels
    stored(
        folder / f"{KERNEL}{suffix}", table.set_column(DEVICE_ID, "deviceId", pa.array([[1], [2]]))
    )

    assert "column deviceId holds [1] (list<" in refusal(folder)


def test_two_columns_of_one_name_are_refused(kernels, suffix):
    folder, table = kernels
    stored(folder / f"{KERNEL}{suffix}", table.append_column("start", table["start"]))

    assert refusal(folder) == f"{folder}, table {KERNEL}: it has two columns start"


@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_a_size_that_64_bits_hold_only_without_a_sign_is_refused(tmp_path, suffix, size):
    folder = export(tmp_path / "run", {KERNEL: [kernel(0, 9)]}, suffix)
    table = pa.table({**{name: [value] for name, value in kernel(0, 9).items()}})
    table = table.append_column("staticSharedMemory", pa.array([size], pa.uint64()))
    stored(folder / f"{KERNEL}{suffix}", table)

    assert refusal(folder) == (
        f"{folder}, table kernels: column static_shared_memory_bytes holds {size} in row 1"
    )


@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_file_cut_short_names_its_table(tmp_path, suffix, kept):
    folder = export(tmp_path / "run", {KERNEL: [kernel(0, 9)]}, suffix)
    file = folder / f"{KERNEL}{suffix}"
    file.write_bytes(file.read_bytes()[:kept])

    assert refusal(folder) == f"{folder}, table {KERNEL}: its file is cut short or damaged"


def test_a_damaged_page_is_told_when_it_is_read(tmp_path):
    rows = [kernel(t, t + 1, gridX=t * 7919 % 10_007) for t in range(1, 20_000)]
    folder = export(tmp_path / "run", {KERNEL: rows}, ".parquet")
    file = folder / f"{KERNEL}.parquet"
    damaged = bytearray(file.read_bytes())
    damaged[4:60_000] = bytes(59_996)
    file.write_bytes(damaged)

    assert refusal(folder) == f"{folder}: one of its files is damaged"


@pytest.mark.profilers
@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
@pytest.mark.skipif(not CORPUS.exists(), reason="the recordings are not on this machine")
@pytest.mark.parametrize("report", REPORTS)
def test_one_recording_gives_equal_tables_from_every_export(tmp_path, monkeypatch, report):
    monkeypatch.setenv("GPUPROF_CACHE", str(tmp_path / "cache"))
    outputs = {"sqlite": "run.sqlite", "parquetdir": "parquet", "arrowdir": "arrow"}
    for kind, name in outputs.items():
        command = ["nsys", "export", "-q", "true", f"--type={kind}", "-o", tmp_path / name]
        subprocess.run([*command, CORPUS / report], check=True, capture_output=True)

    own = tmp_path / "run.gpuprof"
    write(read_profile(CORPUS / report), own)
    paths = [*(tmp_path / name for name in outputs.values()), CORPUS / report, own]
    database, *others = map(read_profile, paths)

    for name in database.sources:
        expected = in_order(database.table(name))
        for other in others:
            # Only the settings in the database tell that an absent table was traced.
            if expected.num_rows or other.has(name):
                assert in_order(other.table(name)) == expected, (name, other.origin.source)


def in_order(table):
    return table.sort_by([(column, "ascending") for column in table.column_names])
