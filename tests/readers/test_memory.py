"""A recording is read in at most twice the memory of its file, above what reading takes at all.

Measured as the most memory that a process of its own ever held, less that of one that reads a
file of the same kind with next to nothing in it. A thread that reads holds buffers of its own,
whatever the file: two processors are used, so that the measure differs little between machines.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import nsys_export
import numpy as np
import pyarrow as pa
import pytest
import test_nsys_stats as stats
import test_nvprof_trace as nvprof
from xspaces import entry, field

from gpuprof.model.origin import Origin
from gpuprof.model.profile import Profile
from gpuprof.readers.gpuprof.write_gpuprof_file import write

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process"
)

SIZE = 32_000_000
# The peak that getrusage tells of a process begins with what its parent held.
SUM = "kernel_summary"
READ = """
import os, re, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import gpuprof
profile = gpuprof.read_profile(sys.argv[1])
assert any(table in profile.sources for table in ("kernels", "activity_summary"))
if len(sys.argv) > 2:
    assert gpuprof.report(profile, tables=sys.argv[2:]).tables[sys.argv[2]].shape[0]
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


def _peak_bytes(path, *asked):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), *asked],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout)


def _repeated(head, rows, size):
    """A head and as many rows, in turn, as make a text of a size."""
    made = [head]
    length, number = 0, 0
    while length < size:
        made.append(rows[number % len(rows)](number))
        length += len(made[-1])
        number += 1
    return "".join(made).encode()


def _nvprof_text(size):
    kernel = nvprof.TEXT_KERNEL.replace("[128]", "[{}]").replace("999.63ms", "1.{:05d}s")
    copy = nvprof.TEXT_COPY.replace("1.00016s", "1.{:05d}s")
    rows = (lambda n: kernel.format(n % 99_999, n), lambda n: copy.format(n % 99_999))
    return _repeated(nvprof.RESULT + nvprof.TEXT_HEAD, rows, size)


def _nvprof_csv(size):
    kernel = nvprof.CSV_KERNEL.replace("128\n", "{}\n").replace("0.999630", "{:.6f}")
    copy = nvprof.CSV_COPY.replace("1.000160", "{:.6f}")
    rows = (lambda n: kernel.format(n / 1e5, n), lambda n: copy.format(n / 1e5))
    return _repeated(nvprof.RESULT + nvprof.CSV_COLUMNS + nvprof.CSV_UNITS, rows, size)


def _nvprof_log(size):
    output = (lambda n: f"2018-04-30 17:55:10: step {n}, loss 0.{n % 97}, {n % 100}% of 3.2s\n",)
    log = _repeated("==1== NVPROF is profiling process 1, command: ./a\n", output, size)
    row = b" GPU activities:  100.00%  10.0ms  1000  10.0us  9.0us  11.0us  kernel(float*)\n"
    head = b"            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    return log + b"==1== Profiling result:\n" + head + row


def _nsys_csv(size):
    head, row = stats.TRACE.splitlines(keepends=True)[:2]
    start, duration, _, rest = row.split(",", 3)
    rows = (lambda n: f"{int(start) + 3 * n},{int(duration) + n % 999},{n},{rest}",)
    return _repeated(head, rows, size)


NSYS_HEADINGS = ("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "Bytes (MB)")
NSYS_HEADINGS += ("SrcMemKd", "DstMemKd", "Device", "Ctx", "Strm", "Name")
NSYS_WIDTHS = (12, 13, 8, 5, 5, 5, 10, 9, 9, 24, 4, 4, 60)


def _nsys_cells(number):
    name = f"void layer_{number % 97}<float, (int)128>(float *, const float *)"
    times = (str(9 * number), str(7 + number % 999), str(number))
    return (*times, "128", "1", "1", "", "", "", "NVIDIA A100-SXM4 (0)", "1", "7", name)


def _padded(cells):
    return [f"{cell:^{width}}" for cell, width in zip(cells, NSYS_WIDTHS, strict=True)]


def _nsys_columns(size):
    """Columns with dashes as wide as the cells, and names of some length."""
    rule = "  ".join("-" * width for width in NSYS_WIDTHS) + "\n"
    rows = (lambda n: "  ".join(_padded(_nsys_cells(n))) + "\n",)
    return _repeated("  ".join(_padded(NSYS_HEADINGS)) + "\n" + rule, rows, size)


def _nsys_json(size):
    # Indented JSON is slow to make: cells are filled in.
    row = json.dumps(dict.fromkeys(NSYS_HEADINGS, "%s"), indent=2) + ",\n"
    rows = (lambda n: row % _nsys_cells(n),)
    return _repeated("[\n", rows, size).rstrip(b",\n") + b"\n]\n"


def _kineto_events(category, name, **args):
    """What writes the event of a number, as indented as PyTorch writes it."""
    times = {"ts": "%(ts)s", "dur": "%(dur)s"}
    said = {"ph": "X", "cat": category, "name": name, "pid": 77, "tid": 78, **times}
    said["args"] = {"External id": "%(number)s", **args}
    event = re.sub(r'"(%\(\w+\)s)"', r"\1", json.dumps(said, indent=2)) + ",\n"

    def text(number):
        numbers = {"number": number, "layer": number % 97}
        numbers |= {"ts": 1_700_000_000_000_000 + 3 * number, "dur": 1 + number % 999 / 1000}
        return event % numbers

    return text


_kineto_kernel = _kineto_events(
    "kernel", "void layer_%(layer)s<float>(float*)", correlation="%(number)s",
    device=0, context=1, stream=7, grid=[128, 1, 1], block=[128, 1, 1],
)  # fmt: skip
_kineto_launch = _kineto_events(
    "cuda_runtime", "cudaLaunchKernel", correlation="%(number)s", cbid=211
)


def _kineto(size):
    rows = (_kineto_kernel, _kineto_launch)
    events = _repeated('{"schemaVersion": 1, "traceEvents": [\n', rows, size)
    return events.rstrip(b",\n") + b"\n]}\n"


def _xplane(size):
    names = {1: b"correlation_id", 2: b"kernel_details", 3: b"regs:38 grid:160,1,1", 4: b"pct"}
    kinds = {number: b"void layer_%d<float>(float*)" % number for number in range(1, 98)}
    refers = field(4, field(1, 2) + field(7, 3)) + field(4, field(1, 4) + field(3, 50))
    events = b"".join(
        field(
            4,
            field(1, number % 97 + 1)
            + field(2, number * 20_000_000)
            + field(3, 9_000_000)
            + field(4, field(1, 1) + field(3, number))
            + refers,
        )
        for number in range(5_000)
    )
    events *= max(1, size // len(events))
    line = field(1, 7) + field(2, b"Stream #7(Compute)") + field(3, 1) + events
    plane = field(2, b"/device:GPU:0") + field(3, line)
    for at, texts in ((4, kinds), (5, names)):
        plane += b"".join(
            field(at, entry(key, field(1, key) + field(2, text))) for key, text in texts.items()
        )
    return field(1, plane)


# Of every export; a row with them takes some 80 bytes.
_LAUNCH = {"contextId": 1, "greenContextId": None, "launchType": 1, "graphNodeId": None}
_LAUNCH |= dict.fromkeys(("shortName", "mangledName", "sharedMemoryLimitConfig"), 1)
_LAUNCH |= {f"{of}{axis}": 256 for of in ("grid", "block") for axis in "XYZ"}
_LAUNCH |= {"registersPerThread": 32, "gridId": 70_000_000_000}
_LAUNCH |= dict.fromkeys(("staticSharedMemory", "localMemoryPerThread"), 0)
_LAUNCH |= dict.fromkeys(("dynamicSharedMemory", "sharedMemoryExecuted"), 16_384)
_LAUNCH |= {"localMemoryTotal": 162_529_280}


def _nsys_sqlite(path, size):
    times = ((10**9 + 9_000 * n, n) for n in range(size // 80))
    kernels = [nsys_export.kernel(t, t + 5_000, correlationId=n, **_LAUNCH) for t, n in times]
    nsys_export.write(path, {nsys_export.KERNEL: kernels})


def test_an_export_is_summed_up_in_twice_its_size(tmp_path):
    small, large = tmp_path / "small.sqlite", tmp_path / "large.sqlite"
    _nsys_sqlite(small, 120)
    _nsys_sqlite(large, SIZE)

    assert large.stat().st_size > SIZE / 2
    assert _peak_bytes(large, SUM) - _peak_bytes(small, SUM) <= 2 * large.stat().st_size


def _write_kineto(path, size):
    path.write_bytes(_kineto(size))


@pytest.mark.parametrize(
    ("write_file", "suffix"),
    [
        pytest.param(_write_kineto, ".json", id="kineto"),
        pytest.param(_nsys_sqlite, ".sqlite", id="nsys-sqlite"),
    ],
)
def test_several_files_are_summed_up_in_few_times_the_size_of_all(tmp_path, write_file, suffix):
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, size in ((small, 120), (large, SIZE)):
        folder.mkdir()
        write_file(folder / f"rank0{suffix}", size)
        (folder / f"rank1{suffix}").hardlink_to(folder / f"rank0{suffix}")
    whole = sum(file.stat().st_size for file in large.iterdir())

    # DuckDB does not give back at once what it took for the file before.
    assert _peak_bytes(large, SUM) - _peak_bytes(small, SUM) <= 4 * whole


def _gpuprof(path, rows, spread):
    """Kernels whose times and grids take one of so many values each, 1 being the same in all."""
    numbers = np.random.default_rng(0)
    start_ns = np.arange(rows) * 4_000
    columns = {"start_ns": start_ns, "end_ns": start_ns + numbers.integers(1, spread + 1, rows)}
    columns |= {f"grid_{axis}": numbers.integers(1, spread + 1, rows) for axis in "xyz"}
    names = pa.array([f"void layer_{n}<float, 128>(float *, const float *)" for n in range(97)])
    columns["name"] = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 97), names)
    write(Profile(Origin(path, "kineto", "kineto"), {"kernels": pa.table(columns)}), path)


def test_a_gpuprof_file_is_summed_up_in_twice_its_size(tmp_path):
    small, large = tmp_path / "small.gpuprof", tmp_path / "large.gpuprof"
    _gpuprof(small, 1, 1_000_000)
    _gpuprof(large, 4_000_000, 1_000_000)

    assert large.stat().st_size > 2 * SIZE
    assert _peak_bytes(large, SUM) - _peak_bytes(small, SUM) <= 2 * large.stat().st_size


def test_of_a_gpuprof_file_only_some_rows_are_unpacked_at_a_time(tmp_path):
    small, large = tmp_path / "small.gpuprof", tmp_path / "large.gpuprof"
    rows = 5_000_000
    _gpuprof(small, 1, 1)
    _gpuprof(large, rows, 1)

    # Packed, a row may take less than a byte; unpacked, its two times alone take 16.
    assert large.stat().st_size < rows
    assert _peak_bytes(large, SUM) - _peak_bytes(small, SUM) <= 16 * rows


@pytest.mark.parametrize(
    ("make", "suffix"),
    [
        pytest.param(_nvprof_text, ".txt", id="nvprof-trace-text"),
        pytest.param(_nvprof_csv, ".csv", id="nvprof-trace-csv"),
        pytest.param(_nvprof_log, ".log", id="nvprof-log"),
        pytest.param(_nsys_csv, ".csv", id="nsys-trace-csv"),
        pytest.param(_nsys_columns, ".txt", id="nsys-trace-columns"),
        pytest.param(_nsys_json, ".json", id="nsys-trace-json"),
        pytest.param(_kineto, ".json", id="kineto"),
        pytest.param(_xplane, ".xplane.pb", id="xplane"),
    ],
)
def test_a_file_is_read_in_twice_its_size(tmp_path, make, suffix):
    small, large = tmp_path / f"small{suffix}", tmp_path / f"large{suffix}"
    small.write_bytes(make(1))
    large.write_bytes(make(SIZE))

    assert _peak_bytes(large) - _peak_bytes(small) <= 2 * large.stat().st_size
