"""Traces that nvprof prints, as text and as CSV."""

from pathlib import Path

import pytest
from recording_checks import rows

import gpuprof
from gpuprof.base.errors import CorruptFileError, InputError, UsageError
from gpuprof.readers import find_reader
from gpuprof.readers.nvprof import trace as nvprof_trace
from gpuprof.readers.nvprof import trace_bulk as nvprof_trace_bulk

CORPUS = Path(__file__).parents[4] / "shared/corpus/nvprof-trace"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is absent")

RESULT = (
    "==4711== NVPROF is profiling process 4711, command: ./stencil 10\n"
    "==4711== Profiling application: ./stencil 10\n"
    "==4711== Profiling result:\n"
)
TEXT_HEAD = (
    "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*"
    "      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name\n"
)
TEXT_KERNEL = (
    "999.63ms  1.6782ms          (32768 2 1)      (1024 4 5)        14  8.0000KB        0B"
    "         -           -           -           -     TITAN Xp (0)         1         7"
    "  void f<float, int=2>(float*,  int) [128]\n"
)
TEXT_COPY = (
    "1.00016s  11.008us                    -               -         -         -         -"
    "  64.000KB  5.5446GB/s    Pageable      Device     TITAN Xp (0)         1        14"
    "  [CUDA memcpy HtoD]\n"
)
TEXT_LEGEND = "\nRegs: Number of registers used per CUDA thread.\nSSMem: Static shared memory.\n"
CSV_COLUMNS = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
    '"DstMemType","Device","Context","Stream","Src Dev","Src Ctx","Dst Dev","Dst Ctx",'
    '"Unified Memory","Virtual Address","Name","Correlation_ID"\n'
)
CSV_UNITS = "s,us,,,,,,,,B,B,KB,GB/s,,,,,,,,,,B,,,\n"
CSV_KERNEL = (
    '0.999630,1678.200000,32768,2,1,1024,4,5,14,8192,0,,,,,"TITAN Xp (0)","1","7",,,,,,,'
    '"void f<float, int=2>(float*,  int)",128\n'
)
CSV_COPY = (
    '1.000160,11.008000,,,,,,,,,,64.000000,5.544600,"Pageable","Device","TITAN Xp (0)","1","14"'
    ',,,,,,,"[CUDA memcpy HtoD]",\n'
)
TEXT = RESULT + TEXT_HEAD + TEXT_KERNEL + TEXT_COPY + TEXT_LEGEND
CSV = RESULT + CSV_COLUMNS + CSV_UNITS + CSV_KERNEL + CSV_COPY


def _read(tmp_path, text):
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8", newline="")
    assert find_reader(path) is nvprof_trace.READER
    return gpuprof.read_profile(path)


def _csv_row(name, **cells):
    """A row of one copy or memset; ``more`` is from Src Dev to Virtual Address."""
    defaults = {"start": "1.0", "size": "", "kinds": ",", "place": '"V100 (0)","1","7"'}
    cell = defaults | {"more": ",,,,,"} | cells
    place = f"{cell['kinds']},{cell['place']},{cell['more']}"
    return f'{cell["start"]},2.0,,,,,,,,,,{cell["size"]},,{place},"{name}",9\n'


SECOND = {"4711": "12", "./stencil 10": "./stencil 20", "[128]": "[999]"}


def _other(text):
    for old, new in SECOND.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(TEXT + _other(TEXT), ("4711", "./stencil 20"), id="text"),
        pytest.param(CSV + _other(CSV), ("4711", "./stencil 20"), id="csv"),
        pytest.param(TEXT + TEXT, (1, 2), id="one-process-id"),
        pytest.param(TEXT_HEAD + TEXT_KERNEL + TEXT_HEAD + TEXT_KERNEL, (1, 2), id="no-process"),
    ],
)
def test_traces_of_several_runs_share_no_clock_and_are_not_put_together(tmp_path, text, names):
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError) as caught:
        gpuprof.read_profile(path)
    assert caught.value.message == f"{path} holds 2 recordings, which are not added up"
    with pytest.raises(UsageError) as caught:
        gpuprof.read_profile(path, section="all")
    assert caught.value.message == f"{path} holds 2 traces, which share no clock"
    for name in names:
        profile = gpuprof.read_profile(path, section=name)
        assert profile.table("kernels").num_rows == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT, id="text"),
        pytest.param(CSV, id="csv"),
        pytest.param(TEXT.replace("\n", "\r\n"), id="text-windows-line-ends"),
        pytest.param(CSV.replace("\n", "\r\n"), id="csv-windows-line-ends"),
        pytest.param("epoch 1\n" + TEXT + "done, 3.2s\n", id="text-in-program-output"),
        pytest.param("epoch 1, 2\n" + CSV + "done, 3.2s\n", id="csv-in-program-output"),
        pytest.param(TEXT_HEAD + TEXT_COPY + TEXT_KERNEL, id="rows-out-of-order-no-process"),
    ],
)
def test_text_and_csv_give_the_same_rows(tmp_path, text):
    profile = _read(tmp_path, text)

    (kernel,) = profile.table("kernels").to_pylist()
    (memcpy,) = profile.table("memcpys").to_pylist()
    process_id = 4711 if "4711" in text else None
    assert kernel == {
        "start_ns": 999_630_000, "end_ns": 1_001_308_200, "device_id": 0, "context_id": 1,
        "stream_id": 7, "process_id": process_id, "correlation_id": 128,
        "name": "void f<float, int=2>(float*,  int)", "grid_x": 32768, "grid_y": 2, "grid_z": 1,
        "block_x": 1024, "block_y": 4, "block_z": 5, "registers_per_thread": 14,
        "static_shared_memory_bytes": 8192, "dynamic_shared_memory_bytes": 0,
        "graph_node_id": None,
    }  # fmt: skip
    assert memcpy == dict.fromkeys(memcpy) | {
        "start_ns": 1_000_160_000, "end_ns": 1_000_171_008, "device_id": 0, "context_id": 1,
        "stream_id": 14, "process_id": process_id, "memcpy_kind": "HtoD",
        "src_memory_kind": "pageable", "dst_memory_kind": "device", "bytes": 65536,
        "dst_device_id": 0,
    }  # fmt: skip
    assert profile.table("memsets").num_rows == 0
    assert not profile.has("api_calls")
    assert rows(profile, "devices", "device_id", "name") == [(0, "TITAN Xp")]


def test_resolution_of_starts_is_that_of_the_last_printed_digit(tmp_path):
    assert _read(tmp_path, TEXT).origin.start_resolution_ns == 10_000
    assert _read(tmp_path, CSV).origin.start_resolution_ns == 1_000


def test_kilobytes_are_1024_bytes(tmp_path):
    row = _csv_row("[CUDA memcpy HtoD]", size="39.062500")

    profile = _read(tmp_path, CSV_COLUMNS + CSV_UNITS + row)

    assert rows(profile, "memcpys", "bytes") == [(40_000,)]


def test_peer_copies_have_source_and_target_and_not_the_device_they_ran_on(tmp_path):
    ends = '"V100 (1)","2","V100 (0)","1",,'
    row = _csv_row("[CUDA memcpy PtoP]", place='"V100 (0)","1","7"', more=ends)

    profile = _read(tmp_path, CSV_COLUMNS + CSV_UNITS + row)

    assert rows(profile, "memcpys", "memcpy_kind", "src_device_id", "dst_device_id", "path") == [
        ("PtoP", 1, 0, "direct")
    ]


def test_device_of_a_copy_is_where_its_memory_lies(tmp_path):
    kinds = {"HtoD": (None, 0), "DtoH": (0, None), "DtoD": (0, 0), "HtoA": (None, 0)}
    text = "".join(
        _csv_row(f"[CUDA memcpy {kind}]", start=f"{n}.0") for n, kind in enumerate(kinds)
    )

    profile = _read(tmp_path, CSV_COLUMNS + CSV_UNITS + text)

    assert rows(profile, "memcpys", "src_device_id", "dst_device_id") == list(kinds.values())


def test_migrations_are_copies_and_faults_are_not(tmp_path):
    text = (
        '1.0,2.0,,,,,,,,,,,,,,"V100 (0)",,,,,,,65536.000000,"0x7f",'
        '"[Unified Memory Memcpy HtoD]",\n'
        '2.0,,,,,,,,,,,,,,,,,,,,,,"PC 0x5e","0x7f","[Unified Memory CPU page faults]",\n'
    )

    profile = _read(tmp_path, CSV_COLUMNS + CSV_UNITS + text)

    assert rows(profile, "memcpys", "memcpy_kind", "bytes", "dst_device_id") == [
        ("UVM_HtoD", 65536, 0)
    ]
    assert profile.table("kernels").num_rows == 0


def test_memory_kinds_that_are_not_known_are_kept_as_unknown(tmp_path):
    text = _csv_row("[CUDA memset]", size="1", kinds='"Managed",') + _csv_row(
        "[CUDA memcpy HtoD]", kinds='"Pinned","Moonlight"'
    )

    profile = _read(tmp_path, CSV_COLUMNS + CSV_UNITS + text)

    assert rows(profile, "memsets", "bytes", "memory_kind") == [(1024, "managed")]
    assert rows(profile, "memcpys", "src_memory_kind", "dst_memory_kind") == [("pinned", "unknown")]


def test_devices_whose_numbers_were_cut_off_stay_unknown_and_are_told(tmp_path):
    text = TEXT.replace("   TITAN Xp (0)", "GeForce GTX 106")

    profile = _read(tmp_path, text)

    assert rows(profile, "kernels", "device_id", "context_id") == [(None, 1)]
    assert rows(profile, "memcpys", "dst_device_id") == [(None,)]
    assert not profile.has("devices")
    assert profile.origin.warnings == (
        (
            "nvprof cut off the devices' numbers: which device a kernel or copy ran on is unknown."
            " Add --csv to record it."
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            RESULT + "   Start  Duration  Name\n110.25ms  1.2000us  cudaMalloc [5]\n"
            "110.30ms     800ns  cuInit\n",
            id="text",
        ),
        pytest.param(
            RESULT + '"Start","Duration","Name","Correlation_ID"\nms,us,,\n'
            '110.250000,1.200000,"cudaMalloc",5\n110.300000,0.800000,"cuInit",\n',
            id="csv",
        ),
    ],
)
def test_trace_of_api_calls_has_calls_only(tmp_path, text):
    profile = _read(tmp_path, text)

    assert rows(profile, "api_calls", "start_ns", "end_ns", "api", "name", "correlation_id") == [
        (110_250_000, 110_251_200, "runtime", "cudaMalloc", 5),
        (110_300_000, 110_300_800, "driver", "cuInit", None),
    ]
    assert not profile.has("kernels")
    assert not profile.has("memcpys")


def test_calls_in_a_trace_of_the_gpu_are_no_kernels(tmp_path):
    call = "999.00ms  1.2000us" + "  -" * 12 + "  cudaMalloc [5]\n"

    profile = _read(tmp_path, TEXT_HEAD + call + TEXT_KERNEL)

    assert profile.table("kernels").num_rows == 1
    assert rows(profile, "api_calls", "name", "correlation_id") == [("cudaMalloc", 5)]


def test_numbers_beyond_64_bits_are_refused(tmp_path):
    text = TEXT_HEAD + TEXT_KERNEL.replace("1.6782ms", "1" * 19 + "s") + TEXT_COPY

    with pytest.raises(CorruptFileError, match="line 2: expected numbers and units"):
        _read(tmp_path, text)


def test_doubts_of_nvprof_become_notes(tmp_path):
    doubt = "==4711== Warning: 2 records have invalid timestamps.\n"

    assert _read(tmp_path, doubt + TEXT).origin.warnings == (
        'nvprof reported: "2 records have invalid timestamps."',
    )


@needs_corpus
def test_sizes_and_times_of_real_copies_give_the_printed_throughput():
    profile = gpuprof.read_profile(CORPUS / "yichez_ptop_gpu_trace.csv")

    lines = (CORPUS / "yichez_ptop_gpu_trace.csv").read_text("utf-8").splitlines()[5:]
    rates = [float(line.split(",")[12]) for line in lines]

    copies = rows(profile, "memcpys", "start_ns", "end_ns", "bytes")
    achieved = [size / (end - start) * 1e9 / 2**30 for start, end, size in copies]
    assert achieved == pytest.approx(rates, rel=1e-6)


def _many(head, rows, between):
    """Rows of which each starts later than the one before, with other lines here and there."""
    text = head
    for number in range(400):
        row = rows[number % len(rows)].replace("128", str(number % 8))
        start = {397: "1.9", 399: "2"}.get(number, f"1.{number:03d}16")
        text += row.replace("999.63", "999.6").replace("1.00016", start)
        text += between if number in (200, 399) else ""
    return text


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param((RESULT + TEXT_HEAD, (TEXT_KERNEL, TEXT_COPY)), id="text"),
        pytest.param((RESULT + CSV_COLUMNS + CSV_UNITS, (CSV_KERNEL, CSV_COPY)), id="csv"),
    ],
)
@pytest.mark.parametrize(
    ("between", "line_end"),
    [("", "\n"), ("", "\r\n"), ("step 3: loss 0.1\n", "\n"), ("\x1b[1mdone\x1b[0m\n", "\r\n")],
)
def test_rows_read_in_bulk_are_those_read_line_by_line(
    tmp_path, monkeypatch, trace, between, line_end
):
    text = _many(*trace, between).replace("\n", line_end)
    taken_apart, found = nvprof_trace_bulk.rows, []
    monkeypatch.setattr(nvprof_trace_bulk, "rows", lambda *_: None)
    singly = _read(tmp_path, text)

    def seen(layout, block):
        found.append(taken_apart(layout, block))
        return found[-1]

    monkeypatch.setattr(nvprof_trace_bulk, "rows", seen)
    in_bulk = _read(tmp_path, text)

    for name in ("kernels", "memcpys"):
        assert in_bulk.table(name) == singly.table(name)
        assert in_bulk.table(name).num_rows == 200
    assert in_bulk.origin == singly.origin
    assert any(rows is not None for rows in found)
