"""Summaries that nvprof prints, in all their variants."""

import gzip
import re
from pathlib import Path

import pytest
from recording_checks import rows
from test_nvprof_trace import TEXT_HEAD, TEXT_KERNEL

import gpuprof
from gpuprof.base.errors import EmptyRecordingError, InputError, UsageError
from gpuprof.readers import find_reader, read_head
from gpuprof.readers.nvprof import text_summary as nvprof_text

HERE = Path(__file__).parents[1]
PUBLISHED = HERE.parent.parent / "sample_logs/nvprof/published"
CORPUS = HERE.parent.parent.parent / "shared/corpus/nvprof-text"

TYPED = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
OLD = "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
KERNEL = "75.00%  7.5000ms        10  750.00us  700.00us  800.00us  stencil(float*, int=128)\n"
COPY = "25.00%  2.5000ms         5  500.00us     544ns  1.0000ms  [CUDA memcpy HtoD]\n"
CALL = "100.00%  9.0000ms         2  4.5000ms  1.0000us  8.9990ms  cudaMalloc\n"
START = "==4711== NVPROF is profiling process 4711, command: ./stencil 10\n"
RESULT = "==4711== Profiling application: ./stencil 10\n==4711== Profiling result:\n"
TABLE = f"{TYPED} GPU activities:   {KERNEL}                    {COPY}      API calls:  {CALL}"
LOG = START + RESULT + TABLE

EXPECTED_ROWS = [
    ("kernel", "stencil(float*, int=128)", 10, 7_500_000),
    ("memcpy", "HtoD", 5, 2_500_000),
    ("api", "cudaMalloc", 2, 9_000_000),
]


def _read(tmp_path, text, name="run.log", section=None):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return gpuprof.read_profile(path, section=section)


def _summary(profile):
    return profile.table("activity_summary").to_pylist()


def _rows(profile):
    return [
        tuple(row[key] for key in ("activity_kind", "name", "calls", "total_ns"))
        for row in _summary(profile)
    ]


def test_row_gives_all_its_numbers_in_base_units(tmp_path):
    row = _summary(_read(tmp_path, LOG))[1]

    assert row == {
        **dict.fromkeys(row),
        "run_id": 0,
        "activity_kind": "memcpy",
        "name": "HtoD",
        "calls": 5,
        "total_ns": 2_500_000,
        "mean_ns": 500_000.0,
        "min_ns": 544,
        "max_ns": 1_000_000,
        "printed_share": 0.25,
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOG, id="cuda-9-and-later"),
        pytest.param(
            f"{START}{RESULT}{OLD} {KERNEL} {COPY}\n==4711== API calls:\n{OLD}{CALL}",
            id="cuda-8-and-before",
        ),
        pytest.param(LOG.replace("==4711==", "========"), id="no-process-id"),
        pytest.param(RESULT.replace("==4711== ", "") + TABLE, id="prefixes-cut-away"),
        pytest.param(
            f"Profiling result:\n{OLD} {KERNEL} {COPY}\nAPI calls:\n{OLD}{CALL}",
            id="cuda-8-prefixes-cut-away",
        ),
        pytest.param(LOG.replace("\n", "\r\n"), id="windows-line-ends"),
        pytest.param(
            "\x1b[32m" + LOG.replace("\n", "\x1b[0m\n\x1b[32m") + "\x1b[0m", id="terminal-colours"
        ),
        pytest.param(
            "# Results\n\n```\n" + re.sub("(?m)^", "\t", TABLE) + "......\n```\nSo 75% is it.\n",
            id="pasted-into-markdown",
        ),
        pytest.param(f"{KERNEL}{COPY}{CALL}", id="rows-alone"),
        pytest.param(re.sub(" +", " ", f"{KERNEL}{COPY}{CALL}"), id="rows-with-single-blanks"),
        pytest.param(f"{RESULT}{TYPED}{KERNEL}{COPY}{CALL}", id="labels-cut-away"),
        pytest.param(
            "epoch 1: 45% 3.2s\r 50%|█████     | 5/10 == x" + LOG + "ran 29.9 seconds, 7.1% 3s 2\n",
            id="program-output-around-and-on-one-line",
        ),
        pytest.param(
            START + RESULT + TABLE.replace("      API", " OpenACC (excl):  " + CALL + "      API"),
            id="openacc-rows-are-the-hosts",
        ),
        pytest.param(
            LOG + '\n==4711== NVTX result:\n==4711==   Thread "<unnamed>" (id = 1)\n'
            '==4711==     Domain "NCCL"\n==4711==       Range "ncclReduce"\n'
            f"{TYPED}          Range:  {CALL}"
            f" GPU activities:  {KERNEL}      API calls:  {CALL}"
            "No kernels were profiled in this range.\n",
            id="nvtx-sections-repeat-rows",
        ),
        pytest.param(
            LOG + "==4711== Metric result:\nInvocations   Metric Name  Min  Max  Avg\n"
            'Device "Tesla K80 (0)"\n    Kernel: stencil(float*)\n'
            "     10  sm_efficiency  Multiprocessor Activity  1.76%  1.76%  1.76%\n",
            id="metrics",
        ),
        pytest.param(
            LOG + "\n======== CPU profiling result (bottom up):\nTime(%)      Time  Name\n"
            " 80.56%  8.59905s  ???\n 80.00%  8.53892s  | start_thread\n",
            id="cpu-profile",
        ),
    ],
)
def test_every_variant_gives_the_same_rows(tmp_path, text):
    assert _rows(_read(tmp_path, text)) == EXPECTED_ROWS


def test_gzipped_log_is_read(tmp_path):
    assert _rows(_read(tmp_path, gzip.compress(LOG.encode()), "run.log.gz")) == EXPECTED_ROWS


OTHER = LOG.replace("4711", "12").replace("./stencil 10", "./stencil 20")


def test_runs_of_one_file_are_told_apart_and_not_added_up(tmp_path):
    with pytest.raises(InputError) as caught:
        _read(tmp_path, LOG + "\n" + OTHER)

    assert caught.value.message == (
        f"{tmp_path}/run.log holds 2 recordings, which are not added up"
    )
    assert caught.value.hint == (
        "Name one with --section: 1 (./stencil 10, process 4711, 10.0 ms of GPU time), "
        "2 (./stencil 20, process 12, 10.0 ms of GPU time) or all."
    )


@pytest.mark.parametrize("section", [2, "2", "12", "stencil 20"])
def test_a_run_of_several_is_named_by_number_process_or_command(tmp_path, section):
    profile = _read(tmp_path, LOG + "\n" + OTHER, section=section)

    assert [(row["run_id"], row["calls"]) for row in _summary(profile)] == [
        (1, row["calls"]) for row in _summary(_read(tmp_path, LOG, "alone.log"))
    ]
    assert profile.table("runs")["process_id"].to_pylist() == [12]
    assert profile.origin.command == "./stencil 20"
    assert profile.origin.warnings == (
        "Section 2 of 2 of the file: ./stencil 20, process 12, 10.0 ms of GPU time.",
    )


def test_runs_of_one_file_are_added_up_when_asked_for(tmp_path):
    profile = _read(tmp_path, LOG + "\n" + OTHER, section="all")

    assert [row["run_id"] for row in _summary(profile)] == [0, 0, 0, 1, 1, 1]
    assert profile.table("runs")["process_id"].to_pylist() == [4711, 12]
    assert profile.origin.command is None
    assert profile.origin.warnings == ("2 recordings of the file are added up.",)


@pytest.mark.parametrize(
    ("text", "section", "message"),
    [
        pytest.param(LOG, "2", "holds one recording, and no section 2", id="one-recording"),
        pytest.param(LOG + OTHER, "3", "has no section of the name 3", id="too-far"),
        pytest.param(LOG + OTHER, "0", "has no section of the name 0", id="zero"),
        pytest.param(LOG + OTHER, "", "has no section of the name ", id="empty"),
        pytest.param(LOG + OTHER, "sten", "has several sections of the name sten", id="several"),
    ],
)
def test_a_section_that_is_none_is_refused(tmp_path, text, section, message):
    with pytest.raises(UsageError) as caught:
        _read(tmp_path, text, section=section)

    assert caught.value.message == f"{tmp_path}/run.log {message}"


def test_runs_with_one_process_id_are_told_apart(tmp_path):
    profile = _read(tmp_path, LOG + LOG, section="all")

    assert [row["run_id"] for row in _summary(profile)] == [0, 0, 0, 1, 1, 1]
    assert profile.origin.command == "./stencil 10"


# Two processes that start before either prints its result.
JOB = START + START.replace("4711", "12") + RESULT + TABLE + RESULT.replace("4711", "12") + TABLE


def test_processes_that_ran_at_the_same_time_are_one_job_and_said_to_be(tmp_path):
    profile = _read(tmp_path, JOB)

    assert [row["run_id"] for row in _summary(profile)] == [0, 0, 0, 1, 1, 1]
    assert profile.origin.warnings == ("Sums are over 2 processes of one job.",)


def test_a_job_beside_another_run_is_a_section_of_its_own(tmp_path):
    text = JOB + LOG.replace("4711", "13")

    job, alone = (_read(tmp_path, text, section=number) for number in (1, 2))

    assert job.table("runs")["process_id"].to_pylist() == [4711, 12]
    assert "Sums are over 2 processes of one job." in job.origin.warnings
    assert alone.table("runs")["process_id"].to_pylist() == [13]


def test_calls_of_a_run_without_gpu_work_are_not_those_of_another(tmp_path):
    calls = f"No kernels were profiled.\n{TYPED}      API calls:  {CALL}"
    idle = START.replace("4711", "12") + RESULT.replace("4711", "12") + calls

    profile = _read(tmp_path, LOG + idle)

    assert {row["run_id"] for row in _summary(profile)} == {0}
    assert profile.table("runs")["process_id"].to_pylist() == [4711]


def test_a_trace_after_a_summary_is_said_to_be_left_out(tmp_path):
    text = LOG + (START + RESULT).replace("4711", "12") + TEXT_HEAD + TEXT_KERNEL

    profile = _read(tmp_path, text)
    read_as_trace = gpuprof.read_profile(tmp_path / "run.log", "nvprof-trace")

    note = "The file also has a trace, which is not read. Use --reader nvprof-trace to read it."
    assert note in profile.origin.warnings
    assert read_as_trace.table("kernels")["name"].to_pylist() == [
        "void f<float, int=2>(float*,  int)"
    ]
    assert read_as_trace.origin.warnings == (
        (
            "The file also has a summary as text, which is not read. Use --reader nvprof-text to"
            " read it."
        ),
    )


def test_rows_of_child_processes_go_to_the_process_of_their_result(tmp_path):
    second = START.replace("4711", "12")

    profile = _read(tmp_path, START + second + RESULT.replace("4711", "12") + TABLE)

    assert {row["run_id"] for row in _summary(profile)} == {1}
    assert profile.table("runs")["process_id"].to_pylist() == [12]
    assert profile.origin.warnings == ("1 of 2 runs ended before nvprof printed their result.",)


def test_rows_told_apart_by_comments_are_runs_of_their_own(tmp_path):
    text = f"{OLD}# one GPU\n{COPY}# two GPUs\n{COPY}"

    one, two = (_read(tmp_path, text, section=name) for name in ("one GPU", "two GPUs"))

    assert [row["run_id"] for row in (*_summary(one), *_summary(two))] == [0, 1]


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(TABLE, id="table"),
        pytest.param(f"GPU activities:   {KERNEL}  {COPY}", id="rows"),
        pytest.param(OLD + KERNEL + COPY + OLD + CALL, id="old"),
        pytest.param(KERNEL + COPY, id="rows-alone"),
    ],
)
def test_tables_that_an_article_quotes_without_process_ids_are_not_added_up(tmp_path, table):
    text = f"One GPU:\n{table}\nTwo GPUs:\n{table}\nFour:\n{table}"
    with pytest.raises(InputError, match="holds 3 recordings, which are not added up"):
        _read(tmp_path, text)

    profile = _read(tmp_path, text, section=2)
    assert sum(row["total_ns"] for row in _summary(profile) if row["activity_kind"] != "api") == 1e7


def test_tables_of_the_devices_of_one_process_add_up(tmp_path):
    tables = [
        f'==4711== Device "Tesla K80 ({n})"\n{TYPED} GPU activities: {KERNEL}' for n in (0, 1)
    ]

    profile = _read(tmp_path, START + RESULT + "".join(tables))

    assert [row["total_ns"] for row in _summary(profile)] == [7_500_000, 7_500_000]


def test_migrations_of_unified_memory_add_up_over_devices(tmp_path):
    head = "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
    text = (
        f"{LOG}\n==4711== Unified Memory profiling result:\n"
        f'Device "TITAN Xp (0)"\n{head}'
        "      31  28.902KB  4.0000KB  64.000KB  896.0000KB  118.4320us  Host To Device\n"
        "      12         -         -         -           -  942.3680us  Gpu page fault groups\n"
        f'Device "TITAN V (1)"\n{head}'
        "       1  4.0000KB  4.0000KB  4.0000KB  4.000000KB  1.000000us  Host To Device\n"
        "       2  4.0000KB  4.0000KB  4.0000KB  8.000000KB           -  Device To Host\n"
        "Total CPU Page faults: 154\n"
    )

    profile = _read(tmp_path, text)

    assert [
        (row["name"], row["calls"], row["bytes"], row["total_ns"])
        for row in _summary(profile)
        if row["name"].startswith("UVM")
    ] == [("UVM_HtoD", 32, 900 * 1024, 119_432), ("UVM_DtoH", 2, 8 * 1024, None)]
    assert rows(profile, "devices", "device_id", "name") == [(0, "TITAN Xp"), (1, "TITAN V")]


def test_kernels_that_wait_for_memory_across_the_bus_are_no_migrations(tmp_path):
    size, name = "4.0000KB", "Remote mapping from device"
    mappings = (
        f"     994  12.611KB  {size}  1.8555MB  12.24219MB           -  {name}\n"
        f"       1  {size}  {size}  {size}  4.000000KB           -  {name}\n"
    )
    profile = _read(tmp_path, f"{LOG}\n==4711== Unified Memory profiling result:\n{mappings}")

    [note] = profile.origin.warnings
    assert "across the bus (995 remote mappings, of 12.8 MB)" in note
    assert not [row for row in _summary(profile) if row["name"].startswith("UVM")]


def test_devices_come_from_tensorflows_own_lines(tmp_path):
    line = (
        "I gpu_device.cc:1053] Created TensorFlow device (/job:localhost/device:GPU:1 with "
        "10744 MB memory) -> physical GPU (device: 1, name: Tesla K80, pci bus id: 0000:00:05.0, "
        "compute capability: 3.7)\n"
    )

    devices = _read(tmp_path, line + LOG + line).table("devices").to_pylist()

    assert [{k: v for k, v in row.items() if v is not None} for row in devices] == [
        {"device_id": 1, "name": "Tesla K80", "bus_id": "0000:00:05.0", "compute_capability": "3.7"}
    ]


def test_each_of_nvprofs_doubts_becomes_one_note(tmp_path):
    doubts = (
        "==4711== Warning: Found 12 invalid records in the result.\n"
        "==4711== Warning: This can happen if device ran out of memory.\n"
        "==4711== Warning: Found 13 invalid records in the result.\n"
        "==4711== Some kernel(s) will be replayed on device 0 in order to collect all metrics.\n"
    )

    profile = _read(tmp_path, doubts + LOG + "======== Error: Application returned non-zero code 3")

    assert profile.origin.warnings == (
        'nvprof reported: "Found 12 invalid records in the result."',
        (
            'nvprof reported: "Some kernel(s) will be replayed on device 0 in order to collect all'
            ' metrics."'
        ),
        'nvprof reported: "Application returned non-zero code 3"',
    )


def test_run_without_kernels_beside_others_is_a_note(tmp_path):
    text = LOG + START + RESULT + "No kernels were profiled.\nNo API activities were profiled.\n"

    assert _read(tmp_path, text).origin.warnings == ("nvprof profiled no kernels in 1 of 2 runs.",)


def test_table_behind_megabytes_of_program_output_is_found(tmp_path):
    noise = "step 100 of 1000, 12% done, loss 0.3\n" * 50_000

    profile = _read(tmp_path, START + noise + RESULT + noise + TABLE + noise)

    assert find_reader(tmp_path / "run.log") is nvprof_text.READER
    assert _rows(profile) == EXPECTED_ROWS


def test_a_line_without_end_is_passed_over(tmp_path):
    profile = _read(tmp_path, "x" * 5_000_000 + "\n" + LOG + "y" * 5_000_000)

    assert _rows(profile) == EXPECTED_ROWS


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(range(256)) * 500, id="binary-noise"),
        pytest.param(b"%PDF-1.5\n1 0 obj 12% 3.2s 4 us\n%%EOF", id="pdf"),
        pytest.param(
            b"==4711== Memcheck, a memory error detector\n==4711== Warning: x\n", id="valgrind"
        ),
        pytest.param(
            f'{{"source": ["{TABLE}"]}}'.replace("\n", '\\n",\n"').encode(), id="notebook"
        ),
        pytest.param(b'"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n', id="csv"),
        pytest.param(START.encode() + b"   Start  Duration  Name\n", id="trace"),
        pytest.param(
            START.encode() + b"x\n" * 50_000 + b"   Start  Duration  Name\n", id="late-trace"
        ),
    ],
)
def test_other_files_are_not_taken_for_a_summary(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)

    assert not nvprof_text.READER.recognises(read_head(path))
    assert not nvprof_text.READER.searches(path)


@pytest.mark.parametrize(
    ("name", "kind", "total_ns", "calls", "implied_s"),
    [
        ("exaggerated", "PtoP", 13_069_600_000, 94_774, 53.28),
        ("dual", "PtoP", 10_097_800_000, 78_292, 50.29),
        ("single", "void tensorflow::UnsortedSegmentCustomKernel...", 6_921_090_000, 4_120, 39.46),
    ],
)
def test_published_rows_imply_the_total_of_their_table(name, kind, total_ns, calls, implied_s):
    profile = gpuprof.read_profile(PUBLISHED / f"{name}.txt")

    (row,) = _summary(profile)

    assert (row["name"], row["total_ns"], row["calls"]) == (kind, total_ns, calls)
    assert round(row["total_ns"] / row["printed_share"] / 1e9, 2) == implied_s
    assert not profile.has("runs")


needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is absent")


@needs_corpus
@pytest.mark.parametrize("variant", ["reasonable", "bad"])
def test_each_peer_copy_of_a_real_log_is_counted_once(variant):
    path = CORPUS / f"dlprof_dual_gpu_{variant}_placement_profile.txt"
    calls = {row["name"]: row["calls"] for row in _summary(gpuprof.read_profile(path))}

    assert calls["PtoP"] == calls["cuMemcpyDtoDAsync"]


TRACED = '"Device","Context","Stream","Kernel","Correlation_ID","achieved_occupancy"\n'


@pytest.mark.parametrize(
    ("result", "content"),
    [
        pytest.param(f'{TRACED}"K20 (0)",1,7,"k",88,0.9\n', "metrics or events", id="trace"),
        pytest.param(
            "   Device  Context  Stream  Kernel  achieved_occupancy\n K20 (0)  1  7  k  0.9\n",
            "metrics or events",
            id="trace-as-text",
        ),
        pytest.param(
            "   Invocations  Avg  Min  Max  Event Name\nDevice 0\n\tKernel: k\n 3 9 9 9 inst\n",
            "events",
            id="of-cuda-5",
        ),
        pytest.param(
            "Metric result:\nInvocations  Metric Name  Metric Description  Min  Max  Avg\n"
            '"K20 (0)"\n  Kernel: k\n  3  ipc  Executed IPC  1.0  1.0  1.0\n',
            "metrics",
            id="process-ids-cut-away",
        ),
        pytest.param(
            '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
            '"K20 (0)","k",3,"ipc","Executed IPC",1,1,1\n',
            "metrics",
            id="csv-without-heading",
        ),
    ],
)
def test_counters_without_times_are_no_log_of_a_killed_program(tmp_path, result, content):
    with pytest.raises(EmptyRecordingError) as caught:
        _read(tmp_path, f"{START}{RESULT}{result}")

    assert caught.value.message == (
        f"{tmp_path}/run.log has only {content}, no times of kernels or copies"
    )
