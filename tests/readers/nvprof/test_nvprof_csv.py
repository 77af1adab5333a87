"""Summaries that nvprof prints as CSV, and tables that people made of its text."""

import pytest
from recording_checks import rows

import gpuprof
from gpuprof.readers import find_reader
from gpuprof.readers.nvprof import csv_summary as nvprof_csv

RESULT = (
    "==4711== NVPROF is profiling process 4711, command: ./stencil 10\n"
    "==4711== Profiling application: ./stencil 10\n"
    "==4711== Profiling result:\n"
)
HEAD = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n'
UNITS = ",%,ms,,us,us,ms,\n"
KERNEL = '75.000000,7.500000,10,750.000000,700.000000,0.800000,"stencil(float*, int=128)"\n'
COPY = '25.000000,2.500000,5,500.000000,0.544000,1.000000,"[CUDA memcpy HtoD]"\n'
CALL = '100.000000,9.000000,2,4500.000000,1.000000,8.999000,"cudaMalloc"\n'
TABLE = f'{HEAD}{UNITS}"GPU activities",{KERNEL}"GPU activities",{COPY}"API calls",{CALL}'
LOG = RESULT + TABLE
OLD_HEAD, OLD_UNITS = HEAD.removeprefix('"Type",'), UNITS.removeprefix(",")

EXPECTED_ROWS = [
    ("kernel", "stencil(float*, int=128)", 10, 7_500_000, 750_000, 700_000, 800_000, 0.75),
    ("memcpy", "HtoD", 5, 2_500_000, 500_000, 544, 1_000_000, 0.25),
    ("api", "cudaMalloc", 2, 9_000_000, 4_500_000, 1_000, 8_999_000, 1.0),
]
COLUMNS = ("activity_kind", "name", "calls", "total_ns", "mean_ns", "min_ns", "max_ns")


def _read(tmp_path, text):
    path = tmp_path / "run.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert find_reader(path) is nvprof_csv.READER
    return gpuprof.read_profile(path)


def _rows(profile):
    return rows(profile, "activity_summary", *COLUMNS, "printed_share")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOG, id="cuda-9-and-later"),
        pytest.param(
            f"{RESULT}{OLD_HEAD}{OLD_UNITS}{KERNEL}{COPY}\n==4711== API calls:\n"
            f"{OLD_HEAD}{OLD_UNITS}{CALL}",
            id="cuda-8-and-before",
        ),
        pytest.param(TABLE, id="table-alone"),
        pytest.param(LOG.replace("\n", "\r\n"), id="windows-line-ends"),
        pytest.param(
            "loss 0.3, 12%\n" + LOG.replace('"API', 'ran, 29.9 seconds\n"API') + "1,2,3,4\n",
            id="program-output-around-and-within",
        ),
        pytest.param(
            TABLE.replace('"API calls"', '"OpenACC (excl)",' + CALL + '"API calls"'),
            id="openacc-rows-are-the-hosts",
        ),
        pytest.param(
            LOG + '\n==4711== NVTX result:\n==4711==   Thread "<unnamed>" (id = 1)\n' + TABLE,
            id="nvtx-sections-repeat-rows",
        ),
        pytest.param(
            LOG + '==4711== Metric result:\n"Device","Invocations","Metric Name",'
            '"Metric Description","Min","Max","Avg"\n'
            '"Tesla P100 (0)",1,"nvlink_total (4 instances)","NVLink",,,4512,240,240,240\n',
            id="metrics-whose-cells-are-not-quoted",
        ),
        pytest.param(
            "Type,Time(%),Time,Calls,Avg,Min,Max,Name\n"
            "GPU activities,75.00%,7.5000ms,10,750.00us,700.00us,800.00us,"
            "stencil(float*, int=128)\n"
            ",25.00%,2.5000ms,5,500.00us,544ns,1.0000ms,[CUDA memcpy HtoD]\n"
            "API calls,100.00%,9.0000ms,2,4.5000ms,1.0000us,8.9990ms,cudaMalloc\n",
            id="by-hand-units-in-cells-names-not-quoted-labels-once",
        ),
    ],
)
def test_every_variant_gives_the_same_rows(tmp_path, text):
    assert _rows(_read(tmp_path, text)) == EXPECTED_ROWS


def test_each_column_has_its_own_unit(tmp_path):
    text = f"{RESULT}{HEAD},%,s,,ms,us,ns,\n" + '"GPU activities",100.0,1.5,1,2.5,3.5,4,"f"\n'

    assert _rows(_read(tmp_path, text)) == [
        ("kernel", "f", 1, 1_500_000_000, 2_500_000, 3_500, 4, 1.0)
    ]


def test_migrations_have_calls_and_bytes_but_no_time(tmp_path):
    text = (
        f"{LOG}\n==4711== Unified Memory profiling result:\n"
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time",""\n'
        '"TITAN Xp (0)",31,28.902344KB,4.000000KB,64.000000KB,896.000000KB,0.000000,'
        '"Host To Device"\n'
        '"TITAN Xp (0)",,,,,16B,0.000000,"Gpu page fault groups"\n'
        "Total CPU Page faults: 49\n"
    )

    profile = _read(tmp_path, text)

    migrations = rows(profile, "activity_summary", "name", "calls", "bytes", "total_ns")[-1]
    assert migrations == ("UVM_HtoD", 31, 896 * 1024, None)
    assert profile.table("devices")["name"].to_pylist() == ["TITAN Xp"]
